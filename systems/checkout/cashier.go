package checkout

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/harness/design"
	"stampede/harness/stores"
)

// The fail points of a payment.
const (
	placeCaptured = "captured" // the money is captured, and the order is not paid
	placeVoided   = "voided"   // the payment is void, and the unit is not free
)

// cashiers is how many payments one cashier has under way.
const cashiers = 16

// due is an order whose payment is to be settled, and the tries that were begun.
type due struct {
	Key     string
	Product uint64
	State   string
	Tries   int
}

// claimDue takes orders for the time of a try, and counts it. It reads orders_due.
const claimDue = `UPDATE orders SET tries = tries + 1,
		due = clock_timestamp() + $1::bigint * interval '1 microsecond'
	WHERE order_id IN (SELECT order_id FROM orders WHERE state IN ('pending', 'cancelling')
		AND due <= clock_timestamp() ORDER BY due LIMIT $2 FOR UPDATE SKIP LOCKED)
	RETURNING key, product, state, tries`

// cashier is the role that settles payments. A payment that is declined, or of which the provider
// has said nothing in all tries, is compensated: the order is marked, so that it cannot become
// paid any more; then the payment is voided, at the provider; then the unit is free again. A
// crash between any of these leaves an order that is taken up again.
func cashier() role { return cashierOf((*till).compensate) }

// cashierOf is a cashier by what it does about a payment that has failed.
func cashierOf(fail func(*till, context.Context, due, error) error) role {
	return role{Name: "cashier", Summary: "captures payments, and compensates those that fail",
		Places: []string{placeCaptured, placeVoided}, Conns: 6,
		Step: func(ctx context.Context, st *opened) (time.Duration, error) {
			p, err := design.Keep(st, func() (*provider, error) { return openProvider(ctx, st) })
			if err != nil {
				return 0, err
			}
			list, err := stores.Collect[due](ctx, st.DB, claimDue, st.Params.PayRetry.D().Microseconds(),
				cashiers)
			if err != nil {
				return 0, fmt.Errorf("claiming orders: %w", err)
			}
			t, errs := &till{st, p}, make([]error, len(list))
			var all sync.WaitGroup
			for i, d := range list {
				all.Go(func() { errs[i] = t.settle(ctx, d, fail) })
			}
			all.Wait()
			if len(list) == cashiers {
				return 0, errors.Join(errs...)
			}
			return st.Params.PayEvery.D(), errors.Join(errs...)
		}}
}

// till settles payments.
type till struct {
	*opened
	provider *provider
}

// settle makes one try.
func (t *till) settle(
	ctx context.Context, d due, fail func(*till, context.Context, due, error) error,
) error {
	if d.State == cancelling { // somebody began to compensate it
		return fail(t, ctx, d, errDeclined)
	}
	if d.Tries > t.Params.PayTries {
		return fail(t, ctx, d, errSilent)
	}
	err := t.provider.Capture(ctx, d.Key)
	switch {
	case err == nil:
		t.Config.Passed(placeCaptured)
		return t.paid(ctx, d)
	case errors.Is(err, errDeclined), errors.Is(err, errSilent) && d.Tries >= t.Params.PayTries:
		return fail(t, ctx, d, err)
	case errors.Is(err, errSilent):
		return nil // the order is due again
	}
	return err
}

// paid ends the attempt, unless the order is being cancelled meanwhile.
func (t *till) paid(ctx context.Context, d due) error {
	_, err := t.DB.Exec(ctx, `WITH paid AS (UPDATE orders SET state = 'paid'
			WHERE key = $1 AND state = 'pending' RETURNING key)
		UPDATE attempts SET state = 'paid' FROM paid WHERE attempts.key = paid.key`, d.Key)
	return stores.Failed("marking an order as paid", err)
}

// compensate undoes an order whose payment has failed.
func (t *till) compensate(ctx context.Context, d due, _ error) error {
	n, err := t.DB.Exec(ctx, `UPDATE orders SET state = 'cancelling' WHERE key = $1
		AND state IN ('pending', 'cancelling')`, d.Key)
	if err != nil || n == 0 {
		return stores.Failed("marking an order to be cancelled", err)
	}
	if err := t.provider.Void(ctx, d.Key); err != nil {
		return err
	}
	t.Config.Passed(placeVoided)
	err = t.DB.Transaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT FROM inventory WHERE product = $1 FOR UPDATE`,
			d.Product); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, `UPDATE orders SET state = 'cancelled', ended_at = clock_timestamp()
			WHERE key = $1 AND state = 'cancelling'`, d.Key)
		if err != nil || tag.RowsAffected() == 0 {
			return err // another one was faster
		}
		if _, err := tx.Exec(ctx, `UPDATE attempts SET state = 'compensated' WHERE key = $1`,
			d.Key); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `UPDATE inventory SET available = available + 1, version = version + 1
			WHERE product = $1`, d.Product)
		return err
	})
	return stores.Failed("cancelling an order", err)
}
