// Package load sends operations: an open loop that keeps its schedule
// whatever the system under test does, and closed-loop users.
//
// One pacer sleeps in the kernel until absolute deadlines and hands every due
// operation to a bounded set of workers. An
// operation that finds no free worker waits with its due time kept, so that
// the wait counts in its response time; one that finds the queue full too is
// dropped and recorded as dropped. The schedule is never moved to suit a slow
// system, and never thinned out: coordinated omission cannot happen.
//
// Two lags are kept apart. The pacer's lag (due to dispatch) is the
// generator's own fault and decides whether a run is valid; the start lag in
// the history (due to start) also has the wait for a free worker, which is
// the system's.
package load

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"stampede/harness/history"
	"stampede/harness/rundir"
	"stampede/harness/sut"
)

// Arrivals hands out due times in order, as offsets from the start of the
// load, until ok is false. *arrival.Stream is one.
type Arrivals interface {
	Next() (due time.Duration, ok bool)
}

// Do performs one operation; see sut.Instance. It must not use ctx after it
// has returned.
type Do func(ctx context.Context, op history.Op) (history.Reply, error)

// Recorder keeps the records of one worker; *history.Shard is one. It must
// not keep the pointer.
type Recorder interface {
	Append(*history.Record)
}

// Plan is what to send, when and within which bounds.
type Plan struct {
	// Base is the run's time zero. It must have a monotonic reading, as
	// time.Now gives; all times of records are offsets from it.
	Base time.Time
	// Start is where due time 0 lies on the run's clock. Zero means as soon
	// as the workers are ready; Result.Start says when that was.
	Start time.Duration
	// Arrivals is the open loop's schedule. Exactly one of Arrivals and
	// Users is set.
	Arrivals Arrivals
	// Users is the number of closed-loop users: each performs one operation
	// after another for Duration, with Think time between them.
	Users           int
	Think, Duration time.Duration
	// Workload makes the operations. Op is called by one goroutine at a
	// time, in order.
	Workload sut.Workload
	// MaxInFlight bounds the scheduled operations and follow-ups that are
	// executed at once; closed-loop users come on top.
	MaxInFlight int
	// Queue bounds how many due operations may wait for a free worker; one
	// more is dropped. Follow-ups that wait are taken before the others.
	Queue int
	// Timeout ends the context of an operation. Zero means never.
	Timeout time.Duration
	// Drain is how long, after the last due time or after a stop, follow-ups
	// may still become due and operations may still finish. What is then
	// being executed is cancelled and recorded as unknown.
	Drain time.Duration
	// StopDrain, if it is shorter than Drain, takes its place after a stop.
	// Zero means that Drain stays.
	StopDrain time.Duration
	// Grace is how long a cancelled operation may take to return before it is
	// abandoned and recorded as unknown without an end. Zero means 2 s.
	Grace time.Duration
}

const (
	defaultGrace = 2 * time.Second
	// lead is the time from the workers being ready to due time 0.
	lead = 10 * time.Millisecond
)

// Result is what the generator did. The operations themselves are in the
// history.
type Result struct {
	// Load counts all operations, follow-ups included. Run has checked that
	// Scheduled = Started + Dropped and Started = OK + Refused + Unknown.
	Load rundir.Load
	// FollowUps is how many of Load.Scheduled were follow-ups.
	FollowUps int64
	// Cut is how many operations of the schedule were never offered, because
	// the load was stopped before they were due; CutFollowUps is how many
	// follow-ups had not become due by the end of the drain.
	Cut, CutFollowUps int64
	// Abandoned is how many operations did not return even when cancelled.
	Abandoned int64
	// PacerLag is how long after its due time each operation was dispatched
	// or dropped, in nanoseconds: the generator's own lateness.
	PacerLag *hdrhistogram.Histogram `json:"-"`
	// Start is where due time 0 lay on the run's clock, LastDue the last due
	// time of the schedule that was offered, End when nothing was left.
	Start, LastDue, End time.Duration
	// Stopped is true when ctx ended the load before the schedule did.
	Stopped bool
	// FirstPanic is the first panic of Do, with its stack. The operation is
	// recorded as unknown.
	FirstPanic string
	// Generator is what this process used from Start to End.
	Generator rundir.Generator
}

// Run sends the plan's load through do and returns when every operation has
// been accounted for. Each worker records into a Recorder of its own from
// shard, which Run never calls concurrently; live may be nil.
//
// Cancelling ctx stops the load: nothing more is offered, what is being
// executed may finish for Plan.Drain, and Result says how many operations
// were cut. That is not an error. Errors are a bad plan, a panic of the
// workload or the recorder, and a broken accounting; the Result that comes
// with the latter two is partial.
//
// While it runs, GOMAXPROCS is one higher: the pacer keeps a processor of the
// Go scheduler occupied while it sleeps. Runs of one process must therefore
// come one after another.
func Run(ctx context.Context, plan Plan, do Do, shard func() Recorder, live *Live) (Result, error) {
	if err := plan.check(); err != nil {
		return Result{}, err
	}
	processors := runtime.GOMAXPROCS(0)
	runtime.GOMAXPROCS(processors + 1)
	defer runtime.GOMAXPROCS(processors)
	return run(ctx, plan, do, shard, live, newWaiter)
}

// check refuses a plan that cannot be carried out.
func (p *Plan) check() error {
	var problems []error
	bad := func(wrong bool, format string, args ...any) {
		if wrong {
			problems = append(problems, fmt.Errorf("load: "+format, args...))
		}
	}
	bad(p.Base.IsZero(), "the plan has no base time")
	bad(p.Workload == nil, "the plan has no workload")
	bad((p.Arrivals != nil) == (p.Users > 0), "the plan needs either arrivals or users")
	bad(p.Users < 0, "the number of users is negative: %d", p.Users)
	bad(p.Users > 0 && p.Duration <= 0, "%d users need a duration above 0s", p.Users)
	bad(p.MaxInFlight < 1, "max in flight must be 1 or more, got %d", p.MaxInFlight)
	bad(p.Queue < 0, "the queue must be 0 or more, got %d", p.Queue)
	for name, d := range map[string]time.Duration{
		"start": p.Start, "think time": p.Think, "timeout": p.Timeout,
		"drain": p.Drain, "stop drain": p.StopDrain, "grace": p.Grace,
	} {
		bad(d < 0, "the %s must be 0s or more, got %s", name, d)
	}
	return errors.Join(problems...)
}

// drained is when the drain ends. It is after lastDue, even if Drain is zero: what is due together
// with the last arrival is offered, whichever of several generators that arrival belongs to.
func (p *Plan) drained(lastDue time.Duration) time.Duration { return lastDue + max(p.Drain, 1) }
