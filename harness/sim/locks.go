package sim

import (
	"fmt"
	"time"
)

// Locks are locks by key, each with a queue, first come, first served.
type Locks[K comparable] struct {
	set   lockSet
	locks map[K]*lock
}

// lockSet is what locks have in common.
type lockSet struct {
	meter
	pg *Postgres // whose transactions hold them; nil: whoever put them in a Do
	// contended are the locks that somebody has waited for, in the order of their first waits.
	contended []*lock
}

// lock is one lock. A transaction that holds it may take it again.
type lock struct {
	set     *lockSet
	key     any
	held    bool
	owner   *tx   // of those of a Postgres
	row     *bool // whether the row exists that it is the lock of; nil: it is of no row
	waiting fifo[*chain]
	meter   *meter // since the first wait
}

// NewLocks returns locks that nobody holds.
func NewLocks[K comparable](s *Sim, name string) *Locks[K] {
	l := &Locks[K]{lockSet{meter: meter{s: s, name: name}}, map[K]*lock{}}
	s.reports = append(s.reports, &l.set)
	return l
}

// Get is a step that waits for a key's lock and takes it. If a later step of the same Do fails,
// it is put back; afterwards it is the caller's to Put.
func (l *Locks[K]) Get(key K) Step {
	k := l.locks[key]
	if k == nil {
		k = &lock{set: &l.set, key: key}
		l.locks[key] = k
	}
	return Step{of: k}
}

// Put gives the lock of a key to the one that has waited longest for it.
func (l *Locks[K]) Put(key K) {
	if k := l.locks[key]; k != nil && k.held {
		k.put()
	}
}

func (l *lock) start(c *chain, _ int64) bool {
	set := l.set
	var t *tx
	if set.pg != nil {
		if t = set.pg.txOf(c); t == nil {
			return true // it has failed the chain
		}
		if l.owner == t {
			return true
		}
	}
	set.starts++
	if l.meter != nil {
		l.meter.starts++
	}
	if !l.held {
		l.grant(c, t)
		return true
	}
	l.queue(c, t)
	return false
}

func (l *lock) grant(c *chain, t *tx) {
	l.held, l.owner = true, t
	l.change(1, 0)
	if t == nil {
		c.acquired = append(c.acquired, l)
		return
	}
	t.waits = nil
	t.locks = append(t.locks, l)
	t.logged = t.logged || l.row != nil && *l.row
}

func (l *lock) change(inUse, queue int64) {
	l.set.change(inUse, queue)
	if l.meter != nil {
		l.meter.change(inUse, queue)
	}
}

// deadlockTimeout is Postgres's default: a cycle of waits is looked for after so long.
const deadlockTimeout = time.Second

func (l *lock) queue(c *chain, t *tx) {
	if l.meter == nil {
		l.meter = &meter{s: l.set.s, name: l.set.name, servers: 1, since: l.set.s.now, starts: 1}
		l.meter.inUse = 1
		l.set.contended = append(l.set.contended, l)
	}
	l.set.waits++
	l.meter.waits++
	l.change(0, 1)
	l.waiting.put(c)
	if t == nil {
		return
	}
	t.waits = l
	if t.waitsForItself() {
		l.set.s.After(deadlockTimeout, func() {
			if t.waits == l && t.waitsForItself() {
				t.rollback()
				c.fail(ErrDeadlock)
			}
		})
	}
}

func (l *lock) abandon(c *chain) {
	l.change(0, -1)
	if l.set.pg != nil {
		if ss := c.process.session(l.set.pg); ss != nil && ss.tx != nil {
			ss.tx.waits = nil
		}
	}
}

// put hands the lock over, or lets it be free.
func (l *lock) put() {
	l.held, l.owner = false, nil
	l.change(-1, 0)
	for l.waiting.len() > 0 {
		c := l.waiting.take()
		if c.dead {
			continue
		}
		var t *tx
		if l.set.pg != nil {
			t = l.set.pg.txOf(c)
		}
		l.change(0, -1)
		l.grant(c, t)
		c.wake()
		return
	}
}

func (l *lock) release() { l.put() }

// Usage is what the locks did together, and the lock that was waited for longest, from the
// first wait for it on.
func (l *Locks[K]) Usage() []Usage { return l.set.Usage() }

// Usage is what all did, and the one that was waited for longest.
func (set *lockSet) Usage() []Usage {
	all := []Usage{set.usage()}
	var worst *Usage
	for _, l := range set.contended {
		u := l.meter.usage()
		if worst == nil || u.Waited > worst.Waited {
			u.Key = fmt.Sprint(l.key)
			worst = &u
		}
	}
	if worst != nil {
		all = append(all, *worst)
	}
	return all
}
