package checkout

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/harness/stores"
	"stampede/harness/sut"
)

// honourAndRestock lets Redis decide alone, and buys the units that are missing. It is wrong where
// Redis forgets.
//
// The idea: a hold in Redis is as good as a unit. The order is written whatever the stock in
// Postgres is, which falls below zero when Redis comes back from an older snapshot and sells units
// again. A settler compares orders with units from time to time. It keeps all orders and buys as
// many units as are missing.
//
// The guarantee: a paid order stays.
//
// It gives up: correctness. A product has more orders than units, until more are bought, when Redis
// forgets or an order takes longer than its hold.
func honourAndRestock() variant {
	return redisDecides(variant{
		Name:       "honour_and_restock",
		Idea:       "redis_first without the count in Postgres; what is oversold is bought later",
		Guarantees: "a paid order stays",
		GivesUp:    "correctness: more orders than units, when Redis forgets, until more are bought",
	}, restock)
}

// redisDecides completes redis_first for a design in which Redis decides, and what it has oversold
// is settled later.
func redisDecides(v variant, settle settle) variant {
	first := redisFirst()
	v.Needs, v.Places = first.Needs, first.Places
	v.NotApplicable, v.State = first.NotApplicable, first.State
	v.Breaks = append(v.Breaks, sut.Break{Invariant: NoOversell, Under: sut.PowerLoss})
	v.Roles = []role{payer(), settler(settle, unheld)}
	v.State.Audit = func(ctx context.Context, st *opened) (any, error) {
		return gated(ctx, st, st.Params.SettleEvery+st.Params.RepairLag)
	}
	v.Open = func(_ context.Context, st *opened) (Shop, error) {
		return reservingShop{&counter{st}, reservations{st}, takeAnyway}, nil
	}
	return v
}

// takeAnyway takes a unit without looking whether one is left.
func takeAnyway(ctx context.Context, tx pgx.Tx, product uint64) error {
	_, err := tx.Exec(ctx, `UPDATE inventory SET available = available - 1, version = version + 1
		WHERE product = $1`, product)
	return err
}

// settle handles a product's excess orders. The product's row of the stock is locked.
type settle func(ctx context.Context, tx pgx.Tx, product uint64, excess int64) error

// settler is the role that finds what was oversold, and sets Redis to what the stock says: where
// Redis changes meanwhile, soon after.
func settler(settle settle, to target) role {
	return role{Name: "settler", Summary: "settles what Redis has oversold", Single: true,
		Step: func(ctx context.Context, st *opened) (time.Duration, error) {
			var errs []error
			for _, product := range st.Params.all() {
				errs = append(errs, settleOne(ctx, st, product, settle))
			}
			changing, err := reservations{st}.mend(ctx, to, st.Params.all()...)
			if err != nil {
				st.Config.Warn("setting Redis right, which waits for the next time", err)
			}
			if changing > 0 {
				return st.Params.Reconcile.D(), errors.Join(errs...)
			}
			return st.Params.SettleEvery.D(), errors.Join(errs...)
		}}
}

// settleOne leaves out the orders that are being cancelled already. Their rows are locked, so that
// the payer cancels none meanwhile.
func settleOne(ctx context.Context, st *opened, product uint64, settle settle) error {
	err := st.DB.Transaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var excess int64
		err := tx.QueryRow(ctx, `SELECT -available FROM inventory WHERE product = $1 FOR UPDATE`,
			product).Scan(&excess)
		if err != nil || excess <= 0 {
			return err
		}
		var going int64
		err = tx.QueryRow(ctx, `SELECT count(*) FILTER (WHERE state = 'cancelling') FROM (
				SELECT state FROM orders WHERE product = $1 AND state IN ('pending', 'cancelling')
				FOR UPDATE) AS going`, product).Scan(&going)
		if err != nil || excess <= going {
			return err
		}
		return settle(ctx, tx, product, excess-going)
	})
	return stores.Failed("settling what was oversold", err)
}

// restock buys units.
func restock(ctx context.Context, tx pgx.Tx, product uint64, excess int64) error {
	_, err := tx.Exec(ctx, `INSERT INTO settlements (product, restocked, cancelled)
		VALUES ($1, $2, '{}')`, product, excess)
	if err == nil {
		_, err = tx.Exec(ctx, `UPDATE inventory SET available = available + $2, version = version + 1
			WHERE product = $1`, product, excess)
	}
	return err
}
