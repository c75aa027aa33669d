package sqlbroker

import (
	"context"
	"sync"
	"time"
)

// bell tells those who wait that a queue may have got messages. A nil bell never
// rings: who waits at it polls.
type bell struct {
	mu      sync.Mutex
	waiting map[string]chan struct{}
}

func newBell() *bell { return &bell{waiting: map[string]chan struct{}{}} }

// ear is one who listens.
type ear <-chan struct{}

// listen hears what rings from now on.
func (b *bell) listen(queue string) ear {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waiting[queue] == nil {
		b.waiting[queue] = make(chan struct{})
	}
	return b.waiting[queue]
}

// ring wakes all who listen for a queue, "" for any.
func (b *bell) ring(queue string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, wake := range b.waiting {
		if queue == "" || queue == name {
			close(wake)
			delete(b.waiting, name)
		}
	}
}

// wait waits for the bell, but no longer than d.
func (e ear) wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-e:
	case <-timer.C:
	}
	return nil
}
