package checkout

import (
	"context"
	"fmt"
	"time"

	"stampede/harness/sim"
	"stampede/harness/sut"
)

// placeCommitted is after the offset and before the orders.
const placeCommitted = "committed"

// offsetBeforeOrder commits offsets before it decides. It is wrong.
//
// The idea: what was read is not read again, so that nothing can be decided twice.
//
// The guarantee: no more orders than units, and each attempt is decided once at most.
//
// It gives up: correctness. What a worker had in hand when it crashed is not decided at all: its
// users wait for ever.
func offsetBeforeOrder() variant {
	v := queued(variant{
		Name:       "offset_before_order",
		Idea:       "kafka_queue whose workers commit an offset before the order is made",
		Guarantees: "no more orders than units, and each attempt is decided once at most",
		GivesUp:    "correctness: what a worker had in hand when it crashed is never decided",
		Breaks:     []sut.Break{{Invariant: EndsOnce, Under: sut.RoleCrash}},
		Roles: []role{payer(), admitter(everybody, selectNext, nothingMore),
			worker(func(st *opened, decide, commit func() error) error {
				if err := commit(); err != nil {
					return err
				}
				st.Config.Passed(placeCommitted)
				return decide()
			}, decideInOrder, placeCommitted, placeOrdered)},
	})
	v.State.Pending = openInQueue
	v.Model = modelled(func(m *shopModel) {
		m.decidesLater(func(p *sim.Process, decide, commit func()) {
			commit()
			p.Passed(placeCommitted)
			decide()
		})
		m.pending = m.openInQueue
	})
	return v
}

// openInQueue is openAttempts without those that are lost: whoever was admitted long ago is not in
// the queue any more.
func openInQueue(ctx context.Context, st *opened) (left int64, what string, err error) {
	err = st.DB.Row(ctx, `SELECT
		(SELECT count(*) FROM attempts WHERE state IN ('waiting', 'pending')) +
		(SELECT count(*) FROM orders WHERE state = 'cancelling') +
		(SELECT count(*) FROM attempts WHERE state = 'admitted' AND EXISTS (SELECT FROM steps
			WHERE at > clock_timestamp() - interval '5 seconds' AND state <> 'paid'))`, nil, &left)
	return left, fmt.Sprintf("%d attempts have not ended", left), err
}

func (m *shopModel) openInQueue() (n int64, what string) {
	n = int64(m.waiting.Len() + m.due.Len())
	if m.Sim.Now()-m.moved < 5*time.Second {
		n += int64(m.admitted.Len())
	}
	return n, fmt.Sprintf("%d attempts have not ended", n)
}
