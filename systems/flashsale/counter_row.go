package flashsale

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"stampede/harness/sim"
)

// counterRowInPlace decrements the item's counter first, looks at the result, and rolls the
// transaction back if it is negative: the row lock puts the decrements in an order. All buyers
// of an item queue for one row, and so do those who come too late.
func counterRowInPlace() variant {
	return counterRow().sells(variant{
		Name:       "counter_row",
		Idea:       "one counter per item, decremented in a transaction that rolls back below 0",
		Guarantees: "never more orders than units: the row lock serializes the decrements",
		GivesUp: "all buyers of an item queue for one row, even once it is sold out; orders name no " +
			"unit",
		Open: func(_ context.Context, st *opened) (Shop, error) {
			b := newBooks(st.DB, counterRow())
			return &counterRowShop{ledgerShop{b}, b.buyStatement(
				`SELECT 0::bigint, 0::bigint FROM allowed`, `true`)}, nil
		},
		Model: counterRow().modelled(decrementsFirst),
	})
}

// decrementsFirst is its model: four round trips, with the row's lock from the second one on.
func decrementsFirst(m *model) func(*sim.Process, BuyRequest) (claim, error) {
	return func(p *sim.Process, req BuyRequest) (claim, error) {
		c, err := m.decremented(p, req)
		switch {
		case errors.Is(err, errNegative):
			return m.soldOut(p, req)
		case errors.Is(err, errRaced):
			return m.orderOf(p, req)
		}
		return c, err
	}
}

func (m *model) decremented(p *sim.Process, req BuyRequest) (c claim, err error) {
	m.asks(p, costBegin)
	defer m.Postgres.Release()
	m.answered(p)
	m.statement(p, costCount)
	p.Do(m.counters.Lock(req.Item))
	n, is := m.counters.Get(req.Item)
	m.counters.Set(req.Item, counted{n.available - 1, n.version})
	m.answered(p)
	switch {
	case !is:
		err = ErrUnknownItem
	case n.available <= 0:
		err = errNegative
	default:
		m.statement(p, costBuy)
		c, err = m.place(p, req, func(*sim.Process, string) (int64, bool, bool) { return 0, true, false })
		m.answered(p)
	}
	m.statement(p, costBegin)
	if err == nil && c.fresh {
		p.Do(m.Postgres.Commit())
	} else {
		m.Postgres.Rollback()
	}
	m.answered(p)
	return c, err
}

// counterRowShop decrements before it knows whether it may.
type counterRowShop struct {
	ledgerShop
	order string // the statement that makes the order, without any stock
}

// Buy decrements, looks, and makes the order or rolls back.
func (s *counterRowShop) Buy(ctx context.Context, req BuyRequest) (Order, error) {
	var r saleRow
	err := s.books.db.With(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			return s.inTransaction(ctx, tx, req, &r)
		})
	})
	switch {
	case errors.Is(err, errNegative):
		return s.books.soldOut(ctx, req)
	case errors.Is(err, errNoOrder):
		err = nil // rolled back; the row says why
	case errors.Is(err, pgx.ErrNoRows):
		return Order{}, ErrUnknownItem
	}
	c, err := s.books.answer(ctx, req, r, err)
	return c.Order, err
}

// Reasons to roll back.
var (
	errNegative = errors.New("the counter is negative")
	errNoOrder  = errors.New("no order was made")
)

func (s *counterRowShop) inTransaction(
	ctx context.Context, tx pgx.Tx, req BuyRequest, r *saleRow,
) error {
	var available int64
	err := tx.QueryRow(ctx, `UPDATE items SET available = available - 1
		WHERE item = $1 RETURNING available`, req.Item).Scan(&available)
	if err != nil {
		return err
	}
	if available < 0 {
		return errNegative
	}
	err = tx.QueryRow(ctx, s.order, req.Item, int64(req.OpID), req.Buyer).Scan(r.fields()...)
	if err == nil && r.status != "placed" {
		return errNoOrder
	}
	return err
}
