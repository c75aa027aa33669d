// Package shed refuses work that a server cannot do in time, before any of it is done.
//
// A server asks an Admission before it works on a request. The request begins at once, waits in
// a queue, or is refused with a reason. The policies differ in which requests they refuse:
//
//   - FIFO refuses none, the baseline;
//   - Depth refuses a class at a queue length of its own;
//   - CoDel refuses while requests wait too long, at a rate that it adapts;
//   - Controlled limits how long a request may wait, and begins with the newest one in overload;
//   - Buckets limits the rate of each class;
//   - Adaptive finds out how many requests the server can work on at a time.
//
// A class is a priority: class 0 is the most important one, a class beyond a policy's last one
// counts as that. Depth, Buckets and Adaptive tell classes apart: between two refusals of a
// class, if none of it or of a more important one was admitted, the less important ones admit
// at most their burst (Buckets) or none (Depth, Adaptive). A caller who left is neither admitted
// nor refused. FIFO, CoDel and Controlled treat all classes alike.
package shed

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"stampede/harness/sut"
)

// The reasons of a refusal. All wrap sut.ErrRefused: no work was done.
var (
	// ErrQueueFull means that as many requests as the class allows were waiting already.
	ErrQueueFull = sut.Refusal("queue_full", "too many requests wait")
	// ErrDelayed means that requests have been waiting too long, and CoDel chose this one.
	ErrDelayed = sut.Refusal("queue_delay", "requests wait too long")
	// ErrTimeout means that the request waited longer than Controlled lets it.
	ErrTimeout = sut.Refusal("queue_timeout", "the request waited too long")
	// ErrRate means that the bucket of the class is empty.
	ErrRate = sut.Refusal("rate_limited", "too many requests of this class")
	// ErrLeft means that the caller's context ended before the request could begin. The error
	// also wraps that of the context.
	ErrLeft = sut.Refusal("left_queue", "the caller stopped waiting")
)

// Admission decides which requests a server works on. It is safe for concurrent use.
type Admission interface {
	// Admit returns nil when the request may begin; Release must follow. Any error wraps
	// sut.ErrRefused. The request's deadline is that of the context.
	Admit(ctx context.Context, class int) error
	// Release ends an admitted request, which took as long as said from Admit's return. The
	// policy ignores a time of 0 or less.
	Release(took time.Duration)
	// Stats returns counts of requests from the start until now.
	Stats() Stats
}

// Stats counts requests. Offered = Admitted + Refused + Left + Waiting.
type Stats struct {
	// Offered requests were Admitted, Refused by the policy, or Left because their context
	// ended; the others are Waiting.
	Offered, Admitted, Refused, Left, Waiting int
	// Running requests were admitted and not released yet. Limit is how many may be.
	Running, Limit int
}

// Do admits a request, works on it and releases it with the time that the work took. It returns
// the error of Admit, and then work was not called, or that of work.
func Do(ctx context.Context, a Admission, class int, work func(context.Context) error) error {
	if err := a.Admit(ctx, class); err != nil {
		return err
	}
	began := time.Now()
	defer func() { a.Release(time.Since(began)) }()
	return work(ctx)
}

// Gate is an Admission: a limit of requests that run, a queue of those that wait, and a policy.
// It has no goroutine: callers wait in Admit, and Release chooses the next to begin. Memory is
// that of the longest queue.
type Gate struct {
	mu     sync.Mutex
	policy policy
	limit  int   // of running requests, at least 1
	depths []int // how many may wait when one of a class comes
	queue  queue
	stats  Stats
	watch  func(ctx context.Context, err error) // may be nil
}

// policy is what the gates differ in. The gate's lock is held whenever it is called.
type policy interface {
	// arrive refuses a request that has come, or returns nil.
	arrive(class int) error
	// patience is how long a request may wait that begins to now, 0 without limit.
	patience(g *Gate, now time.Time) time.Duration
	// next takes the request that is to begin off the queue, and refuses others. It returns
	// nil if the queue is empty.
	next(g *Gate, now time.Time) *waiter
	// observe learns from a request that ended.
	observe(g *Gate, took time.Duration)
}

// FIFO is the policy of no shedding: every request waits for its turn, and memory grows with
// the queue.
func FIFO(limit int) *Gate { return newGate(plain{}, limit, math.MaxInt) }

// Depth refuses a request if as many wait already as its class allows: depths has a queue
// length for each class. Each is less than the one before, or classes are not told apart.
func Depth(limit int, depths ...int) *Gate { return newGate(plain{}, limit, depths...) }

func newGate(p policy, limit int, depths ...int) *Gate {
	if len(depths) == 0 {
		panic("shed: a policy needs at least one class")
	}
	g := &Gate{policy: p, limit: max(limit, 1), depths: depths}
	g.queue.root.older, g.queue.root.newer = &g.queue.root, &g.queue.root
	return g
}

// Watch makes the gate call see for each decision, in the order of the decisions and with the
// gate's lock held: nil for a request that may begin or wait, and an error for one that is
// refused, at once or after it has waited. The context is the one that the request came with.
// Watch is called before the first Admit.
func (g *Gate) Watch(see func(ctx context.Context, err error)) { g.watch = see }

// note reports a decision to the watcher.
func (g *Gate) note(ctx context.Context, err error) {
	if g.watch != nil {
		g.watch(ctx, err)
	}
}

// Admit is that of Admission.
func (g *Gate) Admit(ctx context.Context, class int) error {
	g.mu.Lock()
	g.stats.Offered++
	if ctx.Err() != nil {
		g.stats.Left++
		err := left(ctx)
		g.note(ctx, err)
		g.mu.Unlock()
		return err
	}
	wait := g.stats.Running >= g.limit // else the queue is empty: see Release
	var err error
	if wait && g.queue.len >= *of(g.depths, class) {
		err = ErrQueueFull
	} else {
		err = g.policy.arrive(class)
	}
	g.note(ctx, err)
	if err != nil || !wait {
		g.count(err)
		g.mu.Unlock()
		return err
	}
	now := time.Now()
	patience := g.policy.patience(g, now)
	w := g.queue.push(ctx, now)
	g.mu.Unlock()
	return g.wait(ctx, w, patience)
}

// wait waits until the request is chosen or refused, unless it leaves the queue before.
func (g *Gate) wait(ctx context.Context, w *waiter, patience time.Duration) error {
	var over <-chan time.Time
	if patience > 0 {
		timer := time.NewTimer(patience)
		defer timer.Stop()
		over = timer.C
	}
	var err error
	select {
	case err = <-w.told:
		w.told <- err // received below
	case <-ctx.Done():
		err = left(ctx)
	case <-over:
		err = ErrTimeout
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if w.queued {
		g.queue.remove(w)
		g.count(err)
		g.note(ctx, err)
	} else { // it was chosen or refused, perhaps in the meantime
		err = <-w.told
	}
	g.queue.recycle(w)
	return err
}

// Release is that of Admission. It panics if no request is running.
func (g *Gate) Release(took time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.stats.Running == 0 {
		panic("shed: Release without Admit")
	}
	if took > 0 {
		g.policy.observe(g, took)
	}
	g.stats.Running--
	for g.stats.Running < g.limit && g.queue.len > 0 {
		if w := g.policy.next(g, time.Now()); w != nil {
			g.tell(w, nil)
		}
	}
}

// Stats is that of Admission.
func (g *Gate) Stats() Stats {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.stats
	s.Waiting, s.Limit = g.queue.len, g.limit
	return s
}

// tell gives a request that was taken off the queue its answer, nil if it may begin.
func (g *Gate) tell(w *waiter, err error) {
	g.count(err)
	if err != nil {
		g.note(w.ctx, err)
	}
	w.told <- err // it has room for the one answer
}

// take takes a waiter off the queue, the oldest or the newest. It answers
// waiters whose context has ended, and skips them. It returns nil if the queue is empty.
func (g *Gate) take(newest bool) *waiter {
	for g.queue.len > 0 {
		w := g.queue.root.newer
		if newest {
			w = g.queue.root.older
		}
		g.queue.remove(w)
		if w.ctx.Err() == nil {
			return w
		}
		g.tell(w, left(w.ctx))
	}
	return nil
}

// count counts an answer.
func (g *Gate) count(err error) {
	switch {
	case err == nil:
		g.stats.Admitted++
		g.stats.Running++
	case errors.Is(err, ErrLeft):
		g.stats.Left++
	default:
		g.stats.Refused++
	}
}

func left(ctx context.Context) error { return fmt.Errorf("%w: %w", ErrLeft, ctx.Err()) }

// of is what a class has; a class beyond the last one has that of the last.
func of[T any](all []T, class int) *T { return &all[min(max(class, 0), len(all)-1)] }
