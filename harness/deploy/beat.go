package deploy

import "sync"

// beat is told of each step of a role's work that succeeded.
type beat struct {
	mu   sync.Mutex
	next chan struct{} // closed by the next step
}

func newBeat() *beat { return &beat{next: make(chan struct{})} }

// tick says that a step has succeeded.
func (b *beat) tick() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.next)
	b.next = make(chan struct{})
}

// after returns what the next step closes.
func (b *beat) after() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.next
}
