// Package sim simulates designs in virtual time: processes that use resources such as
// cores, connections, locks and a write-ahead log, on stores whose state is real, so that
// the same invariants judge it.
//
// A simulation has one thread. Its events are ordered by time and then by the order in which
// they were scheduled, its time is a whole number of nanoseconds, and all that is random
// comes from named streams of one seed: the same seed gives the same bytes.
//
// A model is a function that a process executes. It is written as the design's own code is:
//
//	func (m model) Buy(p *sim.Process, item string) bool {
//		p.Do(m.pg.Conn(), m.client.Send(), m.pg.Burn("claim"))
//		defer m.pg.Release()
//		_, ok := m.shelf.Claim(item)
//		if ok {
//			p.Do(m.pg.Commit())
//		}
//		p.Do(m.client.Receive())
//		return ok
//	}
//
// When what it uses fails, Do does not return: the process is unwound to the nearest Try, and
// its deferred calls release what it held.
package sim

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"time"
)

// What becomes of an operation whose store fails.
var (
	// ErrLost says that the answer was lost: whether the operation happened is unknown.
	ErrLost = errors.New("the answer was lost")
	// ErrUnreachable says that the store was not reached: the operation did not happen.
	ErrUnreachable = errors.New("the store is unreachable")
	// ErrDeadline says that time ran out; it is an ErrLost.
	ErrDeadline = fmt.Errorf("the deadline passed: %w", ErrLost)
	// ErrKilled says that the process itself was killed; it is an ErrLost.
	ErrKilled = fmt.Errorf("the process was killed: %w", ErrLost)
	// ErrDeadlock says that the store rolled the transaction back, because it waited for a
	// lock of one that waited for it: the operation did not happen.
	ErrDeadlock = errors.New("deadlock: the transaction was rolled back")
)

// errClosed unwinds processes when the simulation is closed.
var errClosed = errors.New("the simulation is closed")

// PanicError is a panic of a process: an error in a model.
type PanicError struct {
	// Value is what it panicked with, Stack the process's stack.
	Value any
	Stack []byte
}

// Error has the value and the stack.
func (e *PanicError) Error() string {
	return fmt.Sprintf("a process panicked: %v\n%s", e.Value, e.Stack)
}

// Sim is a simulation. Make one with New and end it with Close. It belongs to one goroutine.
type Sim struct {
	now    time.Duration
	events heap
	// ready are happenings for this instant. Their sequence numbers ascend.
	ready    fifo[event]
	lines    map[time.Duration]*line // deadlines by how long they are
	seq      uint64
	seed     uint64
	streams  map[string]*Stream
	all      []*Process // every coroutine, for Close
	idle     []*Process // coroutines whose process has ended, for the next ones
	running  *Process
	reports  []reporter
	err      error
	closed   bool
	executed int64
}

// New starts a simulation at time 0.
func New(seed uint64) *Sim {
	return &Sim{seed: seed, streams: map[string]*Stream{}, lines: map[time.Duration]*line{}}
}

// Now is the virtual time since the start.
func (s *Sim) Now() time.Duration { return s.now }

// Events is how many events have been executed.
func (s *Sim) Events() int64 { return s.executed }

// At calls f at a time, or now if that is past.
func (s *Sim) At(t time.Duration, f func()) { s.schedule(max(t, s.now), callback(f)) }

func (s *Sim) schedule(at time.Duration, do happening) {
	if at < s.now {
		panic(fmt.Sprintf("an event at %s, but it is %s: time does not go back", at, s.now))
	}
	s.seq++
	s.events.push(event{at, s.seq, do})
}

// soon makes something happen at this instant, after all that was scheduled for it before.
func (s *Sim) soon(do happening) {
	s.seq++
	s.ready.put(event{s.now, s.seq, do})
}

// next takes the first event up to a time.
func (s *Sim) next(until time.Duration) (e event, ok bool) {
	switch {
	case s.ready.len() > 0:
		if len(s.events) == 0 || s.ready.first().before(s.events[0]) {
			return s.ready.take(), true
		}
	case len(s.events) == 0 || s.events[0].at > until:
		return event{}, false
	}
	return s.events.pop(), true
}

// lookEvery is how many events pass between two looks at the context.
const lookEvery = 1 << 14

// Run executes the events up to and including a time; afterwards it is that time, and Run can
// go on from there. Use math.MaxInt64 to run until nothing is left to happen: processes that
// then still wait, wait for nothing, and time stays that of the last event. An error is the
// context's, a *PanicError of a process, or a failure that no Try of a process caught. After
// an error the simulation can only be closed.
func (s *Sim) Run(ctx context.Context, until time.Duration) error {
	for s.err == nil && !s.closed {
		if s.executed%lookEvery == 0 {
			select {
			case <-ctx.Done():
				s.err = fmt.Errorf("simulating, at %s: %w", s.now, ctx.Err())
				continue
			default:
			}
		}
		e, ok := s.next(until)
		if !ok {
			if until < math.MaxInt64 {
				s.now = max(s.now, until)
			}
			return nil
		}
		s.now = e.at
		s.executed++
		e.do.happen()
	}
	if s.closed {
		return errClosed
	}
	return s.err
}

// Close ends all processes: those that wait are unwound, so that their deferred calls run.
// No process may call it. A second call does nothing.
func (s *Sim) Close() {
	if s.closed {
		return
	}
	s.closed = true
	for _, p := range s.all {
		s.running = p
		p.stop()
	}
	s.running = nil
	s.events, s.all, s.idle = nil, nil, nil
	clear(s.lines)
	s.ready.clear()
}

// Stream is a generator of random numbers. Each has a name, and its own numbers, which depend
// on the seed and on the name alone: one more draw elsewhere changes nothing here.
type Stream struct{ rand *rand.Rand }

// Stream returns the generator of a name, always the same one.
func (s *Sim) Stream(name string) *Stream {
	if have := s.streams[name]; have != nil {
		return have
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // never fails
	made := &Stream{rand.New(rand.NewPCG(s.seed, h.Sum64()))}
	s.streams[name] = made
	return made
}

// Float64 is uniform in [0, 1).
func (r *Stream) Float64() float64 { return r.rand.Float64() }

// IntN is uniform in [0, n); n must be positive.
func (r *Stream) IntN(n int) int { return r.rand.IntN(n) }

// Exp draws from an exponential distribution.
func (r *Stream) Exp(mean time.Duration) time.Duration {
	return rounded(r.rand.ExpFloat64() * float64(mean))
}

// LogNormal draws from a lognormal distribution with a mean and a coefficient of variation
// (standard deviation / mean); with 0 it is the mean itself.
func (r *Stream) LogNormal(mean time.Duration, cv float64) time.Duration {
	return rounded(r.logNormal(float64(mean), cv))
}

func (r *Stream) logNormal(mean, cv float64) float64 {
	if cv == 0 {
		return mean
	}
	variance := math.Log(1 + float64(cv*cv)) // of the logarithm
	return mean * math.Exp(float64(math.Sqrt(variance)*r.rand.NormFloat64())-variance/2)
}

// rounded is a number of nanoseconds. Products are rounded to float64 before they are added
// to something: otherwise a CPU that fuses the two gives other results.
func rounded(ns float64) time.Duration { return time.Duration(math.Round(ns)) }
