package checkout

import (
	"context"

	"github.com/jackc/pgx/v5"

	"stampede/harness/sut"
)

// cancelNewest lets Redis decide alone, and cancels the orders beyond the units. It is wrong where
// Redis forgets.
//
// The idea: that of honour_and_restock, but the settler cancels the newest orders, as many as there
// are too many. The payer gives their money back.
//
// The guarantee: at rest no more orders than units.
//
// It gives up: correctness. For a time there are more orders than units, and then orders are
// cancelled that users were told are paid.
func cancelNewest() variant {
	return redisDecides(variant{
		Name:       "cancel_newest",
		Idea:       "honour_and_restock that cancels the newest orders in place of buying more units",
		Guarantees: "at rest no more orders than units",
		GivesUp:    "correctness: when Redis forgets, paid orders are cancelled",
		Breaks:     []sut.Break{{Invariant: EndsOnce, Under: sut.PowerLoss}},
	}, cancelExcess)
}

// cancelExcess marks orders to be cancelled, as the payer does after a failed payment.
func cancelExcess(ctx context.Context, tx pgx.Tx, product uint64, excess int64) error {
	_, err := tx.Exec(ctx, cancelSQL, product, excess)
	return err
}

// cancelSQL marks the newest orders of product $1, at most $2, and notes that.
const cancelSQL = `WITH newest AS MATERIALIZED (SELECT order_id FROM orders
		WHERE product = $1 AND state IN ('pending', 'paid')
		ORDER BY made_at DESC, order_id DESC LIMIT $2 FOR UPDATE),
	marked AS (UPDATE orders SET state = 'cancelling', due = clock_timestamp()
		WHERE order_id IN (SELECT order_id FROM newest) RETURNING key)
	INSERT INTO settlements (product, restocked, cancelled)
	SELECT $1, 0, array_agg(key) FROM marked HAVING count(*) > 0`
