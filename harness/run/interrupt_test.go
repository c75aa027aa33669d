package run

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"stampede/harness/events"
	"stampede/harness/history"
	"stampede/harness/rundir"
)

// interrupted checks what holds of every run that was stopped: it says so, and
// it is no success.
func (e ended) interrupted(t *testing.T) {
	t.Helper()
	stored, err := e.stored.Summary()
	if err != nil {
		t.Fatal(err)
	}
	if !e.summary.Run.Interrupted || !stored.Run.Interrupted {
		t.Errorf("interrupted: returned %v, stored %v", e.summary.Run.Interrupted,
			stored.Run.Interrupted)
	}
	if v := e.summary.Verdict.Overall; v == rundir.Pass || v == rundir.Fail {
		t.Errorf("an interrupted run is %s", v)
	}
}

func TestInterruptedInTheLoad(t *testing.T) {
	var b *bench
	b = newBench(t, append(long(), "repeats=2"),
		design{name: "good", do: func(ctx context.Context, id uint64) error {
			if id == 5 {
				b.interrupt() // and this operation ends in the drain
			}
			return ctx.Err()
		}}, design{name: "later"})
	e := b.finish(t)
	e.interrupted(t)
	e.is(t, "good", rundir.Inconclusive, "the load was stopped before its end")
	e.is(t, "later", rundir.Inconclusive, "it did not run")
	if n := len(e.variant(t, "good").Repeats); n != 1 {
		t.Errorf("%d repeats were run", n)
	}
	records := e.records(t, "good", 0)
	if len(records) < 5 || len(records) >= 60*200 || records[4].Outcome != history.OK {
		t.Errorf("%d records, the fifth is %s", len(records), records[4].Outcome)
	}
	if _, err := e.stored.Audit(rundir.AuditName("good", 0)); err != nil {
		t.Error(err)
	}
	phases := []events.PhaseName{}
	for _, s := range b.watcher.steps {
		phases = append(phases, s.phase)
	}
	if !slices.Equal(phases, []events.PhaseName{events.Prepare, events.Steady, events.Drain,
		events.Settle, events.Audit, events.Judge, "done"}) {
		t.Errorf("the phases are %q", phases)
	}
}

func TestInterruptedBeforeTheLoad(t *testing.T) {
	var b *bench
	b = newBench(t, nil, design{name: "opening", open: func() error {
		b.interrupt()
		return b.soft.Err()
	}}, design{name: "later"})
	e := b.finish(t)
	e.interrupted(t)
	e.is(t, "opening", rundir.Inconclusive, "opening opening: context canceled")
	e.is(t, "later", rundir.Inconclusive, "it did not run")

	b = newBench(t, nil, design{name: "prepared", prepare: func() error { b.interrupt(); return nil }})
	e = b.finish(t)
	e.interrupted(t)
	e.is(t, "prepared", rundir.Inconclusive)
	if n := len(e.records(t, "prepared", 0)); n != 0 {
		t.Errorf("%d operations were sent", n)
	}
}

func TestInterruptedBetweenTwoRepeats(t *testing.T) {
	b := newBench(t, []string{"repeats=2"}, design{name: "good"})
	b.watcher.entering = func(s step) {
		if s.phase == "done" {
			b.interrupt()
		}
	}
	e := b.finish(t)
	e.interrupted(t)
	// What was run is judged, but fewer repeats than asked for are no success.
	if n := len(e.variant(t, "good").Repeats); n != 1 {
		t.Errorf("%d repeats were run", n)
	}
	e.overall(t, rundir.Inconclusive)
}

func TestGivenUp(t *testing.T) {
	var b *bench
	var giveUp context.CancelFunc
	b = newBench(t, long(), design{name: "good", do: func(_ context.Context, id uint64) error {
		if id == 5 {
			b.interrupt()
			giveUp()
		}
		return nil
	}, quiesced: func() (string, error) { return "a job", nil }}, design{name: "later"})
	b.hard, giveUp = context.WithCancel(b.hard)
	t.Cleanup(giveUp)
	e, err := b.run(t)
	if err != nil {
		t.Fatal(err)
	}
	e.interrupted(t)
	e.is(t, "good", rundir.Inconclusive, "draining good: context canceled")
}

func TestStoppedBeforeAnythingWasStarted(t *testing.T) {
	b := newBench(t, nil, design{name: "good"})
	b.interrupt()
	_, err := b.run(t)
	if _, ok := errors.AsType[*EnvironmentError](err); !ok || !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
	b.noRuns(t)

	b = newBench(t, nil, design{name: "good"})
	hard, cancel := context.WithCancel(t.Context())
	cancel()
	b.hard = hard
	if _, err := b.run(t); !errors.Is(err, context.Canceled) {
		t.Errorf("given up: %v", err)
	}
	b.noRuns(t)
	if len(b.provider.clusters) > 0 || strings.Contains(b.watcher.said(), "good") {
		t.Error("something was started")
	}
}
