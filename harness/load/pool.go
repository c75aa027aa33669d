package load

import (
	"sync"
	"time"

	"stampede/harness/history"
	"stampede/harness/sut"
)

// job is one operation on its way to a worker.
type job struct {
	seq    uint64
	due    time.Duration // on the run's clock
	op     history.Op
	follow bool
	// again marks a second sending, from which nothing follows.
	again bool
}

// dropped is the record of an operation that found every worker busy and the queue full.
func (j *job) dropped() *history.Record {
	return &history.Record{Seq: j.seq, Op: j.op, Outcome: history.Dropped,
		Intended: j.due, Start: history.Never, End: history.Never}
}

// resend schedules the second sending of an operation, if it has one at that time. resender is nil
// if the workload sends nothing twice.
func resend(resender sut.Resender, j *job, when sut.Resending, at time.Duration, push func(*job)) {
	if resender == nil || j.again {
		return
	}
	if wanted, pause := resender.Resend(j.op); wanted == when {
		push(&job{due: at + max(0, pause), op: j.op, follow: true, again: true})
	}
}

// pool hands jobs to a fixed set of workers and keeps those that must wait.
//
// The worker that became free last gets the next job (its stack and its
// connection's buffers are still in the processor's cache), so a run that
// never needs all its workers wakes only a few of them, and only those take a
// shard of the history. Counting under one lock decides exactly whether there
// is room: a try-send to an unbuffered channel would drop jobs that a worker
// was just about to take.
type pool struct {
	// room is how many jobs may be executed or wait; it is the number of
	// workers and the length of the queue together.
	room int
	// emptied is called, without the lock, whenever nothing is executed and
	// nothing waits any more.
	emptied func()

	mu     sync.Mutex
	idle   []*worker // the last one was used last
	queue  lanes
	busy   int // jobs being executed by workers
	users  int // operations being executed by closed-loop users
	closed bool
}

// offer gives j to a worker or the queue; it reports false if both are full.
func (p *pool) offer(j *job) bool {
	p.mu.Lock()
	if n := len(p.idle); n > 0 {
		w := p.idle[n-1]
		p.idle = p.idle[:n-1]
		p.busy++
		w.next = *j
		p.mu.Unlock()
		w.wake <- struct{}{}
		return true
	}
	defer p.mu.Unlock()
	// A worker between two jobs is neither idle nor busy; it will find j.
	if p.busy+p.queue.size() >= p.room {
		return false
	}
	p.queue.push(j)
	return true
}

// take is called by an idle worker for its next job, in w.next. It reports
// false when the pool is closed.
func (p *pool) take(w *worker) bool {
	p.mu.Lock()
	if p.queue.size() > 0 {
		p.busy++
		p.queue.pop(&w.next)
		p.mu.Unlock()
		return true
	}
	if p.closed {
		p.mu.Unlock()
		return false
	}
	p.idle = append(p.idle, w)
	p.mu.Unlock()
	_, open := <-w.wake
	return open
}

// done ends a job that take or offer began.
func (p *pool) done() { p.add(-1, 0) }

// enter begins, and leave ends, an operation of a closed-loop user, who needs
// no worker.
func (p *pool) enter() { p.add(0, 1) }
func (p *pool) leave() { p.add(0, -1) }

func (p *pool) add(busy, users int) {
	p.mu.Lock()
	p.busy += busy
	p.users += users
	empty := p.emptyLocked()
	p.mu.Unlock()
	if empty {
		p.emptied()
	}
}

// underWay is how many operations are being executed.
func (p *pool) underWay() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.busy + p.users
}

// empty reports whether nothing is executed and nothing waits.
func (p *pool) empty() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.emptyLocked()
}

func (p *pool) emptyLocked() bool { return p.busy+p.users+p.queue.size() == 0 }

// close lets workers that find nothing to do return, and gives back the jobs
// that still wait. Nothing may be offered any more.
func (p *pool) close() []job {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	left := make([]job, p.queue.size())
	for i := range left {
		p.queue.pop(&left[i])
	}
	for _, w := range p.idle {
		close(w.wake)
	}
	p.idle = nil
	return left
}

// lanes is the queue: follow-ups go before operations that begin something
// new. A webhook comes from another sender than the crowd at the door and does
// not stand in line behind it; if it did, a system that is merely slow would
// look like one whose carts all expire unpaid.
type lanes struct{ follow, first ring }

func (l *lanes) size() int { return l.follow.size + l.first.size }

func (l *lanes) push(j *job) {
	if j.follow {
		l.follow.push(j)
		return
	}
	l.first.push(j)
}

func (l *lanes) pop(j *job) {
	if l.follow.size > 0 {
		l.follow.pop(j)
		return
	}
	l.first.pop(j)
}

// ring is a first-in first-out queue that grows as needed.
type ring struct {
	jobs []job // a power of two long
	head int
	size int
}

func (r *ring) push(j *job) {
	if r.size == len(r.jobs) {
		r.grow()
	}
	r.jobs[(r.head+r.size)&(len(r.jobs)-1)] = *j
	r.size++
}

func (r *ring) pop(j *job) {
	*j = r.jobs[r.head]
	r.jobs[r.head] = job{} // lets go of the operation's strings
	r.head = (r.head + 1) & (len(r.jobs) - 1)
	r.size--
}

func (r *ring) grow() {
	jobs := make([]job, max(64, 2*len(r.jobs)))
	n := copy(jobs, r.jobs[r.head:])
	copy(jobs[n:], r.jobs[:r.head])
	r.jobs, r.head = jobs, 0
}
