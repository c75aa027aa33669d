package reservation

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"stampede/harness/sim"
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
		Model:      modelled(newCountersModel),
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

const (
	costTakeCounters = "counters.take"
	costLockCounters = "counters.lock"
	costGiveCounters = "counters.give"
)

// countersModel is its model: what is taken of each resource and night.
type countersModel struct {
	*deskModel
	taken *sim.Table[[2]int, int64]
}

func newCountersModel(d *deskModel) modelStock {
	return &countersModel{d, sim.NewTable[[2]int, int64](d.Postgres, "stock")}
}

func (s *countersModel) take(p *sim.Process, req HoldRequest) (unit int, err error) {
	var mine [][2]int
	s.db.Query(p, costTakeCounters, func() {
		for night := req.First; night < req.First+req.Nights; night++ {
			key := [2]int{int(req.Resource), night}
			if n, _ := s.taken.Get(key); n == int64(s.p.capacity()) {
				continue // without the lock
			}
			p.Do(s.taken.Lock(key))
			if n, _ := s.taken.Get(key); n < int64(s.p.capacity()) {
				mine = append(mine, key)
			}
		}
		for _, key := range mine {
			n, _ := s.taken.Get(key)
			s.taken.Set(key, n+1)
		}
	})
	if len(mine) != req.Nights {
		return 0, ErrSoldOut
	}
	return 0, nil
}

func (s *countersModel) give(p *sim.Process, holds []HoldRow) {
	back := map[[2]int]int64{}
	for _, h := range holds {
		for night := h.First; night < h.First+h.Nights; night++ {
			back[[2]int{int(h.Resource), night}]++
		}
	}
	keys := slices.SortedFunc(maps.Keys(back), func(a, b [2]int) int {
		return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1]))
	})
	s.db.Query(p, costLockCounters, func() {
		for _, key := range keys {
			p.Do(s.taken.Lock(key))
		}
	})
	s.db.Query(p, costGiveCounters, func() {
		for _, key := range keys {
			n, _ := s.taken.Get(key)
			s.taken.Set(key, n-back[key])
		}
	})
}

func (s *countersModel) nights() []NightRow {
	return eachNight(s.p, func(resource, night int) int64 {
		n, _ := s.taken.Get([2]int{resource, night})
		return n
	})
}
