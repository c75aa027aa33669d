package load

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"stampede/harness/history"
	"stampede/harness/rundir"
	"stampede/harness/sut"
)

// runner is one run: what pacer, workers and users share.
type runner struct {
	plan  Plan
	do    Do
	live  *Live
	pool  *pool
	later *followUps
	// resender is the workload if it sends operations twice, or nil.
	resender sut.Resender
	// ops is cancelled to end all operations, running to end the load.
	ops     context.Context
	running context.Context
	stop    context.CancelCauseFunc // of running
	waiter  waiter
	pacer   atomic.Pointer[pacer] // nil until the load begins
	// dispatched is the next Seq.
	dispatched atomic.Uint64
	// sleepsUntil is when the pacer wakes up by itself.
	sleepsUntil atomic.Int64
	// ending is set when the end of the last operation ends the load.
	ending atomic.Bool
	users  atomic.Int64   // still active
	alive  sync.WaitGroup // workers and users
	start  time.Duration

	mu         sync.Mutex // guards what follows
	shards     func() Recorder
	turns      uint64 // operations that users took
	firstPanic string
}

// errStopped is the cause of running's end when the caller ended it.
var errStopped = errors.New("stopped")

// run is Run with the pacer's way of sleeping as a parameter.
func run(ctx context.Context, plan Plan, do Do, shard func() Recorder, live *Live,
	newWaiter func(func() time.Duration) waiter,
) (Result, error) {
	if live == nil {
		live = new(Live)
	}
	if plan.Grace == 0 {
		plan.Grace = defaultGrace
	}
	ops, cancelOps := context.WithCancel(context.WithoutCancel(ctx))
	defer cancelOps()
	running, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	r := &runner{
		plan: plan, do: do, live: live, later: newFollowUps(), shards: shard,
		ops: ops, running: running, stop: stop,
	}
	r.resender, _ = plan.Workload.(sut.Resender)
	r.pool = &pool{room: plan.MaxInFlight + plan.Queue, emptied: r.emptied}
	r.waiter = newWaiter(r.now)
	if ctx.Err() != nil {
		stop(errStopped) // at once, where AfterFunc takes its time
	}
	defer context.AfterFunc(ctx, func() { stop(errStopped) })()
	defer context.AfterFunc(running, r.waiter.wake)()
	return r.whole(cancelOps)
}

// whole is the run from the first goroutine to the last.
func (r *runner) whole(cancelOps func()) (Result, error) {
	workers := make([]*worker, r.plan.MaxInFlight, r.plan.MaxInFlight+r.plan.Users)
	for i := range workers {
		workers[i] = newWorker(r)
		r.alive.Go(workers[i].serve)
	}
	r.begin()
	meter := startMeter()
	workers = append(workers, r.startUsers()...)
	p := newPacer(r)
	r.pacer.Store(p)
	p.run()

	r.live.enter(Draining)
	abandoned := r.settle(workers, p, cancelOps)
	if abandoned == 0 {
		r.alive.Wait()
	}
	r.live.enter(Over)
	result := r.result(p, abandoned)
	result.Generator = meter.stop()
	p.describeLag(&result.Generator)
	return result, r.verify(result)
}

// begin fixes where due time 0 lies.
func (r *runner) begin() {
	r.start = r.plan.Start
	if r.start == 0 {
		r.start = r.now() + lead
	}
	r.live.begun.Store(&moment{r.plan.Base, r.start})
	r.live.enter(Loading)
}

// now is the run's clock.
func (r *runner) now() time.Duration { return time.Since(r.plan.Base) }

// newShard is called by each worker for its first record.
func (r *runner) newShard() Recorder {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.shards()
}

// notePanic keeps the first panic of the system under test.
func (r *runner) notePanic(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.firstPanic == "" {
		r.firstPanic = text
	}
}

// guard, deferred, turns a panic in what a goroutine was doing into the end
// of the run, so that the caller can clean up what it has started.
func (r *runner) guard(doing string) {
	if value := recover(); value != nil {
		r.stop(fmt.Errorf("load: panic while %s: %v\n%s", doing, value, debug.Stack()))
	}
}

// follow schedules the follow-ups of an operation that ended at end, and
// wakes the pacer if one is due before it would wake up by itself. The push
// comes before the look at sleepsUntil; see pacer.sleep.
func (r *runner) follow(ups []sut.FollowUp, end time.Duration) {
	for _, up := range ups {
		r.push(&job{due: end + max(0, up.After), op: up.Op, follow: true})
	}
}

func (r *runner) push(j *job) {
	r.later.push(j)
	if int64(j.due) < r.sleepsUntil.Load() {
		r.waiter.wake()
	}
}

// emptied is told whenever nothing is being executed any more.
func (r *runner) emptied() {
	if r.ending.Load() {
		r.waiter.wake()
	}
}

// startUsers starts the closed-loop users.
func (r *runner) startUsers() []*worker {
	r.users.Store(int64(r.plan.Users))
	users := make([]*worker, r.plan.Users)
	for i := range users {
		users[i] = newWorker(r)
		r.alive.Go(func() {
			users[i].user()
			r.users.Add(-1)
			r.emptied()
		})
	}
	return users
}

// takeTurn is a user's next operation, due now. The lock keeps the workload's
// Op to one goroutine at a time.
func (r *runner) takeTurn(j *job) {
	r.mu.Lock()
	defer r.mu.Unlock()
	*j = job{op: r.plan.Workload.Op(r.turns), due: r.now()}
	r.turns++
	j.seq = r.dispatched.Add(1) - 1
	r.live.scheduled.Add(1)
}

// settle waits for what is being executed: until the pacer's deadline, then
// cancelled for the plan's grace, then no longer. What still waits for a
// worker at the deadline was never started and is dropped. It returns how many
// operations were given up.
func (r *runner) settle(workers []*worker, p *pacer, cancelOps func()) int64 {
	inTime := r.waitEmpty(p.deadline - r.now())
	left := r.pool.close()
	for i := range left {
		p.drop(&left[i])
	}
	if inTime {
		return 0
	}
	cancelOps()
	if r.waitEmpty(r.plan.Grace) {
		return 0
	}
	abandoned := int64(0)
	for i, w := range workers {
		if j, start, was := w.watch.abandon(); was {
			abandoned++
			r.giveUp(p, &j, start, i >= r.plan.MaxInFlight)
		}
	}
	// Whoever was not abandoned is recording, which cannot block for long.
	r.waitEmpty(r.plan.Grace)
	return abandoned
}

// waitEmpty reports whether nothing is being executed within d. It is not on
// the path of any measurement, so looking now and then is good enough.
func (r *runner) waitEmpty(d time.Duration) bool {
	const look = time.Millisecond
	for end := r.now() + d; !r.pool.empty(); time.Sleep(look) {
		if r.now() >= end {
			return false
		}
	}
	return true
}

// giveUp records an operation that does not return, on behalf of its worker.
func (r *runner) giveUp(p *pacer, j *job, start time.Duration, user bool) {
	p.record(&history.Record{
		Seq: j.seq, Op: j.op, Outcome: history.Unknown,
		Err:      "abandoned: did not return when cancelled",
		Intended: j.due, Start: start, End: history.Never,
	})
	r.live.unknown.Add(1)
	if user {
		r.pool.leave()
	} else {
		r.pool.done()
	}
}

func (r *runner) result(p *pacer, abandoned int64) Result {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Result{
		Load: r.live.load(), FollowUps: r.live.followed.Load(),
		Cut: p.cut(), CutFollowUps: int64(r.later.size()), Abandoned: abandoned,
		PacerLag: p.lag, Start: r.start, LastDue: p.lastDue, End: r.now(),
		Stopped: errors.Is(context.Cause(r.running), errStopped), FirstPanic: r.firstPanic,
	}
}

// verify is the accounting. Each number was counted where it happened, so
// that an operation which got lost in between shows.
func (r *runner) verify(result Result) error {
	if cause := context.Cause(r.running); cause != nil && !errors.Is(cause, errStopped) {
		return cause
	}
	return checkAccounts(result.Load, r.dispatched.Load())
}

func checkAccounts(n rundir.Load, dispatched uint64) error {
	switch {
	case n.Scheduled != int64(dispatched):
		return fmt.Errorf("load: %d operations were numbered but %d scheduled",
			dispatched, n.Scheduled)
	case n.Scheduled != n.Started+n.Dropped:
		return fmt.Errorf("load: %d operations were scheduled but %d started and %d dropped",
			n.Scheduled, n.Started, n.Dropped)
	case n.Started != n.OK+n.Refused+n.Unknown:
		return fmt.Errorf("load: %d operations were started but %d ok, %d refused and %d unknown",
			n.Started, n.OK, n.Refused, n.Unknown)
	}
	return nil
}
