package sim

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Replica is a process of a role, or of the API: what can be killed, frozen and started again.
type Replica struct {
	// Name is the role's, with a number behind it where there are several: worker-2.
	Name string
	// Number counts the replicas of a role from 0.
	Number int

	s       *Sim
	rest    time.Duration
	begin   func(*Replica) []func(*Process)
	group   *Group // of its present life
	serving []*deadline
	down    bool
	paused  bool
	held    []*chain // when it resumes
	died    time.Duration
	killed  bool // once at least
	cut     []*Link
	// A crash is armed at a place while left, the passages that are still to come, is positive.
	place string
	left  int
}

// Role starts the n processes of a role. What begin returns is executed, each function by a process
// of the simulation, and what they start belongs to the replica. When one of them ends all are
// killed, and after a rest begin is called again, as a role that has failed opens its stores anew.
func (c *Cluster) Role(
	name string, n int, rest time.Duration, begin func(*Replica) []func(*Process),
) []*Replica {
	for i := range n {
		r := &Replica{Name: name, Number: i, s: c.Sim, rest: rest, begin: begin}
		if n > 1 {
			r.Name = fmt.Sprintf("%s-%d", name, i+1)
		}
		c.roles[name] = append(c.roles[name], r)
		r.live()
	}
	return c.roles[name]
}

// Only is the begin of a role in which one thing is done.
func Only(work func(*Process)) func(*Replica) []func(*Process) {
	return func(*Replica) []func(*Process) { return []func(*Process){work} }
}

// Replicas are the processes of a role or, with a number in the name, one of them.
func (c *Cluster) Replicas(name string) []*Replica {
	if all := c.roles[name]; all != nil {
		return all
	}
	for _, all := range c.roles { // at most one has it
		for _, r := range all {
			if r.Name == name {
				return []*Replica{r}
			}
		}
	}
	return nil
}

// live begins a life.
func (r *Replica) live() {
	g := r.s.Group()
	g.of, r.group = r, g
	ended := false
	for _, work := range r.begin(r) {
		g.GoThen(work, func(error) {
			if ended || r.down || r.s.closed {
				return
			}
			ended = true
			r.s.After(0, g.Kill) // not by one of the group
			r.s.After(r.rest, func() {
				if r.group == g && !r.down {
					r.live()
				}
			})
		})
	}
}

// Kill ends the replica where it is: what it has in memory is gone, and nobody knows what became of
// what it was asked. It must not be called by one of its own processes.
func (r *Replica) Kill() {
	if r.down {
		return
	}
	r.down, r.killed, r.died = true, true, r.s.now
	r.Resume()
	r.group.Kill()
	for _, d := range slices.Clone(r.serving) {
		d.process.chain.fail(d)
	}
}

// Start begins another life after a Kill.
func (r *Replica) Start() {
	if r.down {
		r.down = false
		r.live()
	}
}

// Down says whether the replica is dead.
func (r *Replica) Down() bool { return r.down }

// Died is how long ago the replica was killed last, if it was.
func (r *Replica) Died() (ago time.Duration, was bool) { return r.s.now - r.died, r.killed }

// Pause freezes the replica: none of its processes does anything, though what they have asked
// stores for is done.
func (r *Replica) Pause() { r.paused = true }

// Resume ends a Pause.
func (r *Replica) Resume() {
	held := r.held
	r.paused, r.held = false, nil
	for _, c := range held {
		if c.held {
			c.held = false
			r.s.soon(c)
		}
	}
}

// Cut loses all messages between the replica and a store until Mend.
func (r *Replica) Cut(l *Link) { r.cut = append(r.cut, l) }

// Mend ends all Cuts.
func (r *Replica) Mend() { r.cut = nil }

// Arm has the replica killed the n-th time that it gets to a place.
func (r *Replica) Arm(place string, n int) { r.place, r.left = place, n }

// Passed says that the process is at a place between two steps, where a replica may be armed.
func (p *Process) Passed(place string) {
	r := p.of
	if r == nil || r.left == 0 || r.place != place {
		return
	}
	if r.left--; r.left > 0 {
		return
	}
	r.paused = true // the others do nothing more
	p.s.After(0, r.Kill)
	i := slices.IndexFunc(r.serving, func(d *deadline) bool { return d.process == p })
	if i >= 0 {
		panic(p.unwind(&unwound{err: ErrKilled, to: r.serving[i]}))
	}
	p.killed = true
	p.refuse()
}

// Passed is that of the running process, for code of a design that knows no processes.
func (c *Cluster) Passed(place string) {
	if p := c.Sim.running; p != nil {
		p.Passed(place)
	}
}

// Serve has a process of the load do something in the replica, as a request that comes to it: what
// is under way when the replica is killed has an unknown outcome, and what comes before the next
// life is not done.
func (r *Replica) Serve(p *Process, f func()) (err error) {
	if r.down {
		return ErrUnreachable
	}
	d := &deadline{process: p, err: ErrKilled, place: len(r.serving)}
	r.serving = append(r.serving, d)
	p.of = r
	defer func() {
		last := r.serving[len(r.serving)-1]
		r.serving[d.place], last.place = last, d.place
		r.serving = r.serving[:len(r.serving)-1]
		p.of, d.over = nil, true
		if p.catches(d) {
			err = p.caught(recover())
		}
	}()
	if r.paused {
		p.Do(r.s.Delay(0)) // which ends when it resumes
	}
	f()
	return nil
}

// holds keeps a chain whose process is frozen.
func (r *Replica) holds(c *chain) bool {
	if r == nil || !r.paused || c.givesUp() {
		return false
	}
	c.held = true
	r.held = append(r.held, c)
	return true
}

// givesUp says that a client waits no longer for a replica.
func (c *chain) givesUp() bool {
	_, over := c.err.(*deadline) //nolint:errorlint // it is never wrapped here
	return over && c.process.group == nil
}

// loses says whether the process of a chain is cut off from what is behind a link.
func (l *Link) loses(c *chain) bool {
	return c.process != nil && c.process.of != nil && slices.Contains(c.process.of.cut, l)
}

// Go starts another process that lives and dies with the replica of this one, if it is of one. Its
// failure is nobody's.
func (p *Process) Go(f func(*Process)) { p.s.start(p.together(), f, func(error) {}) }

// All calls f for each number below n, each in a process as of Go, and waits for all of them. The
// error is the first of their failures that no Try caught.
func (p *Process) All(n int, f func(p *Process, i int)) (first error) {
	left, over := n, NewSignal(p.s)
	for i := range n {
		p.s.start(p.together(), func(p *Process) { f(p, i) }, func(err error) {
			first = cmp.Or(first, err)
			if left--; left == 0 {
				over.Wake()
			}
		})
	}
	if n > 0 {
		p.Do(over.Wait())
	}
	return first
}

func (p *Process) together() *Group {
	if p.of != nil {
		return p.of.group
	}
	return nil
}
