package flashsale

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/harness/stores"
)

// audit reads the ledger in one snapshot, every list in an order of its own so that the same
// state gives the same audit.
func (s stock) audit(ctx context.Context, st *opened, slack time.Duration) (*Audit, error) {
	a := &Audit{CartTTLNS: int64(st.Params.CartTTL), ReclaimSlackNS: int64(slack)}
	err := st.DB.Snapshot(ctx, func(ctx context.Context, tx pgx.Tx) error {
		return s.read(ctx, tx, a)
	})
	if err != nil {
		return nil, fmt.Errorf("reading the ledger: %w", err)
	}
	return a, nil
}

func (s stock) read(ctx context.Context, tx pgx.Tx, a *Audit) (err error) {
	if a.Items, err = stores.CollectOn[ItemAudit](ctx, tx, s.counts+` ORDER BY items.item`); err != nil {
		return fmt.Errorf("items: %w", err)
	}
	if s.rows != "" {
		if a.Units, err = stores.CollectOn[UnitAudit](ctx, tx, s.rows); err != nil {
			return fmt.Errorf("units: %w", err)
		}
	}
	a.Orders, err = stores.CollectOn[OrderAudit](ctx, tx, `SELECT id::text, op_id, item, buyer, unit_no,
		state, `+nanoseconds("held_at")+`, coalesce(`+nanoseconds("closed_at")+`, 0)
		FROM orders ORDER BY orders.id`)
	if err != nil {
		return fmt.Errorf("orders: %w", err)
	}
	a.Payments, err = stores.CollectOn[PaymentAudit](ctx, tx, `SELECT id, order_id::text,
		amount_cents, captured, refunded, deliveries, effects FROM payments ORDER BY id`)
	if err != nil {
		return fmt.Errorf("payments: %w", err)
	}
	a.Log, err = stores.CollectOn[LogEntry](ctx, tx, `SELECT seq, order_id::text, item, unit_no,
		version, from_state, to_state, cause, `+nanoseconds("at")+` FROM order_log ORDER BY seq`)
	if err != nil {
		return fmt.Errorf("log: %w", err)
	}
	return nil
}

// nanoseconds is a time of Postgres, which counts microseconds, since 1970.
func nanoseconds(column string) string {
	return `(extract(epoch FROM ` + column + `) * 1000000)::bigint * 1000`
}
