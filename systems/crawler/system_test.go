package crawler_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"stampede/harness/api/apitest"
	"stampede/harness/check"
	"stampede/harness/env/envtest"
	"stampede/harness/sut"
	"stampede/harness/suttest"
	"stampede/systems/crawler"
	"stampede/systems/crawler/web"
)

const ms = time.Millisecond

// stores are shared by all store-backed tests of this package.
var stores = envtest.NewShared(sut.Postgres, sut.Redis)

func TestMain(m *testing.M) { os.Exit(stores.Run(m)) }

// TestConformance runs the suite over every variant on real stores.
func TestConformance(t *testing.T) { suttest.Exercise(t, suite()) }

func suite() suttest.Suite {
	return suttest.Suite{System: crawler.System(), Params: crowd(),
		Space: stores.Namespace, Seed: 1, Ops: 60, Over: 2000 * ms, Summary: suttest.Lines(summary),
		Servers: []string{"web", "fetcher"}}
}

// TestForeign: a crawler that somebody else might have written is judged by the log of a web that
// is not its own: a right one holds, and one that heeds no robots.txt is caught.
func TestForeign(t *testing.T) {
	heedless := suite()
	heedless.System.Variants = []sut.Variant{crawler.Mutants()["no rules"]}
	for _, c := range []struct {
		suite  suttest.Suite
		broken string
	}{{suite(), ""}, {heedless, crawler.RobotsHeeded}} {
		url, _ := suttest.Served(t, c.suite, "postgres_frontier", apitest.Reworded)
		for name, verdict := range suttest.Remote(t, c.suite, url) {
			switch {
			case name == c.broken && verdict.Status != check.Broken:
				t.Errorf("%s is not broken", name)
			case c.broken == "" && verdict.Status != check.Held:
				t.Errorf("%s: %s: %s %v", name, verdict.Status, verdict.Reason, verdict.Violations)
			}
		}
	}
}

// TestTargetElsewhere: a crawler on another machine could not reach the web.
func TestTargetElsewhere(t *testing.T) {
	target, err := crawler.System().Target("http://192.0.2.1:80", sut.Config{Params: crowd()})
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	if err := target.Prepare(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "192.0.2.1 is another machine") {
		t.Errorf("a crawler elsewhere: %v", err)
	}
}

// crowd is a small web with everything that is hostile.
func crowd() *crawler.Params {
	p := crawler.DefaultParams()
	d := func(n int) sut.Duration { return sut.Duration(time.Duration(n) * ms) }
	p.Hosts, p.Pages, p.PerIsland, p.HostilePages = 40, 16, 5, 0.2
	p.Delay, p.CrawlDelay, p.RetryPause, p.FetchTimeout = d(20), d(60), d(20), d(400)
	p.SlowTime, p.RobotsTTL, p.RecrawlAfter, p.Lease = d(100), d(2000), d(300), d(2000)
	p.PerHost, p.DeadHosts, p.RobotsChange = 45, 0.1, d(6000)
	return &p
}

// summary lists the seeds.
func summary(audit crawler.Audit) []string {
	return []string{fmt.Sprint(audit.Seeds)}
}

// TestAPI: the API is what its table says, at both ends of the wire.
func TestAPI(t *testing.T) {
	audit := crawler.Audit{
		Seeds:  []crawler.SeedRow{{ID: 16, URL: "http://h0.test/"}},
		Pages:  []crawler.PageRow{{URL: "http://h0.test/", State: "done", Hash: "0a", Fetched: 1}},
		Hosts:  []crawler.HostRow{{Host: "h0.test", Pages: 1}},
		Bodies: []crawler.BodyRow{{Hash: "0a", Is: "0a", Bytes: 9}},
		Log: []web.Exchange{{Agent: "a", Key: "h0.test/", IP: "10.0.0.0", AtNS: 1, Bytes: 9,
			SeenNS: 2, Status: 200, Hash: "0a"}}}
	apitest.Conform(t, crawler.API(), crawler.DefaultParams(), audit)
}

func FuzzRequests(f *testing.F) {
	apitest.FuzzRequests(f, crawler.API(), crawler.DefaultParams())
}
