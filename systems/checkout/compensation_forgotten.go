package checkout

import (
	"context"
	"errors"

	"stampede/harness/sim"
	"stampede/harness/stores"
	"stampede/harness/sut"
)

// compensationForgotten tells users that a payment has failed, and does no more about those that
// time out. It is wrong.
//
// The idea: a payment that the provider says nothing about was not made. The order is cancelled.
//
// The guarantee: no more orders than units, and an end of each attempt.
//
// It gives up: correctness. The unit is not for sale again, nobody voids the payment, and the
// money may have been captured, or will be.
func compensationForgotten() variant {
	v := rowLock()
	v.Name = "compensation_forgotten"
	v.Idea = "row_lock that compensates declined payments, and only cancels orders that time out"
	v.Guarantees = "no more orders than units, and an end of each attempt"
	v.GivesUp = "correctness: a unit whose payment times out is lost, and money may be kept"
	v.Breaks = []sut.Break{{Invariant: StockAddsUp, Under: sut.Load}}
	v.Roles = []role{payerOf(func(t *payments, ctx context.Context, d due, why error) error {
		if errors.Is(why, errSilent) {
			return t.forget(ctx, d)
		}
		return t.compensate(ctx, d, why)
	}, calledBack)}
	v.Model = modelled(func(m *shopModel) {
		m.sellsAtOnce(func(t *payerModel, p *sim.Process, o orderRow, why error) {
			if errors.Is(why, errSilent) {
				t.forget(p, o.Key)
				return
			}
			t.compensate(p, o, why)
		})
	})
	return v
}

// forget cancels an order and nothing else.
func (t *payments) forget(ctx context.Context, d due) error {
	_, err := t.DB.Exec(ctx, `WITH over AS (UPDATE orders SET state = 'cancelled',
			ended_at = clock_timestamp() WHERE key = $1 AND state = 'pending' RETURNING key)
		UPDATE attempts SET state = 'compensated' FROM over WHERE attempts.key = over.key`, d.Key)
	return stores.Failed("cancelling an order", err)
}

// forget is that of payments.
func (t *payerModel) forget(p *sim.Process, key string) {
	t.own.Exec(p, costSettle, func() {
		if o, is := t.orders.LockIf(p, key, isPending); is {
			o.State, o.EndedNS = cancelled, t.now()
			t.orders.Set(key, o)
			t.attempt(p, o, compensated)
		}
	})
}
