package flashsale

// stock is one way of keeping stock in Postgres, as parts of the ledger's
// statements.
type stock struct {
	keepsUnits bool
	// mark follows a new order (placed) in the statement that buys.
	mark string
	// settle follows the orders that a statement closed (closed) and ends
	// with the query settled: id, version of the unit.
	settle string
	// counts selects item, units, price_cents, available, held and sold of
	// every item, in one snapshot.
	counts string
}

// ordersOf counts an item's active orders; orders_active serves it.
const ordersOf = ` FROM items, LATERAL (
    SELECT count(*) FILTER (WHERE state = 'held') AS held,
        count(*) FILTER (WHERE state = 'paid') AS sold
    FROM orders WHERE orders.item = items.item AND state IN ('held', 'paid')
) AS active`

// unitRows keeps a row for each unit; available, held and sold are counts of
// these rows, so nothing can disagree with them.
func unitRows() stock {
	return stock{
		keepsUnits: true,
		mark: `, marked AS (
    UPDATE units SET state = 'held', order_id = placed.id, version = units.version + 1
    FROM placed WHERE units.item = $1 AND units.unit_no = placed.unit_no
)`,
		settle: `, settled AS (
    UPDATE units SET version = units.version + 1,
        state = CASE closed.state WHEN 'paid' THEN 'sold' ELSE 'available' END,
        order_id = CASE closed.state WHEN 'paid' THEN closed.id END
    FROM closed
    WHERE units.item = closed.item AND units.unit_no = closed.unit_no
        AND units.order_id = closed.id AND units.state = 'held'
    RETURNING closed.id, units.version
)`,
		counts: `SELECT items.item, units, price_cents, shelf.available, held, sold
FROM items, LATERAL (
    SELECT count(*) FILTER (WHERE state = 'available') AS available,
        count(*) FILTER (WHERE state = 'held') AS held,
        count(*) FILTER (WHERE state = 'sold') AS sold
    FROM units WHERE units.item = items.item
) AS shelf`,
	}
}

// counterRow keeps a number in the item's row. Held and sold are counts of
// orders, so that the three can disagree, and be caught at it.
func counterRow() stock {
	return stock{
		settle: `, returned AS (
    UPDATE items SET available = available + n, version = version + 1
    FROM (SELECT item, count(*) AS n FROM closed WHERE state <> 'paid' GROUP BY item) AS back
    WHERE items.item = back.item
), settled AS (
    SELECT id, 0::bigint AS version FROM closed
)`,
		counts: `SELECT items.item, units, price_cents, available, held, sold` + ordersOf,
	}
}

// ordersOnly keeps no stock in Postgres: what is available is what the orders
// leave, and nothing stops them from leaving less than nothing.
func ordersOnly() stock {
	return stock{
		settle: `, settled AS (
    SELECT id, 0::bigint AS version FROM closed
)`,
		counts: `SELECT items.item, units, price_cents, units - held - sold, held, sold` + ordersOf,
	}
}
