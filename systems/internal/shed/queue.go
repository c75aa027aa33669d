package shed

import (
	"context"
	"time"
)

// queue is a ring of waiters: root.newer is the oldest and root.older the newest one. It keeps
// those that have left for later requests, so that waiting allocates only at a new length.
type queue struct {
	root   waiter
	unused *waiter
	len    int
}

// waiter is a request that waits. Its caller receives one answer from told, unless it withdraws.
type waiter struct {
	ctx          context.Context
	since        time.Time
	told         chan error
	queued       bool
	older, newer *waiter
}

func (q *queue) push(ctx context.Context, now time.Time) *waiter {
	w := q.unused
	if w == nil {
		w = &waiter{told: make(chan error, 1)}
	} else {
		q.unused = w.newer
	}
	w.ctx, w.since, w.queued, w.older, w.newer = ctx, now, true, q.root.older, &q.root
	w.older.newer, q.root.older = w, w
	q.len++
	return w
}

func (q *queue) remove(w *waiter) {
	w.older.newer, w.newer.older = w.newer, w.older
	w.queued = false
	q.len--
}

// recycle keeps a waiter that was removed and whose answer was received.
func (q *queue) recycle(w *waiter) {
	w.ctx, w.older, w.newer = nil, nil, q.unused
	q.unused = w
}
