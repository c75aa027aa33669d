package flashsale

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"stampede/harness/stores"

	"github.com/jackc/pgx/v5"
)

// auditTimeout bounds the reading of everything, which is no operation of a
// buyer and may take longer than one.
const auditTimeout = 2 * time.Minute

// audit reads the ledger in one REPEATABLE READ transaction, every list in an
// order of its own so that the same state gives the same audit.
func (b *books) audit(ctx context.Context) (*Audit, error) {
	ctx, cancel := context.WithTimeout(ctx, auditTimeout)
	defer cancel()
	conn, err := b.db.Pool.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("connecting to Postgres for the audit: %w", err)
	}
	defer conn.Release()
	a := &Audit{Orders: []OrderAudit{}, Payments: []PaymentAudit{}, Log: []LogEntry{}}
	oneSnapshot := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err = pgx.BeginTxFunc(ctx, conn, oneSnapshot, func(tx pgx.Tx) error {
		return b.readAll(ctx, tx, a)
	})
	if err != nil {
		return nil, fmt.Errorf("auditing the ledger: %w", err)
	}
	return a, nil
}

func (b *books) readAll(ctx context.Context, tx pgx.Tx, a *Audit) error {
	patience := fmt.Sprintf(`SET LOCAL statement_timeout = %d`, auditTimeout.Milliseconds())
	if _, err := tx.Exec(ctx, patience); err != nil {
		return err
	}
	items := b.stock.counts + ` ORDER BY items.item`
	if err := readInto(ctx, tx, &a.Items, items, scanItem); err != nil {
		return fmt.Errorf("items: %w", err)
	}
	if err := b.readUnits(ctx, tx, a); err != nil {
		return fmt.Errorf("units: %w", err)
	}
	if err := readInto(ctx, tx, &a.Orders, `SELECT id, op_id, item, buyer, unit_no, state,
		held_at, closed_at FROM orders ORDER BY id`, scanOrder); err != nil {
		return fmt.Errorf("orders: %w", err)
	}
	if err := readInto(ctx, tx, &a.Payments, `SELECT id, order_id, amount_cents, captured,
		refunded, deliveries, effects FROM payments ORDER BY id`, scanPayment); err != nil {
		return fmt.Errorf("payments: %w", err)
	}
	if err := readInto(ctx, tx, &a.Log, `SELECT seq, order_id, item, unit_no, version,
		from_state, to_state, cause, at FROM order_log ORDER BY seq`, scanLog); err != nil {
		return fmt.Errorf("log: %w", err)
	}
	return nil
}

func (b *books) readUnits(ctx context.Context, tx pgx.Tx, a *Audit) error {
	if !b.stock.keepsUnits {
		return nil
	}
	return readInto(ctx, tx, &a.Units, `SELECT item, unit_no, state, order_id, version
		FROM units ORDER BY item, unit_no`, scanUnit)
}

func readInto[T any](
	ctx context.Context, tx pgx.Tx, list *[]T, sql string, scan func(pgx.CollectableRow) (T, error),
) error {
	return stores.Each(ctx, tx, sql, nil, func(row pgx.CollectableRow) error {
		v, err := scan(row)
		*list = append(*list, v)
		return err
	})
}

func scanItem(row pgx.CollectableRow) (i ItemAudit, err error) {
	err = row.Scan(&i.Item, &i.Units, &i.PriceCents, &i.Available, &i.Held, &i.Sold)
	return i, err
}

func scanUnit(row pgx.CollectableRow) (u UnitAudit, err error) {
	var order *int64
	err = row.Scan(&u.Item, &u.Unit, &u.State, &order, &u.Version)
	if order != nil {
		u.OrderID = strconv.FormatInt(*order, 10)
	}
	return u, err
}

func scanOrder(row pgx.CollectableRow) (o OrderAudit, err error) {
	var id, opID int64
	var heldAt time.Time
	var closedAt *time.Time
	err = row.Scan(&id, &opID, &o.Item, &o.Buyer, &o.Unit, &o.State, &heldAt, &closedAt)
	o.ID, o.OpID, o.HeldAt = strconv.FormatInt(id, 10), uint64(opID), heldAt.UnixNano()
	if closedAt != nil {
		o.ClosedAt = closedAt.UnixNano()
	}
	return o, err
}

func scanPayment(row pgx.CollectableRow) (p PaymentAudit, err error) {
	var order int64
	err = row.Scan(&p.ID, &order, &p.AmountCents, &p.Captured, &p.Refunded,
		&p.Deliveries, &p.Effects)
	p.OrderID = strconv.FormatInt(order, 10)
	return p, err
}

func scanLog(row pgx.CollectableRow) (e LogEntry, err error) {
	var order int64
	var at time.Time
	err = row.Scan(&e.Seq, &order, &e.Item, &e.Unit, &e.Version, &e.From, &e.To, &e.Cause, &at)
	e.OrderID, e.At = strconv.FormatInt(order, 10), at.UnixNano()
	return e, err
}
