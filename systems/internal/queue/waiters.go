package queue

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"stampede/harness/sut"
)

// Waiters are those of one process that wait for work in some queue. When a queue may have got
// some, as many of them are woken as it takes to do it, the longest waiting first, because each
// of them asks the store. Nil Waiters are never woken: they poll.
type Waiters struct {
	mu      sync.Mutex
	waiting map[string][]*Waiter
}

// NewWaiters are nobody yet.
func NewWaiters() *Waiters { return &Waiters{waiting: map[string][]*Waiter{}} }

// Waiter is one of them, who would take up to so many at once.
type Waiter struct {
	all   *Waiters
	queue string
	most  int
	woken chan struct{} // closed when it is its turn
}

// Join adds a waiter, to be woken from now on. Whoever joins must Leave or Pass in the end.
func (w *Waiters) Join(queue string, most int) *Waiter {
	one := &Waiter{all: w, queue: queue, most: max(most, 1)}
	if w == nil {
		return one
	}
	one.woken = make(chan struct{})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting[queue] = append(w.waiting[queue], one)
	return one
}

// Wake wakes those who wait for a queue until they would take n.
func (w *Waiters) Wake(queue string, n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	list, woken := w.waiting[queue], 0
	for ; n > 0 && woken < len(list); woken++ {
		n -= list[woken].most
		close(list[woken].woken)
	}
	if w.waiting[queue] = slices.Delete(list, 0, woken); woken == len(list) {
		delete(w.waiting, queue)
	}
}

// WakeAll wakes all, whatever they wait for.
func (w *Waiters) WakeAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, list := range w.waiting {
		for _, one := range list {
			close(one.woken)
		}
	}
	clear(w.waiting)
}

// Waiting counts those who wait for a queue.
func (w *Waiters) Waiting(queue string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.waiting[queue])
}

// Queues are those that somebody waits for.
func (w *Waiters) Queues() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Keys(w.waiting))
}

// remove says whether one was still waiting. The lock is held.
func (w *Waiters) remove(one *Waiter) bool {
	list := w.waiting[one.queue]
	i := slices.Index(list, one)
	if i < 0 {
		return false
	}
	if w.waiting[one.queue] = slices.Delete(list, i, i+1); len(list) == 1 {
		delete(w.waiting, one.queue)
	}
	return true
}

// Wait waits until it is woken, but no longer than d.
func (o *Waiter) Wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-o.woken:
	case <-timer.C:
	}
	return nil
}

// Leave ends the waiting of one who looks now, and says whether it was woken.
func (o *Waiter) Leave() (woken bool) {
	if o.all == nil {
		return false
	}
	o.all.mu.Lock()
	defer o.all.mu.Unlock()
	return !o.all.remove(o)
}

// Pass ends the waiting of one who will not look again. If it was woken meanwhile, or had been
// for a look in vain, others are woken, who would take as much: the work may be there still.
func (o *Waiter) Pass(inVain bool) {
	owed := 0
	if o.Leave() {
		owed += o.most
	}
	if inVain {
		owed += o.most
	}
	if owed > 0 {
		o.all.Wake(o.queue, owed)
	}
}

// Await takes until there is something, or nobody would wait any longer. In between it waits to
// be woken, and for no longer than every. Where ctx ends its wait, nothing was done.
func Await[T any](
	ctx context.Context, w *Waiters, queue string, most int, wait, every time.Duration,
	take func() ([]T, error),
) ([]T, error) {
	until := time.Now().Add(wait)
	told := false // of what the next look should find
	for {
		one := w.Join(queue, most)
		got, err := take()
		left := time.Until(until)
		if err != nil || len(got) > 0 || left <= 0 {
			one.Pass(told && err != nil)
			return got, err
		}
		if err := one.Wait(ctx, min(left, every)); err != nil {
			one.Pass(false)
			return nil, fmt.Errorf("waiting: %w: %w", sut.ErrRefused, err)
		}
		told = one.Leave()
	}
}
