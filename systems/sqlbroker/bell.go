package sqlbroker

import (
	"context"
	"slices"
	"sync"
	"time"
)

// bell tells those who wait that a queue may have got messages: as many of them as it
// takes to receive these, the longest waiting first, because each who is woken asks the
// store. A nil bell never rings: who waits at it polls.
type bell struct {
	mu      sync.Mutex
	waiting map[string][]*ear
}

func newBell() *bell { return &bell{waiting: map[string][]*ear{}} }

// ear is one who listens for a queue and would receive up to most messages.
type ear struct {
	bell  *bell
	queue string
	most  int
	rung  chan struct{} // closed when it is its turn
}

// listen hears what rings from now on. Whoever listens must call lower or pass in the
// end.
func (b *bell) listen(queue string, most int) *ear {
	e := &ear{bell: b, queue: queue, most: max(most, 1)}
	if b == nil {
		return e
	}
	e.rung = make(chan struct{})
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting[queue] = append(b.waiting[queue], e)
	return e
}

// ring wakes those who listen for a queue until they would receive n messages.
func (b *bell) ring(queue string, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for n > 0 && len(b.waiting[queue]) > 0 {
		e := b.waiting[queue][0]
		n -= e.most
		close(e.rung)
		b.remove(e)
	}
}

// ringAll wakes all who listen for any queue.
func (b *bell) ringAll() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, ears := range b.waiting {
		for _, e := range ears {
			close(e.rung)
		}
	}
	clear(b.waiting)
}

// remove says whether the ear was still waiting. The bell is locked.
func (b *bell) remove(e *ear) bool {
	ears := b.waiting[e.queue]
	i := slices.Index(ears, e)
	if i < 0 {
		return false
	}
	if b.waiting[e.queue] = slices.Delete(ears, i, i+1); len(ears) == 1 {
		delete(b.waiting, e.queue)
	}
	return true
}

// wait waits for the bell, but no longer than d.
func (e *ear) wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-e.rung:
	case <-timer.C:
	}
	return nil
}

// lower ends the listening of who looks now, whether it rang or not.
func (e *ear) lower() (rung bool) {
	if e.bell == nil {
		return false
	}
	e.bell.mu.Lock()
	defer e.bell.mu.Unlock()
	return !e.bell.remove(e)
}

// pass ends the listening of who will not look again. If it rang meanwhile, or had rung
// for a look in vain, others are told, who would receive as much: what was published may
// be there still.
func (e *ear) pass(inVain bool) {
	owed := 0
	if e.lower() {
		owed += e.most
	}
	if inVain {
		owed += e.most
	}
	if owed > 0 {
		e.bell.ring(e.queue, owed)
	}
}
