package sim_test

import (
	"context"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"stampede/harness/sim"
)

// job arrives at a time and takes steps, one after another.
type job struct {
	at    time.Duration
	steps []visit
}

// visit is a step: which of the stations, and for how long.
type visit struct {
	station string
	takes   time.Duration
}

// network is a small network of queues. The pool is held through the step after it.
type network struct {
	cores, pool int
	slice       time.Duration
	jobs        []job
}

func networks() *rapid.Generator[network] {
	takes := rapid.Custom(func(t *rapid.T) time.Duration {
		return time.Duration(rapid.IntRange(1, 40).Draw(t, "takes"))
	})
	return rapid.Custom(func(t *rapid.T) network {
		n := network{
			cores: rapid.IntRange(1, 3).Draw(t, "cores"), pool: rapid.IntRange(1, 3).Draw(t, "pool"),
			slice: rapid.SampledFrom([]time.Duration{3, 10, sim.NoSlice}).Draw(t, "slice"),
		}
		for range rapid.IntRange(1, 12).Draw(t, "jobs") {
			j := job{at: time.Duration(rapid.IntRange(0, 100).Draw(t, "at"))}
			for range rapid.IntRange(1, 6).Draw(t, "steps") {
				j.steps = append(j.steps, visit{
					rapid.SampledFrom([]string{"delay", "cpu", "log", "pool"}).Draw(t, "station"),
					takes.Draw(t, "takes"),
				})
			}
			n.jobs = append(n.jobs, j)
		}
		return n
	})
}

// flushTime is how long a flush of so many takes.
func flushTime(commits int) time.Duration { return 20 + time.Duration(commits) }

// simulate runs the network in the engine and returns when each job ends; each chain takes all
// steps up to the next one that needs the model.
func (n network) simulate(ctx context.Context, t *rapid.T) []time.Duration {
	s := sim.New(1)
	defer s.Close()
	cpu := sim.NewCPU(s, "cpu", n.cores, n.slice)
	pool := sim.NewPool(s, "pool", n.pool)
	log := sim.NewLog(s, "log", flushTime)
	ends := make([]time.Duration, len(n.jobs))
	for i, j := range n.jobs {
		s.At(j.at, func() {
			s.Go(func(p *sim.Process) {
				var chain []sim.Step
				for _, v := range j.steps {
					switch v.station {
					case "delay":
						chain = append(chain, s.Delay(v.takes))
					case "cpu":
						chain = append(chain, cpu.Burn(v.takes))
					case "log":
						chain = append(chain, log.Commit())
					case "pool":
						p.Do(append(chain, pool.Get(), s.Delay(v.takes))...)
						chain = nil
						pool.Put()
					}
				}
				p.Do(chain...)
				if ends[i] != 0 {
					t.Fatalf("job %d ended twice", i)
				}
				ends[i] = p.Now() + 1
			})
		})
	}
	if err := s.Run(ctx, math.MaxInt64); err != nil {
		t.Fatal(err)
	}
	for _, u := range s.Usage() {
		if u.InUse != 0 || u.Queue != 0 {
			t.Fatalf("something is left: %+v", u)
		}
	}
	return ends
}

// reference does the same slowly and plainly: a list of calls in the order of their times, and
// of two at one time in that in which they were scheduled.
type reference struct {
	network
	now      time.Duration
	calls    []call
	cpuQueue []burst
	cpuFree  int
	waiting  []func()
	poolFree int
	flushing bool
	commits  []func()
}

type call struct {
	at time.Duration
	f  func()
}

type burst struct {
	left time.Duration
	done func()
}

func (r *reference) after(d time.Duration, f func()) {
	c := call{r.now + d, f}
	i := len(r.calls)
	for i > 0 && r.calls[i-1].at > c.at {
		i--
	}
	r.calls = slices.Insert(r.calls, i, c)
}

func (r *reference) run() []time.Duration {
	r.cpuFree, r.poolFree = r.cores, r.pool
	ends := make([]time.Duration, len(r.jobs))
	for i, j := range r.jobs {
		r.after(j.at, func() { r.after(0, func() { r.take(j.steps, func() { ends[i] = r.now + 1 }) }) })
	}
	for len(r.calls) > 0 {
		c := r.calls[0]
		r.calls = r.calls[1:]
		r.now = c.at
		c.f()
	}
	return ends
}

// take takes the first step and then the others.
func (r *reference) take(steps []visit, end func()) {
	if len(steps) == 0 {
		end()
		return
	}
	v, rest := steps[0], func() { r.take(steps[1:], end) }
	switch v.station {
	case "delay":
		r.after(v.takes, rest)
	case "cpu":
		r.cpuQueue = append(r.cpuQueue, burst{v.takes, rest})
		r.serve()
	case "log":
		r.commits = append(r.commits, rest)
		r.flush()
	case "pool":
		hold := func() {
			r.after(v.takes, func() {
				if len(r.waiting) > 0 {
					r.after(0, r.waiting[0])
					r.waiting = r.waiting[1:]
				} else {
					r.poolFree++
				}
				rest()
			})
		}
		if r.poolFree > 0 {
			r.poolFree--
			hold()
		} else {
			r.waiting = append(r.waiting, hold)
		}
	}
}

func (r *reference) serve() {
	for r.cpuFree > 0 && len(r.cpuQueue) > 0 {
		b := r.cpuQueue[0]
		r.cpuQueue = r.cpuQueue[1:]
		r.cpuFree--
		piece := min(b.left, r.slice)
		r.after(piece, func() {
			if b.left -= piece; b.left > 0 {
				r.cpuQueue = append(r.cpuQueue, b)
			} else {
				r.after(0, b.done)
			}
			r.cpuFree++
			r.serve()
		})
	}
}

func (r *reference) flush() {
	if r.flushing || len(r.commits) == 0 {
		return
	}
	group := r.commits
	r.commits, r.flushing = nil, true
	r.after(flushTime(len(group)), func() {
		for _, done := range group {
			r.after(0, done)
		}
		r.flushing = false
		r.flush()
	})
}

// TestReference: chains and coroutines give every job of a random network the very time that a
// plain simulator gives it.
func TestReference(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := networks().Draw(rt, "network")
		got, want := n.simulate(t.Context(), rt), (&reference{network: n}).run()
		if !slices.Equal(got, want) {
			rt.Fatalf("ends %v, want %v", got, want)
		}
	})
}

// TestSharing holds processor sharing against the plainest computation: all bursts advance
// together to the next arrival or end.
func TestSharing(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		cores := rapid.IntRange(1, 3).Draw(rt, "cores")
		n := rapid.IntRange(1, 10).Draw(rt, "n")
		at, left := make([]float64, n), make([]float64, n)
		s := sim.New(1)
		defer s.Close()
		cpu := sim.NewCPU(s, "cpu", cores, 0)
		got := make([]time.Duration, n)
		for i := range n {
			at[i] = float64(rapid.IntRange(0, 5000).Draw(rt, "at"))
			left[i] = float64(rapid.IntRange(1, 3000).Draw(rt, "takes"))
			burn := cpu.Burn(time.Duration(left[i]))
			s.At(time.Duration(at[i]), func() {
				s.Go(func(p *sim.Process) {
					p.Do(burn)
					got[i] = p.Now()
				})
			})
		}
		run(t, s, math.MaxInt64)
		for i, want := range shared(float64(cores), at, left) {
			if math.Abs(float64(got[i])-want) > float64(n)+1 {
				rt.Fatalf("burst %d ends at %d, want %.1f", i, got[i], want)
			}
		}
	})
}

func shared(cores float64, at, left []float64) []float64 {
	ends := make([]float64, len(at))
	for now := 0.0; ; {
		running, step := 0.0, math.Inf(1)
		for i := range at {
			if at[i] <= now && left[i] > 0 {
				running++
			}
		}
		speed := min(1, cores/max(running, 1))
		for i := range at {
			switch {
			case at[i] > now:
				step = min(step, at[i]-now)
			case left[i] > 0:
				step = min(step, left[i]/speed)
			}
		}
		if math.IsInf(step, 1) {
			return ends
		}
		for i := range at {
			if at[i] <= now && left[i] > 0 {
				if left[i] -= step * speed; left[i] < 1e-6 {
					left[i], ends[i] = 0, now+step
				}
			}
		}
		now += step
	}
}
