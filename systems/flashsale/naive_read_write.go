package flashsale

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"stampede/harness/sim"
	"stampede/harness/stores"
	"stampede/harness/sut"
)

// naiveReadWrite looks at the stock, then decrements it. Wrong: all who look before the first one
// writes see the same unit, and each of them gets it. It passes every test that has one buyer.
func naiveReadWrite() variant {
	return counterRow().sells(variant{
		Name:       "naive_read_write",
		Idea:       "read the counter; if it is positive, decrement it in a second statement",
		Guarantees: "one unit per buyer and item, one effect per payment; nothing about the stock",
		GivesUp:    "correct stock: every buyer who reads before the first one writes gets the last unit",
		Breaks:     []sut.Break{{Invariant: NoOversell, Under: sut.Load}},
		NotApplicable: map[string]string{
			Conservation: "overselling makes the counter negative, which no-oversell reports",
		},
		Open: func(_ context.Context, st *opened) (Shop, error) {
			return newNaiveShop(newBooks(st.DB, counterRow())), nil
		},
		Model: counterRow().modelled(readsThenWrites),
	})
}

// readsThenWrites is its model.
func readsThenWrites(m *model) func(*sim.Process, BuyRequest) (claim, error) {
	return func(p *sim.Process, req BuyRequest) (claim, error) {
		if m.counter(p, req.Item).available <= 0 {
			return m.soldOut(p, req)
		}
		return m.claims(p, req, func(p *sim.Process, item string) (int64, bool, bool) {
			p.Do(m.counters.Lock(item))
			c, _ := m.counters.Get(item)
			m.counters.Set(item, counted{c.available - 1, c.version})
			return 0, true, false
		})
	}
}

// counter is books.counter.
func (m *model) counter(p *sim.Process, item string) counted {
	m.asks(p, costLook)
	defer m.Postgres.Release()
	c, _ := m.counters.Get(item)
	m.answered(p)
	return c
}

// naiveShop checks first and acts later.
type naiveShop struct {
	ledgerShop
	act *waitingShop
}

func newNaiveShop(b *books) *naiveShop {
	return &naiveShop{ledgerShop{b}, newWaitingShop(b, `
    UPDATE items SET available = available - 1
    WHERE item = $1 AND EXISTS (SELECT FROM allowed)
    RETURNING 0::bigint, 0::bigint`)}
}

// Buy reads, decides and writes; between the three anything may happen.
func (s *naiveShop) Buy(ctx context.Context, req BuyRequest) (Order, error) {
	available, _, err := s.books.counter(ctx, req.Item)
	if err != nil {
		return Order{}, err
	}
	if available <= 0 {
		return s.books.soldOut(ctx, req)
	}
	return s.act.Buy(ctx, req)
}

// counter reads an item's counter and its version.
func (b *books) counter(ctx context.Context, item string) (available, version int64, err error) {
	err = b.db.Row(ctx, `SELECT available, version FROM items WHERE item = $1`,
		[]any{item}, &available, &version)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, 0, ErrUnknownItem
	}
	if err != nil {
		return 0, 0, stores.Failed("reading the counter", err)
	}
	return available, version, nil
}
