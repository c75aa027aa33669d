package load

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"stampede/harness/arrival"
	"stampede/harness/history"
	"stampede/harness/sim"
	"stampede/harness/sut"
)

// wavering takes another time for each operation, so that no two things happen at one instant,
// and refuses some.
func wavering(base time.Duration) (takes func(history.Op) time.Duration,
	answers func(history.Op) error) {
	takes = func(op history.Op) time.Duration {
		return base*time.Duration(op.ID%5) + time.Duration(op.ID*7919%100_003)
	}
	answers = func(op history.Op) error {
		if op.ID%7 == 3 {
			return sut.ErrRefused
		}
		return nil
	}
	return takes, answers
}

// pausing waits another time before each second sending.
type pausing struct{ again }

func (p pausing) Resend(op history.Op) (sut.Resending, time.Duration) {
	return p.when, 17*time.Microsecond + time.Duration(op.ID*6007%50_021)
}

// TestSimulatedAsSent: a load in the virtual time of a simulation is the load that the generator
// sends, record for record.
func TestSimulatedAsSent(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		draw := func(name string, least, most int) int {
			return rapid.IntRange(least, most).Draw(rt, name)
		}
		times, at := make([]time.Duration, draw("operations", 1, 60)), 0
		for i := range times {
			at += 1 + draw("gap", 0, 50)
			times[i] = time.Duration(at)*time.Millisecond + time.Duration(i*i)
		}
		plan := Plan{MaxInFlight: draw("in flight", 1, 4), Queue: draw("queue", 0, 4),
			Timeout: time.Duration(draw("timeout", 0, 200)) * time.Millisecond,
			Drain:   time.Duration(draw("drain", 1, 2000)) * time.Millisecond, Start: time.Second}
		takes, answers := wavering(time.Duration(draw("slow", 0, 40)) * time.Millisecond)
		plan.Workload = pausing{again{once(time.Duration(draw("after", 0, 500))*time.Millisecond + 13),
			sut.Resending(draw("resend", 0, 2)), 0}}
		process, err := arrival.Trace(times)
		if err != nil {
			rt.Fatal(err)
		}

		var sent []history.Record
		var measured Result
		synctest.Test(t, func(t *testing.T) {
			plan.Arrivals = process.Start(0)
			var m *memory
			measured, m, err = virtual(t, t.Context(), plan, func(ctx context.Context, op history.Op,
			) (history.Reply, error) {
				if !sut.Pause(ctx, takes(op)) {
					return history.Reply{}, ctx.Err()
				}
				return history.Reply{Value: 1}, answers(op)
			})
			if err != nil {
				rt.Fatal(err)
			}
			sent = m.sorted(t)
		})
		if tied(sent, measured.LastDue+plan.Drain) {
			return // which of two is first is for the scheduler of Go to say
		}

		plan.Arrivals = process.Start(0)
		s, m := sim.New(1), new(memory)
		defer s.Close()
		got, err := Simulate(t.Context(), plan, s, func(ctx context.Context, op history.Op,
		) (history.Reply, error) {
			sim.In(ctx).Do(s.Delay(takes(op)))
			return history.Reply{Value: 1}, answers(op)
		}, m, nil)
		if err != nil {
			rt.Fatal(err)
		}
		simulated := m.sorted(t)
		for i, want := range sent {
			if is := simulated[min(i, len(simulated)-1)]; !alike(is, want, measured.LastDue+plan.Drain) {
				rt.Fatalf("record %d is %+v, and was sent as %+v", i, is, want)
			}
		}
		if got.Load != measured.Load || got.FollowUps != measured.FollowUps {
			rt.Fatalf("%+v was simulated, %+v sent", got, measured)
		}
	})
}

// tied says whether two operations became due or ended at one instant, or at the deadline.
func tied(records []history.Record, deadline time.Duration) bool {
	seen := map[time.Duration]bool{deadline: true}
	for _, r := range records {
		if r.Start == deadline {
			return true
		}
		for _, at := range []time.Duration{r.Intended, r.End} {
			if seen[at] && at != history.Never && (at != deadline || r.Outcome != history.Unknown) {
				return true
			}
			seen[at] = true
		}
	}
	return false
}

// alike compares records but for the texts of errors. What the drain's deadline ended has
// an end where it was sent, and none where it was simulated.
func alike(is, want history.Record, deadline time.Duration) bool {
	if is.Outcome == history.Unknown && is.End == history.Never && want.End >= deadline {
		is.End = want.End
	}
	return is.Seq == want.Seq && is.Op.ID == want.Op.ID && is.Op.Kind == want.Op.Kind &&
		is.Outcome == want.Outcome && is.Intended == want.Intended && is.Start == want.Start &&
		is.End == want.End && is.Reply.Value == want.Reply.Value
}

// TestSimulatedUsers: closed-loop users perform one operation after the other, with a pause.
func TestSimulatedUsers(t *testing.T) {
	s, m := sim.New(1), new(memory)
	defer s.Close()
	result, err := Simulate(t.Context(), Plan{Users: 3, Think: 20 * time.Millisecond, MaxInFlight: 1,
		Duration: 100 * time.Millisecond, Drain: time.Second, Workload: script{}}, s,
		func(ctx context.Context, _ history.Op) (history.Reply, error) {
			sim.In(ctx).Do(s.Delay(30 * time.Millisecond))
			return history.Reply{}, nil
		}, m, nil)
	if err != nil {
		t.Fatal(err)
	}
	var starts []time.Duration
	for _, r := range m.sorted(t) {
		starts = append(starts, r.Start)
	}
	const ms = time.Millisecond
	if want := []time.Duration{0, 0, 0, 50 * ms, 50 * ms, 50 * ms}; result.Load.OK != 6 ||
		!slices.Equal(starts, want) {
		t.Errorf("%+v, starting at %v", result.Load, starts)
	}
}

// TestSimulatedRefusals: what ran out of time where nothing had happened yet was refused, as a
// design's client refuses what it has not sent.
func TestSimulatedRefusals(t *testing.T) {
	s, m := sim.New(1), new(memory)
	defer s.Close()
	_, err := Simulate(t.Context(), Plan{Arrivals: every(t, time.Second, 2), MaxInFlight: 2,
		Timeout: 100 * time.Millisecond, Drain: time.Second, Workload: script{}}, s,
		func(ctx context.Context, op history.Op) (history.Reply, error) {
			wait := s.Delay(time.Minute)
			if op.ID%2 == 1 {
				wait = sim.Harmless(wait)
			}
			sim.In(ctx).Do(wait)
			return history.Reply{}, nil
		}, m, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range m.sorted(t) {
		want, timeout := history.Unknown, true
		if r.Op.ID%2 == 1 {
			want, timeout = history.Refused, false
		}
		if r.Outcome != want || strings.HasPrefix(r.Err, "timeout: ") != timeout {
			t.Errorf("operation %d ended as %v: %s", r.Op.ID, r.Outcome, r.Err)
		}
	}
}

// TestSimulatedErrors: a panic of a model is an error of the load, and so is the caller's end.
func TestSimulatedErrors(t *testing.T) {
	plan := Plan{Arrivals: every(t, time.Second, 3), MaxInFlight: 1, Drain: time.Second,
		Workload: script{}}
	s := sim.New(1)
	defer s.Close()
	_, err := Simulate(t.Context(), plan, s, func(context.Context, history.Op) (history.Reply, error) {
		panic("the model is wrong")
	}, new(memory), nil)
	if _, is := errors.AsType[*sim.PanicError](err); !is {
		t.Errorf("a panic ends with %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	plan.Arrivals = every(t, time.Second, 3)
	again := sim.New(1)
	defer again.Close()
	_, err = Simulate(ended, plan, again, nil, new(memory), nil)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("an ended context ends with %v", err)
	}
}
