package likes

import (
	"context"

	"github.com/jackc/pgx/v5"

	"stampede/harness/design"
	"stampede/harness/sut"
)

// The parts that designs declare, and the stores that are opened for them.
type (
	variant = design.Variant[Likes, Params]
	state   = design.State[Params]
	role    = design.Role[Params]
	opened  = design.Stores[Params]
)

// System returns likes with all its designs.
func System() sut.System { return system(designs(inPostgres)...) }

func system(designs ...variant) sut.System {
	return design.System[Likes, Params]{
		Name: "likes",
		Question: "everybody likes one video: which design takes the write load, and is its count " +
			"right?",
		API: API(), Defaults: DefaultParams, Workload: newWorkload,
		State: state{
			Schema: schema,
			Seed: func(ctx context.Context, tx pgx.Tx, p Params) error {
				_, err := tx.Exec(ctx,
					`INSERT INTO videos (video_id) SELECT generate_series(1, $1::bigint)`, p.Videos)
				return err
			},
			Empty: []string{"like_events"},
		},
		Designs:    designs,
		Costs:      assumedCosts,
		Invariants: Invariants,
		Races: &sut.Races{Kinds: []string{KindLike, KindUnlike}, Least: 10,
			Invariants: []string{CountInBounds, StoresAgree}},
		Unseen: map[string]string{
			LedgerIsLog:  "how a server carries interactions to its ledger is not visible",
			AppliedFirst: "how a server carries interactions to its ledger is not visible",
		},
	}.Sut()
}

// designs are all designs, with their ledgers in a place.
func designs(in ledgers) []variant {
	return []variant{
		lockedRowDesign(), redisKey(in), shardsFixed(in), shardsAdaptive(in), redisPipelined(in),
		regionsCRDT(in), redisCheckThenSet(in), redisCommitFirst(in), regionsMax(in),
	}
}
