package sim

import "time"

// Loop is an event loop, as Redis's: one thread, whose turn costs e, and r for each connection
// that is ready, and for each command its own x; what arrives during a turn is the next one's,
// and answers leave at the end of the turn. Pipelining divides e and r, never x.
//
// With Poisson arrivals of rate λ, each on a connection of its own, a turn of n commands takes
// T(n) = e + n(r + x), and the next one has Poisson(λT(n)) commands, or 1 if that is 0. With
// the stationary distribution π of that chain the mean time in the loop is
//
//	Σ π(n) (λT(T/2 + e + (r + x)(1 + λT)) + P₀(n)(e + r + x)) / Σ π(n) (λT + P₀(n))
//
// where T = T(n) and P₀(n) = e^−λT: who comes during a turn waits for half of it and has the
// next one with the others, who finds the loop asleep has a turn alone.
type Loop struct {
	meter
	cpu      *CPU
	turn     func() time.Duration
	each     func() time.Duration
	ready    []*LoopConn
	next     []*LoopConn
	commands []command // of this turn
	thread   *chain    // on the CPU
	asleep   bool
	life     int64
	in       *component
}

// LoopConn is a connection of a loop.
type LoopConn struct {
	loop     *Loop
	commands []command
}

type command struct {
	chain  *chain
	takes  time.Duration
	effect func()
}

// NewLoop returns a loop whose thread uses a CPU. turn and each draw e and r.
func NewLoop(s *Sim, name string, cpu *CPU, turn, each func() time.Duration) *Loop {
	l := &Loop{
		meter: meter{s: s, name: name, servers: 1}, cpu: cpu, turn: turn, each: each, asleep: true,
	}
	s.reports = append(s.reports, l)
	return l
}

// Conn returns a new connection.
func (l *Loop) Conn() *LoopConn { return &LoopConn{loop: l} }

// Run is a step: a command that takes x of the loop's time is executed.
func (c *LoopConn) Run(x time.Duration) Step { return Step{of: c, n: int64(max(x, 0))} }

func (c *LoopConn) start(ch *chain, x int64) bool { return c.add(ch, x, func() {}) }

// effective is commands with what they do.
type effective struct {
	*LoopConn
	effect func()
}

func (e *effective) start(ch *chain, x int64) bool { return e.add(ch, x, e.effect) }

func (c *LoopConn) add(ch *chain, x int64, effect func()) bool {
	l := c.loop
	l.starts++
	ch.acts()
	if len(c.commands) == 0 {
		l.ready = append(l.ready, c)
	}
	c.commands = append(c.commands, command{ch, time.Duration(x), effect})
	l.change(0, 1)
	if l.asleep {
		l.asleep = false
		l.s.soon(awakened{l, l.life}) // all that comes at this instant has one turn
	} else {
		l.waits++
	}
	return false
}

// abandon leaves the command there: it has been sent, and is executed for nobody.
func (*LoopConn) abandon(*chain) {}

// awakened begins a turn after a sleep.
type awakened struct {
	loop *Loop
	life int64
}

func (a awakened) happen() {
	if a.life == a.loop.life {
		a.loop.begin()
	}
}

// begin begins a turn with what is ready.
func (l *Loop) begin() {
	l.ready, l.next = l.next[:0], l.ready
	takes := l.turn()
	for i, c := range l.next {
		takes += l.each()
		for _, cmd := range c.commands {
			takes += cmd.takes
		}
		l.commands = append(l.commands, c.commands...)
		clear(c.commands)
		c.commands = c.commands[:0]
		l.next[i] = nil
	}
	l.change(1, -int64(len(l.commands)))
	l.thread = l.s.chain(l.end, Step{of: l.cpu, n: int64(takes), in: l.in})
}

// end answers the commands of a turn.
func (l *Loop) end(err error) {
	if err != nil {
		return // the loop is dead, and so are they
	}
	l.change(-1, 0)
	for i, c := range l.commands {
		c.effect()
		if !c.chain.dead {
			c.chain.wake()
		}
		l.commands[i] = command{}
	}
	l.commands = l.commands[:0]
	if len(l.ready) > 0 {
		l.begin()
	} else {
		l.asleep = true
	}
}

// reset forgets everything. The thread dies with the component that it is in.
func (l *Loop) reset() {
	l.life++
	for _, c := range l.ready {
		c.commands = nil
	}
	l.change(-l.inUse, -l.queue)
	l.ready, l.next, l.commands, l.asleep = nil, nil, nil, true
}
