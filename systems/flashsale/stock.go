package flashsale

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/harness/stores"
	"stampede/harness/sut"
)

// stock is one way of keeping stock in Postgres, as parts of the ledger's
// statements.
type stock struct {
	// fill makes the unit rows and rows selects them for an audit, if there are any.
	fill, rows string
	// mark follows a new order (placed) in the statement that buys.
	mark string
	// settle follows the orders that a statement closed (closed) and ends
	// with the query settled: id, version of the unit.
	settle string
	// counts selects item, units, price_cents, available, held and sold of
	// every item, in one snapshot.
	counts string
	// inRow says that an item's row has what is available.
	inRow bool
	// unseen says which invariants cannot be judged of it, and why.
	unseen map[string]string
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
		fill: `INSERT INTO units (item, unit_no)
			SELECT item, n FROM items, generate_series(1, units) AS n ORDER BY item, n`,
		rows: `SELECT item, unit_no, state, coalesce(order_id::text, ''), version
			FROM units ORDER BY item, unit_no`,
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
		inRow:  true,
		unseen: countsOnly(),
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
		unseen: countsOnly(),
	}
}

func countsOnly() map[string]string {
	return map[string]string{UnitExclusive: "keeps a count, not a row for each unit"}
}

// sells completes a design that keeps its stock in Postgres alone.
func (s stock) sells(v variant) variant {
	v = s.seeded(v, map[string]string{RedisDrift: "keeps no stock in Redis"})
	v.State.Pending = s.held
	v.State.Reset = func(context.Context, *opened) error { return nil }
	v.State.Audit = func(ctx context.Context, st *opened) (any, error) {
		return s.audit(ctx, st, reclaimSlack(st))
	}
	alone := s.reclaimer(func(*opened) release {
		return func(context.Context, cart) error { return nil }
	})
	alone.Needs = []sut.Service{}
	v.Roles = append(v.Roles, alone)
	return v
}

// seeded fills the tables of a design, and says more of what cannot be judged of it.
func (s stock) seeded(v variant, unseen map[string]string) variant {
	why := map[string]string{}
	for _, reasons := range []map[string]string{unseen, s.unseen, v.NotApplicable} {
		maps.Copy(why, reasons)
	}
	v.NotApplicable = why
	v.State.Seed = s.seed
	return v
}

// seed fills empty tables with the items and their units.
func (s stock) seed(ctx context.Context, tx pgx.Tx, p Params) error {
	_, err := tx.Exec(ctx, `INSERT INTO items (item, units, price_cents, available)
		SELECT item, $2, $3, $2 FROM unnest($1::text[]) AS item`, itemKeys(p), p.Units, p.PriceCents)
	if err == nil && s.fill != "" {
		_, err = tx.Exec(ctx, s.fill)
	}
	if err == nil { // the planner must know how large they are
		_, err = tx.Exec(ctx, `ANALYZE items, units`)
	}
	return err
}

// held counts the carts that are neither paid nor closed.
func (stock) held(ctx context.Context, st *opened) (n int64, what string, err error) {
	err = st.DB.Row(ctx, `SELECT count(*) FROM orders WHERE state = 'held'`, nil, &n)
	if err != nil {
		return 0, "", stores.Failed("counting held carts", err)
	}
	return n, fmt.Sprintf("%d carts are neither paid nor reclaimed (cart_ttl is %s)", n,
		st.Params.CartTTL), nil
}

const (
	// reclaimBatch bounds the rows that one statement of the reclaimer locks.
	reclaimBatch = 500
	// roleTimeout bounds one operation of a role, where buyers are given more.
	roleTimeout = time.Second
	// placeReturned is where the ledger has carts back and Redis does not know it.
	placeReturned = "returned"
)

// reclaimSlack is how late a cart may be returned while the stores answer:
// one round of waiting, one round of work, and half a second for a machine
// that is busy with the sale itself.
func reclaimSlack(st *opened) time.Duration { return reclaimSlackOf(st.Params, st.Config) }

func reclaimSlackOf(p Params, cfg sut.Config) time.Duration {
	return p.ReclaimEvery.D() + min(stores.Timeout(cfg), roleTimeout) + time.Second/2
}

// release tells whoever else keeps stock of a cart that the ledger has closed.
type release func(context.Context, cart) error

// reclaimer is the role that returns expired carts to the shelf.
func (s stock) reclaimer(to func(*opened) release) role {
	return role{
		Name:    "reclaimer",
		Summary: "returns carts that were not paid in time, by the database's clock",
		Places:  []string{placeReturned},
		Timeout: roleTimeout,
		Step: func(ctx context.Context, st *opened) (time.Duration, error) {
			return st.Params.ReclaimEvery.D(), newBooks(st.DB, s).reclaimAll(ctx, st, to(st))
		},
	}
}

// reclaimAll returns every cart that has expired, batch by batch.
func (b *books) reclaimAll(ctx context.Context, st *opened, to release) error {
	for {
		carts, err := b.reclaim(ctx, st.Params.CartTTL.D(), reclaimBatch)
		if err != nil {
			return err
		}
		if len(carts) > 0 {
			st.Config.Passed(placeReturned)
		}
		releaseAll(ctx, st, carts, to)
		if len(carts) < reclaimBatch {
			return nil
		}
	}
}

// releaseAll tells of carts that the ledger has closed, also when ctx has just ended. At the first
// error it leaves the rest to the reconciler, so that carts go on to expire.
func releaseAll(ctx context.Context, st *opened, carts []cart, to release) {
	ctx = context.WithoutCancel(ctx)
	for i, c := range carts {
		if err := to(ctx, c); err != nil {
			st.Config.Warn(fmt.Sprintf("flashsale reclaimer left %d units to the reconciler",
				len(carts)-i), err)
			return
		}
	}
}
