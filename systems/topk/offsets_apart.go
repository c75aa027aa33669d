package topk

import (
	"context"

	"github.com/jackc/pgx/v5"

	"stampede/harness/stores"
	"stampede/harness/sut"
	"stampede/systems/internal/partitions"
)

// offsetsApart stores panes and offsets in two transactions. It is wrong if a worker dies between
// them.
//
// The idea: space_saving, with the offsets committed after the panes, as a consumer of Kafka does
// that commits to Kafka.
//
// The guarantee: no batch is lost.
//
// It gives up: that a batch is counted once. The next worker reads what is in the panes already.
func offsetsApart() variant {
	return counted(estimating(variant{
		Name:       "offsets_apart",
		Idea:       "space_saving; the offsets are committed after the panes, for themselves",
		Guarantees: "no batch is lost",
		GivesUp:    "that a batch is counted once, when a worker dies between the two",
		Breaks: []sut.Break{{Invariant: WindowTotals, Under: sut.RoleCrash},
			{Invariant: ReadsBounded, Under: sut.RoleCrash, Shows: sut.AtTimes}},
	}), plan{summary: inSpaceSaving(), ledger: func(st *opened, s summary) ledger {
		return apart{postgres{opened: st, summary: s}}
	}})
}

// apart is panes in Postgres whose offsets follow them.
type apart struct{ postgres }

func (a apart) store(ctx context.Context, shard int32, from, to int64, panes []*pane) error {
	err := a.DB.Transaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		return a.put(ctx, tx, shard, panes)
	})
	if err == nil {
		a.Config.Passed(placeStored)
		err = a.DB.Transaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
			return partitions.MoveOn(ctx, tx, shard, from, to)
		})
	}
	return stores.Failed("storing panes, and then their offset", err)
}
