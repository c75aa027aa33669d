package run

import (
	"context"
	"strings"
	"testing"
	"time"

	"stampede/harness/check"
	"stampede/harness/rundir"
	"stampede/harness/scenario"
	"stampede/harness/sut"
)

// at makes one fault of the store; a restart has no duration.
func at(name, kind string, at, length time.Duration) scenario.Fault {
	return scenario.Fault{Name: name, Kind: kind, Target: string(sut.Redis),
		At: scenario.Duration(at), For: scenario.Duration(length)}
}

func TestAFaultThatFires(t *testing.T) {
	b := newBench(t, slow(), design{name: "good"})
	b.opts.Scenario.Faults = []scenario.Fault{
		at("bounce", "restart", 20*time.Millisecond, 0),
		at("crash", "kill", 60*time.Millisecond, 30*time.Millisecond),
	}
	e := b.finish(t)
	e.is(t, "good", rundir.Pass)
	if !e.summary.Environment.Proxied {
		t.Error("no proxy stood before the store")
	}
	windows := e.variant(t, "good").Repeats[0].Faults
	if len(windows) != 2 {
		t.Fatalf("the windows are %+v", windows)
	}
	for i, want := range []string{"from life 0 to life 1", "from life 1 to life 2"} {
		if got := strings.Join(windows[i].Evidence, "\n"); !strings.Contains(got, want) {
			t.Errorf("the evidence of %s is %q", windows[i].Name, got)
		}
	}
	for _, v := range e.variant(t, "good").Repeats[0].Validity {
		if strings.HasPrefix(v.Name, "fault ") && !v.OK {
			t.Errorf("%+v", v)
		}
	}
}

func TestAFaultWithoutEvidence(t *testing.T) {
	b := newBench(t, append(slow(), "provokes=[load]"), design{name: "good"},
		design{name: "wrong", breaks: []sut.Break{{Invariant: "kept", Under: sut.Load}}})
	b.provider.store.deaf = true
	b.opts.Scenario.Faults = []scenario.Fault{at("bounce", "restart", 20*time.Millisecond, 0)}
	e := b.finish(t)
	e.overall(t, rundir.Inconclusive)
	e.is(t, "good", rundir.Inconclusive, "fault bounce: there is no evidence that it happened")
	// A variant is not to blame for what nothing provoked.
	e.is(t, "wrong", rundir.Inconclusive, "fault bounce", "not caught")
	if v := e.variant(t, "wrong"); v.Correctness != rundir.Undecided {
		t.Errorf("the correctness of wrong is %s", v.Correctness)
	}
}

func TestAFaultThatCannotBeHealed(t *testing.T) {
	b := newBench(t, append(slow(), "load.drain=50ms"), design{name: "good"})
	b.provider.store.stuck = errBroken
	b.opts.Scenario.Faults = []scenario.Fault{
		at("crash", "kill", 20*time.Millisecond, 10*time.Millisecond)}
	e := b.finish(t)
	e.is(t, "good", rundir.Inconclusive, `fault "crash": heal kill redis: it is broken`)
	if v := e.variant(t, "good"); v.Correctness != rundir.Undecided {
		t.Errorf("its correctness is %s: %q", v.Correctness, v.Reasons)
	}
}

func TestAFaultThatTheBackendCannotInject(t *testing.T) {
	b := newBench(t, nil, design{name: "good"})
	b.opts.Provider = unbreakable{b.provider}
	b.opts.Scenario.Faults = []scenario.Fault{at("bounce", "restart", 0, 0)}
	b.failsAtOnce(t, "this backend does not allow faults on its servers")
}

// What happens to a store by itself is no ground to judge a design on: it is
// neither a success nor a proof against it.
func TestAStoreThatNoFaultTouched(t *testing.T) {
	var b *bench
	on := func(n uint64, what func()) func(context.Context, uint64) error {
		return func(_ context.Context, id uint64) error {
			if id == n {
				what()
			}
			return nil
		}
	}
	anew := func() {
		b.provider.store.die()
		b.provider.store.rise()
	}
	emptied := func() {
		anew()
		clear(b.provider.store.sets)
	}
	for _, test := range []struct {
		name, mentions string
		design         design
		faults         []scenario.Fault
	}{
		{"dies", "redis did not answer after the load: connection refused",
			design{do: on(10, func() { b.provider.store.die() })}, nil},
		{"is another one", "redis restarted without a fault", design{do: on(10, anew)}, nil},
		{"is another one before a fault", "redis restarted without a fault",
			design{do: on(2, anew)}, []scenario.Fault{at("bounce", "restart", 80*time.Millisecond, 0)}},
		{"loses all", "redis restarted without a fault", design{do: on(10, emptied)}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.design.name = "good"
			b = newBench(t, append(slow(), "load.drain=50ms"), test.design)
			b.opts.Scenario.Faults = test.faults
			e := b.finish(t)
			e.overall(t, rundir.Inconclusive)
			e.is(t, "good", rundir.Inconclusive, "stores: "+test.mentions)
			for _, v := range e.variant(t, "good").Invariants {
				if v.Status == check.Broken {
					t.Errorf("%+v", v)
				}
			}
		})
	}
}
