package scheduler

import (
	"context"
	"fmt"
	"sync"
	"time"

	"stampede/harness/sut"
)

// lookEvery is how often an instance looks for the starts that are waited for,
// with one question for all of them.
const lookEvery = 10 * time.Millisecond

// errClosed: nobody waits here any more.
var errClosed = fmt.Errorf("the scheduler is closed: %w", sut.ErrRefused)

// waitingRoom is where callers wait for tasks to start.
type waitingRoom struct {
	tasks *tasks

	mu      sync.Mutex
	waiting map[uint64][]chan answer
	looking bool
	// looks are the loops under way, which end when nobody waits.
	looks  sync.WaitGroup
	closed bool
}

// answer is how late a start was, or why it is not known.
type answer struct {
	late time.Duration
	err  error
}

func newWaitingRoom(t *tasks) *waitingRoom {
	return &waitingRoom{tasks: t, waiting: make(map[uint64][]chan answer)}
}

// await waits until the task has started, but not longer than the parameters say.
func (w *waitingRoom) await(ctx context.Context, id uint64) (time.Duration, error) {
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	told := make(chan answer, 1)
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return 0, errClosed
	}
	w.waiting[id] = append(w.waiting[id], told)
	if !w.looking {
		w.looking = true
		w.looks.Go(w.look)
	}
	w.mu.Unlock()
	patience := time.NewTimer(w.tasks.Params.AwaitFor.D())
	defer patience.Stop()
	select {
	case a := <-told:
		return a.late, a.err
	case <-patience.C:
		w.leave(id, told)
		return 0, ErrNotStarted
	case <-ctx.Done():
		w.leave(id, told)
		return 0, ctx.Err()
	}
}

// leave takes one who waits out of the room.
func (w *waitingRoom) leave(id uint64, told chan answer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := w.waiting[id]
	for i, c := range list {
		if c == told {
			list = append(list[:i:i], list[i+1:]...)
			break
		}
	}
	if w.waiting[id] = list; len(list) == 0 {
		delete(w.waiting, id)
	}
}

// look asks for all who wait until there is nobody.
func (w *waitingRoom) look() {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		w.mu.Lock()
		ids := make([]uint64, 0, len(w.waiting))
		for id := range w.waiting {
			ids = append(ids, id)
		}
		if len(ids) == 0 || w.closed {
			w.looking = false
			w.mu.Unlock()
			return
		}
		w.mu.Unlock()
		late, err := w.tasks.firstStarts(context.Background(), ids)
		w.tell(ids, late, err)
		<-tick.C
	}
}

// tell answers those whose task has started, and all if nobody knows.
func (w *waitingRoom) tell(ids []uint64, late map[uint64]time.Duration, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range ids {
		by, started := late[id]
		if !started && err == nil {
			continue
		}
		a := answer{by, err}
		if err == nil && by < 0 {
			a = answer{0, ErrState}
		}
		for _, told := range w.waiting[id] {
			told <- a
		}
		delete(w.waiting, id)
	}
}

// close sends everybody away and waits until nobody looks any more.
func (w *waitingRoom) close() {
	w.mu.Lock()
	w.closed = true
	for id, list := range w.waiting {
		for _, told := range list {
			told <- answer{0, errClosed}
		}
		delete(w.waiting, id)
	}
	w.mu.Unlock()
	w.looks.Wait()
}
