package flashsale

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"time"

	"stampede/harness/stores"

	"github.com/jackc/pgx/v5"
)

//go:embed schema.sql
var schema string

// books is what the designs share in Postgres: carts, payments, the log of
// changes, and one of the ways in which stock is kept (see stock).
type books struct {
	db    *stores.Postgres
	stock stock
	// The statements that stock completes.
	standingSQL, paymentSQL, reclaimSQL string
}

func newBooks(db *stores.Postgres, s stock) *books {
	b := &books{db: db, stock: s}
	b.standingSQL = b.buyStatement(`SELECT 0::bigint, 0::bigint WHERE false`, `true`)
	b.paymentSQL, b.reclaimSQL = b.paymentStatement(), b.reclaimStatement()
	return b
}

// The statement that buys, in one transaction. $1 is the item, $2 the operation, $3 the buyer; a
// design may add parameters for its part, which is the query "taken".
//
// A key that was used before gives its order, and a buyer who has a unit is turned away before
// any stock is touched. Of requests that race past these two looks the unique indexes let one win.
const (
	buyHead = `
WITH earlier AS (
    SELECT id, unit_no, state NOT IN ('held', 'paid') AS closed,
        item = $1 AND buyer = $3 AS same
    FROM orders WHERE op_id = $2
), active AS (
    SELECT FROM orders WHERE item = $1 AND buyer = $3 AND state IN ('held', 'paid')
), allowed AS (
    SELECT WHERE NOT EXISTS (SELECT FROM earlier) AND NOT EXISTS (SELECT FROM active)
), taken (unit_no, version) AS (`

	buyTail = `
), placed AS (
    INSERT INTO orders (op_id, item, buyer, unit_no, state, held_at)
    SELECT $2, $1, $3, unit_no, 'held', clock_timestamp() FROM taken
    RETURNING id, unit_no, held_at
)%s, logged AS (
    INSERT INTO order_log
        (order_id, item, unit_no, version, from_state, to_state, cause, at)
    SELECT id, $1, unit_no, version, 'available', 'held', 'buy', held_at
    FROM placed JOIN taken USING (unit_no)
)
SELECT CASE
    WHEN placed.id IS NOT NULL THEN 'placed'
    WHEN earlier.id IS NOT NULL AND earlier.same THEN 'earlier'
    WHEN earlier.id IS NOT NULL THEN 'reused'
    WHEN EXISTS (SELECT FROM active) THEN 'bought'
    WHEN NOT EXISTS (SELECT FROM items WHERE item = $1) THEN 'unknown'
    WHEN %s THEN 'busy'
    ELSE 'sold out' END,
    COALESCE(placed.id, earlier.id, 0), COALESCE(placed.unit_no, earlier.unit_no, 0),
    COALESCE(earlier.closed, false)
FROM (SELECT) AS one LEFT JOIN placed ON true LEFT JOIN earlier ON true`
)

// buyStatement completes the statement with a design's part: taken is a query of at most one row
// (unit_no, version after the change) where EXISTS (SELECT FROM allowed), and busy a condition
// under which there may be stock although taken was empty.
func (b *books) buyStatement(taken, busy string) string {
	return buyHead + taken + fmt.Sprintf(buyTail, b.stock.mark, busy)
}

// errBusy: there was stock, but others were about to take it.
var errBusy = errors.New("stock is being taken")

// errReused: the idempotency key belongs to another purchase.
var errReused = fmt.Errorf("idempotency key was used for another purchase: %w", ErrConflict)

// claim is an order. It is fresh if this call made it; that of an earlier request may be closed by
// now, its unit back on the shelf.
type claim struct {
	Order
	fresh, closed bool
}

// buy runs a statement made by buyStatement. Besides the reasons of flashsale
// it may return errBusy.
func (b *books) buy(
	ctx context.Context, statement string, req BuyRequest, more ...any,
) (claim, error) {
	var r saleRow
	args := append([]any{req.Item, int64(req.OpID), req.Buyer}, more...)
	err := b.db.Row(ctx, statement, args, r.fields()...)
	return b.answer(ctx, req, r, err)
}

// saleRow is the row that a statement of buyStatement returns.
type saleRow struct {
	status   string
	id, unit int64
	closed   bool
}

func (r *saleRow) fields() []any { return []any{&r.status, &r.id, &r.unit, &r.closed} }

// answer interprets what a statement of buyStatement returned. The connection
// it ran on must be free again.
func (b *books) answer(
	ctx context.Context, req BuyRequest, r saleRow, err error,
) (claim, error) {
	switch stores.Constraint(err) {
	case "orders_op":
		return b.orderOf(ctx, req)
	case "orders_active":
		return claim{}, ErrAlreadyBought
	}
	if err != nil {
		return claim{}, stores.Failed("claiming a unit", err)
	}
	return r.claim()
}

func (r *saleRow) claim() (claim, error) {
	switch r.status {
	case "placed", "earlier":
		order := Order{ID: strconv.FormatInt(r.id, 10), Unit: r.unit}
		return claim{Order: order, fresh: r.status == "placed", closed: r.closed}, nil
	case "reused":
		return claim{}, errReused
	case "bought":
		return claim{}, ErrAlreadyBought
	case "unknown":
		return claim{}, ErrUnknownItem
	case "busy":
		return claim{}, errBusy
	case "sold out":
		return claim{}, ErrSoldOut
	}
	return claim{}, fmt.Errorf("claiming a unit: unexpected status %q", r.status)
}

// orderOf returns the order of an operation that was found to have one.
func (b *books) orderOf(ctx context.Context, req BuyRequest) (claim, error) {
	r := saleRow{status: "earlier"}
	var same bool
	err := b.db.Row(ctx, `SELECT id, unit_no, state NOT IN ('held', 'paid'),
		item = $2 AND buyer = $3 FROM orders WHERE op_id = $1`,
		[]any{int64(req.OpID), req.Item, req.Buyer}, &r.id, &r.unit, &r.closed, &same)
	if err != nil {
		// The order exists, so this must not count as refused, whatever err is.
		//nolint:errorlint // thus err may not be found in it
		return claim{}, fmt.Errorf("reading the order of a repeated request: %v", err)
	}
	if !same {
		return claim{}, errReused
	}
	return r.claim()
}

// standing answers a request that must not take stock: a repeated one gets its order, a second
// one of the same buyer its reason; errBusy means that neither is the case.
func (b *books) standing(ctx context.Context, req BuyRequest) (Order, error) {
	c, err := b.buy(ctx, b.standingSQL, req)
	return c.Order, err
}

// soldOut is standing for a design that has just seen that nothing is left.
func (b *books) soldOut(ctx context.Context, req BuyRequest) (Order, error) {
	order, err := b.standing(ctx, req)
	if errors.Is(err, errBusy) {
		return Order{}, ErrSoldOut
	}
	return order, err
}

// closing is the end of the statements that close carts: the CTE "closed" has
// the orders as they are now, and the design's stock follows.
func (b *books) closing() string {
	return b.stock.settle + `, logged AS (
    INSERT INTO order_log
        (order_id, item, unit_no, version, from_state, to_state, cause, at)
    SELECT id, item, unit_no, COALESCE(version, 0), 'held',
        CASE state WHEN 'paid' THEN 'sold' ELSE 'available' END,
        CASE state WHEN 'paid' THEN 'paid' WHEN 'failed' THEN 'payment-failed' ELSE 'expired' END,
        closed_at
    FROM closed LEFT JOIN settled USING (id)
)`
}

// paymentStatement applies one delivery of a webhook: $1 payment, $2 order, $3 succeeded, $4
// cents. The order's row lock puts deliveries, and the reclaimer, in an order; the payment's
// primary key makes all but the first delivery count and do nothing else.
func (b *books) paymentStatement() string {
	return `
WITH cart AS MATERIALIZED (
    SELECT id, state FROM orders WHERE id = $2 FOR UPDATE
), payment AS (
    INSERT INTO payments AS p
        (id, order_id, amount_cents, captured, refunded, result, deliveries, effects)
    SELECT $1, id, $4, $3, $3 AND state <> 'held',
        CASE WHEN NOT $3 THEN 'released' WHEN state = 'held' THEN 'sold' ELSE 'refunded' END,
        1, CASE WHEN $3 OR state = 'held' THEN 1 ELSE 0 END
    FROM cart
    ON CONFLICT (id) DO UPDATE SET deliveries = p.deliveries + 1
    RETURNING result, deliveries = 1 AS first
), closed AS (
    UPDATE orders SET closed_at = clock_timestamp(),
        state = CASE WHEN $3 THEN 'paid' ELSE 'failed' END
    FROM cart, payment
    WHERE orders.id = cart.id AND cart.state = 'held' AND first
    RETURNING orders.id, op_id, item, buyer, unit_no, orders.state, closed_at
)` + b.closing() + `
SELECT result, COALESCE(op_id, 0), COALESCE(item, ''), COALESCE(buyer, ''),
    COALESCE(state = 'failed', false)
FROM payment LEFT JOIN closed ON true`
}

// cart names a closed order in the terms in which it was bought.
type cart struct {
	OpID        uint64
	Item, Buyer string
}

// payment applies one delivery. Released is the cart whose unit went back to
// the shelf by it, nil if none did.
func (b *books) payment(
	ctx context.Context, p Payment,
) (state PaymentState, released *cart, err error) {
	order, err := strconv.ParseInt(p.OrderID, 10, 64)
	if err != nil {
		return "", nil, ErrUnknownOrder
	}
	var opID int64
	var c cart
	var returned bool
	err = b.db.Row(ctx, b.paymentSQL,
		[]any{p.PaymentID, order, p.Succeeded, p.AmountCents},
		&state, &opID, &c.Item, &c.Buyer, &returned)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return "", nil, ErrUnknownOrder
	case err != nil:
		return "", nil, stores.Failed("applying a payment", err)
	case returned:
		c.OpID = uint64(opID)
		return state, &c, nil
	}
	return state, nil, nil
}

// reclaimStatement closes at most $2 carts that were held for $1 microseconds or longer, but for
// those that a payment has locked. statement_timestamp is stable, so the index serves the
// comparison, and it is never later than clock_timestamp: no cart closes early.
func (b *books) reclaimStatement() string {
	return `
WITH due AS MATERIALIZED (
    SELECT id FROM orders
    WHERE state = 'held' AND held_at <= statement_timestamp() - $1 * interval '1 microsecond'
    ORDER BY held_at LIMIT $2 FOR UPDATE SKIP LOCKED
), closed AS (
    UPDATE orders SET state = 'expired', closed_at = clock_timestamp()
    FROM due WHERE orders.id = due.id AND state = 'held'
    RETURNING orders.id, op_id, item, buyer, unit_no, state, closed_at
)` + b.closing() + `
SELECT op_id, item, buyer FROM closed`
}

// reclaim returns one batch of carts that are older than ttl to the shelf.
func (b *books) reclaim(ctx context.Context, ttl time.Duration, batch int) ([]cart, error) {
	var carts []cart
	err := b.db.Rows(ctx, b.reclaimSQL, []any{ttl.Microseconds(), batch},
		func(row pgx.CollectableRow) error {
			var c cart
			var opID int64
			err := row.Scan(&opID, &c.Item, &c.Buyer)
			c.OpID = uint64(opID)
			carts = append(carts, c)
			return err
		})
	if err != nil {
		return nil, stores.Failed("reclaiming expired carts", err)
	}
	return carts, nil
}

// snapshot reads the stock of one item in one statement.
func (b *books) snapshot(ctx context.Context, item string) (Stock, error) {
	s := Stock{Item: item}
	err := b.db.Row(ctx, b.stock.counts+` WHERE items.item = $1`, []any{item},
		&s.Item, &s.Units, new(int64), &s.Available, &s.Held, &s.Sold)
	if errors.Is(err, pgx.ErrNoRows) {
		return Stock{}, ErrUnknownItem
	}
	if err != nil {
		return Stock{}, stores.Failed("reading the stock", err)
	}
	return s, nil
}

func itemKeys(p Params) []string {
	keys := make([]string, p.Items)
	for i := range keys {
		keys[i] = ItemKey(i + 1)
	}
	return keys
}

// ledgerShop is a Shop but for its Buy: payments and snapshots work alike in
// all designs that keep their stock in Postgres.
type ledgerShop struct{ books *books }

// PaymentResult applies a webhook's delivery in one transaction.
func (s ledgerShop) PaymentResult(ctx context.Context, p Payment) (PaymentState, error) {
	state, _, err := s.books.payment(ctx, p)
	return state, err
}

// Stock reads a snapshot.
func (s ledgerShop) Stock(ctx context.Context, item string) (Stock, error) {
	return s.books.snapshot(ctx, item)
}
