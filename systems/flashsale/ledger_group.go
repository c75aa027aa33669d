package flashsale

import (
	"context"

	"stampede/harness/stores"

	"github.com/jackc/pgx/v5"
)

// groupRows are a group's results by operation; key 0 has the status of those
// that got nothing.
type groupRows map[uint64][]groupRow

type groupRow struct {
	saleRow
	buyer string
}

// answer finds the result of one request. Of two buyers that use one key, one
// has the row, and the other is sent to ask again alone.
func (g groupRows) answer(req BuyRequest, err error) served {
	if err != nil {
		return served{err: err}
	}
	for _, r := range g[req.OpID] {
		if r.buyer == req.Buyer {
			c, err := r.claim()
			return served{c, err}
		}
	}
	if len(g[0]) != 1 || len(g[req.OpID]) > 0 {
		return served{err: errBusy}
	}
	_, err = g[0][0].claim()
	return served{err: err}
}

// groupStatement is buyStatement for many: $2 and $3 are the operations and
// their buyers in the order in which they came. Who came first gets a unit
// first, but orders are inserted in the order of their buyers: groups of two
// servers that meet the same buyers then wait for each other one way only.
// The last row, of operation 0, says why the others got nothing.
//
// LATERAL with a LIMIT makes each look at orders one descent of an index for
// one buyer. As joins they were planned, while the table was small, from the
// other side: through all orders of the item, for every group.
const groupStatement = `
WITH wanted AS MATERIALIZED (
    SELECT op_id, buyer, place FROM unnest($2::bigint[], $3::text[])
        WITH ORDINALITY AS w (op_id, buyer, place)
), earlier AS MATERIALIZED (
    SELECT op_id, wanted.buyer, id, unit_no, item = $1 AND known.buyer = wanted.buyer AS same
    FROM wanted, LATERAL (
        SELECT id, unit_no, item, buyer FROM orders WHERE orders.op_id = wanted.op_id LIMIT 1
    ) AS known
), active AS MATERIALIZED (
    SELECT op_id, wanted.buyer FROM wanted, LATERAL (
        SELECT FROM orders WHERE item = $1 AND orders.buyer = wanted.buyer
            AND state IN ('held', 'paid') LIMIT 1
    ) AS known
), fresh AS MATERIALIZED (
    SELECT op_id, buyer, row_number() OVER (ORDER BY place) AS place FROM wanted
    WHERE op_id NOT IN (SELECT op_id FROM earlier) AND buyer NOT IN (SELECT buyer FROM active)
), free AS MATERIALIZED (
    SELECT unit_no, version FROM units WHERE item = $1 AND state = 'available'
    ORDER BY unit_no LIMIT (SELECT count(*) FROM fresh) FOR UPDATE SKIP LOCKED
), taken AS MATERIALIZED (
    SELECT op_id, buyer, unit_no, version + 1 AS version FROM fresh JOIN (
        SELECT unit_no, version, row_number() OVER (ORDER BY unit_no) AS place FROM free
    ) AS numbered USING (place)
), placed AS (
    INSERT INTO orders (op_id, item, buyer, unit_no, state, held_at)
    SELECT op_id, $1, buyer, unit_no, 'held', clock_timestamp() FROM taken ORDER BY buyer, op_id
    ON CONFLICT DO NOTHING
    RETURNING id, op_id, buyer, unit_no, held_at
), marked AS (
    UPDATE units SET state = 'held', order_id = placed.id, version = units.version + 1
    FROM placed WHERE units.item = $1 AND units.unit_no = placed.unit_no
), logged AS (
    INSERT INTO order_log
        (order_id, item, unit_no, version, from_state, to_state, cause, at)
    SELECT id, $1, unit_no, version, 'available', 'held', 'buy', held_at
    FROM placed JOIN taken USING (unit_no)
)
SELECT op_id, buyer, 'placed', id, unit_no FROM placed
UNION ALL
SELECT op_id, buyer, CASE WHEN same THEN 'earlier' ELSE 'reused' END, id, unit_no FROM earlier
UNION ALL
SELECT op_id, buyer, 'bought', 0, 0 FROM active WHERE op_id NOT IN (SELECT op_id FROM earlier)
UNION ALL
SELECT 0, '', CASE
    WHEN NOT EXISTS (SELECT FROM items WHERE item = $1) THEN 'unknown'
    WHEN (SELECT count(*) FROM placed) < (SELECT count(*) FROM free) THEN 'busy'
    WHEN EXISTS (SELECT FROM units WHERE item = $1 AND state = 'available'
        AND unit_no NOT IN (SELECT unit_no FROM free)) THEN 'busy'
    ELSE 'sold out' END, 0, 0`

// buyGroup claims units for many buyers of one item.
func (b *books) buyGroup(ctx context.Context, group []BuyRequest) (found groupRows, err error) {
	err = b.db.With(ctx, func(ctx context.Context, conn *pgx.Conn) (err error) {
		found, err = groupRowsOf(ctx, conn, group)
		return err
	})
	if err != nil {
		return nil, stores.Failed("claiming units for a group", err)
	}
	return found, nil
}

// groupRowsOf runs groupStatement on a connection or in a transaction. Equal requests, as from a
// double click, are claimed once.
func groupRowsOf(
	ctx context.Context, on stores.Querier, group []BuyRequest,
) (groupRows, error) {
	found, asked := groupRows{}, map[BuyRequest]bool{}
	var ops []int64
	var buyers []string
	for _, req := range group {
		if !asked[req] {
			asked[req] = true
			ops, buyers = append(ops, int64(req.OpID)), append(buyers, req.Buyer)
		}
	}
	err := stores.Each(ctx, on, groupStatement, []any{group[0].Item, ops, buyers},
		func(row pgx.CollectableRow) error {
			var op int64
			var r groupRow
			err := row.Scan(&op, &r.buyer, &r.status, &r.id, &r.unit)
			found[uint64(op)] = append(found[uint64(op)], r)
			return err
		})
	return found, err
}
