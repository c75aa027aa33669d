package writeheavy

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/harness/sim"
	"stampede/harness/stores"
	"stampede/harness/sut"
)

// shardAndFlush splits each counter over shards, and writes what has come together at once.
//
// The idea: an add belongs to a shard by the hash of its user. Adds are collected in memory and
// flushed together with their numbers: one row for each counter and shard, whatever the number of
// adds. The service replies after the commit, which many adds share. A compactor folds the shards
// of a counter into one row, so that reads stay short.
//
// The guarantee: what is acknowledged is committed, and reads are as of now.
//
// It gives up: some milliseconds for company, and reads of one row. A flush touches at most as many
// rows of a hot counter as there are shards, and each has a lock of its own.
func shardAndFlush() variant {
	return variant{Name: "shard_and_flush",
		Idea:       "a part of a counter for each of 16 shards, adds flushed together, shards compacted",
		Guarantees: "what is acknowledged is committed, and reads are as of now",
		GivesUp:    "some milliseconds for company, and reads of a single row",
		Places:     []string{placeCollected, placeWritten},
		Open: func(_ context.Context, st *opened) (Counters, error) {
			return newSharded(st, func(context.Context) (int, int, error) {
				return 1, st.Params.Shards, nil
			}), nil
		},
		Roles: []role{compactor(sqlCompact)},
		Model: modelled(func(m *countersModel) {
			m.serve = func() *modelService {
				b := m.shards(func(*sim.Process) (int, int) { return 1, m.p.Shards })
				return b.service(b.sounds)
			}
			m.Role("compactor", 1, sut.AfterError, sim.Only(m.compact))
		}),
	}
}

// shards is the batcher of sharded.
func (m *countersModel) shards(current func(*sim.Process) (version, shards int)) *batcherModel {
	return newBatcherModel(m, func(p *sim.Process, batch []*modelWaiting) {
		p.Passed(placeCollected)
		err := p.Within(m.limit, func() {
			version, shards := current(p)
			list := placed(batch, func(a AddRequest) int { return shardOf(a.User, shards) })
			_ = m.db.Transaction(p, func() error {
				m.db.QueryTimes(p, costApply, float64(len(list)), func() { m.apply(p, version, list) })
				return nil
			})
		})
		if err == nil {
			p.Passed(placeWritten)
		}
		told(batch, err)
	})
}

// sounds is sharded.sound.
func (b *batcherModel) sounds(p *sim.Process, list []AddRequest) []error {
	var good []AddRequest
	for _, req := range list {
		if sound(req.Delta) {
			good = append(good, req)
		}
	}
	made, errs := b.join(p, good), make([]error, len(list))
	for i, req := range list {
		if errs[i] = ErrRejected; sound(req.Delta) {
			errs[i], made = made[0], made[1:]
		}
	}
	return errs
}

// compact is the compactor.
func (m *countersModel) compact(p *sim.Process) {
	db := m.Postgres.OwnConns("compactor", 1, min(m.limit, 2*time.Second))
	for {
		_ = p.Try(func() { // it tries again
			var split []uint64
			db.Exec(p, costSplit, func() { split = m.split(500) })
			for _, key := range split {
				db.Exec(p, costCompact, func() { m.fold(p, key) })
			}
		})
		p.Do(m.Sim.Delay(m.p.Compact.D()))
	}
}

// split are the first counters that have several parts.
func (m *countersModel) split(most int) (keys []uint64) {
	parts := map[uint64]int{}
	for _, k := range m.counters.Keys() {
		if k.version == 1 && k.shard >= 0 {
			if parts[k.key]++; parts[k.key] == 2 && len(keys) < most {
				keys = append(keys, k.key)
			}
		}
	}
	return keys
}

// fold is what sqlCompact does.
func (m *countersModel) fold(p *sim.Process, key uint64) {
	sum, parts := int64(0), 0
	for shard := range m.p.Shards {
		k := part{key, 1, shard}
		if _, is := m.counters.Get(k); !is {
			continue
		}
		p.Do(m.counters.Lock(k))
		if n, is := m.counters.Get(k); is {
			sum, parts = sum+n, parts+1
			m.counters.Delete(k)
		}
	}
	if parts > 0 {
		m.plus(p, part{key, 1, -1}, sum)
	}
}

// sharded is an API that flushes to shards.
type sharded struct {
	service
	*batcher
	st *opened
	// current is the map of shards that counts, and how many it has.
	current func(context.Context) (version, shards int, err error)
}

func newSharded(st *opened, current func(context.Context) (int, int, error)) *sharded {
	s := &sharded{st: st, current: current}
	s.batcher = newBatcher(st.Params, s.flush)
	s.service = service{now{st}, s.sound, MostRecords}
	return s
}

// shardOf is the shard of a user or a key, of so many.
func shardOf(id uint64, shards int) int {
	return int(id * 0x9e3779b97f4a7c15 >> 33 % uint64(shards))
}

// sound adds what can be added. It waits until its flush is committed.
func (s *sharded) sound(ctx context.Context, req AddRequest) error {
	if !sound(req.Delta) {
		return ErrRejected
	}
	return s.join(ctx, req)
}

// flush writes a batch.
func (s *sharded) flush(ctx context.Context, batch []*waiting) {
	s.st.Config.Passed(placeCollected)
	version, shards, err := s.current(ctx)
	if err == nil {
		list := make([]counted, len(batch))
		for i, w := range batch {
			list[i] = counted{AddRequest: w.AddRequest, shard: shardOf(w.User, shards)}
		}
		err = s.st.DB.Transaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
			return apply(ctx, tx, version, list)
		})
	}
	if err == nil {
		s.st.Config.Passed(placeWritten)
	}
	tell(batch, stores.Failed("flushing", err))
}

// sqlCompact folds the shards of a counter into one. It locks them in the order in which a flush
// does, and deletes what it has read: a part that a flush adds meanwhile waits, and is new then.
const sqlCompact = `WITH parts AS MATERIALIZED (
		SELECT key, map, shard FROM counters WHERE key = $1 AND map = 1 AND shard >= 0
		ORDER BY shard FOR UPDATE),
	gone AS (
		DELETE FROM counters c USING parts p
		WHERE c.key = p.key AND c.map = p.map AND c.shard = p.shard RETURNING c.value)
	INSERT INTO counters (key, map, shard, value)
	SELECT $1, 1, -1, sum(value)::bigint FROM gone HAVING count(*) > 0
	ON CONFLICT (key, map, shard) DO UPDATE SET value = counters.value + excluded.value`

// compactor is the role that keeps reads short.
func compactor(sql ...string) role {
	return role{Name: "compactor", Summary: "folds the shards of a counter into one row",
		Step: func(ctx context.Context, st *opened) (time.Duration, error) {
			var list []int64
			err := st.DB.Row(ctx, `SELECT coalesce(array_agg(key), '{}') FROM (SELECT key FROM counters
				WHERE map = 1 AND shard >= 0 GROUP BY key HAVING count(*) > 1 LIMIT 500) AS split`, nil, &list)
			for _, key := range list {
				for _, statement := range sql {
					if err == nil {
						_, err = st.DB.Exec(ctx, statement, key)
					}
				}
			}
			return st.Params.Compact.D(), stores.Failed("compacting", err)
		}}
}
