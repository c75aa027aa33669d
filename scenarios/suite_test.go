package scenarios_test

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"stampede/harness/check"
	"stampede/harness/env"
	"stampede/harness/env/envtest"
	"stampede/harness/events"
	"stampede/harness/history"
	"stampede/harness/judge"
	"stampede/harness/measure"
	"stampede/harness/run"
	"stampede/harness/rundir"
	"stampede/harness/scenario"
	"stampede/harness/sut"
	"stampede/scenarios"
	"stampede/systems"
)

// firstSeed is where the suites begin, unless STAMPEDE_SEED says otherwise.
const firstSeed = 1

func TestMain(m *testing.M) {
	envtest.Child(systems.All()...)
	flag.Parse()
	parallel := flag.Lookup("test.parallel")
	most, err := strconv.Atoi(parallel.Value.String())
	if err == nil {
		err = parallel.Value.Set(strconv.Itoa(math.MaxInt)) // underWay takes its place
	}
	if err != nil {
		panic(err)
	}
	underWay.slots = make(chan struct{}, most)
	close(underWay.begun)
	os.Exit(m.Run())
}

// underWay are the tests that run whole scenarios.
var underWay = queue{begun: make(chan struct{})}

// queue lets tests run at the same time, as many as -parallel says, and begin in the order in which
// they join, where T.Parallel begins them in any order.
type queue struct {
	slots chan struct{}
	begun chan struct{} // closed when the last one that joined has begun
}

// join waits for the test's turn.
func (q *queue) join(t *testing.T) {
	t.Helper()
	before, begun := q.begun, make(chan struct{})
	q.begun = begun
	t.Parallel()
	<-before
	q.slots <- struct{}{}
	close(begun)
	t.Cleanup(func() { <-q.slots })
}

// largestLast are the scenarios, those with the most designs under load for the longest last: make
// test begins storms while other tests are under way, and a design that starves runs again.
func largestLast(t *testing.T) []string {
	t.Helper()
	names, takes := scenarios.All(), map[string]time.Duration{}
	for _, name := range names {
		sc := decode(t, name).scenario
		plan, err := run.PlanOf(sc, firstSeed)
		if err != nil {
			t.Fatal(err)
		}
		takes[name] = time.Duration(len(sc.Variants)) * plan.Over
	}
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(takes[a], takes[b]) })
	return names
}

// TestScenarios runs every scenario's smoke profile, a few at a time, because faults
// and drains wait more than they work. Only
// correctness is judged: what a busy machine measures is not what a design is. Nor
// is a design to blame if the machine was too slow for some case to come up: one whose
// verdict is left open, or which faults came too late to hit, runs again, and once more
// with the machine to itself.
func TestScenarios(t *testing.T) {
	var machine sync.RWMutex // held alone by a second repeat
	for _, name := range largestLast(t) {
		t.Run(name, func(t *testing.T) {
			underWay.join(t)
			whole := decode(t, name)
			seed := uint64(number(t, "STAMPEDE_SEED", firstSeed))
			once := func(turn sync.Locker, p plan) rundir.Summary {
				turn.Lock()
				defer turn.Unlock()
				return execute(t, p, providerOf(t, p), seed)
			}
			repeated(t, once(machine.RLocker(), whole),
				func(v rundir.Variant) bool { return open(v) || unprovoked(v) },
				func(s rundir.Summary) { judgeSummary(t, s, allHeld) },
				func(last bool, variants []string) rundir.Summary {
					if last {
						return once(&machine, whole.only(variants))
					}
					return once(machine.RLocker(), whole.only(variants))
				})
		})
	}
}

// open says that something is not decided that should be: correctness, whether a fault did
// anything, or what more load would have shown.
func open(v rundir.Variant) bool {
	return missed(v) || short(v) || v.Correctness == rundir.Undecided ||
		v.Correctness == rundir.NotExercised
}

// unprovoked says that what is known of a variant did not happen on a machine that was
// too busy for the load to meet the fault. On one that was not, it must have happened.
func unprovoked(v rundir.Variant) bool {
	return late(v) && slices.ContainsFunc(v.Invariants, func(inv check.Verdict) bool {
		return inv.Status != check.Broken && slices.Contains(v.ExpectedBroken, inv.Invariant)
	})
}

// repeated judges what a run has found, and runs again, twice at most, the variants of which
// something is left, by what unclear says. What is known of those is judged each time.
func repeated(
	t *testing.T, s rundir.Summary, unclear func(rundir.Variant) bool, judge func(rundir.Summary),
	again func(last bool, variants []string) rundir.Summary,
) {
	t.Helper()
	for _, last := range []bool{false, true} {
		left := those(s, unclear)
		if len(left.Variants) == 0 {
			break
		}
		judge(those(s, func(v rundir.Variant) bool { return !unclear(v) }))
		judgeSummary(t, those(left, settled), neverBroken)
		var names []string
		for _, v := range left.Variants {
			names = append(names, v.Name)
			t.Logf("seed %d once more: %s: %s", s.Run.Seed, v.Name, strings.Join(v.Reasons, ", "))
		}
		s = again(last, names)
		asked := func(v rundir.Variant) bool { return slices.Contains(names, v.Name) }
		judgeSummary(t, those(s, func(v rundir.Variant) bool { return !asked(v) && settled(v) }),
			neverBroken)
		s = those(s, asked)
	}
	judge(s)
}

// those is a summary of the variants that are to be kept.
func those(s rundir.Summary, keep func(rundir.Variant) bool) rundir.Summary {
	s.Variants = slices.DeleteFunc(slices.Clone(s.Variants),
		func(v rundir.Variant) bool { return !keep(v) })
	return s
}

// missed says that a fault on a variant has no evidence, or ended the repeat: what it broke did
// not come back in time.
func missed(v rundir.Variant) bool {
	return slices.ContainsFunc(v.Repeats, func(r rundir.Repeat) bool {
		return strings.HasPrefix(r.Error, "fault ") || slices.ContainsFunc(r.Validity, unseen)
	})
}

// short says that the machine was too slow to offer the whole load, or for enough to come of it.
func short(v rundir.Variant) bool {
	return slices.ContainsFunc(v.Repeats, func(r rundir.Repeat) bool {
		return slices.ContainsFunc(r.Validity, func(a rundir.Validity) bool {
			return !a.OK && (a.Name == measure.ScheduleName || rundir.Exercise(a.Name))
		})
	})
}

// unseen says that a check found no evidence of a fault.
func unseen(a rundir.Validity) bool { return !a.OK && strings.HasPrefix(a.Name, "fault ") }

// settled says that a variant is not one on which a fault did nothing.
func settled(v rundir.Variant) bool { return !missed(v) && !unprovoked(v) }

// TestStorms checks that each system has a scenario that runs all its designs side by side and
// provokes every trigger under which one of them is wrong.
func TestStorms(t *testing.T) {
	// river looks for lost runs twice a minute, which is longer than a storm.
	left := map[string][]string{"scheduler": {"river"}}
	found := map[string]bool{}
	for _, name := range scenarios.All() {
		p := decode(t, name)
		if !p.scenario.SideBySide {
			continue
		}
		system := p.resolved.System
		found[system.Name] = true
		for _, v := range system.Variants {
			if !slices.Contains(p.scenario.Variants, v.Name) && !slices.Contains(left[system.Name], v.Name) {
				t.Errorf("%s leaves out %s", name, v.Name)
			}
			for _, b := range v.Breaks {
				if !slices.Contains(p.scenario.Provokes, string(b.Under)) {
					t.Errorf("%s does not provoke %s, under which %s breaks %s", name, b.Under, v.Name,
						b.Invariant)
				}
			}
		}
	}
	for _, s := range systems.All() {
		if !found[s.Name] {
			t.Errorf("%s has no storm", s.Name)
		}
	}
}

// TestOnly: whatever variant runs again by itself, each fault is felt by a variant that runs.
func TestOnly(t *testing.T) {
	for _, name := range scenarios.All() {
		whole := decode(t, name)
		for _, one := range whole.scenario.Variants {
			p := whole.only([]string{one})
			run := p.scenario.Variants
			if run[0] != one || !slices.Contains(run, p.scenario.Baseline) {
				t.Errorf("%s, only %s: %v with baseline %s", name, one, run, p.scenario.Baseline)
			}
			for _, f := range p.scenario.Faults {
				felt := func(v sut.Variant) bool { return slices.Contains(run, v.Name) && judge.Feels(v, f) }
				if !slices.ContainsFunc(p.resolved.System.Variants, felt) {
					t.Errorf("%s, only %s: nobody feels %s", name, one, f.Name)
				}
			}
		}
	}
}

// TestBuyers: the crowd is as large as the question says.
func TestBuyers(t *testing.T) {
	for profile, want := range map[string]int{"smoke": 5_000, "default": 100_000} {
		p := decodeProfile(t, "flash-sale-100k", profile)
		for seed := range uint64(5) {
			load, err := p.resolved.System.Workload(seed, p.resolved.Params)
			if err != nil {
				t.Fatal(err)
			}
			buyers := map[string]bool{}
			for i := range uint64(p.scenario.Load.Arrival.Ops) {
				buyers[load.Op(i).Client] = true
			}
			if len(buyers) < want || len(buyers) > want+want/50 {
				t.Errorf("%s, seed %d: %d buyers, want %d", profile, seed, len(buyers), want)
			}
		}
	}
}

// number reads a number from the environment.
func number(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Errorf("%s is %q; expected a number of 1 or more", name, text)
		return otherwise
	}
	return n
}

// plan is a decoded scenario.
type plan struct {
	scenario scenario.Scenario
	resolved scenario.Resolved
}

// only is the plan of some of its variants, and of one more for each fault that none of them
// would feel.
func (p plan) only(variants []string) plan {
	for _, f := range p.scenario.Faults {
		feels := func(name string) bool {
			return slices.ContainsFunc(p.resolved.System.Variants, func(v sut.Variant) bool {
				return v.Name == name && judge.Feels(v, f)
			})
		}
		i := slices.IndexFunc(p.scenario.Variants, feels)
		if i >= 0 && !slices.ContainsFunc(variants, feels) {
			variants = append(variants, p.scenario.Variants[i])
		}
	}
	p.scenario.Variants = variants
	if !slices.Contains(variants, p.scenario.Baseline) {
		p.scenario.Baseline = variants[0]
	}
	return p
}

// needs are the services of the plan's variants.
func (p plan) needs() []sut.Service {
	var list []sut.Service
	for _, v := range p.resolved.System.Variants {
		if slices.Contains(p.scenario.Variants, v.Name) {
			list = append(list, v.Needs...)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// stores are what the plan's runs need.
func (p plan) stores() env.Spec {
	return env.Spec{Services: p.needs(), Kafka: p.scenario.Stores.Kafka,
		Postgres: p.scenario.Stores.Postgres, Redis: p.scenario.Stores.Redis}
}

// providerOf provides the stores of a plan, the same to all its runs. Where Kafka
// is to be broken each run starts its own: a broker must know from its start on
// of the proxy before it.
func providerOf(t *testing.T, p plan) env.Provider {
	t.Helper()
	if slices.Contains(p.needs(), sut.Kafka) && len(p.scenario.Faults) > 0 {
		return envtest.Provider(t, p.stores())
	}
	return env.Lend(envtest.Backend(), envtest.StartSpec(t, p.stores()))
}

// decode decodes a scenario's smoke profile.
func decode(t *testing.T, name string, set ...string) plan {
	t.Helper()
	return decodeProfile(t, name, "smoke", set...)
}

// decoded are the plans that decodeProfile has made; some tests ask for one again and again.
var decoded sync.Map

func decodeProfile(t *testing.T, name, profile string, set ...string) plan {
	t.Helper()
	key := fmt.Sprint(name, " ", profile, " ", set)
	if made, ok := decoded.Load(key); ok {
		return made.(plan)
	}
	src, file, ok := scenarios.Source(name)
	if !ok {
		t.Fatalf("no scenario %s", name)
	}
	opts := options(profile)
	opts.Set = set
	sc, res, err := scenario.Decode(src, file, opts)
	if err != nil {
		t.Fatal(err)
	}
	if a := sc.Load.Arrival; a.Over == scenario.Fit {
		// A test sends the same on every machine.
		sc.Load.Arrival = a.Lasting(a.OverLeast.D())
	}
	made := plan{sc, res}
	decoded.Store(key, made)
	return made
}

// execute runs a plan and returns what was found.
func execute(t *testing.T, p plan, provider env.Provider, seed uint64) rundir.Summary {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	again := 0
	if p.scenario.SideBySide {
		again = 1 // a known-wrong design that the others hid runs by itself, as for users
	}
	path, summary, err := run.Run(ctx, ctx, run.Options{Scenario: p.scenario, Again: again,
		System: p.resolved.System, Params: p.resolved.Params, Seed: seed, Root: t.TempDir(),
		Provider: provider, BackendReason: "tests", Observer: logger{t}, Now: time.Now,
		Launcher: envtest.Launcher(),
		Spec:     env.Spec{Services: p.needs(), Kafka: p.scenario.Stores.Kafka, Log: t.Logf}})
	if err != nil {
		t.Errorf("seed %d: %v (%s)", seed, err, path)
	}
	if len(summary.Variants) == 0 {
		t.Errorf("seed %d: nothing was compared", seed)
	}
	return summary
}

// late says that the machine interfered with a repeat of the variant.
func late(v rundir.Variant) bool {
	return slices.ContainsFunc(v.Repeats, func(r rundir.Repeat) bool {
		return r.Timing != rundir.Clean
	})
}

// allHeld and neverBroken are what is asked of a correct variant.
func allHeld(s check.Status) bool     { return s == check.Held }
func neverBroken(s check.Status) bool { return s != check.Broken }

// judgeSummary fails the test where the run's verdict on a variant is not the
// one that it deserves.
func judgeSummary(t *testing.T, s rundir.Summary, fine func(check.Status) bool) {
	t.Helper()
	for _, v := range s.Variants {
		for _, r := range v.Repeats {
			if r.Error != "" {
				t.Errorf("seed %d, %s: %s", s.Run.Seed, v.Name, r.Error)
			}
			for _, a := range r.Validity {
				// Too little was done.
				idle := (rundir.Exercise(a.Name) || a.Name == measure.ScheduleName) && fine(check.Undecided)
				if !a.OK && a.Class == rundir.Evidence && !idle {
					t.Errorf("seed %d, %s: %s: %s", s.Run.Seed, v.Name, a.Name, a.Detail)
				}
			}
		}
		for _, inv := range v.Invariants {
			judgeInvariant(t, s.Run.Seed, v, inv, fine)
		}
	}
}

// judgeInvariant holds a verdict against what is known of the variant.
func judgeInvariant(
	t *testing.T, seed uint64, v rundir.Variant, inv check.Verdict, fine func(check.Status) bool,
) {
	t.Helper()
	switch {
	case slices.Contains(v.ExpectedBroken, inv.Invariant):
		if inv.Status != check.Broken || len(inv.Witness) == 0 {
			t.Errorf("seed %d: %s is known to break %s and it is %s: %s",
				seed, v.Name, inv.Invariant, inv.Status, inv.Reason)
		}
	case inv.Status == check.Broken && v.KnownWrong[inv.Invariant] != "":
		// it may show where nobody provokes it
	case len(v.ExpectedBroken) > 0: // what it breaks besides depends on timing
	case inv.OnlyLate(), inv.NotJudged(): // a promise of time is judged as an objective is
		t.Logf("seed %d: %s: %s: %s", seed, v.Name, inv.Invariant, tell(inv))
	case !fine(inv.Status):
		t.Errorf("seed %d: %s: %s is %s: %s", seed, v.Name, inv.Invariant, inv.Status, tell(inv))
	}
}

func tell(v check.Verdict) string {
	lines := []string{v.Reason}
	for _, violation := range v.Violations {
		lines = append(lines, violation.Text)
	}
	return strings.Join(lines, "\n\t")
}

// logger tells a test's log of a run.
type logger struct{ t *testing.T }

func (l logger) Logf(format string, args ...any) { l.t.Logf(format, args...) }

func (l logger) Observe(e events.Event) {
	if d := e.RepeatDone; d != nil && testing.Verbose() {
		l.t.Logf("%-24s %s ok %d refused %d unknown %d", d.Variant, d.Verdict, d.Load.OK,
			d.Load.Refused, d.Load.Unknown)
	}
}

// TestDefaultsTakeFourMinutes: by the estimate a scenario's designs take four minutes at
// most, with the baseline once more as a control, and the quick ones of the README's first
// command are under load for 75 seconds.
func TestDefaultsTakeFourMinutes(t *testing.T) {
	for _, name := range scenarios.All() {
		for _, profile := range []string{"quick", "default"} {
			src, file, _ := scenarios.Source(name)
			sc, res, err := scenario.Decode(src, file, options(profile))
			if err != nil {
				t.Fatal(err)
			}
			repeats := len(sc.Variants)*sc.Repeats + 1
			_, most, err := run.Estimate(sc, res.System, res.Params, repeats)
			if err != nil || most > 4*time.Minute {
				t.Errorf("%s, %s: %d repeats take %s (%v), which is more than 4m", name, profile,
					repeats, most, err)
			}
			load := time.Duration(repeats) * sc.Load.Arrival.OverMost.D()
			if name == "flash-sale-100k" && profile == "quick" && load > 75*time.Second {
				t.Errorf("%s, %s: %d repeats are under load for %s, which is more than 75s", name,
					profile, repeats, load)
			}
		}
	}
}

// TestObjectivesCanBeDecided: what an objective of a whole profile is about comes often
// enough for its percentile, if it is scheduled or follows from a success. Parts before,
// during and after a fault depend on the run.
func TestObjectivesCanBeDecided(t *testing.T) {
	for _, name := range scenarios.All() {
		for _, profile := range []string{"default", "full"} {
			p := decodeProfile(t, name, profile)
			kinds := scheduledKinds(t, p)
			for _, slo := range p.scenario.SLOs {
				o, err := check.ParseObjective(slo.Objective)
				if err != nil {
					t.Fatal(err)
				}
				if came := kinds[o.Kind]; o.Part.Relation == "in" && came < o.Needs() {
					t.Errorf("%s, %s: %s needs %d of %s, there are %d", name, profile,
						slo.Objective, o.Needs(), o.Kind, came)
				}
			}
		}
	}
}

// scheduledKinds counts by kind a plan's scheduled operations after its warm-up, and
// those that follow at once if all of them succeed.
func scheduledKinds(t *testing.T, p plan) map[string]int64 {
	t.Helper()
	load, err := run.PlanOf(p.scenario, firstSeed)
	if err != nil {
		t.Fatal(err)
	}
	workload, err := p.resolved.System.Workload(firstSeed, p.resolved.Params)
	if err != nil {
		t.Fatal(err)
	}
	kinds, i := map[string]int64{}, uint64(0)
	for due := range load.Process.Times(firstSeed) {
		op := workload.Op(i)
		i++
		if due < p.scenario.Load.WarmUp.D() {
			continue
		}
		kinds[op.Kind]++
		kinds[""]++
		for _, next := range workload.Follow(op, history.OK, history.Reply{}) {
			kinds[next.Op.Kind]++
		}
	}
	return kinds
}
