package reservation

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"stampede/harness/sim"
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
		Model: modelled(newSlotsModel),
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

const (
	costFindSlot  = "slots.find"
	costTakeSlots = "slots.take"
	costGiveSlots = "slots.give"
)

// slotsModel is its model: a row for each resource, place and night, with the hold.
type slotsModel struct {
	*deskModel
	rows *sim.Table[[3]int, uint64]
}

func newSlotsModel(d *deskModel) modelStock {
	return &slotsModel{d, sim.NewTable[[3]int, uint64](d.Postgres, "slots")}
}

// free is the nights of a stay on which nobody has a place.
func (s *slotsModel) free(resource uint64, unit, first, nights int) (free [][3]int) {
	for night := first; night < first+nights; night++ {
		key := [3]int{int(resource), unit, night}
		if hold, _ := s.rows.Get(key); hold == 0 {
			free = append(free, key)
		}
	}
	return free
}

func (s *slotsModel) take(p *sim.Process, req HoldRequest) (unit int, err error) {
	s.db.Query(p, costFindSlot, func() {
		unit = firstUnit(s.p, req, func(unit int) bool {
			return len(s.free(req.Resource, unit, req.First, req.Nights)) == req.Nights
		})
	})
	if unit == 0 {
		return 0, ErrSoldOut
	}
	var mine [][3]int
	s.db.Query(p, costTakeSlots, func() {
		for _, key := range s.free(req.Resource, unit, req.First, req.Nights) {
			p.Do(s.rows.Lock(key))
			if hold, _ := s.rows.Get(key); hold == 0 {
				mine = append(mine, key)
			}
		}
		for _, key := range mine {
			s.rows.Set(key, req.ID)
		}
	})
	if len(mine) != req.Nights {
		return 0, errFaster
	}
	return unit, nil
}

func (s *slotsModel) give(p *sim.Process, holds []HoldRow) {
	s.db.Query(p, costGiveSlots, func() {
		for _, h := range holds {
			for night := h.First; night < h.First+h.Nights; night++ {
				key := [3]int{int(h.Resource), h.Unit, night}
				p.Do(s.rows.Lock(key))
				s.rows.Set(key, 0)
			}
		}
	})
}

func (s *slotsModel) nights() []NightRow {
	return eachNight(s.p, func(resource, night int) (taken int64) {
		for unit := 1; unit <= s.p.capacity(); unit++ {
			taken += int64(1 - len(s.free(uint64(resource), unit, night, 1)))
		}
		return taken
	})
}
