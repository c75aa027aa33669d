package sim

import (
	"slices"
	"time"
)

// Pool is n connections or threads, first come, first served. The mean wait with Poisson
// arrivals and exponential holding times is Erlang's (Erlang, 1917): C(n, ρ)·S/(n(1−ρ)).
type Pool struct {
	meter
	free  int
	queue fifo[*chain]
}

// NewPool returns a pool of n.
func NewPool(s *Sim, name string, n int) *Pool {
	p := &Pool{meter: meter{s: s, name: name, servers: n}, free: n}
	s.reports = append(s.reports, p)
	return p
}

// Usage is what the pool did.
func (p *Pool) Usage() []Usage {
	u := p.usage()
	u.Pool = true
	return []Usage{u}
}

// Get is a step that waits for one and takes it. If a later step of the same Do fails, it is
// put back; afterwards it is the caller's to Put.
func (p *Pool) Get() Step { return Step{of: p} }

func (p *Pool) start(c *chain, _ int64) bool {
	p.starts++
	if p.free > 0 {
		p.free--
		p.change(1, 0)
		c.acquired = append(c.acquired, p)
		return true
	}
	p.waits++
	p.change(0, 1)
	p.queue.put(c)
	return false
}

func (p *Pool) abandon(*chain) { p.change(0, -1) }

// Put gives one back, to the one that has waited longest.
func (p *Pool) Put() {
	for p.queue.len() > 0 {
		c := p.queue.take()
		if c.dead {
			continue
		}
		p.change(0, -1)
		c.acquired = append(c.acquired, p)
		c.wake()
		return
	}
	p.change(-1, 0)
	p.free++
}

func (p *Pool) release() { p.Put() }

// Threads is a pool of threads before cores: a burst waits for a thread and then shares the
// cores with other threads, as in a layered queueing network (Rolia and Sevcik, The Method of
// Layers, 1995). Linux shares cores among threads, not among requests.
type Threads struct {
	pool      *Pool
	cpu       *CPU
	burn, put instant
}

// NewThreads returns n threads.
func NewThreads(s *Sim, name string, n int, cpu *CPU) *Threads {
	t := &Threads{pool: NewPool(s, name, n), cpu: cpu}
	t.put = func(c *chain, _ int64) {
		i := slices.Index(c.acquired, releaser(t.pool))
		c.acquired = slices.Delete(c.acquired, i, i+1)
		t.pool.Put()
	}
	t.burn = func(c *chain, d int64) {
		in := c.at.in
		c.push(Step{of: t.pool, in: in}, Step{of: t.cpu, n: d, in: in}, Step{of: t.put})
	}
	return t
}

// Usage is what the threads did; their waits for cores are the CPU's.
func (t *Threads) Usage() []Usage { return t.pool.Usage() }

// Burn is a step that needs so much time of one core, in a thread.
func (t *Threads) Burn(d time.Duration) Step { return Step{of: t.burn, n: int64(max(d, 0))} }
