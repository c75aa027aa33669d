package checkout

import (
	"context"
	"crypto/rand"
	_ "embed" // the schema
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"stampede/harness/api"
	"stampede/harness/stores"
)

//go:embed schema.sql
var schema string

// common is the state that all designs have.
func common() state {
	return state{Schema: schema, Empty: []string{"attempts", "orders", "provider_payments",
		"settlements"},
		Seed: func(ctx context.Context, tx pgx.Tx, p Params) error {
			_, err := tx.Exec(ctx, `SELECT open_sale($1, $2)`, p.Products, p.Units)
			return err
		},
		Reset:   func(context.Context, *opened) error { return nil },
		Pending: openAttempts, Gauge: look,
		Audit: func(ctx context.Context, st *opened) (any, error) { return auditOf(ctx, st) },
	}
}

// The fail points of a checkout.
const (
	placeReserved = "reserved" // a unit is held in Redis, and there is no order
	placeOrdered  = "ordered"  // the order is there, and nobody knows
)

// counter is what the shops of all designs have in common: attempts in Postgres.
type counter struct{ *opened }

// Poll reads the attempt.
func (c *counter) Poll(ctx context.Context, req PollRequest) (p Progress, err error) {
	err = c.DB.Row(ctx, `SELECT state FROM attempts WHERE key = $1`, []any{keyOf(req.Token)}, &p.State)
	if errors.Is(err, pgx.ErrNoRows) {
		return p, ErrUnknownToken
	}
	return p, stores.Failed("polling", err)
}

// Leave gives up an attempt that waits. Whoever admits attempts locks their rows, and finds that it
// waits no more, or this finds that it was admitted.
func (c *counter) Leave(ctx context.Context, req LeaveRequest) (none api.Nothing, err error) {
	n, err := c.DB.Exec(ctx, `UPDATE attempts SET state = 'left' WHERE key = $1
		AND state = 'waiting'`, keyOf(req.Token))
	if err != nil || n == 1 {
		return none, stores.Failed("leaving", err)
	}
	p, err := c.Poll(ctx, PollRequest(req))
	if err == nil && p.State != left {
		err = ErrNotWaiting
	}
	return none, err
}

// keyOf is the key in a token: what is behind its product and place.
func keyOf(token string) string { return token[strings.LastIndexByte(token, '.')+1:] }

// begin makes an attempt with a new idempotency key, or finds the one that a request began before,
// which keeps its key; again says so.
func (c *counter) begin(
	ctx context.Context, tx pgx.Tx, req JoinRequest, state string, passedNS int64,
) (t Ticket, key string, again bool, err error) {
	err = tx.QueryRow(ctx, `INSERT INTO attempts
		(op_id, key, seq, user_id, ip, product, state, passed_ns)
		VALUES ($1, $2, nextval('places_' || $5), $3, $4, $5::int, $6, $7)
		ON CONFLICT DO NOTHING RETURNING token, key, seq`, req.ID, rand.Text(), req.User, req.IP,
		fmt.Sprint(req.Product), state, passedNS).Scan(&t.Token, &key, &t.Position)
	if !errors.Is(err, pgx.ErrNoRows) {
		return t, key, false, err
	}
	t, again, err = before(ctx, tx, req)
	if err == nil && !again {
		err = ErrJoined
	}
	return t, key, again, err
}

// before finds the attempt that a request began before.
func before(
	ctx context.Context, on stores.Querier, req JoinRequest,
) (t Ticket, found bool, err error) {
	err = stores.Each(ctx, on, `SELECT token, seq FROM attempts WHERE op_id = $1`, []any{req.ID},
		func(row pgx.CollectableRow) error {
			found = true
			return row.Scan(&t.Token, &t.Position)
		})
	return t, found, err
}

// earlier answers a request that is to be refused: with its attempt, if it has begun one before.
func (c *counter) earlier(
	ctx context.Context, req JoinRequest, refusal error,
) (t Ticket, err error) {
	found := false
	err = c.DB.With(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		t, found, err = before(ctx, conn, req)
		return err
	})
	if err == nil && !found {
		err = refusal
	}
	return t, err
}

// order makes the order of an attempt that has its unit.
func order(ctx context.Context, tx pgx.Tx, req JoinRequest, key string) error {
	_, err := tx.Exec(ctx, `INSERT INTO orders (key, op_id, user_id, product) VALUES ($1, $2, $3, $4)`,
		key, req.ID, req.User, req.Product)
	return err
}

// take takes a unit of the stock, in one transaction with the attempt and its order.
type take func(ctx context.Context, tx pgx.Tx, product uint64) error

// sell decides at once: the attempt begins with its order, or not at all.
func (c *counter) sell(ctx context.Context, req JoinRequest, take take) (Ticket, error) {
	t, err := c.sellOnce(ctx, req, take)
	if errors.Is(err, errAgain) {
		err = nil
	}
	return t, err
}

// sellOnce returns errAgain with the ticket of an attempt that was begun before.
func (c *counter) sellOnce(ctx context.Context, req JoinRequest, take take) (t Ticket, err error) {
	if !c.Params.has(req.Product) {
		return t, ErrUnknownProduct
	}
	err = c.DB.Transaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		err := take(ctx, tx, req.Product)
		if errors.Is(err, ErrSoldOut) {
			var again bool
			if t, again, err = before(ctx, tx, req); err == nil && !again {
				err = ErrSoldOut
			}
			return err
		}
		if err != nil {
			return err
		}
		var key string
		var again bool
		if t, key, again, err = c.begin(ctx, tx, req, pending, 0); err != nil {
			return err
		}
		if again {
			return errAgain // and give the unit back
		}
		return order(ctx, tx, req, key)
	})
	t.Position = 0 // nobody waits
	switch {
	case errors.Is(err, errAgain):
		return t, errAgain
	case err == nil:
		c.Config.Passed(placeOrdered)
	}
	return t, stores.Failed("selling", err)
}

// errAgain: the attempt was begun before.
var errAgain = errors.New("begun before")

// openAttempts counts the attempts that have not ended, and the orders whose money is not settled.
func openAttempts(ctx context.Context, st *opened) (left int64, what string, err error) {
	err = st.DB.Row(ctx, `SELECT
		(SELECT count(*) FROM attempts WHERE state IN ('waiting', 'admitted', 'pending')) +
		(SELECT count(*) FROM orders WHERE state = 'cancelling')`, nil, &left)
	return left, fmt.Sprintf("%d attempts have not ended", left), err
}

// seen is what the gauge sees: open attempts, the most orders of one product, and of how many
// products available and ordered units are not all that there are.
type seen struct {
	Open int64 `json:"open"`
	Most int64 `json:"most"`
	Off  int64 `json:"off"`
}

func look(ctx context.Context, st *opened) (any, error) {
	var s seen
	err := st.DB.Row(ctx, `WITH sold AS (
			SELECT product, count(*) AS n FROM orders WHERE state <> 'cancelled' GROUP BY product),
		bought AS (SELECT product, sum(restocked) AS n FROM settlements GROUP BY product)
		SELECT (SELECT count(*) FROM attempts WHERE state IN ('waiting', 'admitted', 'pending')),
			coalesce(max(sold.n), 0),
			count(*) FILTER (WHERE available + coalesce(sold.n, 0) <> $1 + coalesce(bought.n, 0))
		FROM inventory LEFT JOIN sold USING (product) LEFT JOIN bought USING (product)`,
		[]any{st.Params.Units}, &s.Open, &s.Most, &s.Off)
	return s, err
}

// auditOf reads everything in Postgres in one snapshot.
func auditOf(ctx context.Context, st *opened) (a Audit, err error) {
	a.Gate = []GateRow{}
	err = st.DB.Snapshot(ctx, func(ctx context.Context, tx pgx.Tx) error {
		return errors.Join(
			stores.CollectInto(ctx, tx, &a.Stock, `SELECT product, available FROM inventory ORDER BY 1`),
			stores.CollectInto(ctx, tx, &a.Attempts, `SELECT op_id, token, key, user_id, ip, product, state, admit_seq,
				passed_ns, ns(made_at) FROM attempts ORDER BY op_id, key`),
			stores.CollectInto(ctx, tx, &a.Steps, `SELECT seq, op_id, token, before, state, ns(at) FROM steps
				ORDER BY seq`),
			stores.CollectInto(ctx, tx, &a.Orders, `SELECT key, op_id, user_id, product, state, ns(made_at),
				coalesce(ns(ended_at), 0) FROM orders ORDER BY order_id`),
			stores.CollectInto(ctx, tx, &a.Payments, `SELECT key, kind, amount FROM provider_payments ORDER BY seq`),
			stores.CollectInto(ctx, tx, &a.Callbacks, `SELECT key, captured FROM provider_callbacks ORDER BY seq`),
			stores.CollectInto(ctx, tx, &a.Settlements, `SELECT product, restocked, cancelled, ns(at) FROM settlements
				ORDER BY seq`))
	})
	return a, err
}
