package reservation

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
)

// rowPerNight has a row for each place and night.
//
// The idea: a hold looks for a place that is free on all its nights and writes its name into
// those rows, if they are still free; the rows are locked in the order of the nights. If some
// are not, it looks again.
//
// The guarantee: a row has one name, so that a place has one guest a night, and all rows of a
// stay are written in one transaction.
//
// It gives up: a row for each place and night, also of those that nobody wants, and room: a guest
// keeps one place for the whole stay, so that a stay may be refused though each night has one.
func rowPerNight() variant {
	return inPostgres(variant{
		Name:       "row_per_night",
		Idea:       "a row for each place and night, in which a hold writes its name if it is free",
		Guarantees: "a place has one guest a night, and a stay all its nights or none",
		GivesUp:    "a row for each place and night; stays are refused that no single place has free",
		State: state{
			Schema: `CREATE TABLE slots (resource int, unit int, night int, hold_id bigint,
				PRIMARY KEY (resource, unit, night)) WITH (fillfactor = 50);`,
			Seed: func(ctx context.Context, tx pgx.Tx, p Params) error {
				_, err := tx.Exec(ctx, `INSERT INTO slots SELECT r, u, n FROM generate_series(1, $1) AS r,
					generate_series(1, $2) AS u, generate_series(1, $3) AS n`, p.Resources, p.capacity(), p.Nights)
				return err
			}},
	}, slots{}, `SELECT resource, night, count(*) - count(hold_id), count(hold_id) FROM slots
		GROUP BY 1, 2 ORDER BY 1, 2`)
}

type slots struct{}

func (slots) take(ctx context.Context, tx pgx.Tx, req HoldRequest) (unit int, err error) {
	// Different guests begin to look at different places.
	err = tx.QueryRow(ctx, `SELECT unit FROM slots
		WHERE resource = $1 AND night >= $2 AND night < $2 + $3 GROUP BY unit
		HAVING count(*) FILTER (WHERE hold_id IS NULL) = $3 ORDER BY (unit + $4) % 61, unit LIMIT 1`,
		req.Resource, req.First, req.Nights, req.ID>>idBits).Scan(&unit)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, ErrSoldOut
	}
	if err != nil {
		return 0, err
	}
	tag, err := tx.Exec(ctx, `WITH free AS (SELECT night FROM slots
			WHERE resource = $1 AND unit = $2 AND night >= $3 AND night < $3 + $4 AND hold_id IS NULL
			ORDER BY night FOR UPDATE)
		UPDATE slots SET hold_id = $5 FROM free
		WHERE resource = $1 AND unit = $2 AND slots.night = free.night AND hold_id IS NULL`,
		req.Resource, unit, req.First, req.Nights, req.ID)
	if err == nil && tag.RowsAffected() != int64(req.Nights) {
		err = errFaster
	}
	return unit, err
}

// give takes rows back. Nobody else writes rows that have a name.
func (slots) give(ctx context.Context, tx pgx.Tx, holds []int64) error {
	_, err := tx.Exec(ctx, `UPDATE slots SET hold_id = NULL FROM holds h
		WHERE h.hold_id = ANY ($1) AND slots.resource = h.resource AND slots.unit = h.unit
			AND night >= first AND night < first + h.nights AND slots.hold_id = h.hold_id`, holds)
	return err
}
