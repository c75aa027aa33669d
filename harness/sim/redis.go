package sim

import (
	"fmt"
	"time"
)

// Redis is a server with an event loop. A command is
//
//	p.Do(r.Client.Send(), r.Execute(func() {
//		… // reads and writes its Maps: no other command is executed meanwhile
//	}, "claim"), r.Client.Receive())
type Redis struct {
	component
	// Client is the application's side.
	Client *Client
	// Journal is how far back a PowerLoss can go. What was written is remembered so long.
	Journal time.Duration
	loop    *Loop
	conns   []*LoopConn
	next    int
	demands demands
	restart time.Duration
	maps    []losable
}

// losable is state that a Redis can lose.
type losable interface {
	wipe()
	rewind(to time.Duration)
}

func newRedis(s *Sim, m Machine, cpu *CPU, costs map[string]Cost) *Redis {
	r := &Redis{
		component: component{s: s, name: "redis"}, demands: s.demands("redis", costs),
		restart: m.Redis.Restart.D(),
	}
	of := func(what string) func() time.Duration {
		return func() time.Duration { return r.demands.optional(what, 1) }
	}
	r.loop = NewLoop(s, "redis.loop", cpu, of("turn"), of("connection"))
	r.loop.in = &r.component
	for range m.Redis.Connections {
		r.conns = append(r.conns, r.loop.Conn())
	}
	return r
}

// Run is a step: the loop executes commands or scripts, by the names of their costs, together
// on one of the connections, which have their turns. What they do to the state the model does
// next.
func (r *Redis) Run(commands ...string) Step {
	c, takes := r.sent(commands)
	return Step{of: c, n: takes, in: &r.component}
}

// Execute is Run with what the commands do to the state. As in a server it is done, if they have
// reached it, whether or not who sent them has given up meanwhile.
func (r *Redis) Execute(effect func(), commands ...string) Step {
	c, takes := r.sent(commands)
	return Step{of: &effective{c, effect}, n: takes, in: &r.component}
}

// Times are commands with multiples of their means, such as the number of their keys.
type Times map[string]float64

// ExecuteTimes is Execute of such commands.
func (r *Redis) ExecuteTimes(effect func(), commands Times) Step {
	c, takes := r.sent(nil)
	for name, n := range commands { // each has a stream of its own: the order does not matter
		takes += int64(r.demands.draw(name, n))
	}
	return Step{of: &effective{c, effect}, n: takes, in: &r.component}
}

// RunID is the life of the server, as INFO tells it: it changes with each Kill or PowerLoss.
func (r *Redis) RunID() int64 { return r.life }

// sent is the connection that takes commands, and for how long they take the loop.
func (r *Redis) sent(commands []string) (c *LoopConn, takes int64) {
	c = r.conns[r.next]
	r.next = (r.next + 1) % len(r.conns)
	for _, name := range commands {
		takes += int64(r.demands.draw(name, 1))
	}
	return c, takes
}

// Kill ends the server at once, with its data if wiped says so; otherwise all that it had
// executed is there after the Restart.
func (r *Redis) Kill(wiped bool) {
	r.die()
	r.loop.reset()
	for _, m := range r.maps {
		if wiped {
			m.wipe()
		}
	}
}

// PowerLoss ends the server at once, without what it executed in the last time. Journal must
// be at least as long.
func (r *Redis) PowerLoss(loses time.Duration) {
	if loses > r.Journal {
		panic(fmt.Sprintf("a power loss of %s needs a Redis.Journal of as much", loses))
	}
	r.Kill(false)
	for _, m := range r.maps {
		m.rewind(r.s.now - loses)
	}
}

// Restart starts the server after a Kill or PowerLoss.
func (r *Redis) Restart() { r.restartAfter(r.restart) }

// Map is state of a Redis: values by key.
type Map[K comparable, V any] struct {
	redis   *Redis
	values  map[K]V
	journal fifo[change[K, V]]
}

// change is what a key was before a write.
type change[K comparable, V any] struct {
	at    time.Duration
	key   K
	value V
	was   bool
}

// NewMap returns an empty one.
func NewMap[K comparable, V any](r *Redis) *Map[K, V] {
	m := &Map[K, V]{redis: r, values: map[K]V{}}
	r.maps = append(r.maps, m)
	return m
}

// Get is the value of a key, or the zero value.
func (m *Map[K, V]) Get(k K) (V, bool) {
	v, ok := m.values[k]
	return v, ok
}

// Len is how many keys there are.
func (m *Map[K, V]) Len() int { return len(m.values) }

// Set gives a key a value.
func (m *Map[K, V]) Set(k K, v V) {
	m.note(k)
	m.values[k] = v
}

// Delete takes a key away.
func (m *Map[K, V]) Delete(k K) {
	m.note(k)
	delete(m.values, k)
}

// DeleteFunc takes away the keys of which del is true.
func (m *Map[K, V]) DeleteFunc(del func(K, V) bool) {
	for k, v := range m.values { // the order does not matter
		if del(k, v) {
			m.Delete(k)
		}
	}
}

func (m *Map[K, V]) note(k K) {
	keep := m.redis.Journal
	if keep == 0 {
		return
	}
	now := m.redis.s.now
	for m.journal.len() > 0 && m.journal.first().at < now-keep {
		m.journal.take()
	}
	v, was := m.values[k]
	m.journal.put(change[K, V]{now, k, v, was})
}

func (m *Map[K, V]) wipe() {
	clear(m.values)
	m.journal.clear()
}

func (m *Map[K, V]) rewind(to time.Duration) {
	changes := m.journal.rest()
	for i := len(changes) - 1; i >= 0 && changes[i].at > to; i-- {
		c := changes[i]
		if c.was {
			m.values[c.key] = c.value
		} else {
			delete(m.values, c.key)
		}
	}
	m.journal.clear()
}
