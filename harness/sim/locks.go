package sim

import (
	"fmt"
	"time"
)

// lockSet is locks of one kind, each with a queue, first come, first served.
type lockSet struct {
	meter
	pg *Postgres // whose transactions hold them
	// contended are the locks that somebody has waited for, in the order of their first waits.
	contended []*lock
}

// lock is one lock. A transaction that holds it may take it again.
type lock struct {
	set     *lockSet
	key     any
	held    bool
	owner   *tx
	row     *bool // whether the row exists that it is the lock of; nil: it is of no row
	waiting fifo[*chain]
	meter   *meter // since the first wait
}

func (l *lock) start(c *chain, _ int64) bool {
	t := l.set.pg.txOf(c)
	if t == nil || l.owner == t {
		return true // without a transaction the chain has failed
	}
	l.set.starts++
	if l.meter != nil {
		l.meter.starts++
	}
	if !l.held {
		l.grant(t)
		return true
	}
	l.queue(c, t)
	return false
}

func (l *lock) grant(t *tx) {
	l.held, l.owner = true, t
	l.change(1, 0)
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
	if ss := c.process.session(l.set.pg); ss != nil && ss.tx != nil {
		ss.tx.waits = nil
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
		l.change(0, -1)
		l.grant(l.set.pg.txOf(c)) // who waits has a transaction: a crash fails all others first
		c.wake()
		return
	}
}

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
