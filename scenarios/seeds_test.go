package scenarios_test

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"stampede/harness/env"
	"stampede/harness/env/envtest"
	"stampede/harness/rundir"
	"stampede/scenarios"
	"stampede/systems"
)

// The suite over seeds runs STAMPEDE_SEEDS of them, from STAMPEDE_SEED on;
// make test-seeds runs manySeeds, CI fewer.
const (
	defaultSeeds = 3
	manySeeds    = 50
	// stormSeeds is the smallest number of seeds with which storms run: each takes the better part
	// of a minute.
	stormSeeds = 10
	// together is how many small sales go on at once. Of storms there are no more than CPUs.
	together = 3
)

// underSeeds is a small scenario that runs with many seeds.
type underSeeds struct {
	scenario string
	seeds    int
	set      []string
}

// seeded are the scenarios of TestSeeds with the number of seeds that each gets if so
// many are asked for. Storms, in which all designs run under all triggers, get all of them, but
// none of a few; others with faults every fifth or every tenth. One seed each has TestScenarios.
func seeded(t *testing.T, seeds int) []underSeeds {
	t.Helper()
	brief := []string{"params.cart_ttl=400ms", "params.reclaim_every=30ms", "params.pay_delay=30ms",
		"params.pay_spread=100ms", "params.late_spread=80ms", "load.warm_up=0s", "slos=[]"}
	// As late as in the whole profile: the small one's second is for a machine that does
	// nothing else.
	unhurried := []string{"params.rescue_within=3s"}
	list := []underSeeds{
		{"flash-sale-100k", seeds, append(brief[:len(brief):len(brief)], "load.arrival.ops=700",
			"load.arrival.over=400ms", "params.units=12")},
		{"flash-sale-payment-race", seeds, append(brief[:len(brief):len(brief)],
			"load.arrival.rate=400", "load.arrival.over=1s", "params.units=40")},
		{"flash-sale-lost-ack", seeds / 5, []string{"load.arrival.over=4s"}},
		{"flash-sale-worker-crash", seeds / 10, []string{"slos=[]"}},
		{"flash-sale-redis-stall", seeds / 5, []string{"load.arrival.over=5s", "slos=[]"}},
		{"likes-cache-loss", seeds / 10, []string{"load.arrival.over=6s", "slos=[]"}},
		{"views-store-faults", seeds / 10, nil},
		{"reservation-rush", seeds / 5, []string{"load.arrival.ops=2000", "load.arrival.over=2s",
			"slos=[]"}},
		{"reservation-long-stays", seeds / 5, []string{"load.arrival.over=2s"}},
		{"reservation-expiry-race", seeds / 10, nil},
		{"reservation-store-faults", seeds / 10, nil},
		{"idempotency-retry-storm", seeds / 5, []string{"slos=[]"}},
		{"idempotency-crash", seeds / 10, nil},
		{"idempotency-redis-loss", seeds / 10, nil},
		{"idempotency-slow-provider", seeds / 5, nil},
		{"checkout-launch", seeds / 5, []string{"slos=[]"}},
		{"checkout-payment-timeout", seeds / 5, nil},
		{"checkout-redis-stale", seeds / 10, nil},
		{"checkout-queue-overflow", seeds / 10, nil},
		{"checkout-postgres-restart", seeds / 10, nil},
		{"checkout-worker-crash", seeds / 10, nil},
		{"taskqueue-throughput", seeds / 10, []string{"slos=[]"}},
		{"taskqueue-worker-crash", seeds / 10, nil},
		{"taskqueue-poison", seeds / 5, []string{"slos=[]"}},
		{"taskqueue-noisy-tenant", seeds / 5, []string{"slos=[]"}},
		{"taskqueue-retry-herd", seeds / 5, []string{"slos=[]"}},
		{"taskqueue-store-faults", seeds / 10, nil},
		{"topk-zipf", seeds / 10, []string{"slos=[]"}},
		{"topk-moving", seeds / 5, nil},
		{"topk-worker-crash", seeds / 10, nil},
		{"topk-shard-merge", seeds / 5, nil},
		{"adclicks-burst", seeds / 5, []string{"slos=[]"}},
		{"adclicks-late-data", seeds / 5, nil},
		{"adclicks-fraud", seeds / 5, nil},
		{"adclicks-crash", seeds / 10, nil},
		{"adclicks-reprocess", seeds / 5, nil},
		{"positions-fleet", seeds / 5, []string{"slos=[]"}},
		{"positions-erasure", seeds / 10, nil},
		{"positions-migration", seeds / 10, nil},
		{"autocomplete-typing", seeds / 5, []string{"slos=[]"}},
		{"autocomplete-news", seeds / 5, nil},
		{"autocomplete-rebuild", seeds / 10, nil},
		{"autocomplete-rebuild-crash", seeds / 10, nil},
		{"crawler-hostile", seeds / 10, []string{"slos=[]"}},
		{"crawler-robots-change", seeds / 10, nil},
		{"crawler-crash", seeds / 10, nil},
		{"crawler-wide", seeds / 10, nil},
		{"textsearch-catalog", seeds / 5, []string{"slos=[]"}},
		{"textsearch-crash", seeds / 10, nil},
		{"textsearch-postgres-crash", seeds / 10, nil},
		{"recents-devices", seeds / 5, []string{"slos=[]"}},
		{"commentary-wicket", seeds / 5, []string{"slos=[]"}},
		{"commentary-origin-slow", seeds / 5, nil},
		{"commentary-cache-crash", seeds / 10, nil},
		{"commentary-edge-dies", seeds / 10, nil},
		{"commentary-replica-lag", seeds / 10, nil},
		{"recents-slow-transaction", seeds / 5, nil},
		{"recents-relay-crash", seeds / 10, nil},
		{"recents-redis-power", seeds / 10, nil},
		{"recents-archive", seeds / 10, nil},
		{"task-burst-9am", seeds / 5, []string{"load.arrival.over=2s"}},
		{"scheduler-picker-crash", seeds / 10, unhurried},
		{"scheduler-store-faults", seeds / 10, unhurried},
		{"scheduler-zombie-executor", seeds / 10, unhurried},
		{"broker-throughput", seeds / 5, nil},
		{"broker-consumer-crash", seeds / 10, nil},
		{"broker-paused-consumer", seeds / 10, nil},
		{"broker-poison", seeds / 10, nil},
		{"broker-postgres-restart", seeds / 10, nil},
		{"broker-store-faults", seeds / 10, nil},
	}
	if seeds < stormSeeds {
		seeds = 0
	}
	for _, name := range scenarios.All() {
		if decode(t, name).scenario.SideBySide {
			list = append(list, underSeeds{name, seeds, nil})
		}
	}
	return list
}

// TestSeeds runs small scenarios with many seeds: a correct variant is never
// Broken, a known-wrong one always, or with most seeds where the machine was too busy, as
// it may be with several at once. A small sale does not exercise everything,
// so that Undecided is no failure here; TestScenarios sees to that. Beside the variants
// of the small profile one of the other correct ones takes part, in turn by the seed.
func TestSeeds(t *testing.T) {
	for _, s := range seeded(t, number(t, "STAMPEDE_SEEDS", defaultSeeds)) {
		t.Run(s.scenario, func(t *testing.T) {
			underWay.join(t)
			if s.seeds == 0 {
				t.Skip("not with so few seeds: see make test-seeds")
			}
			executeSeeds(t, s)
		})
	}
}

// seedRun is a scenario with one seed.
type seedRun struct {
	plan
	seed     uint64
	provider env.Provider // nil where what is lent to all has what the plan needs
}

// executeSeeds runs a scenario once for each seed, a few at a time, each on stores
// that no other uses meanwhile.
func executeSeeds(t *testing.T, s underSeeds) {
	first := number(t, "STAMPEDE_SEED", firstSeed)
	usual := decode(t, s.scenario, s.set...)
	runs := make(chan seedRun, s.seeds)
	for i := range s.seeds {
		r := seedRun{seed: uint64(first + i)}
		r.plan = s.with(t, r.seed)
		if !slices.Equal(r.needs(), usual.needs()) {
			r.provider = envtest.Provider(t, r.stores()) // the run starts its own
		}
		runs <- r
	}
	close(runs)
	away := gotAway{seeds: map[string][]uint64{}, idle: map[string]int{}}
	var sales sync.WaitGroup
	lanes := min(together, s.seeds)
	if usual.scenario.SideBySide {
		lanes = min(lanes, runtime.NumCPU())
	}
	for range lanes {
		lent := providerOf(t, usual)
		sales.Go(func() {
			for r := range runs {
				once := func(p plan) rundir.Summary {
					return execute(t, p, cmp.Or(r.provider, lent), r.seed)
				}
				repeated(t, once(r.plan), unprovoked,
					func(s rundir.Summary) { judgeSummary(t, away.without(s), neverBroken) },
					func(_ bool, variants []string) rundir.Summary { return once(r.only(variants)) })
			}
		})
	}
	sales.Wait()
	for name, seeds := range away.seeds {
		if 2*len(seeds) > s.seeds {
			t.Errorf("%s got away with the seeds %v of %d", name, seeds, s.seeds)
		}
	}
	for name, n := range away.idle {
		t.Logf("%s: not so in %d of %d runs", name, n, away.runs)
		if 2*n > away.runs {
			t.Errorf("%s: not so in %d of %d runs", name, n, away.runs)
		}
	}
}

// gotAway are the seeds with which known-wrong variants did not show what they are known
// for, and those with which a fault found nothing to break or no operation of a kind
// succeeded, on a machine that was too busy to send the load in time.
type gotAway struct {
	mu    sync.Mutex
	seeds map[string][]uint64
	// idle counts by a check's name where it was so, of how many runs of variants.
	idle map[string]int
	runs int
}

// without notes who got away and what found nothing, and leaves them out.
func (g *gotAway) without(s rundir.Summary) rundir.Summary {
	g.mu.Lock()
	defer g.mu.Unlock()
	s.Variants = slices.DeleteFunc(slices.Clone(s.Variants), func(v rundir.Variant) bool {
		if !unprovoked(v) {
			return false
		}
		g.seeds[v.Name] = append(g.seeds[v.Name], s.Run.Seed)
		return true
	})
	for i, v := range s.Variants {
		g.runs++
		if !late(v) {
			continue
		}
		v.Repeats = slices.Clone(v.Repeats)
		for k := range v.Repeats {
			v.Repeats[k].Validity = slices.DeleteFunc(slices.Clone(v.Repeats[k].Validity),
				func(a rundir.Validity) bool {
					idle := idled(a)
					if idle {
						g.idle[a.Name]++
					}
					return idle
				})
		}
		s.Variants[i] = v
	}
	return s
}

// idled says that a fault or the load did not come to what it was for.
func idled(a rundir.Validity) bool {
	return !a.OK && a.Name == "exercised" || unseen(a)
}

// with is the plan of a seed: that of the small profile, with one of the others.
func (s underSeeds) with(t *testing.T, seed uint64) plan {
	t.Helper()
	p := decode(t, s.scenario, s.set...)
	others := others(t, s.scenario, p)
	if len(others) == 0 {
		return p
	}
	joined := append(slices.Clone(p.scenario.Variants), others[seed%uint64(len(others))])
	return decode(t, s.scenario, append(slices.Clone(s.set),
		fmt.Sprintf("variants=[%s]", strings.Join(joined, ", ")))...)
}

// others are the correct variants that a scenario has and the plan of its small profile
// leaves out.
func others(t *testing.T, name string, small plan) []string {
	t.Helper()
	return slices.DeleteFunc(correct(decodeProfile(t, name, "full")), func(v string) bool {
		return slices.Contains(small.scenario.Variants, v)
	})
}

// correct are the variants of a plan that are not known to break anything.
func correct(p plan) []string {
	var names []string
	for _, v := range p.resolved.System.Variants {
		if len(v.Breaks) == 0 && slices.Contains(p.scenario.Variants, v.Name) {
			names = append(names, v.Name)
		}
	}
	return names
}

// TestSeedsCoverCorrectVariants: over many seeds each correct variant runs in every
// scenario of TestSeeds that has it, and each that some scenario breaks is in one of them.
// The others have their scenario's small profile.
func TestSeedsCoverCorrectVariants(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range seeded(t, manySeeds) {
		ran := map[string]bool{}
		for seed := range uint64(s.seeds) {
			for _, v := range correct(s.with(t, firstSeed+seed)) {
				ran[v] = true
			}
		}
		whole := decodeProfile(t, s.scenario, "full")
		for _, v := range correct(whole) {
			if !ran[v] {
				t.Errorf("%s: %s has none of %d seeds", s.scenario, v, s.seeds)
			}
			seen[whole.resolved.System.Name+" "+v] = true
		}
	}
	small := map[string]bool{}
	for _, name := range scenarios.All() {
		whole := decodeProfile(t, name, "full")
		system := whole.resolved.System.Name
		for _, v := range correct(whole) {
			if len(whole.scenario.Faults) > 0 && !seen[system+" "+v] {
				t.Errorf("%s: %s of %s runs with one seed only", name, v, system)
			}
		}
		for _, v := range correct(decode(t, name)) {
			small[system+" "+v] = true
		}
	}
	for _, s := range systems.All() {
		for _, v := range s.Variants {
			name := s.Name + " " + v.Name
			if len(v.Breaks) == 0 && !seen[name] && !small[name] {
				t.Errorf("%s runs in no small scenario", name)
			}
		}
	}
}
