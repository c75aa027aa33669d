package fault_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"stampede/harness/check"
	"stampede/harness/env"
	"stampede/harness/fault"
	"stampede/harness/scenario"
	"stampede/harness/sut"
)

// crew is several duds as one.
type crew struct {
	*dud

	all []*dud
}

var _ env.Clustered = crew{}

func (c crew) Members() []env.Component {
	var list []env.Component
	for _, d := range c.all {
		list = append(list, d)
	}
	return list
}

func crewOf(n int) crew {
	c := crew{dud: &dud{service: "counter", works: true}}
	for i := range n {
		c.all = append(c.all, &dud{works: true,
			service: sut.Service("counter-" + string(rune('1'+i)))})
	}
	return c
}

// laborer is a role that works again a while after it was started.
type laborer struct {
	*dud

	after time.Duration
}

func (l laborer) AtWork(ctx context.Context) error {
	if !sut.Pause(ctx, l.after) {
		return ctx.Err()
	}
	return l.Ready(ctx)
}

// TestARoleHasRecoveredWhenItWorks, not when it answers; and one that never works
// again is for the judges, not an error of the fault.
func TestARoleHasRecoveredWhenItWorks(t *testing.T) {
	for after, want := range map[time.Duration]time.Duration{
		4 * time.Second: 9 * time.Second, time.Hour: 0,
	} {
		synctest.Test(t, func(t *testing.T) {
			role := laborer{&dud{service: "counter", works: true}, after}
			windows, err := fault.Schedule{Base: time.Now(),
				Targets: map[sut.Service]fault.Target{"counter": {Component: role}},
				Faults: []scenario.Fault{{Name: "gone", Kind: "kill", Target: "counter", At: seconds(2),
					For: seconds(3)}}}.Run(t.Context())
			if err != nil || windows[0].Recovered != want {
				t.Errorf("at work after %v: %+v, %v, want it recovered at %v", after, windows, err, want)
			}
		})
	}
}

// storm churns three replicas for ten seconds of virtual time and returns what
// it did and how often each was started.
func storm(t *testing.T, seed uint64, how string) (effects fault.Effects, starts []int64) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := crewOf(3)
		windows, err := fault.Schedule{Base: time.Now(), Seed: seed,
			Targets: map[sut.Service]fault.Target{"counter": {Component: c}},
			Faults: []scenario.Fault{{Name: "storm", Kind: "churn", Target: "counter", For: seconds(10),
				Every: seconds(1), How: how}}}.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(windows[0].Effects, &effects); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(strings.Join(windows[0].Evidence, ""), "and new ones came back") {
			t.Errorf("the evidence is %q", windows[0].Evidence)
		}
		for _, d := range c.all {
			starts = append(starts, d.starts.Load())
			if d.down.Load() {
				t.Errorf("%s was left down", d.service)
			}
		}
	})
	return effects, starts
}

// TestChurn: what happens follows from the seed and the way, all replicas have
// their turn, and each is up in the end.
func TestChurn(t *testing.T) {
	first, starts := storm(t, 7, "")
	again, same := storm(t, 7, fault.Mixed)
	if first.Stops != again.Stops || first.Kills != again.Kills || !slices.Equal(starts, same) {
		t.Errorf("one seed gives %+v %v and %+v %v", first, starts, again, same)
	}
	if first.Stops == 0 || first.Kills == 0 || first.Stops+first.Kills < 7 {
		t.Errorf("mixed: %+v", first)
	}
	if _, other := storm(t, 8, fault.Mixed); slices.Equal(starts, other) {
		t.Errorf("another seed gives %v as well", other)
	}
	if e, _ := storm(t, 7, fault.Orderly); e.Kills > 0 || e.Stops < 7 {
		t.Errorf("orderly: %+v", e)
	}
	if e, _ := storm(t, 7, fault.Abrupt); e.Stops > 0 || e.Kills < 7 {
		t.Errorf("abrupt: %+v", e)
	}
}

// TestCrashIsToldWithItsPlace: the evidence has who, where and when.
func TestCrashIsToldWithItsPlace(t *testing.T) {
	role := &dud{service: "counter", works: true}
	f := fault.Fault{Kind: fault.Crash, Target: "counter", Place: "applied", Passage: 3}
	in, err := f.Inject(t.Context(), fault.Target{Component: role}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := in.Heal(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := `counter-2, process 7, reached "applied" for the 3rd time and was killed there with SIGKILL`
	if got := in.Evidence(); len(got) != 1 || got[0] != want {
		t.Errorf("the evidence is %q", got)
	}
}

// TestARoleThatIsAbsent: the window of a fault that aims at what is not there passes,
// without evidence, deaths and a wait at its end. Another fault of the same target, at a
// place that it has, happens.
func TestARoleThatIsAbsent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base, role := time.Now(), &dud{service: "counter", works: true}
		windows, err := fault.Schedule{Base: base, Start: time.Second,
			Absent:  map[string]bool{"gone": true, "cut": true},
			Targets: map[sut.Service]fault.Target{"counter": {Component: role}},
			Faults: []scenario.Fault{
				{Name: "gone", Kind: "kill", Target: "counter", At: seconds(1), For: seconds(2)},
				{Name: "cut", Kind: "partition", Target: "counter", From: "redis", At: seconds(2),
					For: seconds(2)},
				{Name: "killed", Kind: "kill", Target: "counter", At: seconds(5), For: seconds(1)},
			}}.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(windows[2].Evidence) == 0 {
			t.Error("the fault that has a target did not happen")
		}
		for i, w := range windows[:2] {
			start := time.Duration(i+2) * time.Second
			if w.Start != start || w.End != start+2*time.Second || w.Recovered != 0 ||
				len(w.Evidence) > 0 || check.Deaths(w, "counter") > 0 {
				t.Errorf("the window is %+v", w)
			}
		}
	})
}

// TestAFaultThatNeverStruck: a fault whose time does not come kills nobody.
func TestAFaultThatNeverStruck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		windows, err := fault.Schedule{Base: time.Now(),
			Targets: map[sut.Service]fault.Target{"counter": {Component: &dud{service: "counter"}}},
			Faults: []scenario.Fault{{Name: "killed", Kind: "kill", Target: "counter", At: seconds(5),
				For: seconds(1)}}}.Run(ctx)
		if err != nil || len(windows) != 1 || check.Deaths(windows[0], "counter") > 0 {
			t.Errorf("the windows are %+v, and the error is %v", windows, err)
		}
	})
}

// TestOverlapsOfRoles: two faults of one role, or of one of its ways, need to
// know what each has done; a role and its way to a store do not.
func TestOverlapsOfRoles(t *testing.T) {
	role, store := &dud{service: "counter"}, &dud{service: sut.Redis}
	replica := &dud{service: "counter-2"}
	e := startEcho(t)
	way := fault.Target{Component: store, Proxies: fault.Proxies{startProxy(t, e.addr)}}
	targets := map[sut.Service]fault.Target{"counter": {Component: role},
		"counter-2": {Component: replica}, "counter from redis": way, "counter-2 from redis": way}
	kill := scenario.Fault{Name: "a", Kind: "kill", Target: "counter", For: seconds(2)}
	for _, test := range []struct {
		other scenario.Fault
		clash bool
	}{
		{scenario.Fault{Name: "b", Kind: "pause", Target: "counter-2", For: seconds(1)}, true},
		{scenario.Fault{Name: "b", Kind: "partition", Target: "counter", From: "redis",
			For: seconds(1)}, false},
	} {
		err := fault.Schedule{Faults: []scenario.Fault{kill, test.other}, Targets: targets}.Check()
		if (err != nil) != test.clash {
			t.Errorf("%+v: %v", test.other, err)
		}
	}
	cut := func(target string) scenario.Fault {
		return scenario.Fault{Name: target, Kind: "partition", Target: target, From: "redis",
			For: seconds(1)}
	}
	err := fault.Schedule{Faults: []scenario.Fault{cut("counter"), cut("counter-2")},
		Targets: targets}.Check()
	if err == nil || !strings.Contains(err.Error(), "overlap") {
		t.Errorf("two cuts of one way: %v", err)
	}
}
