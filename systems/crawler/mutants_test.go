package crawler_test

import (
	"testing"
	"time"

	"stampede/harness/sut"
	"stampede/harness/suttest"
	"stampede/systems/crawler"
)

// TestMutantsOnStores: each planted error is named by its invariant. The same run of
// postgres_frontier breaks nothing.
func TestMutantsOnStores(t *testing.T) {
	for _, m := range []struct{ mutant, named string }{
		{"rules for ever", crawler.RobotsHeeded},
		{"no rules", crawler.RobotsHeeded},
		{"no crawl delay", crawler.Polite},
		{"half a rest", crawler.Polite},
		{"redirects without end", crawler.WithinLimits},
		{"what failed is done", crawler.AllFetched},
		{"an answer is said not to have come", crawler.FetchedOnce},
		{"half a body", crawler.StoredAsServed},
		{"M82 stored before its links", crawler.AllFetched},
	} {
		t.Run(m.mutant, func(t *testing.T) {
			p := crowd()
			p.RobotsTTL, p.HostileRobots = p.RecrawlAfter, 0.8
			p.RobotsChange, p.Lease = sut.Duration(1500*ms), sut.Duration(800*ms)
			suttest.Trial{System: crawler.System(), Params: p, Space: stores.Namespace, Ops: 80,
				Every: 40 * ms, Settle: 60 * time.Second}.Kills(t, crawler.Mutants()["control"],
				crawler.Mutants()[m.mutant], m.named)
		})
	}
}
