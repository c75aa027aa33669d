package flashsale

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"stampede/harness/sut"
)

// unitsGrouped serves buyers together who wait together. One collector per item takes all
// buyers who came while the group before was being committed, and claims as many units in one
// statement. Who leaves before the group is sent has bought nothing.
func unitsGrouped() variant {
	return unitRows().sells(variant{
		Name:       "units_grouped",
		Idea:       "one collector per item claims units for all waiting buyers in one transaction",
		Guarantees: "every unit has at most one owner, and sold out means that all have one",
		GivesUp:    "independence: a group shares its commit, its latency and its failure",
		Open: func(_ context.Context, st *opened) (Shop, error) {
			return &groupedShop{
				unitShop: newUnitShop(newBooks(st.DB, unitRows())), queues: map[string]*queue{},
			}, nil
		},
	})
}

// groupMax bounds the buyers of one group: enough to make the commit's share
// small, few enough to keep a group's locks short.
const groupMax = 128

// groupedShop has one queue per item, and a collector for each while somebody waits in it.
type groupedShop struct {
	*unitShop // serves those whom a group could not settle
	mu        sync.Mutex
	queues    map[string]*queue
	working   sync.WaitGroup
	closed    bool
}

// queue holds the buyers of one item; groupedShop.mu guards it.
type queue struct {
	waiting    []*waiter
	collecting bool
}

// waiter is a buyer in a queue.
type waiter struct {
	req    BuyRequest
	settle atomic.Bool // set once: by the collector to serve, by the buyer to leave
	answer chan served // room for one, so that a collector never waits
}

type served struct {
	claim claim
	err   error
}

// Buy waits for the answer of its group. If ctx ends before the group was
// sent, the purchase is refused; after that its outcome is unknown.
func (s *groupedShop) Buy(ctx context.Context, req BuyRequest) (Order, error) {
	w := &waiter{req: req, answer: make(chan served, 1)}
	if !s.enqueue(w) {
		return Order{}, fmt.Errorf("the shop is closed: %w", sut.ErrRefused)
	}
	select {
	case a := <-w.answer:
		if errors.Is(a.err, errBusy) {
			return s.unitShop.Buy(ctx, req)
		}
		return a.claim.Order, a.err
	case <-ctx.Done():
		if w.settle.CompareAndSwap(false, true) {
			return Order{}, fmt.Errorf("left the queue: %w: %w", sut.ErrRefused, ctx.Err())
		}
		return Order{}, fmt.Errorf("left while the group was being served: %w", ctx.Err())
	}
}

func (s *groupedShop) enqueue(w *waiter) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	q := s.queues[w.req.Item]
	if q == nil {
		q = &queue{}
		s.queues[w.req.Item] = q
	}
	q.waiting = append(q.waiting, w)
	if !q.collecting {
		q.collecting = true
		s.working.Go(func() { s.collect(w.req.Item, q) })
	}
	return true
}

// collect serves group after group until nobody waits.
func (s *groupedShop) collect(item string, q *queue) {
	for {
		group, more := s.next(item, q)
		if !more {
			return
		}
		s.serve(group)
	}
}

// next takes a group from the queue, without those who have left, or
// dissolves the queue.
func (s *groupedShop) next(item string, q *queue) (group []*waiter, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(q.waiting) == 0 {
		delete(s.queues, item)
		return nil, false
	}
	n := min(len(q.waiting), groupMax)
	for _, w := range q.waiting[:n] {
		if w.settle.CompareAndSwap(false, true) {
			group = append(group, w)
		}
	}
	q.waiting = append([]*waiter(nil), q.waiting[n:]...)
	return group, true
}

// Close waits for the groups under way, each of which has a timeout.
func (s *groupedShop) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.working.Wait()
	return nil
}

// serve claims for a group and answers every member.
func (s *groupedShop) serve(group []*waiter) {
	if len(group) == 0 {
		return
	}
	requests := make([]BuyRequest, len(group))
	for i, w := range group {
		requests[i] = w.req
	}
	rows, err := s.books.buyGroup(context.Background(), requests)
	for _, w := range group {
		w.answer <- rows.answer(w.req, err)
	}
}
