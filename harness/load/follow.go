package load

import (
	"container/heap"
	"sync"
	"sync/atomic"
	"time"
)

// never is later than any due time.
const never = time.Duration(1<<63 - 1)

// followUps holds the follow-ups that are not yet due, the earliest first.
type followUps struct {
	mu   sync.Mutex
	heap jobHeap
	// first is the due time of the earliest, or never: the pacer looks at it
	// before every operation without taking the lock.
	first atomic.Int64
}

func newFollowUps() *followUps {
	f := &followUps{}
	f.first.Store(int64(never))
	return f
}

// earliest is the due time of the earliest follow-up, or never.
func (f *followUps) earliest() time.Duration { return time.Duration(f.first.Load()) }

func (f *followUps) push(j *job) {
	f.mu.Lock()
	defer f.mu.Unlock()
	heap.Push(&f.heap, j)
	f.first.Store(int64(f.heap[0].due))
}

// pop takes the earliest follow-up; there must be one.
func (f *followUps) pop() *job {
	f.mu.Lock()
	defer f.mu.Unlock()
	j := heap.Pop(&f.heap).(*job)
	if len(f.heap) == 0 {
		f.first.Store(int64(never))
	} else {
		f.first.Store(int64(f.heap[0].due))
	}
	return j
}

func (f *followUps) size() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.heap)
}

type jobHeap []*job

func (h jobHeap) Len() int           { return len(h) }
func (h jobHeap) Less(i, j int) bool { return h[i].due < h[j].due }
func (h jobHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *jobHeap) Push(x any)        { *h = append(*h, x.(*job)) }
func (h *jobHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return last
}
