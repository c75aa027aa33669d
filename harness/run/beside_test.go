package run

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"stampede/harness/measure"
	"stampede/harness/rundir"
	"stampede/harness/scenario"
	"stampede/harness/sut"
)

// beside is a scenario whose designs run side by side.
func beside(set ...string) []string { return append(set, "side_by_side=true") }

// TestSideBySide: the designs of a repeat are under load at the same time, what fails before
// keeps nobody waiting, and there are no times.
func TestSideBySide(t *testing.T) {
	var meeting sync.WaitGroup
	meeting.Add(2)
	meets := func(ctx context.Context, id uint64) error {
		if id == 0 { // each waits for the other's first operation
			meeting.Done()
			meeting.Wait()
		}
		return ctx.Err()
	}
	b := newBench(t, beside(), design{name: "first", do: meets}, design{name: "second", do: meets},
		design{name: "absent", prepare: fails})
	b.opts.Control = true
	e := b.finish(t)
	e.is(t, "first", rundir.Pass)
	e.is(t, "second", rundir.Pass)
	e.is(t, "absent", rundir.Inconclusive, "preparing absent: it is broken")
	if e.summary.Verdict.Timing != rundir.NoTimes || len(e.stored.Manifest.Slots) != 3 {
		t.Errorf("%+v after %d repeats", e.summary.Verdict, len(e.stored.Manifest.Slots))
	}
	for _, v := range e.variant(t, "first").Repeats[0].Validity {
		if v.Class == rundir.Times && (v.Name != measure.SideBySideName || v.OK) {
			t.Errorf("%+v", v)
		}
	}
}

// TestSideBySideInRepeats: a repeat begins when the one before it is over.
func TestSideBySideInRepeats(t *testing.T) {
	e := newBench(t, beside("repeats=2"), design{name: "a"}, design{name: "b"}).finish(t)
	e.overall(t, rundir.Pass)
	var ends [2]time.Time
	for _, event := range e.kept(t) {
		switch {
		case event.RepeatDone != nil:
			ends[event.RepeatDone.Repeat.Repeat] = event.At
		case event.RepeatStarted != nil && event.RepeatStarted.Repeat == 1 && ends[0].IsZero():
			t.Error("the second repeat began before the first was over")
		}
	}
	for _, v := range e.summary.Variants {
		if len(v.Repeats) != 2 {
			t.Errorf("%s has %d repeats", v.Name, len(v.Repeats))
		}
	}
}

// TestSideBySideBreaksAStoreOnce: all designs meet the same death of it, with its proof. The load
// goes on long after it.
func TestSideBySideBreaksAStoreOnce(t *testing.T) {
	b := newBench(t, beside("load.arrival.over=1500ms", "load.arrival.rate=100"),
		design{name: "a"}, design{name: "b"}, design{name: "c"})
	b.opts.Scenario.Faults = []scenario.Fault{
		at("crash", "kill", 20*time.Millisecond, 30*time.Millisecond),
		at("bounce", "restart", 90*time.Millisecond, 0),
	}
	e := b.finish(t)
	e.overall(t, rundir.Pass)
	if b.provider.store.life != 2 {
		t.Errorf("the store was started %d times", b.provider.store.life)
	}
	first := e.variant(t, "a").Repeats[0].Faults
	for _, v := range e.summary.Variants {
		faults := v.Repeats[0].Faults
		if len(faults) != 2 || faults[0].Start != first[0].Start || faults[1].Start != first[1].Start ||
			!strings.Contains(strings.Join(faults[1].Evidence, "\n"), "from life 1 to life 2") {
			t.Errorf("%s: %+v", v.Name, faults)
		}
	}
}

// TestSideBySideRunsTheMissedAgain: a known-wrong design that was lucky beside the others
// runs once more by itself.
func TestSideBySideRunsTheMissedAgain(t *testing.T) {
	var runs sync.Map
	wrong := design{name: "wrong", breaks: []sut.Break{{Invariant: "kept", Under: sut.Load}},
		forgets: func(id uint64) bool {
			_, second := runs.LoadOrStore(id, true)
			return second
		}}
	b := newBench(t, beside("provokes=[load]"), design{name: "good"}, wrong)
	b.opts.Again = 1
	e := b.finish(t)
	e.is(t, "wrong", rundir.Pass)
	if v := e.variant(t, "wrong"); v.Correctness != rundir.Caught || len(v.Repeats) != 2 {
		t.Errorf("%s in %d repeats", v.Correctness, len(v.Repeats))
	}
	if n := len(e.variant(t, "good").Repeats); n != 1 {
		t.Errorf("the correct design ran %d times", n)
	}
}
