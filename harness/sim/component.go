package sim

import (
	"slices"
	"time"
)

// component is a store as a whole, which can die and freeze. Chains are inside while they wait
// for a step of it.
type component struct {
	s            *Sim
	name         string
	down, paused bool
	// life counts the lives: it changes when the component dies.
	life   int64
	inside []*chain
	held   []happening // when it resumes
}

// enter begins a step of the component for a chain, or fails the chain (false).
func (m *component) enter(c *chain) bool {
	if m.down {
		c.err, c.at = ErrUnreachable, Step{}
		return false
	}
	if m.paused {
		c.steps = append(c.steps, c.at) // it is begun when the component resumes
		c.at.of = m
	}
	c.place = len(m.inside)
	m.inside = append(m.inside, c)
	return true
}

// exit ends the chain's step.
func (m *component) exit(c *chain) {
	last := m.inside[len(m.inside)-1]
	m.inside[c.place], last.place = last, c.place
	m.inside = m.inside[:len(m.inside)-1]
}

// start and abandon are for chains that wait until the component resumes. A command that has come
// to it is executed then, also for nobody.
func (m *component) start(*chain, int64) bool { return false }

func (m *component) abandon(c *chain) {
	if n := len(c.steps); n > 0 {
		if e, sent := c.steps[n-1].of.(*effective); sent {
			m.s.chain(func(error) {}, Step{of: e, n: c.steps[n-1].n, in: m})
		}
	}
}

// Pause freezes the component: what is inside stays there, and what comes waits.
func (m *component) Pause() { m.paused = true }

// Resume ends a Pause.
func (m *component) Resume() {
	if !m.paused {
		return
	}
	m.paused = false
	held := m.held
	m.held = nil
	for _, h := range held {
		m.s.soon(h)
	}
	for _, c := range slices.Clone(m.inside) {
		if c.at.of == m {
			c.wake()
		}
	}
}

// die fails all that is inside: whether it happened is unknown. Until it lives again, whatever
// comes fails, and surely did not happen.
func (m *component) die() {
	m.down, m.paused, m.held = true, false, nil
	m.life++
	for _, c := range slices.Clone(m.inside) {
		c.fail(ErrLost)
	}
}

// restartAfter lets the component live again after a time, unless it dies before, and then calls
// what is to be called.
func (m *component) restartAfter(d time.Duration, then ...func()) {
	life := m.life
	m.s.After(d, func() {
		if m.life != life {
			return
		}
		m.down = false
		for _, f := range then {
			f()
		}
	})
}

// Down says whether the component is dead.
func (m *component) Down() bool { return m.down }
