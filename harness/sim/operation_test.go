package sim_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"stampede/harness/sim"
)

// operationTest is what operations use. Somebody else has one of two connections, and the lock of
// row 1.
type operationTest struct {
	*sim.Cluster
	rows *sim.Table[int, int]
	log  *sim.Topic[int]
}

// waits is longer than an operation may take.
func (o operationTest) waits(p *sim.Process) { p.Do(sim.Harmless(o.Sim.Delay(time.Second))) }

func (o operationTest) commits(p *sim.Process, k int) {
	p.Do(o.Postgres.Conn(), o.rows.Lock(k))
	defer o.Postgres.Release()
	o.rows.Set(k, 1)
	p.Do(o.Postgres.Commit())
}

func (o operationTest) holds(p *sim.Process) {
	p.Do(o.Postgres.Conn(), o.rows.Lock(1), o.Sim.Delay(time.Second))
}

// TestOperation: a failure surely prevented an operation only if nothing had happened before.
func TestOperation(t *testing.T) {
	none := func(operationTest) {}
	for name, c := range map[string]struct {
		before    func(operationTest)
		do        func(operationTest, *sim.Process)
		prevented bool
	}{
		"waits harmlessly": {none, operationTest.waits, true},
		"waits for a row":  {none, func(o operationTest, p *sim.Process) { o.commits(p, 1) }, true},
		"waits for a connection": {func(o operationTest) { o.Sim.Go(o.holds) },
			func(o operationTest, p *sim.Process) { o.commits(p, 2) }, true},
		"only read before": {none, func(o operationTest, p *sim.Process) {
			p.Do(o.Postgres.Conn(), o.Postgres.Burn("work"), o.Postgres.Commit())
			o.waits(p)
		}, true},
		"waits for another reason": {none,
			func(o operationTest, p *sim.Process) { p.Do(o.Sim.Delay(time.Second)) }, false},
		"comes to a frozen server": {func(o operationTest) { o.Postgres.Pause() },
			func(o operationTest, p *sim.Process) { o.commits(p, 2) }, false},
		"wrote before": {none, func(o operationTest, p *sim.Process) {
			o.commits(p, 2)
			o.waits(p)
		}, false},
		"asked Redis before": {none, func(o operationTest, p *sim.Process) {
			p.Do(o.Redis.Execute(func() {}, "work"))
			o.waits(p)
		}, false},
		"produced before": {none, func(o operationTest, p *sim.Process) {
			p.Do(o.log.Produce(0, 1, 1))
			o.waits(p)
		}, false},
		"began a process": {none, func(o operationTest, p *sim.Process) {
			o.Sim.Go(func(*sim.Process) {})
			o.waits(p)
		}, false},
	} {
		s := sim.New(1)
		cluster := fixedCluster(t, s, nil)
		o := operationTest{cluster, sim.NewTable[int, int](cluster.Postgres, "rows"),
			sim.NewTopic[int](cluster.Kafka, "log", 1)}
		s.Go(o.holds)
		c.before(o)
		s.At(ms, func() {
			s.Go(func(p *sim.Process) {
				prevented, err := p.Operation(100*ms, func() error {
					c.do(o, p)
					return nil
				})
				if !errors.Is(err, sim.ErrDeadline) || prevented != c.prevented {
					t.Errorf("%s: %v, surely prevented: %t", name, err, prevented)
				}
			})
		})
		run(t, s, 2*time.Second)
		s.Close()
	}
}

// TestOperationEnds: an operation returns its own error, which prevented nothing, and that of a
// deadlock, which did.
func TestOperationEnds(t *testing.T) {
	s := sim.New(1)
	defer s.Close()
	s.Go(func(p *sim.Process) {
		own := errors.New("refused")
		for err, prevents := range map[error]bool{nil: false, own: false, sim.ErrDeadlock: true} {
			for _, limit := range []time.Duration{0, time.Second} {
				got, is := p.Operation(limit, func() error { return err })
				if got != prevents || !errors.Is(is, err) {
					t.Errorf("%v: surely prevented: %t, %v", err, got, is)
				}
			}
		}
		if got, _ := p.Operation(0, func() error { p.Fail(sim.ErrDeadlock); return nil }); !got {
			t.Error("a deadlock did not prevent the operation")
		}
	})
	run(t, s, ms)
}

// TestClaim: a claim locks the first rows that are due and wanted, and passes over those that
// another transaction has.
func TestClaim(t *testing.T) {
	s := sim.New(1)
	defer s.Close()
	pg := fixedCluster(t, s, nil).Postgres
	rows := sim.NewTable[int, int](pg, "rows")
	index := sim.NewIndex(rows, func(int) bool { return true }, func(a, b int) int { return a - b })
	for k := range 10 {
		rows.Load(k, k)
	}
	claims := func(most int) func(*sim.Process) {
		return func(p *sim.Process) {
			p.Do(pg.Conn())
			list, skipped := rows.Claim(index.All(), most, func(v int) bool { return v < 8 },
				func(v int) bool { return v%2 == 0 })
			if want := map[int]string{2: "[0 2] 0", 9: "[4 6] 2"}[most]; fmt.Sprint(list, skipped) != want {
				t.Errorf("a claim of %d got %v and passed over %d, want %s", most, list, skipped, want)
			}
			p.Do(s.Delay(ms))
		}
	}
	try(s, 0, claims(2))
	try(s, us, claims(9))
	run(t, s, 10*ms)
}

// TestRowLocksAreFlushed: the locks of a transaction that wrote nothing last until its commit is on
// disk. One that locked the place of a row that there is not needs no flush.
func TestRowLocksAreFlushed(t *testing.T) {
	s := sim.New(1)
	defer s.Close()
	pg := fixedCluster(t, s, nil).Postgres
	rows := sim.NewTable[int, int](pg, "rows")
	rows.Load(1, 1)
	locks := func(k int) func(*sim.Process) {
		return func(p *sim.Process) {
			p.Do(pg.Conn(), rows.Lock(k), pg.Commit())
			pg.Release()
		}
	}
	there, place := try(s, 0, locks(1)), try(s, 0, locks(2))
	var during, after bool
	try(s, ms/2, func(p *sim.Process) {
		p.Do(pg.Conn())
		defer pg.Release()
		during = rows.TryLock(1)
		p.Do(s.Delay(ms))
		after = rows.TryLock(1)
	})
	run(t, s, 3*ms)
	there.is(t, "a lock of a row", nil, ms)
	place.is(t, "a lock of the place of one", nil, 0)
	if during || !after {
		t.Errorf("the row was free during the flush: %t, and after it: %t", during, after)
	}
}
