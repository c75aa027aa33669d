package load

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"stampede/harness/history"
	"stampede/harness/sim"
	"stampede/harness/sut"
)

// Simulate is Run in the virtual time of s: the plan's schedule, bounds, time limits, follow-ups
// and second sendings, recorded as Run records them. The generator itself takes no time. Base is
// not used, and an operation is performed by do in a process of s, which sim.In finds.
//
// It returns when the last operation has ended, or the drain's deadline has passed: what is then
// under way is recorded as unknown without an end, and its process goes on. Cancelling ctx is an
// error, and so is a panic of the model.
func Simulate(
	ctx context.Context, plan Plan, s *sim.Sim, do Do, record Recorder, live *Live,
) (Result, error) {
	plan.Base = time.Unix(0, 0) // which must be there, and is not used
	if err := plan.check(); err != nil {
		return Result{}, err
	}
	if live == nil {
		live = new(Live)
	}
	v := &simulation{Sim: s, plan: plan, ctx: ctx, do: do, record: record, live: live,
		under: map[uint64]*execution{}}
	v.resender, _ = plan.Workload.(sut.Resender)
	return v.run()
}

// leastTurn is how long a user takes at least between two operations: what fails in no time at
// all must not stop the clock.
const leastTurn = 100 * time.Microsecond

// simulatedLook is how often Simulate looks whether the load is over.
const simulatedLook = 10 * time.Millisecond

// simulation is a load in virtual time.
type simulation struct {
	*sim.Sim
	plan     Plan
	ctx      context.Context
	do       Do
	record   Recorder
	live     *Live
	resender sut.Resender

	waiting   lanes
	busy      int   // operations of the schedule and follow-ups that are executed
	users     int   // that are still active
	later     int64 // follow-ups that are not yet due
	seq       uint64
	turns     uint64
	scheduled bool // the whole schedule was dispatched
	over      bool // nothing is dispatched any more
	lastDue   time.Duration
	deadline  time.Duration // of the drain, once the whole schedule was dispatched
	end       time.Duration // of the last operation
	under     map[uint64]*execution
}

// execution is an operation under way.
type execution struct {
	job
	start time.Duration
}

func (v *simulation) run() (Result, error) {
	v.live.enter(Loading)
	start := v.plan.Start
	v.lastDue = start
	if v.plan.Users > 0 {
		v.lastDue = start + v.plan.Duration
		v.users = v.plan.Users
		v.offered()
		for range v.plan.Users {
			v.At(start, func() { v.Go(v.user) })
		}
	} else {
		v.arrive(0)
	}
	for !v.finished() && !v.over {
		if err := v.Run(v.ctx, v.Now()+simulatedLook); err != nil {
			return Result{}, fmt.Errorf("simulating the load: %w", err)
		}
	}
	v.live.enter(Over)
	result := Result{Load: v.live.load(), FollowUps: v.live.followed.Load(),
		CutFollowUps: v.later, Start: start, LastDue: v.lastDue, End: v.end}
	return result, checkAccounts(result.Load, v.seq)
}

// finished says whether nothing is under way and nothing can become due.
func (v *simulation) finished() bool {
	return v.scheduled && v.users == 0 && v.busy == 0 && v.later == 0
}

// arrive plans the i-th operation of the schedule, which plans the next one.
func (v *simulation) arrive(i uint64) {
	due, more := v.plan.Arrivals.Next()
	if !more {
		v.lastDue = lastDue(v.plan.Arrivals, v.plan.Start, v.lastDue)
		v.offered()
		return
	}
	at := v.plan.Start + due
	v.At(at, func() {
		v.lastDue = at
		v.dispatch(&job{due: at, op: v.plan.Workload.Op(i)})
		v.arrive(i + 1)
	})
}

// offered begins the drain: the whole schedule was dispatched.
func (v *simulation) offered() {
	v.scheduled, v.deadline = true, v.plan.drained(v.lastDue)
	v.live.enter(Draining)
	v.At(v.deadline, v.giveUp)
}

// dispatch gives an operation a worker or a place in the queue, or drops it.
func (v *simulation) dispatch(j *job) {
	j.seq = v.number()
	switch {
	case v.busy < v.plan.MaxInFlight:
		v.begin(j)
	case v.waiting.size() < v.plan.Queue:
		v.waiting.push(j)
	default:
		v.drop(j)
	}
}

func (v *simulation) number() uint64 {
	v.seq++
	v.live.scheduled.Add(1)
	return v.seq - 1
}

func (v *simulation) drop(j *job) {
	v.live.dropped.Add(1)
	v.record.Append(j.dropped())
}

// begin lets a worker execute an operation and then those that wait.
func (v *simulation) begin(j *job) {
	v.busy++
	next := *j
	v.Go(func(p *sim.Process) {
		for {
			v.execute(p, &next)
			if v.waiting.size() == 0 || v.over {
				break
			}
			v.waiting.pop(&next)
		}
		v.busy--
	})
}

// user performs one operation after another until the end of the load.
func (v *simulation) user(p *sim.Process) {
	end := v.plan.Start + v.plan.Duration
	for v.Now() < end {
		j := job{op: v.plan.Workload.Op(v.turns), due: v.Now(), seq: v.number()}
		v.turns++
		v.execute(p, &j)
		p.Do(v.Delay(max(min(v.plan.Think, end-v.Now()), leastTurn)))
	}
	v.users--
}

// execute performs and records one operation.
func (v *simulation) execute(p *sim.Process, j *job) {
	e := &execution{job: *j, start: v.Now()}
	v.under[j.seq] = e
	v.live.started.Add(1)
	resend(v.resender, j, sut.Together, e.start, v.follow)
	var reply history.Reply
	prevented, err := p.Operation(v.plan.Timeout, func() (err error) {
		reply, err = v.do(p.Context(v.ctx), j.op)
		return err
	})
	if prevented {
		err = fmt.Errorf("%w: %w", sut.ErrRefused, err)
	}
	if v.under[j.seq] == nil {
		return // it was given up
	}
	delete(v.under, j.seq)
	outcome := sut.Outcome(err)
	if outcome != history.OK {
		reply = history.Reply{}
	}
	v.end = v.Now()
	v.record.Append(&history.Record{Seq: j.seq, Op: j.op, Reply: reply, Outcome: outcome,
		Err: simulatedError(err), Code: sut.Code(err), Intended: j.due, Start: e.start, End: v.end})
	v.live.finished(outcome, v.end-j.due)
	if !j.again {
		for _, up := range v.plan.Workload.Follow(j.op, outcome, reply) {
			v.follow(&job{due: v.end + max(0, up.After), op: up.Op, follow: true})
		}
	}
	if outcome == history.OK {
		resend(v.resender, j, sut.Later, v.end, v.follow)
	}
}

// simulatedError is the record's error: what took too long in virtual time is a timeout.
func simulatedError(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, sim.ErrDeadline) && !errors.Is(err, sut.ErrRefused):
		return cut("timeout: "+err.Error(), maxErr)
	}
	return cut(err.Error(), maxErr)
}

// follow plans an operation that another one brings about.
func (v *simulation) follow(j *job) {
	v.later++
	v.At(j.due, func() {
		if v.over || v.scheduled && v.Now() >= v.deadline {
			return
		}
		v.later--
		v.live.followed.Add(1)
		v.dispatch(j)
	})
}

// giveUp ends the load at its deadline: what waits was never started, and what is under way has
// no known end.
func (v *simulation) giveUp() {
	v.over = true
	for v.waiting.size() > 0 {
		var j job
		v.waiting.pop(&j)
		v.drop(&j)
	}
	for _, seq := range slices.Sorted(maps.Keys(v.under)) {
		e := v.under[seq]
		v.record.Append(&history.Record{Seq: e.seq, Op: e.op, Outcome: history.Unknown,
			Err:      "cancelled: it was under way when the drain's time was over",
			Intended: e.due, Start: e.start, End: history.Never})
		v.live.unknown.Add(1)
		v.end = v.Now()
	}
	clear(v.under)
}
