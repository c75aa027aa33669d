package sim

import "time"

// happening is what an event does when its time has come.
type happening interface{ happen() }

// callback is a happening that calls a function.
type callback func()

func (f callback) happen() { f() }

// event is a happening with its time. Of two events at one time the one that was
// scheduled first, which has the lower sequence number, comes first.
type event struct {
	at  time.Duration
	seq uint64
	do  happening
}

func (e event) before(o event) bool { return e.at < o.at || e.at == o.at && e.seq < o.seq }

// heap is a 4-ary heap of events: half as deep as a binary one, and the four children lie
// side by side in memory (LaMarca and Ladner, The influence of caches on the performance of
// heaps, 1996).
type heap []event

func (h *heap) push(e event) {
	a := append(*h, e)
	i := len(a) - 1
	for ; i > 0 && e.before(a[(i-1)/4]); i = (i - 1) / 4 {
		a[i] = a[(i-1)/4]
	}
	a[i], *h = e, a
}

// pop takes the first event of a heap that is not empty.
func (h *heap) pop() event {
	a := *h
	top, last := a[0], a[len(a)-1]
	a[len(a)-1] = event{} // the happening is not kept alive
	a = a[:len(a)-1]
	if len(a) > 0 {
		a.sink(0, last)
	}
	*h = a
	return top
}

// remove takes out the event at an index.
func (h *heap) remove(i int) {
	a := *h
	last := a[len(a)-1]
	a[len(a)-1] = event{}
	a = a[:len(a)-1]
	if i < len(a) {
		for ; i > 0 && last.before(a[(i-1)/4]); i = (i - 1) / 4 {
			a[i] = a[(i-1)/4]
		}
		a.sink(i, last)
	}
	*h = a
}

// sink puts an event at index i or below it, where there is a gap.
func (h heap) sink(i int, e event) {
	for c := 4*i + 1; c < len(h); c = 4*i + 1 {
		for k := c + 1; k < min(4*i+5, len(h)); k++ {
			if h[k].before(h[c]) {
				c = k
			}
		}
		if !h[c].before(e) {
			break
		}
		h[i], i = h[c], c
	}
	h[i] = e
}

// fifo is a queue in a slice. What was taken is forgotten.
type fifo[T any] struct {
	items []T
	head  int
}

func (q *fifo[T]) len() int  { return len(q.items) - q.head }
func (q *fifo[T]) put(v T)   { q.items = append(q.items, v) }
func (q *fifo[T]) first() *T { return &q.items[q.head] }
func (q *fifo[T]) rest() []T { return q.items[q.head:] }
func (q *fifo[T]) clear()    { *q = fifo[T]{} }
func (q *fifo[T]) take() (v T) {
	var none T
	v, q.items[q.head] = q.items[q.head], none
	q.head++
	if q.head == len(q.items) || q.head > 64 && 2*q.head > len(q.items) {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	return v
}
