package load

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// opContext is the context of one operation. context.WithTimeout would cost
// five allocations and a timer for each; this one is used again by its worker
// until it is cancelled, which is when it is replaced. The standard library's
// own context is inside, so that contexts derived from it need no goroutine.
type opContext struct {
	context.Context
	cancel   context.CancelCauseFunc
	base     time.Time
	deadline atomic.Int64 // on the run's clock
}

// Deadline returns the operation's deadline.
func (c *opContext) Deadline() (time.Time, bool) {
	return c.base.Add(time.Duration(c.deadline.Load())), true
}

// Err tells a deadline from a cancellation.
func (c *opContext) Err() error {
	err := c.Context.Err()
	//nolint:errorlint // expire's very value: a run's failure may wrap another deadline
	if err != nil && context.Cause(c.Context) == context.DeadlineExceeded {
		return context.DeadlineExceeded
	}
	return err
}

// watch ends a worker's operations at their deadlines with one timer, which
// each operation pushes back, and lets the run give up a worker that does not
// return.
type watch struct {
	base    time.Time
	parent  context.Context
	timeout time.Duration

	mu        sync.Mutex
	ctx       *opContext
	timer     *time.Timer
	job       job // what is being executed
	start     time.Duration
	running   bool
	abandoned bool
}

// begin returns the context of a job that starts now.
func (w *watch) begin(j *job, start time.Duration) context.Context {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.job, w.start, w.running = *j, start, true
	if w.timeout == 0 {
		return w.parent
	}
	if w.ctx == nil || w.ctx.Context.Err() != nil {
		ctx, cancel := context.WithCancelCause(w.parent)
		w.ctx = &opContext{Context: ctx, cancel: cancel, base: w.base}
	}
	w.ctx.deadline.Store(int64(start + w.timeout))
	if w.timer == nil {
		w.timer = time.AfterFunc(w.timeout, w.expire)
	} else {
		w.timer.Reset(w.timeout)
	}
	return w.ctx
}

// expire is the timer's. A timer that fires between two operations, or just
// before it is pushed back, finds nothing that is due.
func (w *watch) expire() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running && int64(time.Since(w.base)) >= w.ctx.deadline.Load() {
		w.ctx.cancel(context.DeadlineExceeded)
	}
}

// end reports false if the operation was abandoned meanwhile, and is thus
// recorded already.
func (w *watch) end() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running = false
	return !w.abandoned
}

// abandon gives up the operation that is being executed, if any.
func (w *watch) abandon() (j job, start time.Duration, was bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.running {
		return job{}, 0, false
	}
	w.abandoned = true
	return w.job, w.start, true
}

// close releases the timer and the context.
func (w *watch) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timer != nil {
		w.timer.Stop()
	}
	if w.ctx != nil {
		w.ctx.cancel(context.Canceled)
	}
}
