package writeheavy

import (
	"context"
	"sync/atomic"

	"stampede/harness/sim"
	"stampede/harness/sut"
)

// mapChangedUnmoved doubles the shards in a new map, and moves nothing. It is wrong.
//
// The idea: shard_and_flush. After some adds a process declares a map with twice as many shards,
// which all use from then on, as an operator would who needs room soon.
//
// The guarantee: nothing is written twice.
//
// It gives up: what is in the rows of the old map, which no read asks for any more.
func mapChangedUnmoved() variant {
	return variant{Name: "map_changed_unmoved",
		Idea:       "shard_and_flush, whose map of shards becomes another one under load",
		Guarantees: "what is written is written once",
		GivesUp:    "what is in the rows of the old map, which are not moved",
		Breaks:     []sut.Break{{Invariant: ReadsExact, Under: sut.Load}},
		Places:     []string{placeCollected, placeWritten},
		Open: func(_ context.Context, st *opened) (Counters, error) {
			newest := func(ctx context.Context) (version, shards int, err error) {
				err = st.DB.Row(ctx, `SELECT coalesce(max(version), 1), coalesce(max(shards), $1) FROM maps`,
					[]any{st.Params.Shards}, &version, &shards)
				return version, shards, err
			}
			s, adds := newSharded(st, newest), new(atomic.Int64)
			s.add = func(ctx context.Context, req AddRequest) error {
				err := s.sound(ctx, req)
				if err == nil && adds.Add(1) == int64(st.Params.MapAfter) {
					_, failed := st.DB.Exec(ctx, `INSERT INTO maps VALUES (2, $1) ON CONFLICT DO NOTHING`,
						2*st.Params.Shards)
					if failed != nil {
						adds.Store(0) // later
						st.Config.Warn("the map stays", failed)
					}
				}
				return err
			}
			return s, nil
		},
		Model: modelled(func(m *countersModel) { m.serve = m.changesMap }),
	}
}

// changesMap is its model.
func (m *countersModel) changesMap() *modelService {
	adds := 0
	b := m.shards(func(p *sim.Process) (version, shards int) {
		m.db.Exec(p, costNewest, func() { version, shards = m.newest() })
		return version, shards
	})
	return b.service(func(p *sim.Process, list []AddRequest) []error {
		errs := b.sounds(p, list)
		for _, err := range errs {
			if err != nil {
				continue
			}
			if adds++; adds == m.p.MapAfter {
				m.db.Exec(p, costDeclares, func() {
					p.Do(m.maps.Lock(2))
					m.maps.Set(2, 2*m.p.Shards)
				})
			}
		}
		return errs
	})
}
