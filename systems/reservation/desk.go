package reservation

import (
	"context"
	_ "embed" // the schema
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/harness/api"
	"stampede/harness/stores"
	"stampede/harness/sut"
)

//go:embed schema.sql
var schema string

// stock gives places out and takes them back, inside the transaction that changes the holds.
type stock interface {
	// take takes a place for all nights of a stay and returns its number, 0 if that is decided
	// later. It returns ErrSoldOut if there is none, errFaster if somebody was faster.
	take(ctx context.Context, tx pgx.Tx, req HoldRequest) (unit int, err error)
	// give takes places back from holds that are over.
	give(ctx context.Context, tx pgx.Tx, holds []int64) error
}

// inPostgres completes a design whose holds are in Postgres: nights is the statement that says
// what its stock has, as columns resource, night, free and taken.
func inPostgres(v variant, s stock, nights string) variant {
	if v.Open == nil {
		v.Open = func(_ context.Context, st *opened) (Desk, error) {
			return admit(st.Params, &desk{st, s}), nil
		}
	}
	v.Roles = append(v.Roles, expirer(s))
	v.State.Schema = schema + v.State.Schema
	v.State.Empty = []string{"holds"}
	if v.State.Reset = v.State.Ready; v.State.Reset == nil {
		v.State.Reset = func(context.Context, *opened) error { return nil }
	}
	if v.State.Pending == nil {
		v.State.Pending = openHolds
	}
	v.State.Audit = func(ctx context.Context, st *opened) (any, error) {
		return auditOf(ctx, st, nights)
	}
	v.State.Gauge = look
	return v
}

// desk keeps holds in Postgres. What a design does otherwise it overrides.
type desk struct {
	*opened
	stock
}

// errFaster: somebody else was faster, and the place is to be looked for again.
var errFaster = errors.New("somebody was faster")

// attempts is how often a place is looked for.
const attempts = 20

// Hold takes a place and writes the hold in one transaction.
func (d *desk) Hold(ctx context.Context, req HoldRequest) (Held, error) {
	if !d.Params.has(req) {
		return Held{}, ErrUnknownStay
	}
	err := errFaster
	for n := 0; n < attempts && errors.Is(err, errFaster); n++ {
		var unit int
		err = d.DB.Transaction(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
			if unit, err = d.take(ctx, tx, req); err == nil {
				err = d.insert(ctx, tx, req, unit)
			}
			return err
		})
		if err == nil {
			return Held{Unit: unit, Version: 1}, nil
		}
	}
	switch {
	case errors.Is(err, ErrSoldOut):
		return d.before(ctx, req)
	case errors.Is(err, errFaster):
		return Held{}, ErrContended
	}
	return Held{}, stores.Failed("holding a place", err)
}

// insert writes a hold, unless there is one already or a constraint says that the place is taken.
func (d *desk) insert(ctx context.Context, tx pgx.Tx, req HoldRequest, unit int) error {
	tag, err := tx.Exec(ctx, `INSERT INTO holds
		(hold_id, resource, unit, first, nights, guest, held_at, expires_at)
		SELECT $1, $2, $3, $4, $5, $6, now, now + $7::bigint * interval '1 microsecond'
		FROM clock_timestamp() AS now ON CONFLICT DO NOTHING`,
		req.ID, req.Resource, unit, req.First, req.Nights, req.Guest, d.Params.HoldTTL.D().Microseconds())
	if err != nil || tag.RowsAffected() > 0 {
		return err
	}
	var again bool
	err = tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM holds WHERE hold_id = $1)`, req.ID).Scan(&again)
	switch {
	case err != nil:
		return err
	case again:
		return ErrSoldOut // for this attempt: see before
	}
	return errFaster
}

// before answers an operation that cannot have a place now: with its hold, if an earlier attempt
// made one.
func (d *desk) before(ctx context.Context, req HoldRequest) (Held, error) {
	var unit int
	err := d.DB.Row(ctx, `SELECT unit FROM holds WHERE hold_id = $1`, []any{req.ID}, &unit)
	if errors.Is(err, pgx.ErrNoRows) {
		return Held{}, ErrSoldOut
	}
	return Held{Unit: unit, Version: 1}, stores.Failed("looking for an earlier hold", err)
}

// Confirm takes the payment and then changes the hold if it is still what the guest saw. The
// moment that decides is read once.
func (d *desk) Confirm(ctx context.Context, req HeldRequest) (Booked, error) {
	if err := pay(ctx, d.Params); err != nil {
		return Booked{}, err
	}
	var version int64
	err := d.DB.Row(ctx, `UPDATE holds SET state = 'confirmed', version = version + 1,
		confirm_op = $1, confirmed_at = now FROM clock_timestamp() AS now
		WHERE hold_id = $2 AND guest = $3 AND resource = $4 AND version = $5
			AND state = 'held' AND expires_at > now RETURNING version`,
		[]any{req.ID, req.Hold, req.Guest, req.Resource, req.Version}, &version)
	if errors.Is(err, pgx.ErrNoRows) {
		return Booked{req.Version + 1}, d.otherwise(ctx, req, "confirm_op")
	}
	return Booked{version}, stores.Failed("confirming a hold", err)
}

// pay takes as long as a payment does.
func pay(ctx context.Context, p Params) error {
	if pause := p.Pay.D(); pause > 0 && !sut.Pause(ctx, pause) {
		return fmt.Errorf("paying: %w: %w", sut.ErrRefused, ctx.Err())
	}
	return nil
}

// Release gives a hold back.
func (d *desk) Release(ctx context.Context, req HeldRequest) (api.Nothing, error) {
	return d.end(ctx, req, held, released)
}

// Cancel gives a booking back.
func (d *desk) Cancel(ctx context.Context, req HeldRequest) (api.Nothing, error) {
	return d.end(ctx, req, confirmed, cancelled)
}

func (d *desk) end(
	ctx context.Context, req HeldRequest, from, to string,
) (none api.Nothing, err error) {
	err = d.DB.Transaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `UPDATE holds SET state = $1, version = version + 1, end_op = $2,
			ended_at = clock_timestamp() WHERE hold_id = $3 AND guest = $4 AND resource = $5
			AND version = $6 AND state = $7`,
			to, req.ID, req.Hold, req.Guest, req.Resource, req.Version, from)
		if err == nil && tag.RowsAffected() == 0 {
			err = ErrNotOpen
		}
		if err != nil {
			return err
		}
		return d.give(ctx, tx, []int64{int64(req.Hold)})
	})
	if errors.Is(err, ErrNotOpen) {
		return none, d.otherwise(ctx, req, "end_op")
	}
	return none, stores.Failed("giving a place back", err)
}

// otherwise says why a request changed nothing: nil if an earlier attempt did, whose identity is
// in the column by.
func (d *desk) otherwise(ctx context.Context, req HeldRequest, by string) error {
	var op uint64
	var now string
	var over bool
	err := d.DB.Row(ctx, `SELECT `+by+`, state, expires_at <= clock_timestamp() FROM holds
		WHERE hold_id = $1 AND guest = $2 AND resource = $3`,
		[]any{req.Hold, req.Guest, req.Resource}, &op, &now, &over)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return ErrUnknownHold
	case err != nil:
		return stores.Failed("looking at a hold", err)
	case op == req.ID:
		return nil
	case now == expired || now == held && over:
		return ErrExpired
	}
	return ErrNotOpen
}

// expirerDoes is what the expirer does, in all designs.
const expirerDoes = "ends holds whose time is over and gives their places back"

// expireBatch is how many holds expire in one transaction.
const expireBatch = 200

// expirer ends holds whose time is over and gives their places back.
func expirer(s stock) role {
	return role{Name: "expirer", Summary: expirerDoes,
		Places: []string{"expired"},
		Step: func(ctx context.Context, st *opened) (time.Duration, error) {
			var over []int64
			err := st.DB.Transaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
				err := stores.Each(ctx, tx, `UPDATE holds SET state = 'expired', version = version + 1,
					ended_at = clock_timestamp() WHERE hold_id IN (SELECT hold_id FROM holds
						WHERE state = 'held' AND expires_at <= clock_timestamp()
						ORDER BY expires_at LIMIT $1 FOR UPDATE SKIP LOCKED)
					RETURNING hold_id`, []any{expireBatch}, func(row pgx.CollectableRow) error {
					var id int64
					err := row.Scan(&id)
					over = append(over, id)
					return err
				})
				if err != nil || len(over) == 0 {
					return err
				}
				st.Config.Passed("expired")
				return s.give(ctx, tx, over)
			})
			if len(over) == expireBatch {
				return 0, err
			}
			return st.Params.ExpireEvery.D(), err
		}}
}

// openHolds counts the holds that have neither been confirmed nor ended.
func openHolds(ctx context.Context, st *opened) (left int64, what string, err error) {
	err = st.DB.Row(ctx, `SELECT count(*) FROM holds WHERE state = 'held'`, nil, &left)
	return left, fmt.Sprintf("%d holds are open", left), err
}

// seen is what the gauge sees: the open holds, and the most places of one resource that are taken
// for one night.
type seen struct {
	Open int64 `json:"open"`
	Most int64 `json:"most"`
}

func look(ctx context.Context, st *opened) (any, error) {
	var s seen
	err := st.DB.Row(ctx, `WITH live AS MATERIALIZED (
			SELECT * FROM holds WHERE state IN ('held', 'confirmed'))
		SELECT count(*) FILTER (WHERE state = 'held'),
			coalesce((SELECT max(n) FROM (SELECT count(*) AS n FROM live,
				generate_series(first, first + nights - 1) AS night GROUP BY resource, night) AS taken), 0)
		FROM live`, nil, &s.Open, &s.Most)
	return s, err
}

// auditOf reads everything in one snapshot.
func auditOf(ctx context.Context, st *opened, nights string) (Audit, error) {
	a := emptyAudit(st.Params)
	err := st.DB.Snapshot(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if err := stores.CollectInto(ctx, tx, &a.Nights, nights); err != nil {
			return err
		}
		if err := stores.CollectInto(ctx, tx, &a.Holds, `SELECT hold_id, resource, unit, first, nights, guest, state,
			version, ns(held_at), confirm_op, coalesce(ns(confirmed_at), 0), end_op,
			coalesce(ns(ended_at), 0) FROM holds ORDER BY hold_id`); err != nil {
			return err
		}
		return stores.CollectInto(ctx, tx, &a.Changes,
			`SELECT seq, hold_id, before, state, version, ns(at) FROM changes ORDER BY seq`)
	})
	return a, err
}

// emptyAudit is of a design whose view of the stock is never late.
func emptyAudit(p Params) Audit {
	return Audit{Contract: Contract{ExpiryLagNS: int64(p.ExpireLag)}, Holds: []HoldRow{},
		Nights: []NightRow{}, Changes: []Change{}}
}
