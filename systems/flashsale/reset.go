package flashsale

import (
	"context"
	"fmt"

	"stampede/harness/stores"
)

// Reset begins the sale anew: nothing is sold, all counters are full. It may
// be called however often, and before the first Prepare. Operations must not
// be under way; a cart that a role is returning at this very moment may still
// reach Redis, where the reconciler finds it.
func (i *instance) Reset(ctx context.Context) error {
	prepared, err := i.books.prepared(ctx)
	if err != nil {
		return err
	}
	if !prepared {
		return i.Prepare(ctx)
	}
	if err := i.books.clear(ctx, i.params); err != nil {
		return err
	}
	if line, ok := i.Shop.(*lineShop); ok {
		return line.reset(ctx)
	}
	if i.redis == nil {
		return nil
	}
	return i.redis.refill(ctx, itemKeys(i.params))
}

// prepared says whether the ledger's tables are there.
func (b *books) prepared(ctx context.Context) (yes bool, err error) {
	err = b.db.Row(ctx, `SELECT to_regclass('items') IS NOT NULL`, nil, &yes)
	if err != nil {
		return false, stores.Failed("looking for the ledger", err)
	}
	return yes, nil
}

// clear empties the ledger and puts all units back on the shelf, in one
// transaction.
func (b *books) clear(ctx context.Context, p Params) error {
	err := b.stocked(ctx, p,
		`TRUNCATE items, units, orders, payments, order_log RESTART IDENTITY`)
	if err != nil {
		return fmt.Errorf("clearing the ledger: %w", err)
	}
	return nil
}

// refill forgets who took what and sets every counter to the configured
// number of units, in one transaction.
func (c *counters) refill(ctx context.Context, items []string) error {
	pipe := c.rdb.TxPipeline()
	for _, item := range items {
		pipe.Del(ctx, c.allKeys(item)...)
		if c.kind.counts {
			pipe.Set(ctx, c.stockKey(item), c.units, 0)
		}
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return stores.Failed("setting the counters anew", err)
	}
	return nil
}
