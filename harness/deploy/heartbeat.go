package deploy

import "sync"

// heartbeat notes each step of a role's work that succeeded.
type heartbeat struct {
	mu   sync.Mutex
	next chan struct{} // closed by the next step
}

func newHeartbeat() *heartbeat { return &heartbeat{next: make(chan struct{})} }

// tick says that a step has succeeded.
func (b *heartbeat) tick() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.next)
	b.next = make(chan struct{})
}

// after returns what the next step closes.
func (b *heartbeat) after() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.next
}
