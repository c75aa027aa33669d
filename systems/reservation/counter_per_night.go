package reservation

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// counterPerNight counts the free places of each night.
//
// The idea: a hold takes one from the counters of all its nights, in their order, none of which
// may fall below zero. The number of the place is decided on arrival.
//
// The guarantee: no night has more guests than places, and a stay has all its nights or none.
//
// It gives up: the number of the place, and concurrency: all guests of a night wait for each
// other's commit.
func counterPerNight() variant {
	return inPostgres(variant{
		Name:       "counter_per_night",
		Idea:       "a counter of free places for each night, which may not fall below zero",
		Guarantees: "no night has more guests than places, and a stay all its nights or none",
		GivesUp:    "a number before arrival; all guests of a night wait for each other's commit",
		State:      state{Schema: counterSchema, Seed: seedCounters},
	}, counters{}, counterNights)
}

const (
	counterSchema = `CREATE TABLE stock (resource int, night int, places int NOT NULL,
		free int NOT NULL CHECK (free >= 0), PRIMARY KEY (resource, night)) WITH (fillfactor = 50);`
	counterNights = `SELECT resource, night, free, places - free FROM stock ORDER BY 1, 2`
)

func seedCounters(ctx context.Context, tx pgx.Tx, p Params) error {
	_, err := tx.Exec(ctx, `INSERT INTO stock SELECT r, n, $1, $1 FROM generate_series(1, $2) AS r,
		generate_series(1, $3) AS n`, p.capacity(), p.Resources, p.Nights)
	return err
}

type counters struct{}

func (counters) take(ctx context.Context, tx pgx.Tx, req HoldRequest) (unit int, err error) {
	tag, err := tx.Exec(ctx, `WITH left_over AS (SELECT resource, night FROM stock
			WHERE resource = $1 AND night >= $2 AND night < $2 + $3 AND free > 0
			ORDER BY night FOR UPDATE)
		UPDATE stock SET free = free - 1 FROM left_over
		WHERE stock.resource = left_over.resource AND stock.night = left_over.night`,
		req.Resource, req.First, req.Nights)
	if err == nil && tag.RowsAffected() != int64(req.Nights) {
		err = ErrSoldOut
	}
	return 0, err
}

// give locks the counters in the order in which holds do.
func (counters) give(ctx context.Context, tx pgx.Tx, holds []int64) error {
	_, err := tx.Exec(ctx, `SELECT FROM stock WHERE (resource, night) IN (
			SELECT resource, generate_series(first, first + nights - 1) FROM holds
			WHERE hold_id = ANY ($1))
		ORDER BY resource, night FOR UPDATE`, holds)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `UPDATE stock SET free = free + n FROM (
			SELECT resource, night, count(*) AS n FROM holds,
				generate_series(first, first + nights - 1) AS night
			WHERE hold_id = ANY ($1) GROUP BY 1, 2) AS back
		WHERE stock.resource = back.resource AND stock.night = back.night`, holds)
	return err
}
