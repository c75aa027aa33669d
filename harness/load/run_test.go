package load

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"stampede/harness/arrival"
	"stampede/harness/history"
	"stampede/harness/sut"
)

// These tests run under virtual time: the pacer sleeps on a Go timer, which
// synctest fires at its exact moment, so due times can be compared exactly.

// script is a workload whose operations and follow-ups are functions.
type script struct {
	op     func(i uint64) history.Op
	follow func(history.Op, history.Outcome, history.Reply) []sut.FollowUp
}

func (s script) Kinds() []string { return []string{"op", "late"} }

func (s script) Op(i uint64) history.Op {
	if s.op != nil {
		return s.op(i)
	}
	return history.Op{ID: i + 1, Kind: "op"}
}

func (s script) Follow(op history.Op, o history.Outcome, r history.Reply) []sut.FollowUp {
	if s.follow == nil {
		return nil
	}
	return s.follow(op, o, r)
}

// once follows every "op" with one "late" after the time.
func once(after time.Duration) script {
	return script{follow: func(op history.Op, _ history.Outcome, _ history.Reply) []sut.FollowUp {
		if op.Kind != "op" {
			return nil
		}
		return []sut.FollowUp{{After: after, Op: history.Op{ID: op.ID + 1e6, Kind: "late"}}}
	}}
}

// memory is a history in memory, checked as the real one is.
type memory struct {
	mu      sync.Mutex
	records []history.Record
	shards  int
}

func (m *memory) shard() Recorder {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.shards++
	return m
}

func (m *memory) Append(r *history.Record) {
	if err := r.Validate(); err != nil {
		panic(err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.records = append(m.records, *r)
}

// sorted returns the records by Seq, which must be 0, 1, 2 and so on.
func (m *memory) sorted(t testing.TB) []history.Record {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	records := slices.Clone(m.records)
	slices.SortFunc(records, func(a, b history.Record) int { return int(a.Seq) - int(b.Seq) })
	for i, r := range records {
		if r.Seq != uint64(i) {
			t.Fatalf("record %d has Seq %d", i, r.Seq)
		}
	}
	return records
}

func every(t testing.TB, gap time.Duration, n int) Arrivals {
	t.Helper()
	times := make([]time.Duration, n)
	for i := range times {
		times[i] = time.Duration(i) * gap
	}
	p, err := arrival.Trace(times)
	if err != nil {
		t.Fatal(err)
	}
	return p.Start(0)
}

// takes is a system that takes d for each operation and heeds its context.
func takes(d time.Duration) Do {
	return func(ctx context.Context, _ history.Op) (history.Reply, error) {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
			return history.Reply{Value: 1}, nil
		case <-ctx.Done():
			return history.Reply{}, fmt.Errorf("waiting: %w", ctx.Err())
		}
	}
}

// timerWaiter waits with a Go timer, under virtual time too.
type timerWaiter struct {
	now   func() time.Duration
	woken chan struct{} // one token while there was a wake since the last wait
}

func newTimerWaiter(now func() time.Duration) waiter {
	return &timerWaiter{now: now, woken: make(chan struct{}, 1)}
}

// ticket needs no number: the token outlives the time between ticket and wait.
func (t *timerWaiter) ticket() uint32 {
	select {
	case <-t.woken:
	default:
	}
	return 0
}

func (t *timerWaiter) wait(_ uint32, until time.Duration) {
	timer := time.NewTimer(until - t.now())
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.woken:
	}
}

func (t *timerWaiter) wake() {
	select {
	case t.woken <- struct{}{}:
	default:
	}
}

// undrained asks virtual for a plan without a drain; zero means its default.
const undrained = -1

// virtual runs a plan under virtual time; what is zero gets a default.
func virtual(t *testing.T, ctx context.Context, plan Plan, do Do) (Result, *memory, error) {
	t.Helper()
	plan.Base = time.Now()
	plan.Start = max(plan.Start, time.Second)
	plan.MaxInFlight = max(plan.MaxInFlight, 1)
	if plan.Workload == nil {
		plan.Workload = script{}
	}
	if plan.Drain == 0 {
		plan.Drain = time.Minute
	}
	plan.Drain = max(plan.Drain, 0)
	m := new(memory)
	if err := plan.check(); err != nil {
		t.Fatal(err)
	}
	result, err := run(ctx, plan, do, m.shard, nil, newTimerWaiter)
	return result, m, err
}

func TestOpenLoopKeepsItsSchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		result, m, err := virtual(t, t.Context(), Plan{
			Arrivals: every(t, 10*time.Millisecond, 20), MaxInFlight: 50,
		}, takes(time.Second))
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range m.sorted(t) {
			want := time.Second + time.Duration(i)*10*time.Millisecond
			if r.Intended != want || r.Start != want || r.End != want+time.Second {
				t.Errorf("operation %d: due %s, sent %s, ended %s; want %s and 1s later",
					i, r.Intended, r.Start, r.End, want)
			}
			if r.Op.ID != uint64(i+1) || r.Outcome != history.OK || r.Reply.Value != 1 {
				t.Errorf("operation %d: %+v", i, r)
			}
		}
		if n := result.Load; n.Scheduled != 20 || n.OK != 20 {
			t.Errorf("load %+v", n)
		}
		if got := result.LastDue; got != time.Second+190*time.Millisecond {
			t.Errorf("last due at %s", got)
		}
		if got := result.End; got != 2*time.Second+190*time.Millisecond {
			t.Errorf("ended at %s", got)
		}
		if n, most := result.PacerLag.TotalCount(), result.PacerLag.Max(); n != 20 || most >= lagLowest {
			t.Errorf("%d lags, at most %d ns", n, most)
		}
	})
}

// One worker, two places to wait: of ten at once three are started, and the
// wait counts.
func TestFullQueueDrops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		result, m, err := virtual(t, t.Context(), Plan{
			Arrivals: every(t, 0, 10), MaxInFlight: 1, Queue: 2,
		}, takes(time.Second))
		if err != nil {
			t.Fatal(err)
		}
		if n := result.Load; n.Scheduled != 10 || n.Started != 3 || n.Dropped != 7 || n.OK != 3 {
			t.Fatalf("load %+v", n)
		}
		for i, r := range m.sorted(t) {
			if i >= 3 {
				if r.Outcome != history.Dropped || r.End != history.Never {
					t.Errorf("operation %d was not dropped: %+v", i, r)
				}
				continue
			}
			if wait := r.Start - r.Intended; wait != time.Duration(i)*time.Second {
				t.Errorf("operation %d waited %s", i, wait)
			}
		}
	})
}

func TestNoQueueUsesEveryWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		result, m, err := virtual(t, t.Context(), Plan{
			Arrivals: every(t, 0, 8), MaxInFlight: 5,
		}, takes(time.Second))
		if err != nil {
			t.Fatal(err)
		}
		if n := result.Load; n.Started != 5 || n.Dropped != 3 {
			t.Errorf("load %+v", n)
		}
		if m.shards != 6 { // five workers, and the pacer's for what it drops
			t.Errorf("%d shards", m.shards)
		}
	})
}

func TestFewWorkersAreUsedWhenFewAreNeeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, m, err := virtual(t, t.Context(), Plan{
			Arrivals: every(t, 10*time.Millisecond, 100), MaxInFlight: 64, Queue: 64,
		}, takes(time.Millisecond))
		if err != nil {
			t.Fatal(err)
		}
		if m.shards != 1 {
			t.Errorf("%d shards for operations that never overlap", m.shards)
		}
	})
}

func TestOutcomes(t *testing.T) {
	soldOut := sut.Refusal("sold_out", "sold out")
	tests := []struct {
		name string
		do   Do
		want history.Outcome
		text string
		code string
	}{
		{"ok", func(context.Context, history.Op) (history.Reply, error) {
			return history.Reply{Key: "a"}, nil
		}, history.OK, "", ""},
		{"refused", func(context.Context, history.Op) (history.Reply, error) {
			return history.Reply{Key: "a"}, soldOut
		}, history.Refused, "sold out: refused", "sold_out"},
		{"refused in other words", func(context.Context, history.Op) (history.Reply, error) {
			return history.Reply{}, fmt.Errorf("no more of those: %w", soldOut)
		}, history.Refused, "no more of those: sold out: refused", "sold_out"},
		{"refused without a code", func(context.Context, history.Op) (history.Reply, error) {
			return history.Reply{}, fmt.Errorf("sold_out: %w", sut.ErrRefused)
		}, history.Refused, "sold_out: refused", "refused"},
		{"unknown", func(context.Context, history.Op) (history.Reply, error) {
			return history.Reply{}, errors.New("connection reset")
		}, history.Unknown, "connection reset", ""},
		{"panic", func(context.Context, history.Op) (history.Reply, error) {
			panic("index out of range")
		}, history.Unknown, "panic: index out of range", ""},
		{"timeout", takes(time.Hour), history.Unknown,
			"timeout: waiting: context deadline exceeded", ""},
		{"ok in spite of the timeout", func(ctx context.Context, _ history.Op) (history.Reply, error) {
			<-ctx.Done()
			return history.Reply{Key: "a"}, nil
		}, history.OK, "", ""},
		{"long text", func(context.Context, history.Op) (history.Reply, error) {
			return history.Reply{}, errors.New(strings.Repeat("x", 10*maxErr))
		}, history.Unknown, strings.Repeat("x", maxErr), ""},
		{"long text in letters of two bytes", func(context.Context, history.Op) (history.Reply, error) {
			return history.Reply{}, errors.New("x" + strings.Repeat("ä", maxErr))
		}, history.Unknown, "x" + strings.Repeat("ä", maxErr/2-1), ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				result, m, err := virtual(t, t.Context(), Plan{
					Arrivals: every(t, 0, 1), Timeout: 3 * time.Second,
				}, test.do)
				if err != nil {
					t.Fatal(err)
				}
				r := m.sorted(t)[0]
				if r.Outcome != test.want || r.Err != test.text || r.Code != test.code {
					t.Errorf("got %s, %q, code %q; want %s, %q, code %q", r.Outcome, r.Err, r.Code,
						test.want, test.text, test.code)
				}
				if (r.Reply.Key != "") != (test.want == history.OK) {
					t.Errorf("reply %+v of %s", r.Reply, r.Outcome)
				}
				if (result.FirstPanic != "") != (test.name == "panic") {
					t.Errorf("first panic: %s", result.FirstPanic)
				}
			})
		})
	}
}

// A worker uses one context for many operations; a timeout must end one of
// them only, at its own deadline.
func TestTimeoutEndsOneOperation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		do := func(ctx context.Context, op history.Op) (history.Reply, error) {
			deadline, ok := ctx.Deadline()
			if left := time.Until(deadline); !ok || left != 100*time.Millisecond {
				t.Errorf("operation %d has %s left, %v", op.ID, left, ok)
			}
			child, cancel := context.WithCancel(ctx)
			defer cancel()
			if op.ID%3 == 0 {
				<-child.Done() // a context derived from ours ends with it
				if err := ctx.Err(); err != context.DeadlineExceeded {
					t.Errorf("operation %d: %v", op.ID, err)
				}
				return history.Reply{}, ctx.Err()
			}
			return takes(90*time.Millisecond)(ctx, op)
		}
		result, m, err := virtual(t, t.Context(), Plan{
			Arrivals: every(t, 200*time.Millisecond, 30), Timeout: 100 * time.Millisecond,
		}, do)
		if err != nil {
			t.Fatal(err)
		}
		if n := result.Load; n.OK != 20 || n.Unknown != 10 {
			t.Errorf("load %+v", n)
		}
		for _, r := range m.sorted(t) {
			if took := r.End - r.Start; r.Outcome == history.Unknown && took != 100*time.Millisecond {
				t.Errorf("operation %d timed out after %s", r.Op.ID, took)
			}
		}
	})
}

func TestFollowUpsAreDueAfterTheirParentsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		result, m, err := virtual(t, t.Context(), Plan{
			Arrivals: every(t, 400*time.Millisecond, 5), MaxInFlight: 10,
			Workload: once(700 * time.Millisecond),
		}, takes(50*time.Millisecond))
		if err != nil {
			t.Fatal(err)
		}
		ends := map[uint64]time.Duration{}
		late := 0
		for _, r := range m.sorted(t) {
			if r.Op.Kind == "op" {
				ends[r.Op.ID] = r.End
				continue
			}
			late++
			if want := ends[r.Op.ID-1e6] + 700*time.Millisecond; r.Intended != want || r.Start != want {
				t.Errorf("follow-up of %d was due at %s and sent at %s, want %s",
					r.Op.ID-1e6, r.Intended, r.Start, want)
			}
		}
		if late != 5 || result.FollowUps != 5 || result.Load.Scheduled != 10 {
			t.Errorf("%d follow-ups; result says %d of %d", late, result.FollowUps, result.Load.Scheduled)
		}
	})
}

// The pacer sleeps until a schedule's far future when a near follow-up comes.
func TestFollowUpWakesThePacer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, m, err := virtual(t, t.Context(), Plan{
			Arrivals: every(t, time.Hour, 2), MaxInFlight: 2, Workload: once(time.Millisecond),
		}, takes(time.Millisecond))
		if err != nil {
			t.Fatal(err)
		}
		if r := m.sorted(t)[1]; r.Op.Kind != "late" || r.Start != r.Intended {
			t.Errorf("the follow-up due at %s was sent at %s", r.Intended, r.Start)
		}
	})
}

func TestFollowUpsAfterTheDrainAreCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		chain := script{follow: func(op history.Op, _ history.Outcome, _ history.Reply) []sut.FollowUp {
			return []sut.FollowUp{{After: time.Second, Op: history.Op{ID: op.ID + 100, Kind: "late"}}}
		}}
		result, _, err := virtual(t, t.Context(), Plan{
			Arrivals: every(t, 0, 3), MaxInFlight: 3, Workload: chain, Drain: 10500 * time.Millisecond,
		}, takes(0))
		if err != nil {
			t.Fatal(err)
		}
		if result.FollowUps != 30 || result.CutFollowUps != 3 {
			t.Errorf("%d follow-ups, %d cut", result.FollowUps, result.CutFollowUps)
		}
		if got := result.End - result.Start; got != 10500*time.Millisecond {
			t.Errorf("ended after %s", got)
		}
	})
}

// TestStoppedBeforeItBegins: not one operation is sent, however much is due.
func TestStoppedBeforeItBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		result, m, err := virtual(t, ctx, Plan{Arrivals: every(t, 0, 30), MaxInFlight: 10,
			Workload: once(time.Hour)}, takes(0))
		if err != nil {
			t.Fatal(err)
		}
		if result.Load.Scheduled != 0 || result.Cut != 30 || !result.Stopped || len(m.records) != 0 {
			t.Errorf("load %+v, cut %d, stopped %v", result.Load, result.Cut, result.Stopped)
		}
	})
}

func TestStopCutsTheSchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(2050*time.Millisecond, cancel) // load begins at 1 s
		result, m, err := virtual(t, ctx, Plan{
			Arrivals: every(t, 100*time.Millisecond, 100), MaxInFlight: 10,
			Workload: once(time.Hour),
		}, takes(300*time.Millisecond))
		if err != nil {
			t.Fatal(err)
		}
		if n := result.Load; n.Scheduled != 11 || n.OK != 11 || result.Cut != 89 {
			t.Errorf("load %+v, cut %d", n, result.Cut)
		}
		if !result.Stopped || result.CutFollowUps != 11 {
			t.Errorf("stopped %v, %d follow-ups cut", result.Stopped, result.CutFollowUps)
		}
		if len(m.sorted(t)) != 11 {
			t.Errorf("%d records", len(m.records))
		}
	})
}

// TestStopDrain: a stop may end the drain sooner, never later; without one only
// the plan's own counts.
func TestStopDrain(t *testing.T) {
	for name, c := range map[string]struct {
		drain, stopDrain, ends time.Duration
		stop                   bool
	}{
		"stopped":                  {30 * time.Second, 10 * time.Second, 12 * time.Second, true},
		"stopped, a shorter drain": {5 * time.Second, 10 * time.Second, 6 * time.Second, true},
		"stopped, only one drain":  {30 * time.Second, 0, 31 * time.Second, true},
		"not stopped":              {30 * time.Second, 10 * time.Second, 31 * time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if c.stop {
					time.AfterFunc(2*time.Second, cancel) // load begins at 1 s
				}
				result, m, err := virtual(t, ctx, Plan{Arrivals: every(t, 0, 1), MaxInFlight: 1,
					Drain: c.drain, StopDrain: c.stopDrain}, takes(time.Hour))
				if err != nil || result.Load.Unknown != 1 {
					t.Fatalf("load %+v, %v", result.Load, err)
				}
				if end := m.sorted(t)[0].End; end != c.ends {
					t.Errorf("cancelled at %s, want %s", end, c.ends)
				}
			})
		})
	}
}

func TestDrainCancelsWhatIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		result, m, err := virtual(t, t.Context(), Plan{
			Arrivals: every(t, 0, 4), MaxInFlight: 2, Queue: 2, Drain: 5 * time.Second,
		}, takes(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		if n := result.Load; n.Scheduled != 4 || n.Started != 2 || n.Dropped != 2 || n.Unknown != 2 {
			t.Errorf("load %+v", n)
		}
		for _, r := range m.sorted(t)[:2] {
			if r.End != 6*time.Second || !strings.HasPrefix(r.Err, "cancelled: ") {
				t.Errorf("ended at %s with %q", r.End, r.Err)
			}
		}
		if result.Abandoned != 0 {
			t.Errorf("%d abandoned", result.Abandoned)
		}
	})
}

func TestDeafOperationsAreAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		deaf := func(context.Context, history.Op) (history.Reply, error) {
			<-release
			return history.Reply{}, nil
		}
		result, m, err := virtual(t, t.Context(), Plan{
			Arrivals: every(t, 0, 3), MaxInFlight: 2, Queue: 1,
			Timeout: time.Second, Drain: 2 * time.Second, Grace: time.Second,
		}, deaf)
		if err != nil {
			t.Fatal(err)
		}
		if n := result.Load; n.Started != 2 || n.Dropped != 1 || n.Unknown != 2 {
			t.Errorf("load %+v", n)
		}
		for _, r := range m.sorted(t)[:2] {
			if r.End != history.Never || !strings.HasPrefix(r.Err, "abandoned: ") {
				t.Errorf("ended at %s with %q", r.End, r.Err)
			}
		}
		if result.Abandoned != 2 {
			t.Errorf("%d abandoned", result.Abandoned)
		}
		close(release) // what returns too late is not recorded twice
		synctest.Wait()
		if len(m.records) != 3 {
			t.Errorf("%d records", len(m.records))
		}
	})
}

func TestClosedLoopUsers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		result, m, err := virtual(t, t.Context(), Plan{
			Users: 3, Think: 60 * time.Millisecond, Duration: time.Second,
			Workload: once(500 * time.Millisecond), MaxInFlight: 5,
		}, takes(40*time.Millisecond))
		if err != nil {
			t.Fatal(err)
		}
		n := result.Load // one turn every 100 ms
		if n.Scheduled != 60 || n.OK != 60 || result.FollowUps != 30 {
			t.Errorf("load %+v, %d follow-ups", n, result.FollowUps)
		}
		for _, r := range m.sorted(t) {
			if r.Start != r.Intended || r.End-r.Start != 40*time.Millisecond {
				t.Errorf("due %s, sent %s, ended %s", r.Intended, r.Start, r.End)
			}
		}
		if got := result.LastDue - result.Start; got != time.Second {
			t.Errorf("the load lasted %s", got)
		}
	})
}

func TestStopEndsThinkingUsers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		result, _, err := virtual(t, ctx, Plan{
			Users: 4, Think: time.Minute, Duration: time.Hour,
		}, takes(time.Millisecond))
		if err != nil {
			t.Fatal(err)
		}
		if result.Load.OK != 4 || !result.Stopped || result.End != 1500*time.Millisecond {
			t.Errorf("%d ok, stopped %v at %s", result.Load.OK, result.Stopped, result.End)
		}
	})
}

func TestPanicsOfTheWorkloadEndTheRun(t *testing.T) {
	tests := map[string]script{
		"making or dispatching": {op: func(i uint64) history.Op {
			if i == 5 {
				panic("no such item")
			}
			return history.Op{ID: i + 1, Kind: "op"}
		}},
		"asking for its follow-ups": {
			follow: func(op history.Op, _ history.Outcome, _ history.Reply) []sut.FollowUp {
				panic("no such item")
			},
		},
		"recording an operation": {op: func(uint64) history.Op { return history.Op{Kind: "op"} }},
	}
	for doing, workload := range tests {
		t.Run(doing, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, _, err := virtual(t, t.Context(), Plan{
					Arrivals: every(t, time.Second, 100), MaxInFlight: 5, Workload: workload,
				}, takes(time.Millisecond))
				if err == nil || !strings.Contains(err.Error(), doing) {
					t.Errorf("got %v, want an error about %s", err, doing)
				}
			})
		})
	}
}

// Whatever the load, the system and the bounds: every operation is accounted
// for once, never sent early, and started in the order of its due time among
// the schedule's operations and among the follow-ups.
func TestAccountingAlwaysHolds(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		gaps := rapid.SliceOfN(rapid.IntRange(0, 50), 1, 60).Draw(rt, "gaps")
		times, at := make([]time.Duration, len(gaps)), 0
		for i, gap := range gaps {
			at += gap
			times[i] = time.Duration(at) * time.Millisecond
		}
		plan := Plan{
			MaxInFlight: rapid.IntRange(1, 4).Draw(rt, "in flight"),
			Queue:       rapid.IntRange(0, 4).Draw(rt, "queue"),
			Timeout:     time.Duration(rapid.IntRange(0, 200).Draw(rt, "timeout")) * time.Millisecond,
			Drain:       time.Duration(rapid.IntRange(1, 2000).Draw(rt, "drain")) * time.Millisecond,
		}
		after := time.Duration(rapid.IntRange(0, 500).Draw(rt, "after")) * time.Millisecond
		slow := time.Duration(rapid.IntRange(0, 150).Draw(rt, "slow")) * time.Millisecond
		stopAt := time.Duration(rapid.IntRange(900, 4000).Draw(rt, "stop")) * time.Millisecond
		synctest.Test(t, func(t *testing.T) {
			p, err := arrival.Trace(times)
			if err != nil {
				rt.Fatal(err)
			}
			plan.Arrivals, plan.Workload = p.Start(0), once(after)
			ctx, cancel := context.WithTimeout(t.Context(), stopAt)
			defer cancel()
			result, m, err := virtual(t, ctx, plan, func(ctx context.Context, op history.Op,
			) (history.Reply, error) {
				return takes(slow*time.Duration(op.ID%3))(ctx, op)
			})
			if err != nil {
				rt.Fatal(err)
			}
			checkRecords(rt, t, result, m)
			planned := result.Load.Scheduled - result.FollowUps + result.Cut
			if planned != int64(len(times)) {
				rt.Fatalf("%d of %d planned operations are accounted for", planned, len(times))
			}
		})
	})
}

func checkRecords(rt *rapid.T, t *testing.T, result Result, m *memory) {
	n := result.Load
	records := m.sorted(t)
	if int64(len(records)) != n.Scheduled {
		rt.Fatalf("%d records of %d operations", len(records), n.Scheduled)
	}
	started := map[string]time.Duration{}
	for _, r := range records {
		if r.Outcome == history.Dropped {
			n.Dropped--
			continue
		}
		n.Started--
		if r.Start < r.Intended || r.Start < started[r.Op.Kind] {
			rt.Fatalf("operation %d was due at %s and sent at %s, after one sent at %s",
				r.Seq, r.Intended, r.Start, started[r.Op.Kind])
		}
		started[r.Op.Kind] = r.Start
	}
	if n.Dropped != 0 || n.Started != 0 {
		rt.Fatalf("the records do not agree with %+v", result.Load)
	}
}

func TestBadPlans(t *testing.T) {
	good := func() Plan {
		return Plan{Base: time.Now(), Arrivals: every(t, 0, 1), Workload: script{}, MaxInFlight: 1}
	}
	tests := []struct {
		spoil func(*Plan)
		want  string
	}{
		{func(p *Plan) { p.Base = time.Time{} }, "no base time"},
		{func(p *Plan) { p.Workload = nil }, "no workload"},
		{func(p *Plan) { p.Arrivals = nil }, "either arrivals or users"},
		{func(p *Plan) { p.Users, p.Duration = 1, 1 }, "either arrivals or users"},
		{func(p *Plan) { p.Arrivals, p.Users = nil, 1 }, "duration above 0s"},
		{func(p *Plan) { p.MaxInFlight = 0 }, "must be 1 or more, got 0"},
		{func(p *Plan) { p.Queue = -1 }, "queue must be 0 or more"},
		{func(p *Plan) { p.Timeout = -1 }, "timeout must be 0s or more"},
		{func(p *Plan) { p.Drain = -1 }, "drain must be 0s or more"},
	}
	for _, test := range tests {
		t.Run(test.want, func(t *testing.T) {
			plan := good()
			test.spoil(&plan)
			_, err := Run(t.Context(), plan, takes(0), new(memory).shard, nil)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
		})
	}
}

// The real clock and the real waiter, without any statement about speed.
func TestRealTime(t *testing.T) {
	defer goleak.VerifyNone(t)
	p, err := arrival.Constant(5000, 200*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	m, live := new(memory), new(Live)
	result, err := Run(t.Context(), Plan{
		Base: time.Now(), Arrivals: p.Start(0), Workload: once(10 * time.Millisecond),
		MaxInFlight: 20, Queue: 5000, Timeout: time.Minute, Drain: time.Minute,
	}, takes(0), m.shard, live)
	if err != nil {
		t.Fatal(err)
	}
	if n := result.Load; n.OK != 2000 || result.FollowUps != 1000 {
		t.Errorf("load %+v, %d follow-ups", n, result.FollowUps)
	}
	for _, r := range m.sorted(t) {
		if r.Start < r.Intended {
			t.Errorf("operation %d was sent %s early", r.Seq, r.Intended-r.Start)
		}
	}
	if result.Generator.CPUCores <= 0 || result.Generator.OpenFiles <= 0 {
		t.Errorf("generator %+v", result.Generator)
	}
	s := live.Snapshot()
	if s.Phase != Over || s.Load != result.Load || s.InFlight != 0 || s.Waiting != 0 {
		t.Errorf("last snapshot %+v", s)
	}
}

func TestRealStop(t *testing.T) {
	defer goleak.VerifyNone(t)
	ctx, cancel := context.WithCancel(t.Context())
	p, err := arrival.Constant(1, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	do := func(context.Context, history.Op) (history.Reply, error) {
		cancel() // while the pacer sleeps for a second
		return history.Reply{}, nil
	}
	result, err := Run(ctx, Plan{
		Base: time.Now(), Arrivals: p.Start(0), Workload: script{}, MaxInFlight: 1,
		Drain: time.Minute,
	}, do, new(memory).shard, nil)
	if err != nil {
		t.Fatal(err)
	}
	if result.Load.OK != 1 || result.Cut != 3599 || !result.Stopped {
		t.Errorf("%d ok, %d cut", result.Load.OK, result.Cut)
	}
}

// again is once, and sends every operation a second time.
type again struct {
	script
	when  sut.Resending
	pause time.Duration
}

func (a again) Resend(history.Op) (sut.Resending, time.Duration) { return a.when, a.pause }

// An operation that is sent twice is sent unchanged, while the first is under way or after
// it was acknowledged, and what follows from it follows once.
func TestOperationsAreSentTwice(t *testing.T) {
	for _, test := range []struct {
		when sut.Resending
		do   Do
		want time.Duration // from the first sending to the second; 0 is none
	}{
		{sut.Never, takes(10 * time.Millisecond), 0},
		{sut.Together, takes(10 * time.Millisecond), 3 * time.Millisecond},
		{sut.Later, takes(10 * time.Millisecond), 13 * time.Millisecond},
		{sut.Later, func(context.Context, history.Op) (history.Reply, error) {
			return history.Reply{}, sut.ErrRefused
		}, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			result, m, err := virtual(t, t.Context(), Plan{
				Arrivals: every(t, time.Second, 1), MaxInFlight: 8, Drain: time.Minute,
				Workload: again{once(10 * time.Millisecond), test.when, 3 * time.Millisecond},
			}, test.do)
			if err != nil {
				t.Fatal(err)
			}
			var sent []history.Record
			late := 0
			for _, r := range m.sorted(t) {
				if r.Op.Kind == "op" {
					sent = append(sent, r)
				} else {
					late++
				}
			}
			copies := 1
			if test.want > 0 {
				copies = 2
			}
			if len(sent) != copies || late != copies || result.FollowUps != int64(2*copies-1) {
				t.Fatalf("%v: %d sendings, %d of what follows, %d follow-ups", test.when, len(sent), late,
					result.FollowUps)
			}
			if copies == 2 && (sent[1].Start-sent[0].Start != test.want ||
				sent[1].Op.ID != sent[0].Op.ID) {
				t.Errorf("%v: sent %+v after %v", test.when, sent[1].Op, sent[1].Start-sent[0].Start)
			}
		})
	}
}
