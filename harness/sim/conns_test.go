package sim_test

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"stampede/harness/sim"
)

// TestIndex: an index has the committed rows that its condition selects, in its order, whatever
// was rolled back or killed.
func TestIndex(t *testing.T) {
	type value struct{ key, order, by int }
	where := func(v value) bool { return v.order%3 != 0 }
	compare := func(a, b value) int { return cmp.Or(cmp.Compare(a.order, b.order), a.key-b.key) }
	rapid.Check(t, func(rt *rapid.T) {
		s := sim.New(rapid.Uint64().Draw(rt, "seed"))
		defer s.Close()
		pg := fixedCluster(t, s, func(m *sim.Machine) {
			m.Postgres.Connections, m.Postgres.Recovery, m.Postgres.Fsync = 8, sim.Duration(ms),
				sim.Duration(10*us)
		}).Postgres
		rows := sim.NewTable[int, value](pg, "rows")
		index := sim.NewIndex(rows, where, compare)
		keys := rapid.IntRange(1, 600).Draw(rt, "keys")
		for k := range keys / 2 {
			rows.Load(k, value{key: k, order: k})
		}
		check := func() {
			var want, got []value
			for _, k := range rows.Keys() {
				if v, _ := rows.Get(k); where(v) {
					want = append(want, v)
				}
			}
			slices.SortFunc(want, compare)
			for _, v := range index.All() {
				got = append(got, v)
			}
			if !slices.Equal(got, want) {
				rt.Fatalf("the index has %v, want %v", got, want)
			}
			from := value{order: rapid.IntRange(0, 99).Draw(rt, "from")}
			n, _ := slices.BinarySearchFunc(want, from, compare)
			for _, v := range index.From(from) {
				if v != want[n] {
					rt.Fatalf("from %v it has %v, want %v", from, v, want[n])
				}
				n++
			}
			if n != len(want) {
				rt.Fatalf("from %v it ends before %v", from, want[n])
			}
		}
		r := s.Stream("test")
		write := func(p *sim.Process, by int) {
			p.Do(pg.Conn())
			defer pg.Release()
			k := r.IntN(keys)
			p.Do(rows.Lock(k))
			if r.IntN(4) == 0 {
				rows.Delete(k)
			} else {
				rows.Set(k, value{k, r.IntN(100), by})
			}
			if r.IntN(5) > 0 {
				p.Do(pg.Commit())
			}
		}
		for by := range 300 {
			try(s, time.Duration(r.IntN(20_000))*us, func(p *sim.Process) { write(p, by) })
		}
		s.At(10*ms, pg.Kill)
		s.At(11*ms, pg.Restart)
		for i := range 5 {
			s.At(time.Duration(5*i)*ms, check)
		}
		run(t, s, math.MaxInt64)
		check()
	})
}

// TestConns: a statement takes effect as a whole; a transaction that fails has none; and what takes
// too long is abandoned with its connection free again.
func TestConns(t *testing.T) {
	s := sim.New(1)
	defer s.Close()
	pg := fixedCluster(t, s, nil).Postgres
	rows := sim.NewTable[int, int](pg, "rows")
	conns := pg.OwnConns("role", 1, 5*ms)
	errNo := errors.New("no")
	add := func(p *sim.Process, k int) {
		p.Do(rows.Lock(k))
		n, _ := rows.Get(k)
		rows.Set(k, n+1)
	}
	one := try(s, 0, func(p *sim.Process) {
		conns.Exec(p, "work", func() { add(p, 1) })
	})
	failed := try(s, 10*ms, func(p *sim.Process) {
		if err := conns.Transaction(p, func() error {
			conns.Query(p, "work", func() { add(p, 1) })
			return errNo
		}); !errors.Is(err, errNo) {
			t.Errorf("a transaction that fails: %v", err)
		}
	})
	both := try(s, 20*ms, func(p *sim.Process) {
		_ = conns.Transaction(p, func() error {
			conns.Query(p, "work", func() { add(p, 1) })
			conns.Query(p, "work", func() { add(p, 2) })
			return nil
		})
	})
	late := try(s, 30*ms, func(p *sim.Process) {
		conns.Exec(p, "work", func() { add(p, 1); p.Do(s.Delay(time.Second)) })
	})
	next := try(s, 30*ms, func(p *sim.Process) { pg.Conns().Exec(p, "work", func() { add(p, 2) }) })
	run(t, s, math.MaxInt64)
	one.is(t, "a statement", nil, 1202*us)
	failed.is(t, "one that fails", nil, 10*ms+3*202*us)
	both.is(t, "two statements", nil, 20*ms+4*202*us+ms)
	late.is(t, "one that takes too long", sim.ErrDeadline, 35*ms)
	next.is(t, "another pool", nil, 30*ms+1202*us)
	for k, want := range map[int]int{1: 2, 2: 2} {
		if n, _ := rows.Get(k); n != want {
			t.Errorf("row %d is %d, want %d", k, n, want)
		}
	}
}

// TestChannel: who commits notifies all listeners, one after another, who is rolled back nobody;
// and after a kill listeners begin again.
func TestChannel(t *testing.T) {
	s := sim.New(1)
	defer s.Close()
	pg := fixedCluster(t, s, func(m *sim.Machine) { m.Postgres.Connections = 10 }).Postgres
	rows := sim.NewTable[int, int](pg, "rows")
	channel := sim.NewChannel[int](pg)
	var heard []string
	for _, name := range []string{"a", "b"} {
		channel.Listen(func(n int) { heard = append(heard, fmt.Sprint(name, n)) },
			func() { heard = append(heard, name) })
	}
	told := map[int]*outcome{}
	tell := func(at time.Duration, n int, commits bool) {
		told[n] = try(s, at, func(p *sim.Process) {
			p.Do(pg.Conn(), rows.Lock(n))
			defer pg.Release()
			rows.Set(n, n)
			p.Do(channel.Notify(n))
			if commits {
				p.Do(pg.Commit())
			}
		})
	}
	tell(0, 1, true)
	tell(0, 2, true)
	tell(us, 3, false)
	tell(2*us, 4, true)
	s.At(10*ms, pg.Kill)
	s.At(11*ms, pg.Restart)
	tell(time.Second, 5, true)
	run(t, s, math.MaxInt64)
	if want := []string{"a1", "b1", "a2", "b2", "a4", "b4", "a", "b", "a5", "b5"}; !slices.Equal(
		heard, want) {
		t.Errorf("heard %v, want %v", heard, want)
	}
	for n, at := range map[int]time.Duration{1: ms, 2: 2 * ms, 3: 2 * ms, 4: 3 * ms} {
		told[n].is(t, fmt.Sprint("notification ", n), nil, at)
	}
}

// TestRole: when one of its processes fails all end, and later all begin again.
func TestRole(t *testing.T) {
	s := sim.New(1)
	defer s.Close()
	begun, worked := 0, map[int]int{}
	c := fixedCluster(t, s, nil)
	c.Role("worker", 1, ms, func(*sim.Replica) []func(*sim.Process) {
		begun++
		life := begun
		steady := func(p *sim.Process) {
			for {
				p.Do(s.Delay(100 * us))
				worked[life]++
			}
		}
		return []func(*sim.Process){steady, func(p *sim.Process) {
			p.Do(s.Delay(1050 * us))
			p.Fail(sim.ErrLost)
		}}
	})
	run(t, s, 5*ms)
	if want := map[int]int{1: 10, 2: 10, 3: 9}; begun != 3 || !maps.Equal(worked, want) {
		t.Errorf("it began %d times and worked %v, want 3 and %v", begun, worked, want)
	}
}

// TestConsumerOfSeveral: who reads several partitions gets all records of each in order, and those
// from where it seeks again.
func TestConsumerOfSeveral(t *testing.T) {
	s := sim.New(1)
	defer s.Close()
	kafka := fixedCluster(t, s, nil).Kafka
	const partitions, each = 3, 50
	topic := sim.NewTopic[int](kafka, "topic", partitions+1)
	for i := range (partitions + 1) * each {
		s.At(time.Duration(i)*50*us, func() {
			s.Go(func(p *sim.Process) { p.Do(topic.Produce(i%(partitions+1), i, 100)) })
		})
	}
	consumer := topic.Consumer(0, 1, 2)
	got := map[int][]int{}
	polls := 0
	s.Go(func(p *sim.Process) {
		for {
			p.Do(consumer.Poll(4))
			n := 0
			consumer.Fetched(func(partition, offset, v int) {
				if topic.Records(partition)[offset] != v {
					t.Errorf("offset %d of partition %d is not %d", offset, partition, v)
				}
				got[partition], n = append(got[partition], v), n+1
			})
			if n == 0 || n > 4 || n != len(consumer.Records()) {
				t.Errorf("a poll fetched %d records", n)
			}
			if polls++; polls == 5 {
				consumer.Seek(0, 0)
				got[0] = nil
				continue
			}
			p.Do(consumer.Commit())
		}
	})
	run(t, s, math.MaxInt64)
	for n := range partitions {
		if !slices.Equal(got[n], topic.Records(n)) || len(got[n]) != each {
			t.Errorf("partition %d: got %v, want %v", n, got[n], topic.Records(n))
		}
		if at := consumer.Committed(n); at != each {
			t.Errorf("partition %d is committed up to %d", n, at)
		}
	}
	if consumer.Lag() != 0 {
		t.Errorf("the lag is %d", consumer.Lag())
	}
}

// TestExecuteTimes: commands take a multiple of their cost together, are executed at once, and the
// server's life is another one after a kill. A request without records needs the broker.
func TestExecuteTimes(t *testing.T) {
	s := sim.New(1)
	defer s.Close()
	c := fixedCluster(t, s, nil)
	redis, executed := c.Redis, time.Duration(0)
	first := try(s, 0, func(p *sim.Process) {
		p.Do(redis.ExecuteTimes(func() { executed = p.Now() }, sim.Times{"work": 2.5}))
	})
	asked := try(s, 0, func(p *sim.Process) { p.Do(c.Kafka.Ask()) })
	before := redis.RunID()
	s.At(ms, func() { redis.Kill(false) })
	s.At(ms, c.Kafka.Kill)
	refused := try(s, 2*ms, func(p *sim.Process) { p.Do(c.Kafka.Ask()) })
	s.At(3*ms, redis.Restart)
	run(t, s, math.MaxInt64)
	first.is(t, "two and a half commands", nil, 250*us)
	asked.is(t, "asking", nil, 202*us)
	refused.is(t, "asking nobody", sim.ErrUnreachable, 2*ms+51*us)
	if executed != 250*us || redis.RunID() == before {
		t.Errorf("executed at %s in life %d, after life %d", executed, redis.RunID(), before)
	}
}
