package run

import (
	"context"
	"testing"

	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/rundir"
	"stampede/harness/sut"
)

// TestRacesExercise: what holds without overlap, or with no more than idle operations, was
// not exercised.
func TestRacesExercise(t *testing.T) {
	partner := make(chan struct{})
	inPairs := func(ctx context.Context, _ uint64) error {
		select {
		case partner <- struct{}{}:
		case <-partner:
		case <-ctx.Done():
		}
		return ctx.Err()
	}
	for name, test := range map[string]struct {
		inFlight string
		do       func(context.Context, uint64) error
		idle     func(history.Reply) bool
		raced    int64
		want     string
	}{
		"one by one": {"1", nil, nil, 0, rundir.NotExercised},
		"in pairs":   {"8", inPairs, nil, 30, rundir.Holds},
		"idle": {"8", inPairs, func(history.Reply) bool { return true }, 0,
			rundir.NotExercised},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, []string{"load.max_in_flight=" + test.inFlight, "params.keys=1"},
				design{name: "good", do: test.do})
			b.opts.System.Races = &sut.Races{Kinds: []string{"add"}, Idle: test.idle, Least: 10,
				Invariants: []string{"kept"}}
			v := b.finish(t).variant(t, "good")
			if v.Correctness != test.want || v.Races == nil || v.Races.Raced != test.raced {
				t.Errorf("%s with %+v, want %s with %d: %q", v.Correctness, v.Races, test.want, test.raced,
					v.Reasons)
			}
			kept := status(t, v.Invariants, "kept")
			if held := kept.Status == check.Held; held != (test.want == rundir.Holds) ||
				kept.NotExercised == held {
				t.Errorf("%+v", kept)
			}
		})
	}
}
