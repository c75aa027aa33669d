package writeheavy

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"stampede/harness/api"
	"stampede/harness/stores"
	"stampede/harness/sut"
)

// counted is an add with the place that a design has for it.
type counted struct {
	AddRequest
	shard int
	pos   int64
}

// sqlApply makes adds, of which those that are in ops already have no effect. A counter gets the
// sum of the others at once. Ops and counters are locked in the order of their primary keys.
const sqlApply = `WITH fresh AS (
		INSERT INTO ops (op_id, key, usr, shard, delta, pos)
		SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::int[], $5::bigint[],
			$6::bigint[])
		ON CONFLICT DO NOTHING RETURNING key, shard, delta)
	INSERT INTO counters (key, map, shard, value)
	SELECT key, $7, shard, sum(delta)::bigint FROM fresh GROUP BY key, shard ORDER BY key, shard
	ON CONFLICT (key, map, shard) DO UPDATE SET value = counters.value + excluded.value`

// apply makes adds in a transaction, in the counters of a map of shards.
func apply(ctx context.Context, tx pgx.Tx, shardMap int, list []counted) error {
	if len(list) == 0 {
		return nil
	}
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b counted) int { return cmp.Compare(a.ID, b.ID) })
	var ids, on, users []uint64
	var shards []int
	var deltas, places []int64
	for _, c := range list {
		ids, on, users = append(ids, c.ID), append(on, c.Key), append(users, c.User)
		shards, deltas, places = append(shards, c.shard), append(deltas, c.Delta), append(places, c.pos)
	}
	_, err := tx.Exec(ctx, sqlApply, ids, on, users, shards, deltas, places, shardMap)
	return err
}

// sqlBury makes a dead letter.
const sqlBury = `INSERT INTO dead (op_id, key, usr, delta, tries) VALUES ($1, $2, $3, $4, $5)
	ON CONFLICT DO NOTHING`

// rejects says whether an error of Postgres is about what should be written, so that no attempt can
// succeed.
func rejects(err error) bool { return stores.Constraint(err) == "ops_sound" }

// now is a design whose reads are as of now.
type now struct{ *opened }

// Read adds up the parts of a counter in the newest map.
func (n now) Read(ctx context.Context, req ReadRequest) (Value, error) {
	v := Value{Key: req.Key}
	err := n.DB.Row(ctx, `SELECT coalesce(sum(value), 0)::bigint FROM counters
		WHERE key = $1 AND map = (SELECT coalesce(max(version), 1) FROM maps)`, []any{req.Key}, &v.Value)
	return v, stores.Failed("reading a counter", err)
}

// watermarked is a design whose reads say up to which position they are.
type watermarked struct{ *opened }

// Read reads a counter together with how far its source is applied.
func (w watermarked) Read(ctx context.Context, req ReadRequest) (Value, error) {
	v := Value{Key: req.Key}
	err := w.DB.Row(ctx, `SELECT coalesce(sum(value), 0)::bigint, coalesce(max(next_offset), 0)
		FROM counters JOIN progress ON part = shard WHERE key = $1 AND map = 1`, []any{req.Key},
		&v.Value, &v.AsOf)
	return v, stores.Failed("reading a counter", err)
}

// service is what clients call: a design says how it adds and how it reads.
type service struct {
	reader
	add func(ctx context.Context, req AddRequest) error
	// atOnce is how many adds of a batch are made at once.
	atOnce int
}

type reader interface {
	Read(ctx context.Context, req ReadRequest) (Value, error)
}

// Add makes an add.
func (s service) Add(ctx context.Context, req AddRequest) (none api.Nothing, err error) {
	return none, s.add(ctx, req)
}

// Batch makes each add for itself, and says what became of it.
func (s service) Batch(ctx context.Context, req BatchRequest) (BatchReply, error) {
	reply := BatchReply{Results: make([]Result, len(req.Records))}
	if s.atOnce == 1 {
		for i, r := range req.Records {
			reply.Results[i] = Result{r.ID, resultOf(s.add(ctx, r.add(req.Attempt)))}
		}
		return reply, nil
	}
	var group errgroup.Group
	group.SetLimit(s.atOnce)
	for i, r := range req.Records {
		group.Go(func() error {
			reply.Results[i] = Result{r.ID, resultOf(s.add(ctx, r.add(req.Attempt)))}
			return nil
		})
	}
	_ = group.Wait() // each error is in the reply
	return reply, nil
}

// resultOf is what an add's error says in the reply to a batch.
func resultOf(err error) string {
	switch {
	case err == nil:
		return ResultOK
	case errors.Is(err, sut.ErrRefused):
		return sut.Code(err)
	}
	return ResultUnknown
}

// audited reads the final truth of a design that promises something. More reads what only this one
// has, in the same snapshot.
func audited(
	contract Contract, more func(context.Context, *opened, pgx.Tx, *Audit) error,
) func(context.Context, *opened) (any, error) {
	return func(ctx context.Context, st *opened) (any, error) {
		a := Audit{Contract: contract}
		err := st.DB.Snapshot(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
			if a.Ops, err = stores.CollectOn[OpRow](ctx, tx,
				`SELECT op_id, key, usr, delta, pos FROM ops ORDER BY op_id`); err != nil {
				return err
			}
			if a.Counters, err = stores.CollectOn[CounterRow](ctx, tx, `SELECT key, shard, value
				FROM counters WHERE map = (SELECT coalesce(max(version), 1) FROM maps)
				ORDER BY key, shard`); err != nil {
				return err
			}
			a.Dead, err = stores.CollectOn[DeadRow](ctx, tx,
				`SELECT op_id, key, usr, delta, tries FROM dead ORDER BY op_id`)
			if err == nil && more != nil {
				err = more(ctx, st, tx, &a)
			}
			return err
		})
		return a, err
	}
}
