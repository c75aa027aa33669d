package sim_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"stampede/harness/sim"
)

// crew is a role of two replicas that count what they do each millisecond, with a helper each that
// they start.
func crew(t *testing.T, s *sim.Sim) (c *sim.Cluster, did map[string]int) {
	t.Helper()
	c, did = fixedCluster(t, s, nil), map[string]int{}
	c.Role("worker", 2, ms, func(r *sim.Replica) []func(*sim.Process) {
		steady := func(who string) func(*sim.Process) {
			return func(p *sim.Process) {
				for {
					p.Do(s.Delay(ms))
					did[who]++
					p.Passed("stepped")
				}
			}
		}
		return []func(*sim.Process){func(p *sim.Process) {
			p.Go(steady("helper of " + r.Name))
			steady(r.Name)(p)
		}}
	})
	return c, did
}

// TestFaultsOfReplicas: who is killed does nothing until it is started, who is frozen goes on where
// it was, who is armed dies at its n-th passage, all with what they have started; the others work.
func TestFaultsOfReplicas(t *testing.T) {
	s := sim.New(1)
	defer s.Close()
	c, did := crew(t, s)
	second := c.Replicas("worker-2")[0]
	if all := c.Replicas("worker"); len(all) != 2 || all[1] != second || c.Replicas("nobody") != nil {
		t.Fatalf("the replicas are %v", all)
	}
	at := func(when time.Duration, want int, do func()) {
		s.At(when, func() {
			for _, who := range []string{"worker-2", "helper of worker-2"} {
				if did[who] != want {
					t.Errorf("at %s %s did %d steps, want %d", s.Now(), who, did[who], want)
				}
			}
			do()
		})
	}
	at(10500*us, 10, second.Kill)
	at(20500*us, 10, second.Start)
	at(30*ms, 19, second.Pause)
	at(40*ms, 19, second.Resume)
	at(49500*us, 29, func() {})
	run(t, s, 49500*us)
	if did["worker-1"] != 49 {
		t.Errorf("the other one did %d steps", did["worker-1"])
	}
}

// TestArmed: a replica dies at the n-th passage of a place, and lives again when it is started.
func TestArmed(t *testing.T) {
	s := sim.New(1)
	defer s.Close()
	c, did := crew(t, s)
	first := c.Replicas("worker-1")[0]
	first.Arm("elsewhere", 1)
	s.At(1500*us, func() { first.Arm("stepped", 4) }) // two of each at 2 and at 3 ms
	s.At(10*ms, func() {
		ago, died := first.Died()
		if !first.Down() || !died || ago != 7*ms || did["worker-1"]+did["helper of worker-1"] != 6 {
			t.Errorf("down: %v, died %v ago (%v), did %v", first.Down(), ago, died, did)
		}
		first.Start()
	})
	run(t, s, 12500*us)
	if did["worker-1"] != 5 || did["worker-2"] != 12 {
		t.Errorf("after the crash: %v", did)
	}
}

// TestServe: what a replica is asked is of unknown outcome when it is killed, whatever the model
// catches, and does not happen while it is dead. Frozen it answers late, but who gives up does not
// wait for that. A connection is given back each time.
func TestServe(t *testing.T) {
	s := sim.New(1)
	defer s.Close()
	c := fixedCluster(t, s, nil)
	api := c.Role("api", 1, ms, func(*sim.Replica) []func(*sim.Process) { return nil })[0]
	type answer struct {
		err error
		at  time.Duration
	}
	got := map[string]answer{}
	ask := func(name string, at, limit time.Duration, do func(*sim.Process)) {
		s.At(at, func() {
			s.Go(func(p *sim.Process) {
				var err error
				late := p.Within(limit, func() { err = api.Serve(p, func() { do(p) }) })
				if late != nil {
					err = late
				}
				got[name] = answer{err, s.Now()}
			})
		})
	}
	work := func(p *sim.Process) {
		p.Do(c.Postgres.Conn(), s.Delay(2*ms))
		defer c.Postgres.Release()
		p.Passed("worked")
	}
	stubborn := func(p *sim.Process) { _ = p.Try(func() { work(p) }) }
	ask("in time", 0, time.Second, work)
	ask("killed", 9*ms, time.Second, stubborn)
	s.At(10*ms, api.Kill)
	ask("dead", 11*ms, time.Second, work)
	s.At(12*ms, api.Start)
	s.At(20*ms, api.Pause)
	ask("frozen", 21*ms, time.Second, work)
	ask("given up", 21*ms, 3*ms, work)
	s.At(30*ms, api.Resume)
	s.At(40*ms, func() { api.Arm("worked", 2) })
	ask("lucky", 40*ms, time.Second, stubborn)
	ask("at the place", 41*ms, time.Second, stubborn)
	ask("beside it", 42*ms, time.Second, stubborn)
	run(t, s, math.MaxInt64)
	for name, want := range map[string]answer{"in time": {nil, 2 * ms},
		"killed": {sim.ErrKilled, 10 * ms}, "dead": {sim.ErrUnreachable, 11 * ms},
		"frozen": {nil, 32 * ms}, "given up": {sim.ErrDeadline, 24 * ms}, "lucky": {nil, 42 * ms},
		"at the place": {sim.ErrKilled, 43 * ms}, "beside it": {sim.ErrKilled, 43 * ms}} {
		if a := got[name]; !errors.Is(a.err, want.err) || a.at != want.at {
			t.Errorf("%s: %v at %s, want %v at %s", name, a.err, a.at, want.err, want.at)
		}
	}
	for _, u := range s.Usage() {
		if u.Name == "postgres.connections" && u.InUse != 0 {
			t.Errorf("%d connections were not given back", u.InUse)
		}
	}
}

// TestCut: a replica that is cut off from a store gets no answer, and others do.
func TestCut(t *testing.T) {
	s := sim.New(1)
	defer s.Close()
	c := fixedCluster(t, s, nil)
	answers := make([]int, 2)
	c.Role("worker", 2, ms, func(r *sim.Replica) []func(*sim.Process) {
		return []func(*sim.Process){func(p *sim.Process) {
			for {
				err := p.Within(ms, func() { p.Do(c.Redis.Client.Send(), c.Redis.Client.Receive()) })
				if err == nil {
					answers[r.Number]++
				}
				p.Do(s.Delay(ms))
			}
		}}
	})
	second := c.Replicas("worker-2")[0]
	second.Cut(c.Redis.Client.Link)
	run(t, s, 50*ms)
	if answers[0] < 20 || answers[1] != 0 {
		t.Errorf("answers while one is cut off: %v", answers)
	}
	second.Mend()
	run(t, s, 100*ms)
	if answers[1] < 20 {
		t.Errorf("answers afterwards: %v", answers)
	}
}

// TestAll: what is done at the same time takes as long as the longest, and the first failure is
// told when all have ended.
func TestAll(t *testing.T) {
	s := sim.New(1)
	defer s.Close()
	var ended []string
	s.Go(func(p *sim.Process) {
		err := p.All(3, func(p *sim.Process, i int) {
			p.Do(s.Delay(time.Duration(3-i) * ms))
			ended = append(ended, fmt.Sprint(i, " at ", s.Now()))
			if i > 0 {
				p.Fail(fmt.Errorf("the %d-th: %w", i, sim.ErrLost))
			}
		})
		if !errors.Is(err, sim.ErrLost) || s.Now() != 3*ms {
			t.Errorf("it ended with %v at %s", err, s.Now())
		}
		if err := p.All(0, nil); err != nil {
			t.Errorf("nothing failed: %v", err)
		}
	})
	run(t, s, math.MaxInt64)
	if want := []string{"2 at 1ms", "1 at 2ms", "0 at 3ms"}; !slices.Equal(ended, want) {
		t.Errorf("ended %v, want %v", ended, want)
	}
}
