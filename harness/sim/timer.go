package sim

import "time"

// Timer is a call in the future.
type Timer struct {
	f func()
}

// After calls f once d has passed, unless the timer is stopped before.
func (s *Sim) After(d time.Duration, f func()) *Timer {
	t := &Timer{f}
	s.schedule(s.now+max(d, 0), t)
	return t
}

func (t *Timer) happen() {
	if f := t.f; f != nil {
		t.f = nil
		f()
	}
}

// Stop prevents the call and says whether there was one to prevent.
func (t *Timer) Stop() bool {
	was := t.f != nil
	t.f = nil
	return was
}

// line is deadlines of one length, which pass in the order in which they begin. The first alone
// is in the heap: most of the others will be over when their time comes, and cost nothing then.
type line struct {
	s       *Sim
	waiting fifo[due]
}

// due is a deadline with the time and the number of its event.
type due struct {
	at    time.Duration
	seq   uint64
	limit *deadline
}

// mostLines is how many lengths of deadlines have a line; others are events like any other.
const mostLines = 16

// limit has a deadline pass once d has.
func (s *Sim) limit(d time.Duration, limit *deadline) {
	at := s.now + max(d, 0)
	l := s.lines[d]
	if l == nil && len(s.lines) == mostLines {
		s.schedule(at, limit)
		return
	}
	if l == nil {
		l = &line{s: s}
		s.lines[d] = l
	}
	s.seq++
	l.waiting.put(due{at, s.seq, limit})
	if l.waiting.len() == 1 {
		l.enter()
	}
}

// enter puts the first of a line into the heap.
func (l *line) enter() {
	first := l.waiting.first()
	l.s.events.push(event{first.at, first.seq, l})
}

func (l *line) happen() {
	passed := l.waiting.take().limit
	for l.waiting.len() > 0 && l.waiting.first().limit.over {
		l.waiting.take()
	}
	if l.waiting.len() > 0 {
		l.enter()
	}
	passed.happen()
}

// Delay is a step that takes a time and nothing else: a think time, an interval of polling.
func (s *Sim) Delay(d time.Duration) Step { return Step{of: delay{}, n: int64(max(d, 0))} }

type delay struct{}

func (delay) start(c *chain, d int64) bool {
	c.s.schedule(c.s.now+time.Duration(d), (*delayed)(c))
	return false
}

func (delay) abandon(*chain) {} // its event finds it dead

// delayed is a chain whose delay is over.
type delayed chain

func (d *delayed) happen() {
	c := (*chain)(d)
	switch in := c.at.in; {
	case c.dead:
	case in != nil && in.paused:
		c.at.of = in // it goes on when the component resumes
	default:
		c.leave()
		c.happen()
	}
}

// Signal is a condition that processes wait for, such as work for an idle worker.
type Signal struct {
	s       *Sim
	waiting fifo[*chain]
	alive   int
}

// NewSignal returns a signal that nobody waits for.
func NewSignal(s *Sim) *Signal { return &Signal{s: s} }

// Wait is a step that ends at the next Wake that reaches it.
func (g *Signal) Wait() Step { return Step{of: g} }

func (g *Signal) start(c *chain, _ int64) bool {
	g.waiting.put(c)
	g.alive++
	return false
}

func (g *Signal) abandon(*chain) { g.alive-- }

// Waiting is how many wait.
func (g *Signal) Waiting() int { return g.alive }

// Wake wakes the one that has waited longest, and says whether there was one.
func (g *Signal) Wake() bool {
	for g.waiting.len() > 0 {
		if c := g.waiting.take(); !c.dead {
			g.alive--
			c.wake()
			return true
		}
	}
	return false
}
