package idempotency

import (
	"context"
	_ "embed" // the schema
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/harness/stores"
	"stampede/systems/internal/idem"
)

//go:embed schema.sql
var schema string

// inPostgres completes a design with the state that all have: the provider's log, and keys in
// Postgres.
func inPostgres(v variant) variant {
	v.Places = places()
	v.State.Schema = schema
	v.State.Empty = []string{"keys", "provider_charges"}
	if v.State.Reset == nil {
		v.State.Reset = func(context.Context, *opened) error { return nil }
	}
	if v.State.Pending == nil {
		v.State.Pending = openKeys
	}
	if v.State.Audit == nil {
		v.State.Audit = audit
	}
	return v
}

// rows are keys in a table, each of them one row that is changed by single statements.
type rows struct{ *opened }

// rowClaim is a claim of a row, by its fence.
type rowClaim struct {
	rows
	key   string
	fence int64
	again bool
	note  []byte
}

// Begin inserts the key, or takes over a claim whose lease is over. If it can do neither it says
// what there is.
func (s rows) Begin(ctx context.Context, req idem.Request) (idem.Claim, *idem.Response, error) {
	c := &rowClaim{rows: s, key: req.Key}
	id, err := strconv.ParseInt(req.ID, 10, 64)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the request's identity: %w", err)
	}
	err = s.DB.Row(ctx, `INSERT INTO keys AS k
		(key, fingerprint, op_id, method, path, body, locked_until)
		VALUES ($1, $2, $3, $4, $5, $6, clock_timestamp() + $7::bigint * interval '1 microsecond')
		ON CONFLICT (key) DO UPDATE SET fence = excluded.fence, locked_until = excluded.locked_until
			WHERE k.fingerprint = excluded.fingerprint AND k.state <> 'done'
				AND k.locked_until <= clock_timestamp()
		RETURNING fence, xmax <> 0, note`,
		[]any{req.Key, req.Fingerprint, id, req.Method, req.Path, req.Body,
			s.Params.Lease.D().Microseconds()}, &c.fence, &c.again, &c.note)
	if errors.Is(err, pgx.ErrNoRows) {
		kept, err := s.look(ctx, req)
		if err == nil && kept == nil {
			err = idem.ErrInProgress
		}
		return nil, kept, err
	}
	if err != nil {
		return nil, nil, stores.Failed("claiming a key", err)
	}
	return c, nil, nil
}

// look returns the answer that is kept for a request, nil if there is none yet.
func (s rows) look(ctx context.Context, req idem.Request) (*idem.Response, error) {
	var kept idem.Response
	var same, is bool
	err := s.DB.Row(ctx, `SELECT fingerprint = $2, state = 'done', coalesce(status, 0),
		coalesce(type, ''), answer FROM keys WHERE key = $1`, []any{req.Key, req.Fingerprint}, &same, &is,
		&kept.Status, &kept.Type, &kept.Body)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, nil // it was not there, or has just been forgotten
	case err != nil:
		return nil, stores.Failed("looking for a key", err)
	case !same:
		return nil, idem.ErrOtherBody
	case !is:
		return nil, nil
	}
	return &kept, nil
}

func (c *rowClaim) Fence() int64  { return c.fence }
func (c *rowClaim) Again() bool   { return c.again }
func (c *rowClaim) Noted() []byte { return c.note }

// Note writes the recovery point.
func (c *rowClaim) Note(ctx context.Context, note []byte) error {
	return c.change(ctx, `UPDATE keys SET state = 'charged', note = $3 WHERE key = $1 AND fence = $2
		AND state <> 'done'`, note)
}

// Finish keeps the answer, and for how long.
func (c *rowClaim) Finish(ctx context.Context, a idem.Response) error {
	return c.change(ctx, `UPDATE keys SET state = 'done', status = $3, type = $4, answer = $5,
		done_at = now, expires_at = now + $6::bigint * interval '1 microsecond'
		FROM clock_timestamp() AS now WHERE key = $1 AND fence = $2 AND state <> 'done'`,
		a.Status, a.Type, a.Body, c.Params.TTL.D().Microseconds())
}

// Abandon ends the lease.
func (c *rowClaim) Abandon(ctx context.Context) error {
	return c.change(ctx, `UPDATE keys SET locked_until = clock_timestamp() WHERE key = $1
		AND fence = $2 AND state <> 'done'`)
}

func (c *rowClaim) change(ctx context.Context, sql string, args ...any) error {
	n, err := c.DB.Exec(ctx, sql, append([]any{c.key, c.fence}, args...)...)
	if err == nil && n == 0 {
		err = idem.ErrLost
	}
	return unsure("changing a key", err)
}

// batch is how many keys a role takes at once.
const batch = 200

// reaper forgets keys whose time is over.
func reaper() role {
	return role{Name: "reaper", Summary: "forgets keys whose time is over", Places: []string{"reaped"},
		Step: func(ctx context.Context, st *opened) (time.Duration, error) {
			n, err := st.DB.Exec(ctx, `DELETE FROM keys WHERE key IN (SELECT key FROM keys
				WHERE state = 'done' AND expires_at <= clock_timestamp()
				ORDER BY expires_at LIMIT $1 FOR UPDATE SKIP LOCKED)`, batch)
			st.Config.Passed("reaped")
			if n == batch {
				return 0, err
			}
			return st.Params.ReapEvery.D(), err
		}}
}

// completerDoes is what the completer does, in all designs.
const completerDoes = "finishes requests that were given up, whose clients do not come again"

// completer finishes requests whose lease is over, as if their clients came again.
func completer() role {
	return completerOf(func(st *opened) idem.Store { return rows{st} })
}

func completerOf(keys func(*opened) idem.Store) role {
	return role{Name: "completer", Summary: completerDoes, Places: places(),
		Step: func(ctx context.Context, st *opened) (time.Duration, error) {
			left, err := stores.Collect[idem.Request](ctx, st.DB, `SELECT key, fingerprint, op_id::text,
				method, path, body FROM keys WHERE state <> 'done' AND locked_until <= clock_timestamp()
				ORDER BY locked_until LIMIT $1`, batch/10)
			if err != nil {
				return 0, err
			}
			return completeAll(ctx, st, keys(st), left)
		}}
}

// completeAll finishes some requests.
func completeAll(
	ctx context.Context, st *opened, keys idem.Store, left []idem.Request,
) (time.Duration, error) {
	t, err := newTill(ctx, st, 0, keys)
	for _, req := range left {
		if err == nil {
			err = t.finish(ctx, req)
		}
		st.Config.Worked()
	}
	return st.Params.Complete.D(), err
}

// openKeys counts the keys that have no answer yet, or whose answer should have been forgotten.
func openKeys(ctx context.Context, st *opened) (left int64, what string, err error) {
	err = st.DB.Row(ctx, `SELECT count(*) FROM keys WHERE state <> 'done'
		OR expires_at + $1::bigint * interval '1 microsecond' <= clock_timestamp()`,
		[]any{st.Params.ReapLag.D().Microseconds()}, &left)
	return left, fmt.Sprintf("%d requests are not finished, or not forgotten in time", left), err
}

// audit reads everything in one snapshot.
func audit(ctx context.Context, st *opened) (any, error) {
	a := Audit{Contract: Contract{int64(st.Params.ReapLag)}, Charges: []ChargeRow{}, Keys: []KeyRow{}}
	err := st.DB.Snapshot(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
		if a.Charges, err = stores.CollectOn[ChargeRow](ctx, tx, `SELECT op_id, key, customer, amount,
			receipt, ns(at) FROM provider_charges ORDER BY seq`); err != nil {
			return err
		}
		return stores.Each(ctx, tx, `SELECT op_id, key, state, coalesce(answer, ''),
				coalesce(ns(done_at), 0), 0 FROM keys
			UNION ALL SELECT op_id, key, 'gone', coalesce(answer, ''), coalesce(ns(done_at), 0),
				ns(gone_at) FROM gone ORDER BY 2, 5`, nil, func(row pgx.CollectableRow) error {
			var k KeyRow
			var answer []byte
			err := row.Scan(&k.ID, &k.Key, &k.State, &answer, &k.DoneNS, &k.GoneNS)
			k.Receipt = receiptOf(answer)
			a.Keys = append(a.Keys, k)
			return err
		})
	})
	return a, err
}
