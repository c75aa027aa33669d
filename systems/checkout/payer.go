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

// payers is how many payments one payer has under way.
const payers = 16

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

// payer is the role that settles payments. A payment that is declined, or of which the provider
// has said nothing in all tries, is compensated: the order is marked, so that it cannot become
// paid any more; then the payment is voided, at the provider; then the unit is free again. A
// crash between any of these leaves an order that is taken up again.
func payer() role { return payerOf((*payments).compensate, calledBack) }

// callback is what a shop does when the provider calls it back.
type callback func(ctx context.Context, st *opened, key string, captured bool) error

// payerOf is a payer by what it does about a payment that has failed, and about a callback.
func payerOf(fail func(*payments, context.Context, due, error) error, called callback) role {
	return role{Name: "payer", Summary: "captures payments, and compensates those that fail",
		Places: []string{placeCaptured, placeVoided}, Conns: 6,
		Step: func(ctx context.Context, st *opened) (time.Duration, error) {
			p, err := design.Keep(st, func() (*provider, error) { return openProvider(ctx, st, called) })
			if err != nil {
				return 0, err
			}
			list, err := stores.Collect[due](ctx, st.DB, claimDue, st.Params.PayRetry.D().Microseconds(),
				payers)
			if err != nil {
				return 0, fmt.Errorf("claiming orders: %w", err)
			}
			t, errs := &payments{st, p}, make([]error, len(list))
			var all sync.WaitGroup
			for i, d := range list {
				all.Go(func() { errs[i] = t.settle(ctx, d, fail) })
			}
			all.Wait()
			if len(list) == payers {
				return 0, errors.Join(errs...)
			}
			return st.Params.PayEvery.D(), errors.Join(errs...)
		}}
}

// payments is how orders are paid for.
type payments struct {
	*opened
	provider *provider
}

// settle makes one try.
func (t *payments) settle(
	ctx context.Context, d due, fail func(*payments, context.Context, due, error) error,
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
		return paidFor(ctx, t.opened, d.Key)
	case errors.Is(err, errDeclined), errors.Is(err, errSilent) && d.Tries >= t.Params.PayTries:
		return fail(t, ctx, d, err)
	case errors.Is(err, errSilent):
		return nil // the order is due again
	}
	return err
}

// paidFor ends the attempt, unless its order is paid already or is being cancelled.
func paidFor(ctx context.Context, st *opened, key string) error {
	_, err := st.DB.Exec(ctx, `WITH paid AS (UPDATE orders SET state = 'paid'
			WHERE key = $1 AND state = 'pending' RETURNING key)
		UPDATE attempts SET state = 'paid' FROM paid WHERE attempts.key = paid.key`, key)
	return stores.Failed("marking an order as paid", err)
}

// calledBack changes an order that is pending. The same callback may have come before, and may come
// when the order was cancelled long ago and the money was given back.
func calledBack(ctx context.Context, st *opened, key string, captured bool) error {
	if captured {
		return paidFor(ctx, st, key)
	}
	_, err := st.DB.Exec(ctx, `UPDATE orders SET state = 'cancelling' WHERE key = $1
		AND state = 'pending'`, key)
	return stores.Failed("marking an order to be cancelled", err)
}

// compensate undoes an order whose payment has failed.
func (t *payments) compensate(ctx context.Context, d due, _ error) error {
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
