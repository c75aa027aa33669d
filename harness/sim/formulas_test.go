package sim_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"stampede/harness/sim"
)

const ms = time.Millisecond

// mean is in milliseconds.
func mean(took []time.Duration) float64 {
	sum := time.Duration(0)
	for _, d := range took {
		sum += d
	}
	return sum.Seconds() * 1e3 / float64(len(took))
}

// erlang is the mean time in an M/M/c queue with service time 1, by Erlang's B and C.
func erlang(c int, rho float64) float64 {
	b := 1.0
	for k := 1; k <= c; k++ {
		b = b * rho * float64(c) / (float64(k) + b*rho*float64(c))
	}
	return 1 + b/(1-rho*(1-b))/(1-rho)/float64(c)
}

func mm(c int) func(float64) float64 { return func(rho float64) float64 { return erlang(c, rho) } }
func md1(rho float64) float64        { return 1 + rho/2/(1-rho) }

// queue is a resource whose mean time in it a formula has. use is one operation on it, with a
// mean service time of 1 ms. The formula's service time is 1.
type queue struct {
	name    string
	servers int
	make    func(s *sim.Sim) (use func(*sim.Process), usage func() []sim.Usage)
	want    func(rho float64) float64
}

func queues() []queue {
	exp := func(s *sim.Sim) time.Duration { return s.Stream("service").Exp(ms) }
	fixed := func(*sim.Sim) time.Duration { return ms }
	wild := func(s *sim.Sim) time.Duration { // squared coefficient of variation 3
		r := s.Stream("service")
		return r.Exp([]time.Duration{3 * ms, ms / 2, ms / 2, ms / 2, ms / 2}[r.IntN(5)])
	}
	cpu := func(
		name string, cores int, slice time.Duration, draw func(*sim.Sim) time.Duration,
		want func(float64) float64,
	) queue {
		return queue{name, cores, func(s *sim.Sim) (func(*sim.Process), func() []sim.Usage) {
			c := sim.NewCPU(s, name, cores, slice)
			return func(p *sim.Process) { p.Do(c.Burn(draw(s))) }, c.Usage
		}, want}
	}
	return []queue{
		cpu("M/M/1 FCFS", 1, sim.NoSlice, exp, mm(1)),
		cpu("M/D/1 FCFS", 1, sim.NoSlice, fixed, md1),
		cpu("M/M/4 FCFS", 4, sim.NoSlice, exp, mm(4)),
		cpu("M/M/2 sliced", 2, ms/2, exp, mm(2)),
		cpu("M/G/1 PS", 1, 0, wild, mm(1)),
		cpu("M/D/1 PS", 1, 0, fixed, mm(1)),
		cpu("M/G/4 PS", 4, 0, wild, mm(4)),
		{"Erlang C pool", 8, func(s *sim.Sim) (func(*sim.Process), func() []sim.Usage) {
			pool := sim.NewPool(s, "pool", 8)
			return func(p *sim.Process) {
				p.Do(pool.Get(), s.Delay(exp(s)))
				pool.Put()
			}, pool.Usage
		}, mm(8)},
		{"two threads on four cores", 2, func(s *sim.Sim) (func(*sim.Process), func() []sim.Usage) {
			cpu := sim.NewCPU(s, "cpu", 4, ms)
			threads := sim.NewThreads(s, "threads", 2, cpu)
			return func(p *sim.Process) { p.Do(threads.Burn(exp(s))) }, threads.Usage
		}, mm(2)},
		{"bandwidth", 1, func(s *sim.Sim) (func(*sim.Process), func() []sim.Usage) {
			link := sim.NewLink(s, "link", 0, 1e6)
			return func(p *sim.Process) { p.Do(link.There(1000)) }, link.Usage
		}, md1},
	}
}

// hold runs n operations on a queue and compares with its formula at the utilisation and the
// service time that the draws had: at 0.95 the nominal mean of four million operations still
// differs by a per cent for chance alone.
func (q queue) hold(t testing.TB, rho float64, n int, tolerance float64) {
	t.Helper()
	s := sim.New(7)
	defer s.Close()
	use, usage := q.make(s)
	took := open(t, s, rho*1000*float64(q.servers), n, func(p *sim.Process, _ int) { use(p) })
	u := usage()[0]
	service := u.Busy.Seconds() * 1e3 / float64(n)
	got, want := mean(took), q.want(u.Utilisation())*service
	t.Logf("%-26s ρ %.2f, %7d: %.4f ms, formula %.4f: %+.2f %%", q.name, rho, n, got, want,
		100*(got/want-1))
	if math.Abs(got/want-1) > tolerance {
		t.Errorf("%s at %v is off by more than %v", q.name, rho, tolerance)
	}
	if u.Starts != int64(n) || u.Queue != 0 || u.InUse != 0 {
		t.Errorf("%s: %+v, of %d", q.name, u, n)
	}
	// Little's law, exactly: all that they took is what they waited and were served.
	sum := time.Duration(0)
	for _, d := range took {
		sum += d
	}
	if off := sum - u.Busy - u.Waited; off.Abs() > time.Duration(n) {
		t.Errorf("%s: they took %s, and the queue and the servers %s less", q.name, sum, off)
	}
}

func TestQueues(t *testing.T) {
	for _, q := range queues() {
		q.hold(t, 0.3, 40_000, 0.02)
		q.hold(t, 0.7, 60_000, 0.04)
		q.hold(t, 0.95, 100_000, 0.12)
	}
}

// groupCommit is the mean of a commit whose flush takes 1 ms, in milliseconds.
func groupCommit(perMS float64) float64 {
	a := perMS * math.Exp(perMS)
	return 1 + a/(1+a)/2
}

func holdLog(t testing.TB, perMS float64, n int, tolerance float64) {
	t.Helper()
	s := sim.New(7)
	defer s.Close()
	log := sim.NewLog(s, "log", func(int) time.Duration { return ms })
	took := open(t, s, 1000*perMS, n, func(p *sim.Process, _ int) { p.Do(log.Commit()) })
	near(t, fmt.Sprintf("group commit, %v a flush time", perMS), mean(took), groupCommit(perMS),
		tolerance)
}

func near(t testing.TB, name string, got, want, tolerance float64) {
	t.Helper()
	t.Logf("%-26s %.4f ms, formula %.4f: %+.2f %%", name, got, want, 100*(got/want-1))
	if math.Abs(got/want-1) > tolerance {
		t.Errorf("%s is off by more than %v", name, tolerance)
	}
}

func TestGroupCommit(t *testing.T) {
	for _, perMS := range []float64{0.3, 1, 4} {
		holdLog(t, perMS, 50_000, 0.01)
	}
}

// loopMean is the formula in the comment of Loop; times are in milliseconds.
func loopMean(lambda, e, b float64) float64 {
	const most = 400
	pi := make([]float64, most)
	pi[1] = 1
	for range 2000 {
		next := make([]float64, most)
		for n, share := range pi {
			if share < 1e-15 {
				continue
			}
			mean := lambda * (e + b*float64(n))
			p := math.Exp(-mean)
			next[1] += share * p // it sleeps until one comes
			for k := 1; k < most; k++ {
				p *= mean / float64(k)
				next[k] += share * p
			}
		}
		pi = next
	}
	sum, arrivals := 0.0, 0.0
	for n, share := range pi {
		t := e + b*float64(n)
		idle := math.Exp(-lambda * t)
		sum += share * (lambda*t*(t/2+e+b*(1+lambda*t)) + idle*(e+b))
		arrivals += share * (lambda*t + idle)
	}
	return sum / arrivals
}

// holdLoop runs pipelines of so many commands, each on a connection of its own.
func holdLoop(t testing.TB, pipeline int, rho float64, n int, tolerance float64) {
	t.Helper()
	s := sim.New(7)
	defer s.Close()
	const e, r, x = 20 * time.Microsecond, 10 * time.Microsecond, 5 * time.Microsecond
	is := func(d time.Duration) func() time.Duration { return func() time.Duration { return d } }
	loop := sim.NewLoop(s, "loop", sim.NewCPU(s, "cpu", 1, sim.NoSlice), is(e), is(r))
	each := r + time.Duration(pipeline)*x
	perMS := rho / (each.Seconds() * 1e3) // ρ of the work that no batch saves
	took := open(t, s, 1000*perMS, n, func(p *sim.Process, _ int) {
		conn := loop.Conn()
		for range pipeline - 1 { // they come together
			s.Go(func(p *sim.Process) { p.Do(conn.Run(x)) })
		}
		p.Do(conn.Run(x))
	})
	near(t, fmt.Sprintf("loop, pipelines of %d, ρ %v", pipeline, rho), mean(took),
		loopMean(perMS, e.Seconds()*1e3, each.Seconds()*1e3), tolerance)
}

func TestLoop(t *testing.T) {
	for _, pipeline := range []int{1, 16} {
		holdLoop(t, pipeline, 0.3, 20_000, 0.01)
		holdLoop(t, pipeline, 0.7, 20_000, 0.02)
	}
}

func holdLinger(t testing.TB, perMS float64, n int, tolerance float64) {
	t.Helper()
	s := sim.New(7)
	defer s.Close()
	const linger = 5.0 // ms
	queue := sim.NewPartition(s, "partition", linger*ms, 1<<40, 5,
		func(_ *sim.Batch, done func(error)) { s.After(0, func() { done(nil) }) })
	took := open(t, s, 1000*perMS, n, func(p *sim.Process, _ int) { p.Do(queue.Produce(100)) })
	a := perMS * linger
	near(t, fmt.Sprintf("linger, %v records in it", a), mean(took), linger*(1+a/2)/(1+a), tolerance)
}

func TestLinger(t *testing.T) {
	for _, perMS := range []float64{0.01, 0.2, 4} {
		holdLinger(t, perMS, 50_000, 0.01)
	}
}

// TestBatchFull: a batch leaves when it is full, and one that is being sent holds others up
// only when as many are under way as may be.
func TestBatchFull(t *testing.T) {
	s := sim.New(1)
	defer s.Close()
	var sizes []int
	queue := sim.NewPartition(s, "partition", time.Hour, 1000, 2,
		func(b *sim.Batch, done func(error)) {
			sizes = append(sizes, b.Records)
			s.After(ms, func() { done(nil) })
		})
	ends := map[time.Duration]int{}
	for range 40 { // ten fill a batch
		s.Go(func(p *sim.Process) {
			p.Do(queue.Produce(100))
			ends[p.Now()]++
		})
	}
	run(t, s, math.MaxInt64)
	if fmt.Sprint(sizes) != "[10 10 10 10]" || ends[ms] != 20 || ends[2*ms] != 20 {
		t.Errorf("batches of %v, ends %v", sizes, ends)
	}
}

func run(t testing.TB, s *sim.Sim, until time.Duration) {
	t.Helper()
	if err := s.Run(t.Context(), until); err != nil {
		t.Fatal(err)
	}
}
