package positions

import (
	"context"
	"crypto/rand"
	_ "embed" // the schema

	"github.com/jackc/pgx/v5"

	"stampede/harness/design"
	"stampede/harness/sut"
)

type (
	opened  = design.Stores[Params]
	role    = design.Role[Params]
	variant = design.Variant[Tracker, Params]
)

//go:embed schema.sql
var schema string

// System returns the positions with all their designs.
func System() sut.System {
	return systemOf(oneTable(), cryptoShred(), migrateByCDC(), latePingRewinds(), keyCached(),
		viewsErased(), slotAfterSnapshot(), confirmedEarly())
}

func systemOf(designs ...variant) sut.System {
	return design.System[Tracker, Params]{
		Name: "positions",
		Question: "where drivers are and were: a hot and a cold path, and who can be erased from " +
			"everywhere?",
		API: API(), Defaults: DefaultParams, Workload: newWorkload,
		State: design.State[Params]{Schema: schema, Seed: signUp, Empty: []string{"pings", "archive"},
			Audit: func(ctx context.Context, st *opened) (any, error) {
				return audit(ctx, st, oldSide, nil)
			}},
		Designs:    designs,
		Invariants: invariants,
		NoRaces: "drivers do not compete; erased-for-good counts what overlapped an erasure of its " +
			"driver",
	}.Sut()
}

// signUp makes the drivers, each with a key of its own.
func signUp(ctx context.Context, tx pgx.Tx, p Params) error {
	_, err := tx.CopyFrom(ctx, pgx.Identifier{"drivers"}, []string{"driver", "key"},
		pgx.CopyFromSlice(p.Drivers, func(i int) ([]any, error) {
			key := make([]byte, keySize)
			_, err := rand.Read(key)
			return []any{i + 1, key}, err
		}))
	return err
}
