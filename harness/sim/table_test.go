package sim_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"stampede/harness/sim"
)

// version is a row: its number, and the transaction that wrote it.
type version struct{ n, by int }

// ledger is the oracle of a table whose rows count their writes: what each transaction read
// under a lock and wrote, and what became of it.
type ledger struct {
	wrote  map[int]map[int]version // by transaction and key
	read   map[int]map[int]version
	err    map[int]error
	rolled map[int]bool
}

// judge says what is wrong: the committed versions of a key are 1, 2, 3 … without a gap, each
// written by a transaction that read the one before; none is of a transaction that was rolled
// back, and none of one that committed is missing.
func (l ledger) judge(keys int, newest func(k int) (version, bool)) error {
	committed := map[int]bool{}
	for k := range keys {
		for v, _ := newest(k); v.n > 0; v = l.read[v.by][k] {
			if l.wrote[v.by][k] != v {
				return fmt.Errorf("key %d has %v, and its transaction wrote %v", k, v, l.wrote[v.by][k])
			}
			if l.read[v.by][k].n != v.n-1 {
				return fmt.Errorf("key %d: %v was written by one that had read %v", k, v, l.read[v.by][k])
			}
			if l.rolled[v.by] {
				return fmt.Errorf("key %d has %v of one that was rolled back", k, v)
			}
			committed[v.by] = true
		}
	}
	for by, err := range l.err {
		if len(l.wrote[by]) == 0 || l.rolled[by] {
			continue
		}
		if err == nil && !committed[by] {
			return fmt.Errorf("%d committed and is not there", by)
		}
		if committed[by] { // wholly
			for k, wrote := range l.wrote[by] {
				v, _ := newest(k)
				for v.n > wrote.n {
					v = l.read[v.by][k]
				}
				if v != wrote {
					return fmt.Errorf("%d is there, and its %v of key %d is not", by, wrote, k)
				}
			}
		}
	}
	return nil
}

// TestTable: random transactions on a few rows are serializable as long as they lock what they
// read, however many are rolled back, time out or are killed with the server; readers never see
// what is not committed.
func TestTable(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := sim.New(rapid.Uint64().Draw(rt, "seed"))
		defer s.Close()
		pg := fixedCluster(t, s, func(m *sim.Machine) {
			m.Cores, m.Postgres.Connections, m.Postgres.Recovery = 2, 4, sim.Duration(ms)
		}).Postgres
		const keys = 3
		rows := sim.NewTable[int, version](pg, "rows")
		l := ledger{
			map[int]map[int]version{}, map[int]map[int]version{}, map[int]error{}, map[int]bool{},
		}
		r := s.Stream("test")
		transaction := func(p *sim.Process, by int) {
			p.Do(pg.Conn())
			defer pg.Release()
			for range 1 + r.IntN(3) {
				k := r.IntN(keys)
				if r.IntN(2) == 0 || !rows.TryLock(k) { // it passes over locked ones first
					p.Do(rows.Lock(k))
				}
				v, _ := rows.Get(k)
				if _, own := l.wrote[by][k]; own {
					continue
				}
				l.read[by][k] = v
				l.wrote[by][k] = version{v.n + 1, by}
				rows.Set(k, l.wrote[by][k])
				p.Do(pg.Client.Send(), pg.Burn("work"), pg.Client.Receive())
			}
			if r.IntN(4) == 0 {
				pg.Rollback()
				l.rolled[by] = true
				return
			}
			p.Do(pg.Commit(), pg.Client.Receive())
		}
		for by := range rapid.IntRange(1, 30).Draw(rt, "transactions") {
			l.wrote[by], l.read[by] = map[int]version{}, map[int]version{}
			s.At(time.Duration(rapid.IntRange(0, 10_000).Draw(rt, "at"))*us, func() {
				s.Go(func(p *sim.Process) {
					l.err[by] = p.Within(time.Duration(r.IntN(20))*ms, func() { transaction(p, by) })
					if errors.Is(l.err[by], sim.ErrUnreachable) || errors.Is(l.err[by], sim.ErrDeadlock) {
						l.rolled[by] = true
					}
				})
			})
		}
		for range rapid.IntRange(0, 3).Draw(rt, "kills") {
			at := time.Duration(rapid.IntRange(0, 20_000).Draw(rt, "kill")) * us
			s.At(at, pg.Kill)
			s.At(at+ms, pg.Restart)
		}
		watch(rt, s, rows, l, keys)
		run(t, s, math.MaxInt64)
		if err := l.judge(keys, rows.Get); err != nil {
			rt.Fatal(err)
		}
		for _, u := range s.Usage() {
			if u.InUse != 0 || u.Queue != 0 {
				rt.Fatalf("something is left: %+v", u)
			}
		}
	})
}

// watch reads without locks: versions never go back, and none is of one that was rolled back.
func watch(rt *rapid.T, s *sim.Sim, rows *sim.Table[int, version], l ledger, keys int) {
	seen := map[int]int{}
	for i := range 40 {
		s.At(time.Duration(i)*ms, func() {
			for k := range keys {
				v, _ := rows.Get(k)
				if v.n < seen[k] || v.n > 0 && l.rolled[v.by] {
					rt.Fatalf("a reader sees %v after %d", v, seen[k])
				}
				seen[k] = v.n
			}
		})
	}
}

// TestShelf: no unit is claimed twice, and none is lost, whatever is rolled back or killed.
func TestShelf(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := sim.New(rapid.Uint64().Draw(rt, "seed"))
		defer s.Close()
		pg := fixedCluster(t, s, func(m *sim.Machine) { m.Postgres.Recovery = sim.Duration(ms) }).Postgres
		shelf := sim.NewShelf[string](pg)
		const units = 10
		for id := range int64(units) {
			shelf.Put("a", id)
		}
		r := s.Stream("test")
		owner := map[int64]int{}
		unknown := 0
		for by := range 30 {
			s.At(time.Duration(rapid.IntRange(0, 10_000).Draw(rt, "at"))*us, func() {
				s.Go(func(p *sim.Process) {
					claimed := false
					err := p.Within(8*ms, func() {
						p.Do(pg.Conn(), pg.Burn("work"))
						defer pg.Release()
						id, _, ok := shelf.Claim("a")
						if !ok || r.IntN(4) == 0 {
							return
						}
						claimed = true
						p.Do(pg.Commit())
						if other, taken := owner[id]; taken {
							rt.Fatalf("unit %d has two owners, %d and %d", id, other, by)
						}
						owner[id] = by
					})
					if claimed && err != nil {
						unknown++
					}
				})
			})
		}
		if rapid.Bool().Draw(rt, "kill") {
			s.At(4*ms, pg.Kill)
			s.At(5*ms, pg.Restart)
		}
		run(t, s, math.MaxInt64)
		left := shelf.Len("a")
		if left+len(owner) > units || left+len(owner)+unknown < units {
			rt.Fatalf("%d left, %d sold, %d unknown, of %d", left, len(owner), unknown, units)
		}
	})
}

// fingerprint is a hash of what becomes of buyers under faults, and when.
func fingerprint(t *testing.T, seed uint64, extra bool) uint64 {
	s := sim.New(seed)
	defer s.Close()
	d := newShop(t, s, sim.DefaultMachine())
	h := fnv.New64a()
	note := func(i int, what string) {
		_ = binary.Write(h, binary.LittleEndian, []int64{int64(i), int64(s.Now())})
		_, _ = h.Write([]byte(what))
	}
	s.At(200*ms, d.pg.Kill)
	s.At(300*ms, d.pg.Restart)
	s.At(900*ms, d.pg.Pause)
	s.At(950*ms, d.pg.Resume)
	gaps := s.Stream("buyers")
	at := time.Duration(0)
	for i := range 3000 {
		at += gaps.Exp(ms / 2)
		s.At(at, func() {
			if extra {
				s.Stream("another").Float64()
			}
			s.Go(func(p *sim.Process) {
				ok := false
				err := p.Within(100*ms, func() {
					if i%2 == 0 {
						ok = d.counterRow(p, i%shopItems)
					} else {
						ok = d.unitsSkipLocked(p, i%shopItems)
					}
				})
				note(i, fmt.Sprint(ok, err))
			})
		})
	}
	run(t, s, math.MaxInt64)
	for _, u := range s.Usage() {
		note(0, fmt.Sprint(u))
	}
	return h.Sum64()
}

// TestSameSeed: a seed decides everything, and one more draw from another stream nothing.
func TestSameSeed(t *testing.T) {
	for seed := range uint64(3) {
		one := fingerprint(t, seed, false)
		if again := fingerprint(t, seed, false); again != one {
			t.Errorf("seed %d: %x and then %x", seed, one, again)
		}
		if again := fingerprint(t, seed, true); again != one {
			t.Errorf("seed %d: %x, and with a draw elsewhere %x", seed, one, again)
		}
		if other := fingerprint(t, seed+100, false); other == one {
			t.Errorf("seeds %d and %d are the same", seed, seed+100)
		}
	}
}
