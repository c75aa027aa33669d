package sim

import (
	"math"
	"time"
)

// CPU is cores that bursts share. Make one with NewCPU.
//
// With a slice it is round robin: bursts take turns of at most that length in one queue, as a
// kernel's scheduler does among threads that want the same. Bursts shorter than the slice are
// served first come, first served (FCFS), and so are all with NoSlice. With slice 0 it is
// processor sharing (PS): n bursts on c cores each have min(1, c/n) of a core.
//
// Mean time in it, at utilisation ρ with mean service time S: M/M/1 and M/G/1 PS S/(1−ρ),
// M/D/1 FCFS S(1 + ρ/(2(1−ρ))), M/M/c S(1 + C(c, ρ)/(c(1−ρ))) with Erlang's C (Kleinrock,
// Queueing Systems, 1975–1976).
type CPU struct {
	meter
	slice  time.Duration
	turns  fifo[turn]
	cores  []*core
	idle   []*core
	robbed int // the core of the next Stall
	stolen time.Duration
	// With processor sharing, v is what a burst without end would have had so far, in
	// picoseconds; a burst is done when v reaches its place among jobs.
	v       int64
	shared  time.Duration // when v was last right
	jobs    heap
	armed   time.Duration // when tick is expected
	stalled int64         // cores
}

// NoSlice is the slice of a CPU that serves each burst to its end.
const NoSlice = time.Duration(math.MaxInt64)

// turn is what is left of a burst.
type turn struct {
	chain *chain
	left  time.Duration
}

// core is a core of a CPU with slices.
type core struct {
	cpu *CPU
	turn
	piece time.Duration // of the turn
	until time.Duration
	used  bool
}

// NewCPU returns a number of cores.
func NewCPU(s *Sim, name string, cores int, slice time.Duration) *CPU {
	c := &CPU{meter: meter{s: s, name: name, servers: cores}, slice: slice, armed: math.MaxInt64}
	for range cores {
		c.cores = append(c.cores, &core{cpu: c})
	}
	for i := range c.cores { // the first one is used first
		c.idle = append(c.idle, c.cores[cores-1-i])
	}
	s.reports = append(s.reports, c)
	return c
}

// Burn is a step that needs so much time of one core.
func (c *CPU) Burn(d time.Duration) Step { return Step{of: c, n: int64(max(d, 0))} }

func (c *CPU) start(ch *chain, d int64) bool {
	c.starts++
	if d == 0 {
		return true
	}
	if c.slice == 0 {
		c.join(ch, d)
		return false
	}
	c.change(0, 1)
	if len(c.idle) == 0 {
		c.waits++
	}
	c.turns.put(turn{ch, time.Duration(d)})
	c.serve()
	return false
}

// serve gives idle cores something to do.
func (c *CPU) serve() {
	for len(c.idle) > 0 && c.turns.len() > 0 {
		t := c.turns.take()
		if t.chain.dead {
			continue
		}
		k := c.idle[len(c.idle)-1]
		c.idle = c.idle[:len(c.idle)-1]
		c.change(1, -1)
		k.turn, k.piece, k.used = t, min(t.left, c.slice), true
		k.until = c.s.now + k.piece
		c.s.schedule(k.until, k)
	}
}

// happen is the end of a turn or, of a core without one, of a stall.
func (k *core) happen() {
	c := k.cpu
	if k.until > c.s.now { // a stall has put it off
		c.s.schedule(k.until, k)
		return
	}
	if k.used {
		k.used = false
		k.left -= k.piece
		switch {
		case k.chain.dead:
			c.change(-1, 0)
		case k.left > 0:
			c.change(-1, 1)
			c.turns.put(k.turn)
		default:
			c.change(-1, 0)
			k.chain.wake()
		}
		k.chain = nil
	}
	c.idle = append(c.idle, k)
	c.serve()
}

func (c *CPU) abandon(ch *chain) {
	if c.slice == 0 {
		c.quit(ch)
		return
	}
	for _, k := range c.cores {
		if k.used && k.chain == ch {
			return // its turn ends as it would have
		}
	}
	c.change(0, -1)
}

// Stall takes one core away for a time, as a hypervisor does: what runs on it stands still.
// Successive stalls take one core after the other.
func (c *CPU) Stall(d time.Duration) {
	if d <= 0 {
		return
	}
	c.stolen += d
	if c.slice == 0 {
		c.share()
		c.stalled++
		c.arm()
		c.s.After(d, func() {
			c.share()
			c.stalled--
			c.arm()
		})
		return
	}
	k := c.cores[c.robbed]
	c.robbed = (c.robbed + 1) % len(c.cores)
	for i, idle := range c.idle {
		if idle == k {
			c.idle = append(c.idle[:i], c.idle[i+1:]...)
			k.until = c.s.now
			c.s.schedule(c.s.now+d, k)
			break
		}
	}
	k.until += d
}

// stallNow lets a machine's stalls begin.
func (c *CPU) stallNow(m Stalls) {
	if m.Share == 0 {
		return
	}
	lengths := c.s.Stream(c.name + ".stalls")
	pause := rounded(float64(m.Length) / m.Share / float64(c.servers))
	var next func()
	next = func() {
		c.s.After(lengths.Exp(pause), func() {
			c.Stall(lengths.LogNormal(m.Length.D(), m.CV))
			next()
		})
	}
	next()
}

// Usage is what the cores did.
func (c *CPU) Usage() []Usage {
	u := c.usage()
	u.Stolen = c.stolen
	return []Usage{u}
}
