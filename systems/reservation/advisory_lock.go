package reservation

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// advisoryLock lets one guest at a time to a resource.
//
// The idea: a transaction takes the advisory lock of the resource before it looks for a place,
// and keeps it until its commit.
//
// The guarantee: what a guest saw free is free until the hold is written, as long as everybody
// takes the lock.
//
// It gives up: concurrency. All guests of a resource queue, also those for other nights.
func advisoryLock() variant {
	return inPostgres(variant{
		Name:       "advisory_lock",
		Idea:       "an advisory lock for each resource around looking for a place and holding it",
		Guarantees: "what a guest saw free is free until the hold is written, if all take the lock",
		GivesUp:    "concurrency: all guests of a resource queue, also those for other nights",
		State:      state{Seed: seedPlaces, Schema: placesSchema},
	}, locked{}, rowNights)
}

type locked struct{ rows }

func (l locked) take(ctx context.Context, tx pgx.Tx, req HoldRequest) (unit int, err error) {
	if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, req.Resource); err != nil {
		return 0, err
	}
	return l.rows.take(ctx, tx, req)
}
