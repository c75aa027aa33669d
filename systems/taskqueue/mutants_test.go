package taskqueue_test

import (
	"testing"
	"time"

	"stampede/harness/sut"
	"stampede/harness/suttest"
	"stampede/systems/taskqueue"
)

// TestMutantsOnStores: each planted error is named by its invariant. The same run of what it is
// planted in breaks nothing.
func TestMutantsOnStores(t *testing.T) {
	// More jobs come than the workers do.
	crowded := func(p *taskqueue.Params) { p.Noisy, p.TenantRate = 0.5, 0 }
	// Whoever gives keys away early breaks without a crash, too.
	keyless := func(p *taskqueue.Params) { crowded(p); p.Unique = 0 }
	// A worker takes longer than a lease, and all workers claim more at once.
	slow := func(p *taskqueue.Params) {
		p.Work, p.Lease, p.Workers, p.TenantRate = sut.Duration(150*ms), sut.Duration(100*ms), 40, 0
		p.PriorityWithin, p.FairWithin = 160, 160
	}
	for _, m := range []struct {
		name, control, mutant string
		change                func(*taskqueue.Params)
		named                 string
	}{
		{"M160 pop without lease", "dying", "M160", keyless, taskqueue.JobsKept},
		{"M161 acknowledged before the handler", "dying", "M161", keyless, taskqueue.EffectsOnce},
		{"M162 an effect without a key", "silent", "M162", slow, taskqueue.EffectsOnce},
		{"M164 a stale end is written", "silent", "M164", slow, taskqueue.NewestEnds},
		{"two workers with one attempt", "table", "no lock", crowded, taskqueue.JobsKept},
		{"a key that is never freed", "table", "key kept", crowded, taskqueue.UniqueKept},
		{"M169 a unique lock shorter than its job", "table", "M169", crowded, taskqueue.UniqueKept},
		{"M170 tenants in the order of arrival", "table", "M170", crowded, taskqueue.TenantsFair},
		{"M171 the least urgent first", "table", "M171", crowded, taskqueue.PriorityKept},
		{"M172 all are dead that come with poison", "batch", "M172", crowded, taskqueue.PoisonFound},
		{"M174 says that it cancelled what runs", "table", "M174", crowded, taskqueue.CancelledStays},
		{"an attempt too many", "table", "attempt more", crowded, taskqueue.AttemptsUsed},
		{"no pause after a failure", "table", "no pause", crowded, taskqueue.BackoffKept},
		{"no limit of a tenant's rate", "table", "no limit", func(p *taskqueue.Params) {
			p.TenantRate, p.TenantBurst = 20, 10
		}, taskqueue.RatesKept},
		{"a lease that ends early", "silent", "early lease", slow, taskqueue.NewestEnds},
	} {
		t.Run(m.name, func(t *testing.T) {
			p := busy()
			p.Work, p.Workers, p.Cancel, p.Lease = sut.Duration(10*ms), 2, 0.3, sut.Duration(400*ms)
			p.PriorityWithin, p.FairWithin = 8, 20
			m.change(p)
			tr := suttest.Trial{System: taskqueue.System(), Params: p, Space: stores.Namespace,
				Ops: 300, Every: 2 * ms, Settle: 15 * time.Second}
			mutants := taskqueue.Mutants()
			tr.Kills(t, mutants[m.control], mutants[m.mutant], m.named)
		})
	}
}
