package scheduler

import (
	"context"
	"fmt"
	"maps"
	"math"
	"sync"
	"time"

	"stampede/harness/sut"
	"stampede/systems/internal/queue"
)

// lookEvery is how often an instance looks for the starts that are waited for,
// with one question for all of them.
const lookEvery = 10 * time.Millisecond

// errClosed: nobody waits here any more.
var errClosed = fmt.Errorf("the scheduler is closed: %w", sut.ErrRefused)

// instance is what users call. Callers who wait for tasks to start are waiters for the task.
type instance struct {
	*tasks
	waiters *queue.Waiters
	end     context.CancelFunc
	looks   sync.WaitGroup

	mu sync.Mutex
	// late is how late the starts were that somebody has waited for, and failed why the last
	// look does not say.
	late   map[uint64]time.Duration
	failed error
}

var _ Scheduler = (*instance)(nil)

func newInstance(t *tasks) *instance {
	ctx, end := context.WithCancel(context.Background())
	i := &instance{tasks: t, waiters: queue.NewWaiters(), end: end, late: map[uint64]time.Duration{}}
	i.looks.Go(func() {
		for sut.Pause(ctx, lookEvery) {
			i.look(ctx)
		}
	})
	return i
}

// look asks for all who wait, and wakes those whose task has started, or all if nobody knows.
func (i *instance) look(ctx context.Context) {
	var ids []uint64
	for _, name := range i.waiters.Queues() {
		id, _ := taskOf(name) // it was waited for
		ids = append(ids, id)
	}
	var late map[uint64]time.Duration
	var err error
	if len(ids) > 0 {
		late, err = i.firstStarts(ctx, ids)
	}
	i.mu.Lock()
	maps.Copy(i.late, late)
	i.failed = err
	i.mu.Unlock()
	if err != nil {
		i.waiters.WakeAll()
	}
	for id := range late {
		i.waiters.Wake(taskName(id), math.MaxInt)
	}
}

// Await waits until the task has started, but not longer than the parameters say.
func (i *instance) Await(ctx context.Context, id uint64) (time.Duration, error) {
	most := i.Params.AwaitFor.D()
	got, err := queue.Await(ctx, i.waiters, taskName(id), 1, most, most, func() (
		[]time.Duration, error,
	) {
		i.mu.Lock()
		defer i.mu.Unlock()
		if late, known := i.late[id]; known {
			return []time.Duration{late}, nil
		}
		return nil, i.failed
	})
	switch {
	case ctx.Err() != nil:
		return 0, ctx.Err()
	case err != nil:
		return 0, err
	case len(got) == 0:
		return 0, ErrNotStarted
	case got[0] < 0:
		return 0, ErrState
	}
	return got[0], nil
}

// Close sends everybody away who waits.
func (i *instance) Close() error {
	i.end()
	i.looks.Wait()
	i.mu.Lock()
	i.failed = errClosed
	i.mu.Unlock()
	i.waiters.WakeAll()
	return nil
}
