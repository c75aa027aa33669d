package sim

import (
	"math"
	"time"
)

// Processor sharing: v grows at the speed of one burst, so that bursts end in the order of
// their places, and one event at a time is enough, for the first of them.

// capacity is how many cores bursts may share.
func (c *CPU) capacity() int64 { return max(int64(c.servers)-c.stalled, 0) }

// share brings v up to now.
func (c *CPU) share() {
	if n := int64(len(c.jobs)); n > 0 {
		c.v += int64(c.s.now-c.shared) * 1000 * min(n, c.capacity()) / n
	}
	c.shared = c.s.now
}

// recount tells the meter that the bursts, or the cores, have become other.
func (c *CPU) recount() {
	c.settle()
	n := int64(len(c.jobs))
	c.inUse = min(n, c.capacity())
	c.queue = n - c.inUse
}

func (c *CPU) join(ch *chain, d int64) {
	c.share()
	if int64(len(c.jobs)) >= c.capacity() {
		c.waits++
	}
	c.s.seq++
	c.jobs.push(event{time.Duration(c.v + 1000*d), c.s.seq, ch})
	c.arm()
}

func (c *CPU) quit(ch *chain) {
	c.share()
	for i, job := range c.jobs {
		if job.do == happening(ch) {
			c.jobs.remove(i)
			break
		}
	}
	c.arm()
}

// arm schedules the end of the first burst, unless an event is expected before it.
func (c *CPU) arm() {
	c.recount()
	n, capacity := int64(len(c.jobs)), c.capacity()
	if n == 0 || capacity == 0 {
		return
	}
	speed := min(n, capacity)
	left := (int64(c.jobs[0].at) - c.v) * n / speed
	if at := c.s.now + time.Duration(max(left+999, 0)/1000); at < c.armed {
		c.armed = at
		c.s.schedule(at, tick{c})
	}
}

// tick is the expected end of a burst.
type tick struct{ cpu *CPU }

func (t tick) happen() {
	c := t.cpu
	if c.s.now != c.armed {
		return // an earlier one took its place
	}
	c.armed = math.MaxInt64
	c.share()
	for len(c.jobs) > 0 && int64(c.jobs[0].at) <= c.v {
		c.jobs.pop().do.(*chain).wake()
	}
	c.arm()
}
