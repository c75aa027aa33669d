package reservation

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"stampede/harness/sim"
	"stampede/harness/sut"
)

// readThenInsert looks for a free place and then writes the hold. It is wrong.
//
// The idea: select a place that no live hold has for these nights; insert the hold.
//
// The guarantee: none, once two guests look at the same time.
//
// It gives up: correctness. Both see the place free, and both get it.
func readThenInsert() variant {
	return inPostgres(variant{
		Name:       "read_then_insert",
		Idea:       "SELECT a place that no live hold overlaps, then INSERT the hold",
		Guarantees: "nothing, once two guests want the same place at once",
		GivesUp:    "correctness: both see the place free, and both get it",
		Breaks:     []sut.Break{{Invariant: NoDoubleBooking, Under: sut.Load}},
		State:      state{Seed: seedPlaces, Schema: placesSchema},
		Model:      modelled(func(d *deskModel) modelStock { return rowsModel{d} }),
	}, rows{}, rowNights)
}

// rows is a stock without anything of its own: a place is free if no live hold has it. Alone it
// promises nothing.
type rows struct{}

func (rows) take(ctx context.Context, tx pgx.Tx, req HoldRequest) (unit int, err error) {
	err = tx.QueryRow(ctx, `SELECT u FROM places, generate_series(1, units) AS u
		WHERE resource = $1 AND NOT EXISTS (SELECT FROM holds
			WHERE resource = $1 AND unit = u AND state IN ('held', 'confirmed')
				AND first < $2::int + $3::int AND first + nights > $2::int)
		ORDER BY (u + $4::bigint) % 61, u LIMIT 1`,
		req.Resource, req.First, req.Nights, req.ID>>idBits).Scan(&unit)
	if errors.Is(err, pgx.ErrNoRows) {
		err = ErrSoldOut
	}
	return unit, err
}

func (rows) give(context.Context, pgx.Tx, []int64) error { return nil }

const (
	placesSchema = `CREATE TABLE places (resource int PRIMARY KEY, units int, nights int);`
	rowNights    = `SELECT p.resource, night, units - count(h.resource), count(h.resource)
		FROM places p CROSS JOIN generate_series(1, p.nights) AS night
		LEFT JOIN (SELECT resource, generate_series(first, first + nights - 1) AS n FROM holds
			WHERE state IN ('held', 'confirmed')) AS h ON h.resource = p.resource AND h.n = night
		GROUP BY p.resource, night, units ORDER BY 1, 2`
)

func seedPlaces(ctx context.Context, tx pgx.Tx, p Params) error {
	_, err := tx.Exec(ctx, `INSERT INTO places SELECT r, $1, $2 FROM generate_series(1, $3) AS r`,
		p.capacity(), p.Nights, p.Resources)
	return err
}

const costFindRow = "rows.find"

// rowsModel is its model.
type rowsModel struct{ *deskModel }

func (r rowsModel) take(p *sim.Process, req HoldRequest) (unit int, err error) {
	r.db.Query(p, costFindRow, func() {
		taken := map[int]bool{}
		for _, h := range r.livesOf(req.Resource) {
			if h.First < req.First+req.Nights && h.First+h.Nights > req.First {
				taken[h.Unit] = true
			}
		}
		unit = firstUnit(r.p, req, func(unit int) bool { return !taken[unit] })
	})
	if unit == 0 {
		err = ErrSoldOut
	}
	return unit, err
}

func (rowsModel) give(*sim.Process, []HoldRow) {}

func (r rowsModel) nights() []NightRow {
	return eachNight(r.p, func(resource, night int) int64 { return r.taken(uint64(resource))[night] })
}
