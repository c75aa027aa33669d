package load

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"stampede/harness/history"
	"stampede/harness/rundir"
)

// The range of the pacer's lag: what is out of it is clamped.
const (
	lagLowest  = 1000 // ns
	lagHighest = int64(time.Hour)
	lagDigits  = 3
)

// pacer dispatches operations when they are due: those of the schedule and
// the follow-ups, merged. Its own goroutine does so when it wakes up. When all
// processors are busy it wakes up late, because Go gives a goroutine that
// comes back from the kernel none until one is free; then a worker that has
// just ended an operation does it in its place (help).
type pacer struct {
	r *runner
	// scheduled is when the schedule's next operation is due, never if there
	// is none: workers look at it without the lock.
	scheduled atomic.Int64

	mu    sync.Mutex // guards what follows while the pacer runs
	over  bool       // nothing may be dispatched any more
	shard Recorder   // for operations that no worker records; nil until needed

	next  job  // the schedule's next operation, made before it is due
	more  bool // whether there is one
	index uint64

	lag     *hdrhistogram.Histogram
	lastDue time.Duration
	noYield time.Duration // when yielding may be tried again
	// deadline is when draining ends; never while the schedule lasts.
	deadline time.Duration
	many     int // how many operations under way are a crowd
}

func newPacer(r *runner) *pacer {
	p := &pacer{
		r: r, deadline: never, lastDue: r.start, many: crowd * runtime.GOMAXPROCS(0),
		lag: hdrhistogram.New(lagLowest, lagHighest, lagDigits),
	}
	p.scheduled.Store(int64(never))
	if r.plan.Users > 0 {
		p.lastDue = r.start + r.plan.Duration
	}
	return p
}

// run paces until there is nothing more to dispatch. Afterwards deadline is
// when what is still being executed must have finished.
func (p *pacer) run() {
	p.pace()
	if p.r.running.Err() == nil {
		return
	}
	drain := p.r.plan.Drain
	if shorter := p.r.plan.StopDrain; shorter > 0 {
		drain = min(drain, shorter)
	}
	p.deadline = min(p.deadline, p.r.now()+drain)
}

func (p *pacer) pace() {
	r := p.r
	defer r.guard("making or dispatching an operation")
	p.mu.Lock()
	defer p.mu.Unlock()
	defer func() { p.over = true }()
	p.advance()
	for r.running.Err() == nil {
		ticket := r.waiter.ticket()
		if p.dispatchDue() {
			p.yield()
		}
		if !p.more && p.deadline == never {
			p.deadline = r.plan.drained(p.lastDue)
			r.ending.Store(true)
			if r.plan.Users == 0 {
				r.live.enter(Draining)
			}
		}
		if p.finished() {
			return
		}
		p.sleep(ticket)
	}
}

// help dispatches what is due and has not been, on a worker's time. It does
// nothing while somebody else is at it.
func (p *pacer) help() {
	now := p.r.now()
	if int64(now) < p.scheduled.Load() && now < p.r.later.earliest() || !p.mu.TryLock() {
		return
	}
	defer p.mu.Unlock()
	if !p.over {
		p.dispatchDue()
	}
}

// yield lets a worker that was just given an operation begin it on this very
// thread, while the pacer would only sleep. Otherwise another thread has to be
// woken to take the worker over, which costs more than most of what the
// operation does before it waits for its answer. When all processors are busy
// the pacer may come back late; it then does not yield for a hundred times as
// long, so that 99 % of the time it cannot be late on that account.
func (p *pacer) yield() {
	const prompt = 50 * time.Microsecond
	before := p.r.now()
	if before < p.noYield {
		return
	}
	p.mu.Unlock()
	runtime.Gosched()
	p.mu.Lock()
	after := p.r.now()
	if took := after - before; took > prompt {
		p.noYield = after + 100*took
	}
}

// coarse is how long the pacer at least sleeps while many operations are under way: a
// wake-up for each takes a processor from the server or a worker, about 8 µs of 28 that an
// operation over HTTP costs at 26,000 a second on two cores. What is due meanwhile, the worker
// whose operation ends next dispatches (help), so that few are late by that much, which is
// half of the least lag that spoils a time. With fewer under way than crowd to a processor,
// nothing is late.
const (
	coarse = 500 * time.Microsecond
	crowd  = 4
)

// sleep waits for the next due time. Whoever schedules a follow-up pushes it
// first and then looks at sleepsUntil, and this does the reverse, so that one
// of the two always sees the other.
func (p *pacer) sleep(ticket uint32) {
	r := p.r
	r.sleepsUntil.Store(int64(never))
	until := p.due()
	if r.pool.underWay() >= p.many {
		until = max(until, r.now()+coarse)
	}
	until = min(until, p.deadline)
	r.sleepsUntil.Store(int64(until))
	p.mu.Unlock()
	r.waiter.wait(ticket, until)
	p.mu.Lock()
	r.sleepsUntil.Store(0)
}

// due is when the next operation is due, or never.
func (p *pacer) due() time.Duration {
	follow := p.r.later.earliest()
	if p.more {
		return min(p.next.due, follow)
	}
	return follow
}

// finished reports whether nothing can become due any more, or not in time.
// What is being executed may yet ask for follow-ups, so that comes first.
func (p *pacer) finished() bool {
	r := p.r
	if p.more {
		return false
	}
	return r.now() >= p.deadline ||
		r.users.Load() == 0 && r.pool.empty() && r.later.earliest() == never
}

// dispatchDue dispatches all operations that are due and says whether there was any.
func (p *pacer) dispatchDue() (some bool) {
	for ; p.r.running.Err() == nil; some = true {
		due, now := p.due(), p.r.now()
		if due > now || now >= p.deadline {
			return some
		}
		// The value is clamped into the range, so this cannot fail.
		_ = p.lag.RecordValue(min(int64(now-due), lagHighest))
		if p.more && p.next.due == due {
			p.lastDue = due
			p.dispatch(&p.next)
			p.advance()
		} else {
			p.r.live.followed.Add(1)
			p.dispatch(p.r.later.pop())
		}
	}
	return some
}

func (p *pacer) dispatch(j *job) {
	j.seq = p.r.dispatched.Add(1) - 1
	p.r.live.scheduled.Add(1)
	if !p.r.pool.offer(j) {
		p.drop(j)
	}
}

// advance makes the schedule's next operation, so that it is ready when due.
func (p *pacer) advance() {
	if p.r.plan.Arrivals == nil {
		return
	}
	due, ok := p.r.plan.Arrivals.Next()
	p.more = ok
	p.scheduled.Store(int64(never))
	if ok {
		p.scheduled.Store(int64(p.r.start + due))
		p.next = job{due: p.r.start + due, op: p.r.plan.Workload.Op(p.index)}
		p.index++
		return
	}
	p.lastDue = lastDue(p.r.plan.Arrivals, p.r.start, p.lastDue)
}

// describeLag tells how late operations were dispatched.
func (p *pacer) describeLag(g *rundir.Generator) {
	g.LagP50NS = p.lag.ValueAtPercentile(50)
	g.LagP90NS = p.lag.ValueAtPercentile(90)
	g.LagP99NS = p.lag.ValueAtPercentile(99)
}

// drop records an operation that found every worker busy and the queue full.
func (p *pacer) drop(j *job) {
	p.r.live.dropped.Add(1)
	p.record(j.dropped())
}

func (p *pacer) record(rec *history.Record) {
	if p.shard == nil {
		p.shard = p.r.newShard()
	}
	p.shard.Append(rec)
}

// cut counts what is left of the schedule.
func (p *pacer) cut() int64 {
	if !p.more {
		return 0
	}
	n := int64(1)
	for _, more := p.r.plan.Arrivals.Next(); more; _, more = p.r.plan.Arrivals.Next() {
		n++
	}
	return n
}
