package writeheavy

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"stampede/harness/sim"
	"stampede/harness/stores"
)

// rowAtATime writes each add in a transaction of its own. All others are compared with it.
//
// The idea: INSERT the add's number, ON CONFLICT DO NOTHING; if it was new, UPDATE the counter's
// row. An add of a batch is no different from one alone.
//
// The guarantee: what is acknowledged is committed, and reads are as of now.
//
// It gives up: throughput. Each add waits for a flush of the disk, and those of one counter for
// each other's.
func rowAtATime() variant {
	return variant{Name: "row_at_a_time",
		Idea:       "a transaction for each add: its number, and the row of its counter",
		Guarantees: "what is acknowledged is committed, and reads are as of now",
		GivesUp:    "throughput: each add waits for a flush, and on a hot counter for all others",
		Open: func(_ context.Context, st *opened) (Counters, error) {
			return service{now{st}, rows{st}.add, 1}, nil
		},
		Model: modelled(func(m *countersModel) { m.serve = m.addsRows }),
	}
}

type rows struct{ *opened }

// add makes an add in a transaction.
func (r rows) add(ctx context.Context, req AddRequest) error {
	err := r.DB.Transaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `INSERT INTO ops (op_id, key, usr, shard, delta, pos)
			VALUES ($1, $2, $3, 0, $4, 0) ON CONFLICT DO NOTHING`, req.ID, req.Key, req.User, req.Delta)
		if err != nil || tag.RowsAffected() == 0 {
			return err
		}
		_, err = tx.Exec(ctx, `INSERT INTO counters (key, map, shard, value) VALUES ($1, 1, 0, $2)
			ON CONFLICT (key, map, shard) DO UPDATE SET value = counters.value + excluded.value`,
			req.Key, req.Delta)
		return err
	})
	if rejects(err) {
		return fmt.Errorf("%w: %w", ErrRejected, err)
	}
	return stores.Failed("adding", err)
}

// addsRows is its model.
func (m *countersModel) addsRows() *modelService {
	one := func(p *sim.Process, req AddRequest) error {
		return m.db.Transaction(p, func() error {
			fresh := false
			m.db.Query(p, costInsert, func() { fresh = sound(req.Delta) && m.insert(p, req, 0) })
			switch {
			case !sound(req.Delta):
				return ErrRejected
			case fresh:
				m.db.Query(p, costUpdate, func() { m.plus(p, part{req.Key, 1, 0}, req.Delta) })
			}
			return nil
		})
	}
	return &modelService{countersModel: m, add: func(p *sim.Process, list []AddRequest) []error {
		errs := make([]error, len(list))
		for i, req := range list {
			if failed := p.Try(func() { errs[i] = one(p, req) }); failed != nil {
				errs[i] = failed
			}
		}
		return errs
	}}
}
