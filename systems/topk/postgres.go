package topk

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"stampede/harness/stores"
	"stampede/systems/internal/partitions"
	"stampede/systems/internal/sketch"
)

// postgres keeps panes and offsets in one database, and stores both in one transaction.
type postgres struct {
	*opened
	summary
}

func (db postgres) start(ctx context.Context) (map[int32]int64, error) {
	return partitions.Starts(ctx, db.DB)
}

// panes reads those of a window, or one of them.
func (db postgres) panes(ctx context.Context, window int64, shard any) (list []*pane, err error) {
	err = db.DB.Rows(ctx, `SELECT keys, rest FROM panes
		WHERE win = $1 AND shard = coalesce($2, shard) ORDER BY shard`, []any{window, shard},
		func(row pgx.CollectableRow) error {
			p := newPane(window, 0, db.empty(db.Params))
			var keys, rest []byte
			if err := row.Scan(&keys, &rest); err != nil {
				return err
			}
			list = append(list, p)
			return errors.Join(p.keys.UnmarshalBinary(keys), p.read(rest))
		})
	return list, stores.Failed("reading panes", err)
}

func (db postgres) load(ctx context.Context, shard int32, window int64) (*pane, error) {
	list, err := db.panes(ctx, window, shard)
	if err == nil && len(list) == 1 {
		return list[0], nil
	}
	return newPane(window, shard, db.empty(db.Params)), err
}

func (db postgres) store(
	ctx context.Context, shard int32, from, to int64, panes []*pane,
) error {
	err := db.DB.Transaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if err := partitions.MoveOn(ctx, tx, shard, from, to); err != nil {
			return err
		}
		return db.put(ctx, tx, shard, panes)
	})
	if err == nil {
		db.Config.Passed(placeStored)
	}
	return stores.Failed("storing panes", err)
}

// put writes panes over what was stored of them.
func (db postgres) put(ctx context.Context, tx pgx.Tx, shard int32, panes []*pane) error {
	for _, p := range panes {
		keys, err := p.keys.AppendBinary(nil)
		if err != nil {
			return err
		}
		rest, err := p.rest()
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `INSERT INTO panes (win, shard, events, keys, rest)
			VALUES ($1, $2, $3, $4, $5) ON CONFLICT (win, shard)
			DO UPDATE SET events = excluded.events, keys = excluded.keys, rest = excluded.rest`,
			p.window, shard, p.events, keys, rest)
		if err != nil {
			return err
		}
	}
	return nil
}

// windows reads the panes of one window after the other.
func (db postgres) windows(ctx context.Context, see func(*pane, int) error) error {
	var order []int64
	err := db.DB.Row(ctx, `SELECT coalesce(array_agg(DISTINCT win ORDER BY win), '{}') FROM panes`, nil,
		&order)
	if err != nil {
		return stores.Failed("looking for windows", err)
	}
	for _, window := range order {
		group, err := db.panes(ctx, window, nil)
		if err != nil {
			return err
		}
		merged, err := db.fused(group)
		if err != nil {
			return err
		}
		if err := see(merged, len(group)); err != nil {
			return err
		}
	}
	return nil
}

// fused is what some panes of one window are together.
func (db postgres) fused(group []*pane) (*pane, error) {
	merged := newPane(group[0].window, -1, nil)
	parts := make([]sketch.Sketch, len(group))
	for i, p := range group {
		parts[i] = p.keys
		if err := merged.absorb(p); err != nil {
			return nil, err
		}
	}
	var err error
	merged.keys, err = db.folded(db.Params, parts)
	return merged, err
}

// top reads the keys of some windows, and merges them.
func (db postgres) top(ctx context.Context, from, to int64, k int) ([]TopItem, int64, error) {
	total := int64(0)
	var parts []sketch.Sketch
	err := db.DB.Rows(ctx, `SELECT events, keys FROM panes WHERE win BETWEEN $1 AND $2
		ORDER BY win, shard`, []any{from, to}, func(row pgx.CollectableRow) error {
		part := db.empty(db.Params)
		var events int64
		var keys []byte
		if err := row.Scan(&events, &keys); err != nil {
			return err
		}
		total, parts = total+events, append(parts, part)
		return part.UnmarshalBinary(keys)
	})
	if err != nil {
		return nil, 0, stores.Failed("reading panes", err)
	}
	merged, err := db.folded(db.Params, parts)
	if err != nil {
		return nil, 0, err
	}
	return topOf(merged, k), total, nil
}
