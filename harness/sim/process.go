package sim

import (
	"errors"
	"fmt"
	"iter"
	"runtime/debug"
	"slices"
	"time"
)

// resource is what a step uses.
type resource interface {
	// start begins a step of n, in the resource's own unit. It returns true if that is done
	// at once; otherwise the resource calls chain.wake when it is done.
	start(c *chain, n int64) bool
	// abandon forgets a chain that has been started and not woken.
	abandon(c *chain)
}

// Step is an amount of a resource, for Process.Do.
type Step struct {
	of resource
	n  int64
	in *component // whose step it is, if a component's
	// harmless says that a wait for it can be given up without effect.
	harmless bool
}

// Harmless is a step during whose wait the operation has had no effect, because the model does
// nothing before it that changes state: a deadline that passes meanwhile surely prevented it. Waits
// for connections and row locks are harmless without it.
func Harmless(st Step) Step {
	st.harmless = true
	return st
}

// releaser takes back what a chain acquired.
type releaser interface{ release() }

// instant is a step that takes no time: it does something or pushes other steps.
type instant func(c *chain, n int64)

func (f instant) start(c *chain, n int64) bool {
	f(c, n)
	return true
}

func (instant) abandon(*chain) {} // it never waits

// chain is steps that are taken one after another, for a process or for then.
type chain struct {
	steps []Step // those not yet taken, the next one last
	at    Step   // the one that it waits for, if at.of is not nil
	room  [5]Step
	s     *Sim
	err   error
	dead  bool // another chain has taken its place
	held  bool // its replica is frozen
	place int  // of the chain in at.in.inside
	// acquired is what the steps acquired. Once all are done it is the process's to release.
	acquired []releaser
	process  *Process
	then     func(error)
	batch    *Batch // of Kafka, that it carries
}

// push makes steps the next ones.
func (c *chain) push(steps ...Step) {
	for _, st := range slices.Backward(steps) {
		c.steps = append(c.steps, st)
	}
}

// advance takes steps until one has to wait (false), or all are done or one failed.
func (c *chain) advance() bool {
	for n := len(c.steps) - 1; n >= 0 && c.err == nil; n = len(c.steps) - 1 {
		c.at, c.steps = c.steps[n], c.steps[:n]
		if in := c.at.in; in != nil && !in.enter(c) {
			continue
		}
		if !c.at.of.start(c, c.at.n) {
			return false
		}
		c.leave()
	}
	return true
}

func (c *chain) leave() {
	if c.at.in != nil {
		c.at.in.exit(c)
	}
	c.at = Step{}
}

// wake goes on with the chain, whose step is done.
func (c *chain) wake() {
	if in := c.at.in; in != nil && in.paused && c.at.of != in {
		c.at.of = in // it has it when the component resumes
		return
	}
	c.leave()
	c.s.soon(c)
}

// fail ends the chain with an error; what it waits for is abandoned.
func (c *chain) fail(err error) {
	if c.at.of == nil { // it is ready, or held
		c.err = err
		if c.held && c.givesUp() {
			c.held = false
			c.s.soon(c)
		}
		return
	}
	fresh := &chain{s: c.s, acquired: c.acquired, err: err, process: c.process, then: c.then,
		batch: c.batch}
	c.at.of.abandon(c)
	c.leave()
	c.dead = true
	if fresh.process != nil {
		fresh.process.chain = fresh
	}
	c.s.soon(fresh)
}

// acts says that what the chain does may change state that others see.
func (c *chain) acts() {
	if c.process != nil {
		c.process.acted = true
	}
}

// happen goes on with a chain that is ready.
func (c *chain) happen() {
	if !c.advance() {
		return
	}
	if p := c.process; p != nil {
		if !p.of.holds(c) {
			p.resume()
		}
		return
	}
	if c.err != nil {
		c.release()
	}
	c.acquired = c.acquired[:0]
	c.then(c.err)
}

// release gives back what a failed chain acquired, the last first.
func (c *chain) release() {
	for n := len(c.acquired) - 1; n >= 0; n = len(c.acquired) - 1 {
		held := c.acquired[n]
		c.acquired = c.acquired[:n]
		held.release()
	}
}

// chain takes steps without a process and then calls a function.
func (s *Sim) chain(then func(error), steps ...Step) *chain {
	c := &chain{s: s, then: then}
	c.push(steps...)
	s.soon(c)
	return c
}

// Process executes a function in virtual time. It is valid until that function returns.
type Process struct {
	s     *Sim
	chain *chain
	job   func(*Process)
	ended func(error)
	group *Group
	place int // in group.members
	of    *Replica
	// killed says that the process may do nothing any more.
	killed bool
	// acted says that it may have changed state that others see.
	acted bool
	// unwinding is what the process is being unwound by.
	unwinding *unwound
	sessions  []*session
	next      func() (struct{}, bool)
	stop      func()
	yield     func(struct{}) bool
}

// unwound is the panic that unwinds a process.
type unwound struct {
	err error
	// to is the deadline that passed: the process is unwound to there. A final one goes to the
	// bottom.
	to    *deadline
	final bool
}

// Go starts a process at this instant. If it fails and no Try of it catches the failure, Run
// returns the error.
func (s *Sim) Go(f func(*Process)) { s.start(nil, f, nil) }

// GoThen starts a process and calls ended when it has ended, with nil or with the failure that
// no Try caught.
func (s *Sim) GoThen(f func(*Process), ended func(error)) { s.start(nil, f, ended) }

func (s *Sim) start(g *Group, f func(*Process), ended func(error)) {
	if s.closed {
		return
	}
	if len(s.idle) == 0 {
		s.coroutine()
	}
	last := len(s.idle) - 1
	p := s.idle[last]
	s.idle = s.idle[:last]
	p.job, p.ended, p.group, p.killed, p.of, p.acted = f, ended, g, false, nil, false
	if s.running != nil {
		s.running.acted = true // by what it has begun
	}
	if g != nil {
		p.of = g.of
		p.place = len(g.members)
		g.members = append(g.members, p)
	}
	s.soon(p.chain)
}

// coroutine adds an idle one.
func (s *Sim) coroutine() {
	p := &Process{s: s}
	p.chain = &chain{s: s, process: p}
	p.chain.steps = p.chain.room[:0]
	p.next, p.stop = iter.Pull(func(yield func(struct{}) bool) {
		for p.yield = yield; ; {
			p.work()
			s.idle = append(s.idle, p)
			if !yield(struct{}{}) {
				return
			}
		}
	})
	s.all, s.idle = append(s.all, p), append(s.idle, p)
}

// work executes the job to its end, however it ends.
func (p *Process) work() {
	defer func() {
		err := p.outcome(recover())
		p.unwinding, p.job = nil, nil
		p.leaveGroup()
		for n := len(p.sessions); n > 0; n = len(p.sessions) {
			p.sessions[n-1].end()
		}
		if p.s.closed {
			return
		}
		if ended := p.ended; ended != nil {
			ended(err)
		} else if err != nil && !p.killed {
			p.s.err = err
		}
	}()
	if err := p.chain.err; err != nil { // killed before it began
		p.chain.err = nil
		panic(p.unwind(&unwound{err: err, final: true}))
	}
	p.job(p)
}

// outcome is the error of a process that ended with a panic, if any. A panic of the model's
// own ends the simulation.
func (p *Process) outcome(r any) error {
	u, ours := r.(*unwound)
	switch {
	case r == nil:
		return nil
	case ours:
		return fmt.Errorf("process: %w", u.err)
	}
	err := &PanicError{r, debug.Stack()}
	p.s.err = err
	return err
}

func (p *Process) leaveGroup() {
	if g := p.group; g != nil {
		last := g.members[len(g.members)-1]
		g.members[p.place], last.place = last, p.place
		g.members = g.members[:len(g.members)-1]
		p.group = nil
	}
}

// resume switches to the process until it waits again or ends.
func (p *Process) resume() {
	before := p.s.running
	p.s.running = p
	p.next()
	p.s.running = before
}

// Sim is the simulation that the process belongs to.
func (p *Process) Sim() *Sim { return p.s }

// Now is the virtual time.
func (p *Process) Now() time.Duration { return p.s.now }

// Do takes steps one after another and returns when the last is done; however many they are,
// the process is switched to at most once. If a step fails, what the steps acquired is given
// back and the process is unwound to the nearest Try or Within.
func (p *Process) Do(steps ...Step) {
	if p.killed || p.s.closed {
		p.refuse()
	}
	c := p.chain
	c.steps = c.steps[:0]
	for i := len(steps) - 1; i >= 0; i-- {
		c.steps = append(c.steps, steps[i])
	}
	c.err = nil
	if !c.advance() && !p.yield(struct{}{}) {
		p.refuse()
	}
	c = p.chain // another one if it failed
	if c.err == nil {
		c.acquired = c.acquired[:0]
		return
	}
	err := c.err
	c.err, c.steps = nil, c.steps[:0]
	c.release()
	if m, ok := err.(misuse); ok { //nolint:errorlint // it is never wrapped here
		panic(string(m))
	}
	u := &unwound{err: err, final: p.killed}
	if d, ok := err.(*deadline); ok { //nolint:errorlint // it is never wrapped here
		u.err, u.to = d.err, d
	}
	panic(p.unwind(u))
}

// misuse is an error in a model: it panics where the step was asked for.
type misuse string

func (m misuse) Error() string { return string(m) }

// refuse unwinds a process that may do nothing any more.
func (p *Process) refuse() {
	err := ErrKilled
	if p.s.closed {
		err = errClosed
	}
	panic(p.unwind(&unwound{err: err, final: true}))
}

func (p *Process) unwind(u *unwound) *unwound {
	p.unwinding = u
	return u
}

// Try calls f and returns the failure that unwound it, or nil: an ErrLost, an ErrUnreachable or
// an ErrDeadlock. A deadline of a Within around it, and the end of the process, are not its
// to catch.
func (p *Process) Try(f func()) (err error) {
	defer func() {
		if p.catches(nil) {
			err = p.caught(recover())
		}
	}()
	f()
	return nil
}

// Fail unwinds the process with a failure of its own, to the nearest Try or Within.
func (p *Process) Fail(err error) { panic(p.unwind(&unwound{err: err})) }

// catches says whether an unwinding ends at a Try (nil) or a Within.
func (p *Process) catches(d *deadline) bool {
	u := p.unwinding
	return u != nil && !u.final && (u.to == nil || u.to == d)
}

// caught ends an unwinding. Another panic, of a deferred call, goes on.
func (p *Process) caught(r any) error {
	u := p.unwinding
	if r != nil && r != any(u) {
		panic(r)
	}
	p.unwinding = nil
	if r == nil {
		return nil
	}
	return u.err
}

// deadline is the end of a Within. As an error of a chain it says which one passed.
type deadline struct {
	process  *Process
	err      error
	over     bool // the Within has ended
	harmless bool // it has passed during a harmless step
	place    int  // in Replica.serving
}

// happen abandons what the Within waits for. A frozen component may have got what waits for it.
func (d *deadline) happen() {
	if d.over {
		return
	}
	at := d.process.chain.at
	d.harmless = at.harmless && at.of != resource(at.in)
	d.process.chain.fail(d)
}

func (d *deadline) Error() string { return d.err.Error() }

// Within is Try with a deadline: what f waits for d from now on is abandoned, and the error is
// ErrDeadline. A store that has begun to flush a commit finishes it.
func (p *Process) Within(d time.Duration, f func()) (err error) {
	return p.within(d, &deadline{process: p, err: ErrDeadline}, f)
}

func (p *Process) within(d time.Duration, limit *deadline, f func()) (err error) {
	p.s.limit(d, limit)
	defer func() {
		limit.over = true
		if p.catches(limit) {
			err = p.caught(recover())
		}
	}()
	f()
	return nil
}

// Operation is Within, or Try if d is 0, for an operation of a user, whose error it returns too. It
// says whether a failure surely prevented all effects: a deadlock, or a deadline that passed
// while the process waited for a connection or a row lock or in a Harmless step. It had then
// committed nothing, executed nothing in Redis, produced nothing and begun no other process.
func (p *Process) Operation(d time.Duration, f func() error) (prevented bool, err error) {
	p.acted = false
	limit := &deadline{process: p, err: ErrDeadline}
	var failed error
	if do := func() { err = f() }; d > 0 {
		failed = p.within(d, limit, do)
	} else {
		failed = p.Try(do)
	}
	if failed != nil {
		err = failed
	}
	return !p.acted && (limit.harmless || errors.Is(err, ErrDeadlock)), err
}

// Group is processes that die together, such as the operations of one process of the
// application.
type Group struct {
	s       *Sim
	members []*Process
	of      *Replica
}

// Group returns an empty group.
func (s *Sim) Group() *Group { return &Group{s: s} }

// GoThen starts a process of the group and calls ended when it has ended: with nil, with the
// failure that no Try caught, or with ErrKilled.
func (g *Group) GoThen(f func(*Process), ended func(error)) { g.s.start(g, f, ended) }

// Len is how many processes of the group have not ended.
func (g *Group) Len() int { return len(g.members) }

// Kill ends the processes of the group where they are. Their deferred calls release what they
// held, as a kernel closes the connections of a process that died; they can Do nothing else. It
// must not be called by a process of the group.
func (g *Group) Kill() {
	for _, p := range slices.Clone(g.members) {
		p.killed = true
		p.chain.fail(ErrKilled)
	}
}
