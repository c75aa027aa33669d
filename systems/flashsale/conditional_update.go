package flashsale

import (
	"context"

	"stampede/harness/sim"
)

// conditionalUpdate decrements a counter only where it is positive. Postgres looks at the
// condition again once it has the row lock, so the update itself is the check, and a buyer who
// comes too late sees that without touching the lock. All who may still buy queue for one row,
// each until the one before has flushed its commit.
func conditionalUpdate() variant {
	return counterRow().sells(variant{
		Name:       "conditional_update",
		Idea:       "one counter per item, decremented by UPDATE … WHERE available > 0",
		Guarantees: "never more orders than units: the condition is checked again under the row lock",
		GivesUp:    "while units are left, buyers queue for one row and its commits; orders name no unit",
		Open: func(_ context.Context, st *opened) (Shop, error) {
			return newWaitingShop(newBooks(st.DB, counterRow()), `
    UPDATE items SET available = available - 1
    WHERE item = $1 AND available > 0 AND EXISTS (SELECT FROM allowed)
    RETURNING 0::bigint, 0::bigint`), nil
		},
		Model: counterRow().modelled(decrementsPositive),
	})
}

// decrementsPositive is its model.
func decrementsPositive(m *model) func(*sim.Process, BuyRequest) (claim, error) {
	return func(p *sim.Process, req BuyRequest) (claim, error) {
		return m.claims(p, req, func(p *sim.Process, item string) (int64, bool, bool) {
			if c, _ := m.counters.Get(item); c.available <= 0 {
				return 0, false, false // without the lock
			}
			p.Do(m.counters.Lock(item))
			c, _ := m.counters.Get(item)
			if c.available <= 0 {
				return 0, false, false
			}
			m.counters.Set(item, counted{c.available - 1, c.version})
			return 0, true, false
		})
	}
}

// waitingShop sells by one statement that waits for the row it wants.
type waitingShop struct {
	ledgerShop
	statement string
}

func newWaitingShop(b *books, taken string) *waitingShop {
	return &waitingShop{ledgerShop{b}, b.buyStatement(taken, `false`)}
}

// Buy takes stock and makes the order.
func (s *waitingShop) Buy(ctx context.Context, req BuyRequest) (Order, error) {
	c, err := s.books.buy(ctx, s.statement, req)
	return c.Order, err
}
