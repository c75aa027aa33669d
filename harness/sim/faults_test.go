package sim_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"stampede/harness/sim"
)

// fixedCosts are without chance: a round trip to a store is 100 µs in the application, 2 µs in
// the network and 100 µs of the store's CPU; a flush takes 1 ms.
func fixedCluster(t testing.TB, s *sim.Sim, change func(*sim.Machine)) *sim.Cluster {
	t.Helper()
	m := sim.DefaultMachine()
	m.Cores, m.Postgres.FsyncCV, m.Network.Latency = 8, 0, sim.Duration(time.Microsecond)
	m.Postgres.Connections = 2
	if change != nil {
		change(&m)
	}
	cost := func(name string) map[string]sim.Cost { return map[string]sim.Cost{name: {MeanNS: 1e5}} }
	c, err := sim.NewCluster(s, m, sim.Costs{
		App: map[string]sim.Cost{
			"postgres": {MeanNS: 1e5}, "redis": {MeanNS: 1e5}, "kafka": {MeanNS: 1e5},
		},
		Postgres: map[string]sim.Cost{"work": {MeanNS: 1e5}, sim.Begin: {MeanNS: 1e5}},
		Redis:    cost("work"), Kafka: cost("request"),
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// outcome is what became of an operation and when.
type outcome struct {
	err error
	at  time.Duration
}

// try starts an operation at a time.
func try(s *sim.Sim, at time.Duration, f func(*sim.Process)) *outcome {
	o := &outcome{at: -1}
	s.At(at, func() {
		s.Go(func(p *sim.Process) {
			o.err = p.Try(func() { f(p) })
			o.at = p.Now()
		})
	})
	return o
}

func (o *outcome) is(t testing.TB, what string, err error, at time.Duration) {
	t.Helper()
	if !errors.Is(o.err, err) || o.at != at {
		t.Errorf("%s: %v at %s, want %v at %s", what, o.err, o.at, err, at)
	}
}

const us = time.Microsecond

// TestPostgresKill: who is in it does not know what happened, who comes knows; afterwards all
// connections are free again, and what was not committed is rolled back.
func TestPostgresKill(t *testing.T) {
	s := sim.New(1)
	defer s.Close()
	pg := fixedCluster(t, s, nil).Postgres
	rows := sim.NewTable[int, int](pg, "rows")
	rows.Load(1, 10)
	buy := func(p *sim.Process) {
		p.Do(pg.Conn(), pg.Client.Send(), pg.Burn("work"), rows.Lock(1))
		defer pg.Release()
		n, _ := rows.Get(1)
		rows.Set(1, n-1)
		p.Do(pg.Commit(), pg.Client.Receive())
	}
	// The first two have the connections, one of them the lock and the other waits for it; the
	// third waits for a connection, the fourth comes too late, the fifth has been on its way.
	first, second, third := try(s, 0, buy), try(s, 0, buy), try(s, 0, buy)
	const killed = 160 * us
	fourth := try(s, killed+10*us, buy)
	fifth := try(s, killed-10*us, func(p *sim.Process) { p.Do(pg.Client.Send(), pg.Conn()) })
	s.At(killed, pg.Kill)
	s.At(time.Second, pg.Restart)
	later := try(s, time.Second+499*ms, buy) // it has not recovered
	again := []*outcome{try(s, 2*time.Second, buy), try(s, 2*time.Second+2*ms, buy)}
	run(t, s, math.MaxInt64)
	if n, _ := rows.Get(1); n != 8 && n != 7 {
		t.Errorf("%d are left, want 8, or 7 if the first one's commit was flushed", n)
	}
	first.is(t, "flushing", sim.ErrLost, killed)
	second.is(t, "waiting for a lock", sim.ErrLost, killed)
	third.is(t, "waiting for a connection", sim.ErrUnreachable, killed)
	fourth.is(t, "coming", sim.ErrUnreachable, killed+10*us)
	fifth.is(t, "on its way", sim.ErrUnreachable, killed+41*us)
	later.is(t, "recovering", sim.ErrUnreachable, time.Second+499*ms)
	for i, o := range again {
		o.is(t, "afterwards", nil, 2*time.Second+time.Duration(2*i)*ms+1202*us)
	}
	for _, u := range s.Usage() {
		if u.InUse != 0 || u.Queue != 0 {
			t.Errorf("something is left: %+v", u)
		}
	}
}

// TestCommitUnderAKill: a commit whose flush was under way has happened for some seeds and not
// for others, and its client never knows.
func TestCommitUnderAKill(t *testing.T) {
	happened := map[int]int{}
	for seed := range uint64(20) {
		s := sim.New(seed)
		pg := fixedCluster(t, s, nil).Postgres
		rows := sim.NewTable[int, int](pg, "rows")
		set := func(k int) func(*sim.Process) {
			return func(p *sim.Process) {
				p.Do(pg.Conn(), rows.Lock(k))
				defer pg.Release()
				rows.Set(k, 1)
				p.Do(pg.Commit())
			}
		}
		flushing, coming := try(s, 0, set(1)), try(s, 500*us, set(2))
		s.At(700*us, pg.Kill)
		run(t, s, math.MaxInt64)
		flushing.is(t, "flushing", sim.ErrLost, 700*us)
		coming.is(t, "waiting for a flush", sim.ErrLost, 700*us)
		for _, k := range rows.Keys() {
			happened[k]++
		}
		s.Close()
	}
	if happened[1] == 0 || happened[1] == 20 || happened[2] != 0 {
		t.Errorf("happened: %v", happened)
	}
}

// TestManyDeadlines: each passes at its time if what it limits takes longer, however many lengths
// of deadlines there are.
func TestManyDeadlines(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := sim.New(1)
		defer s.Close()
		lengths := rapid.IntRange(1, 30).Draw(t, "lengths")
		ended := 0
		n := rapid.IntRange(1, 100).Draw(t, "processes")
		for range n {
			begins := time.Duration(rapid.IntRange(0, 50).Draw(t, "begins")) * ms
			limit := time.Duration(rapid.IntRange(1, lengths).Draw(t, "limit")) * ms
			takes := time.Duration(rapid.IntRange(0, 30).Draw(t, "takes"))*ms + us
			s.At(begins, func() {
				s.Go(func(p *sim.Process) {
					err := p.Within(limit, func() { p.Do(s.Delay(takes)) })
					ended++
					if late := errors.Is(err, sim.ErrDeadline); late != (limit < takes) ||
						p.Now() != begins+min(limit, takes) {
						t.Errorf("begun at %s, limit %s, takes %s: ended at %s with %v", begins, limit, takes,
							p.Now(), err)
					}
				})
			})
		}
		if err := s.Run(context.Background(), math.MaxInt64); err != nil || ended != n {
			t.Errorf("%d of %d ended: %v", ended, n, err)
		}
	})
}

// TestWithin: the deadline ends a wait, gives back what was acquired, and leaves a commit alone
// that has begun; an inner Try does not catch an outer deadline.
func TestWithin(t *testing.T) {
	s := sim.New(1)
	defer s.Close()
	pg := fixedCluster(t, s, func(m *sim.Machine) { m.Postgres.Connections = 1 }).Postgres
	rows := sim.NewTable[int, int](pg, "rows")
	var inner, outer error
	s.Go(func(p *sim.Process) {
		outer = p.Within(500*us, func() {
			inner = errors.New("the inner Try returned")
			inner = p.Try(func() {
				p.Do(pg.Conn(), rows.Lock(1))
				defer pg.Release()
				rows.Set(1, 1)
				p.Do(pg.Commit())
			})
		})
		if p.Now() != 500*us {
			t.Errorf("it ended at %s", p.Now())
		}
	})
	waits := try(s, 100*us, func(p *sim.Process) {
		if err := p.Within(200*us, func() { p.Do(pg.Conn()) }); !errors.Is(err, sim.ErrDeadline) {
			t.Errorf("waiting for a connection: %v", err)
		}
	})
	burns := try(s, 600*us, func(p *sim.Process) {
		err := p.Within(50*us, func() {
			p.Do(pg.Conn(), pg.Burn("work"))
			t.Error("a burst of 100 µs took 50")
		})
		if !errors.Is(err, sim.ErrLost) {
			t.Errorf("burning: %v", err)
		}
	})
	fine := try(s, 700*us, func(p *sim.Process) {
		if err := p.Within(time.Second, func() { p.Do(pg.Conn(), pg.Burn("work")) }); err != nil {
			t.Errorf("in time: %v", err)
		}
		pg.Release()
	})
	run(t, s, math.MaxInt64)
	if !errors.Is(outer, sim.ErrDeadline) || inner == nil || errors.Is(inner, sim.ErrDeadline) {
		t.Errorf("outer %v, inner %v", outer, inner)
	}
	if n, _ := rows.Get(1); n != 1 {
		t.Error("the commit that was being flushed did not happen")
	}
	waits.is(t, "waiting", nil, 300*us)
	burns.is(t, "burning", nil, 650*us)
	fine.is(t, "in time", nil, 800*us)
}

// TestGroupKill: the processes of a group release what they have and do nothing more.
func TestGroupKill(t *testing.T) {
	s := sim.New(1)
	defer s.Close()
	pg := fixedCluster(t, s, nil).Postgres
	rows := sim.NewTable[int, int](pg, "rows")
	rows.Load(1, 1)
	g := s.Group()
	var ended []error
	for range 3 {
		g.GoThen(func(p *sim.Process) {
			err := p.Try(func() {
				p.Do(pg.Conn(), rows.Lock(1))
				defer func() {
					pg.Release()
					p.Do(s.Delay(0))
					t.Error("a killed process did something")
				}()
				rows.Set(1, 2)
				p.Do(s.Delay(time.Second))
			})
			t.Errorf("a killed process went on after %v", err)
		}, func(err error) { ended = append(ended, err) })
	}
	s.At(ms, func() {
		if g.Len() != 3 {
			t.Errorf("%d in the group", g.Len())
		}
		g.Kill()
	})
	other := try(s, 2*ms, func(p *sim.Process) {
		p.Do(pg.Conn(), rows.Lock(1))
		defer pg.Release()
		if n, _ := rows.Get(1); n != 1 {
			t.Errorf("it sees %d", n)
		}
	})
	run(t, s, math.MaxInt64)
	other.is(t, "another", nil, 2*ms)
	if len(ended) != 3 || g.Len() != 0 {
		t.Errorf("%d ended, %d are left", len(ended), g.Len())
	}
	for _, err := range ended {
		if !errors.Is(err, sim.ErrKilled) {
			t.Error(err)
		}
	}
}

// modelBug panics in a process.
func modelBug(p *sim.Process, s *sim.Sim) {
	p.Do(s.Delay(ms))
	panic("a model's own")
}

// TestPanic: an error in a model ends Run with the process's stack, also from within a Try and
// from a step that the model misuses; all others are unwound.
func TestPanic(t *testing.T) {
	pg := func(s *sim.Sim) *sim.Postgres { return fixedCluster(t, s, nil).Postgres }
	for want, f := range map[string]func(*sim.Process, *sim.Sim){
		"a model's own": modelBug,
		"modelBug": func(p *sim.Process, s *sim.Sim) {
			_ = p.Try(func() { modelBug(p, s) })
		},
		"without a connection": func(p *sim.Process, s *sim.Sim) {
			p.Do(s.Delay(1), pg(s).Burn("work"))
		},
		"do not have \"wrok\"": func(p *sim.Process, s *sim.Sim) { p.Do(pg(s).Burn("wrok")) },
		"two connections": func(p *sim.Process, s *sim.Sim) {
			pg := pg(s)
			p.Do(pg.Conn(), pg.Conn())
		},
		"without its lock": func(p *sim.Process, s *sim.Sim) {
			pg := pg(s)
			p.Do(pg.Conn())
			sim.NewTable[int, int](pg, "rows").Set(1, 1)
		},
	} {
		s := sim.New(1)
		unwound := false
		s.Go(func(p *sim.Process) {
			defer func() { unwound = true }()
			p.Do(sim.NewSignal(s).Wait())
		})
		s.Go(func(p *sim.Process) { f(p, s) })
		err := s.Run(t.Context(), math.MaxInt64)
		var panicked *sim.PanicError
		if !errors.As(err, &panicked) || !strings.Contains(err.Error(), want) ||
			!strings.Contains(string(panicked.Stack), "faults_test.go") {
			t.Errorf("%s: %v", want, err)
		}
		s.Close()
		s.Close()
		if !unwound {
			t.Errorf("%s: a process that waits was not unwound", want)
		}
	}
}

// TestRunEnds: with the context, with a failure that nobody caught, at a time; and not at all
// once it is closed.
func TestRunEnds(t *testing.T) {
	s := sim.New(1)
	ctx, cancel := context.WithCancel(t.Context())
	var tick func()
	ticks := 0
	tick = func() {
		if ticks++; ticks == 100_000 {
			cancel()
		}
		s.At(s.Now()+1, tick)
	}
	s.At(0, tick)
	run(t, s, 10)
	if s.Now() != 10 || ticks != 11 {
		t.Errorf("at %s, %d ticks", s.Now(), ticks)
	}
	if err := s.Run(ctx, math.MaxInt64); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	s.Close()
	if err := s.Run(t.Context(), math.MaxInt64); err == nil {
		t.Error("a closed simulation ran")
	}

	s = sim.New(1)
	defer s.Close()
	pg := fixedCluster(t, s, nil).Postgres
	pg.Kill()
	var ended error
	s.GoThen(func(p *sim.Process) { p.Do(pg.Conn()) }, func(err error) { ended = err })
	run(t, s, math.MaxInt64)
	if !errors.Is(ended, sim.ErrUnreachable) {
		t.Errorf("ended with %v", ended)
	}
	s.Go(func(p *sim.Process) { p.Do(pg.Conn()) })
	if err := s.Run(t.Context(), math.MaxInt64); !errors.Is(err, sim.ErrUnreachable) {
		t.Errorf("nobody caught %v", err)
	}
}

// TestPause: what is inside and what comes is done when the component resumes.
func TestPause(t *testing.T) {
	s := sim.New(1)
	defer s.Close()
	c := fixedCluster(t, s, nil)
	pg, redis := c.Postgres, c.Redis
	rows := sim.NewTable[int, int](pg, "rows")
	topic := sim.NewTopic[int](c.Kafka, "topic", 1)
	write := func(p *sim.Process) {
		p.Do(pg.Conn(), pg.Burn("work"), rows.Lock(1))
		rows.Set(1, 1)
		p.Do(pg.Commit())
		pg.Release()
	}
	get := func(p *sim.Process) { p.Do(redis.Run("work")) }
	produce := func(p *sim.Process) { p.Do(topic.Produce(0, 1, 100)) }
	flushing, inLoop := try(s, 0, write), try(s, 9950*us, get)
	burning, produced := try(s, 9950*us, write), try(s, 9900*us, produce)
	s.At(500*us, func() { pg.Pause() })
	for _, c := range []interface{ Pause() }{pg, redis, c.Kafka} {
		s.At(10*ms, c.Pause)
	}
	coming := try(s, 15*ms, func(p *sim.Process) { p.Do(pg.Conn(), pg.Burn("work")); pg.Release() })
	for _, c := range []interface{ Resume() }{pg, redis, c.Kafka} {
		s.At(20*ms, c.Resume)
	}
	run(t, s, math.MaxInt64)
	flushing.is(t, "flushing", nil, 20*ms)
	inLoop.is(t, "in the loop", nil, 20*ms)
	produced.is(t, "in the broker", nil, 20*ms+51*us)
	burning.is(t, "never begun", nil, 21100*us)
	coming.is(t, "coming", nil, 20100*us)
}

// TestLinkFaults: a lost request did not happen and a lost answer did, and neither client
// knows; latency is added to the round trip.
func TestLinkFaults(t *testing.T) {
	s := sim.New(1)
	defer s.Close()
	redis := fixedCluster(t, s, nil).Redis
	hits := sim.NewMap[string, int](redis)
	hit := func(p *sim.Process) {
		err := p.Within(10*ms, func() {
			p.Do(redis.Client.Send(), redis.Run("work"))
			n, _ := hits.Get("a")
			hits.Set("a", n+1)
			p.Do(redis.Client.Receive())
		})
		if err != nil {
			hits.Set(err.Error(), 1)
		}
	}
	at := func(at time.Duration, c sim.Condition, want int, takes time.Duration) {
		s.At(at, func() { redis.Client.Link.Impose(c) })
		o := try(s, at, hit)
		s.At(at+99*ms, func() {
			if n, _ := hits.Get("a"); n != want {
				t.Errorf("%+v: %d hits, want %d", c, n, want)
			}
			o.is(t, fmt.Sprintf("%+v", c), nil, at+takes)
		})
	}
	at(0, sim.Condition{}, 1, 202*us)
	at(100*ms, sim.Condition{LoseThere: true}, 1, 10*ms)
	at(200*ms, sim.Condition{LoseBack: true}, 2, 10*ms)
	at(300*ms, sim.Condition{Latency: 4 * ms}, 3, 4202*us)
	at(400*ms, sim.Condition{}, 4, 202*us)
	run(t, s, math.MaxInt64)
	if n := redis.Client.Link.Lost(); n != 2 {
		t.Errorf("%d messages were lost", n)
	}
}

// TestRedisLoss: a kill keeps what was executed, a wipe keeps nothing, and a power loss takes
// the last writes back.
func TestRedisLoss(t *testing.T) {
	for name, lose := range map[string]func(*sim.Redis){
		"3 true":  func(r *sim.Redis) { r.Kill(false) },
		"0 false": func(r *sim.Redis) { r.Kill(true) },
		"1 false": func(r *sim.Redis) { r.PowerLoss(1500 * ms) },
	} {
		s := sim.New(1)
		redis := fixedCluster(t, s, nil).Redis
		redis.Journal = 2 * time.Second
		m := sim.NewMap[string, int](redis)
		for i := range 5 { // 1, 2, nothing, 3, and b
			try(s, time.Duration(i)*time.Second, func(p *sim.Process) {
				p.Do(redis.Run("work"))
				switch i {
				case 2:
					m.Delete("a")
				case 4:
					m.Set("b", 1)
				default:
					m.Set("a", min(i+1, 3))
				}
			})
		}
		inside := try(s, 4999900*us, func(p *sim.Process) { p.Do(redis.Run("work", "work", "work")) })
		s.At(5*time.Second, func() { lose(redis) })
		down := try(s, 5*time.Second, func(p *sim.Process) { p.Do(redis.Run("work")) })
		s.At(6*time.Second, redis.Restart)
		up := try(s, 7*time.Second, func(p *sim.Process) { p.Do(redis.Run("work")) })
		run(t, s, math.MaxInt64)
		a, _ := m.Get("a")
		_, b := m.Get("b")
		if name == "1 false" { // 3.5 s: "a" had just been deleted and set to 3 at 3 s
			a -= 2
		}
		if got := fmt.Sprint(a, b); got != name {
			t.Errorf("%s: have %s", name, got)
		}
		inside.is(t, "inside", sim.ErrLost, 5*time.Second)
		down.is(t, "down", sim.ErrUnreachable, 5*time.Second)
		up.is(t, "up", nil, 7*time.Second+100*us)
		s.Close()
	}
}

// TestKafka: records come in order, again after a crash, and at least once through a kill.
func TestKafka(t *testing.T) {
	s := sim.New(1)
	defer s.Close()
	kafka := fixedCluster(t, s, func(m *sim.Machine) { m.Kafka.Followers = 1 }).Kafka
	topic := sim.NewTopic[int](kafka, "topic", 1)
	acknowledged := map[int]bool{}
	for i := range 200 {
		s.At(time.Duration(i)*100*us, func() {
			s.GoThen(func(p *sim.Process) { p.Do(topic.Produce(0, i, 100)) },
				func(err error) { acknowledged[i] = err == nil })
		})
	}
	s.At(9973*us, kafka.Kill)
	s.At(10*ms, kafka.Restart)
	consumer := topic.Consumer(0)
	var got []int
	g := s.Group()
	consume := func(p *sim.Process) {
		for {
			p.Do(consumer.Poll(10))
			got = append(got, consumer.Records()...)
			p.Do(s.Delay(100 * us))
			p.Do(consumer.Commit())
		}
	}
	retry := func(p *sim.Process) {
		for p.Try(func() { consume(p) }) != nil {
			consumer.Crash(ms)
			p.Do(s.Delay(ms))
		}
	}
	g.GoThen(retry, func(error) {})
	crash := func() {
		g.Kill()
		consumer.Crash(ms)
		g.GoThen(retry, func(error) {})
	}
	for i := range 5 {
		s.At(time.Duration(i)*1530*us, crash)
	}
	run(t, s, math.MaxInt64)
	seen := map[int]int{}
	for _, i := range got {
		seen[i]++
	}
	again, lost := 0, 0
	for i := range 200 {
		if acknowledged[i] && seen[i] == 0 {
			t.Errorf("record %d was acknowledged and never read", i)
		}
		if seen[i] > 1 {
			again++
		}
		if !acknowledged[i] {
			lost++
		}
	}
	if again == 0 || lost == 0 || lost == 200 || consumer.Lag() != 0 {
		t.Errorf("%d came again, %d were not acknowledged, the lag is %d", again, lost, consumer.Lag())
	}
}

// TestProducesAgain: a producer sends what a broker has not acknowledged again until Delivery is
// over, and in the order in which it was produced; what was stored is not stored again.
func TestProducesAgain(t *testing.T) {
	s := sim.New(1)
	defer s.Close()
	kafka := fixedCluster(t, s, func(m *sim.Machine) { m.Kafka.Restart = sim.Duration(ms) }).Kafka
	kafka.Delivery = time.Second
	topic := sim.NewTopic[int](kafka, "topic", 1)
	var outcomes []*outcome
	produces := func(i int, at time.Duration) {
		outcomes = append(outcomes, try(s, at, func(p *sim.Process) { p.Do(topic.Produce(0, i, 100)) }))
	}
	for i := range 20 { // some are under way when the broker is killed, others come later
		produces(i, time.Duration(i)*100*us)
	}
	s.At(1050*us, kafka.Kill)
	s.At(500*ms, kafka.Restart)
	s.At(2*time.Second, kafka.Kill)
	produces(20, 2500*ms)
	s.At(4*time.Second, kafka.Restart)
	// Answers are lost, of more requests than may be under way.
	s.At(5*time.Second, func() { kafka.Client.Link.Impose(sim.Condition{LoseBack: true}) })
	for i := range 8 {
		produces(21+i, 5*time.Second+time.Duration(i)*10*ms)
	}
	s.At(5500*ms, func() { kafka.Client.Link.Impose(sim.Condition{}) })
	produces(29, 8*time.Second)
	run(t, s, math.MaxInt64)
	var want []int
	for i, o := range outcomes {
		switch {
		case i < 20 || i == 29:
			if o.err != nil {
				t.Errorf("record %d: %v at %s", i, o.err, o.at)
			}
		case i == 20:
			o.is(t, "a record that the broker was never reached for", sim.ErrUnreachable, 3500*ms)
		}
		if i != 20 {
			want = append(want, i)
		}
	}
	if got := topic.Records(0); !slices.Equal(got, want) {
		t.Errorf("the partition has %v, want %v", got, want)
	}
}

// TestPollGivenUp: what a poll had fetched that was given up comes with the next one.
func TestPollGivenUp(t *testing.T) {
	s := sim.New(1)
	defer s.Close()
	kafka := fixedCluster(t, s, nil).Kafka
	topic := sim.NewTopic[int](kafka, "topic", 1)
	try(s, 0, func(p *sim.Process) { p.Do(topic.Produce(0, 7, 100)) })
	consumer := topic.Consumer(0)
	var got []int
	s.At(ms, func() { kafka.Client.Link.Impose(sim.Condition{LoseBack: true}) })
	s.At(5*ms, func() { kafka.Client.Link.Impose(sim.Condition{}) })
	try(s, 2*ms, func(p *sim.Process) {
		if p.Within(ms, func() { p.Do(consumer.Poll(10)) }) == nil {
			t.Error("the answer was not lost")
		}
		p.Do(s.Delay(5*ms), consumer.Poll(10))
		got = consumer.Records()
	})
	run(t, s, 20*ms)
	if !slices.Equal(got, []int{7}) {
		t.Errorf("the second poll brought %v", got)
	}
}

// TestDeadlock: two that wait for each other: after a second one is rolled back.
func TestDeadlock(t *testing.T) {
	s := sim.New(1)
	defer s.Close()
	pg := fixedCluster(t, s, nil).Postgres
	rows := sim.NewTable[int, int](pg, "rows")
	both := func(a, b int) func(*sim.Process) {
		return func(p *sim.Process) {
			p.Do(pg.Conn(), rows.Lock(a), s.Delay(ms), rows.Lock(b))
			defer pg.Release()
			rows.Set(a, a)
			p.Do(pg.Commit())
		}
	}
	one, two := try(s, 0, both(1, 2)), try(s, 0, both(2, 1))
	run(t, s, math.MaxInt64)
	two.is(t, "the second", sim.ErrDeadlock, time.Second+ms)
	one.is(t, "the first", nil, time.Second+2*ms)
	if got := fmt.Sprint(rows.Keys()); got != "[1]" {
		t.Errorf("rows %s", got)
	}
}

// TestStall: a stalled core stands still, with what runs on it.
func TestStall(t *testing.T) {
	for _, slice := range []time.Duration{0, sim.NoSlice} {
		s := sim.New(1)
		cpu := sim.NewCPU(s, "cpu", 1, slice)
		burn := func(p *sim.Process) { p.Do(cpu.Burn(10 * ms)) }
		stalled, during, free := try(s, 0, burn), try(s, 103*ms, burn), try(s, 200*ms, burn)
		s.At(5*ms, func() { cpu.Stall(20 * ms) })
		s.At(100*ms, func() { cpu.Stall(5 * ms) })
		run(t, s, math.MaxInt64)
		stalled.is(t, "stalled", nil, 30*ms)
		during.is(t, "during", nil, 115*ms)
		free.is(t, "free", nil, 210*ms)
		if u := cpu.Usage()[0]; u.Stolen != 25*ms {
			t.Errorf("%+v", u)
		}
		s.Close()
	}
}

// TestRedisExecutesForNobody: a command that has reached the server is executed, also if who sent
// it gave up while the server was frozen, or in its queue; one that is lost with it is not.
func TestRedisExecutesForNobody(t *testing.T) {
	s := sim.New(1)
	defer s.Close()
	redis := fixedCluster(t, s, nil).Redis
	m := sim.NewMap[string, time.Duration](redis)
	set := func(key string, limit time.Duration) func(*sim.Process) {
		return func(p *sim.Process) {
			err := p.Within(limit, func() {
				p.Do(redis.Execute(func() { m.Set(key, s.Now()) }, "work"))
			})
			if !errors.Is(err, sim.ErrDeadline) {
				t.Errorf("%s: %v", key, err)
			}
		}
	}
	try(s, 0, set("queued", 50*us))
	try(s, 9950*us, set("executed", 5*ms)) // frozen in the middle
	s.At(10*ms, redis.Pause)
	try(s, 11*ms, set("frozen", 5*ms))
	s.At(20*ms, redis.Resume)
	s.At(30*ms, redis.Pause)
	try(s, 31*ms, set("killed", 5*ms))
	s.At(40*ms, func() { redis.Kill(false) })
	s.At(50*ms, redis.Restart)
	run(t, s, math.MaxInt64)
	for key, want := range map[string]time.Duration{"queued": 100 * us, "executed": 20 * ms,
		"frozen": 20100 * us, "killed": 0} {
		if at, _ := m.Get(key); at != want {
			t.Errorf("%s: executed at %v, want %v", key, at, want)
		}
	}
	m.DeleteFunc(func(key string, _ time.Duration) bool { return key != "frozen" })
	if _, is := m.Get("frozen"); !is || m.Len() != 1 {
		t.Errorf("%d keys are left", m.Len())
	}
}

// TestProduceAll: records that are acknowledged together have offsets in their order, also among
// those of others; if the answer to one is lost the producer gives up after its time, and its
// partition takes others again.
func TestProduceAll(t *testing.T) {
	s := sim.New(1)
	defer s.Close()
	kafka := fixedCluster(t, s, nil).Kafka
	kafka.Delivery = 50 * ms
	topic := sim.NewTopic[int](kafka, "topic", 1)
	offsets := map[int]int{}
	all := func(list ...int) func(*sim.Process) {
		return func(p *sim.Process) {
			p.Do(topic.ProduceAll(0, list, func(int) int64 { return 100 },
				func(v, offset int) { offsets[v] = offset }))
		}
	}
	try(s, 0, func(p *sim.Process) { p.Do(topic.Produce(0, 0, 100)) })
	three, none := try(s, 0, all(1, 2, 3)), try(s, 0, all())
	s.At(10*ms, func() { kafka.Client.Link.Impose(sim.Condition{LoseBack: true}) })
	lost := try(s, 10*ms, all(4, 5, 6, 7, 8, 9, 10, 11))
	s.At(20*ms, func() { kafka.Client.Link.Impose(sim.Condition{}) })
	later := try(s, 100*ms, all(12))
	run(t, s, math.MaxInt64)
	if got := fmt.Sprint(topic.Records(0)); got != "[0 1 2 3 4 5 6 7 8 9 10 11 12]" {
		t.Errorf("the partition has %s", got)
	}
	for v, offset := range offsets {
		if v != offset {
			t.Errorf("%d is at %d", v, offset)
		}
	}
	if len(offsets) != 12 {
		t.Errorf("%d offsets", len(offsets))
	}
	none.is(t, "none", nil, 0)
	if three.err != nil || later.err != nil || !errors.Is(lost.err, sim.ErrLost) ||
		lost.at < 60*ms || lost.at > 61*ms {
		t.Errorf("three: %v, lost: %v at %v, later: %v", three.err, lost.err, lost.at, later.err)
	}
}
