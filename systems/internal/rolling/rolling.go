// Package rolling counts keys in two windows that roll with the clock of what is counted: a recent
// one, and a baseline before it, with which it is compared.
package rolling

// Windows say how many slots the two windows have.
type Windows struct{ Recent, Baseline int64 }

// Counts is how often a key came in the two windows.
type Counts struct{ Recent, Before int64 }

// Counter counts. Its clock is the newest slot that came.
type Counter struct {
	windows Windows
	clock   int64
	slots   map[int64]map[string]int64
	counts  map[string]Counts
	touched map[string]bool
}

// New makes a counter of nothing.
func New(w Windows) *Counter {
	return &Counter{windows: w, slots: map[int64]map[string]int64{}, counts: map[string]Counts{},
		touched: map[string]bool{}}
}

// Add counts a key in a slot, or in the newest one, if that is later.
func (c *Counter) Add(slot int64, key string) {
	if len(c.slots) == 0 {
		c.clock = slot
	}
	if slot > c.clock {
		c.roll(slot)
	}
	if c.slots[c.clock] == nil {
		c.slots[c.clock] = map[string]int64{}
	}
	c.slots[c.clock][key]++
	c.change(key, 1, 0)
}

// roll moves the windows on: what leaves the recent one comes to the baseline, and what leaves that
// is forgotten.
func (c *Counter) roll(to int64) {
	w := c.windows
	for slot, keys := range c.slots {
		leaves := slot > c.clock-w.Recent && slot <= to-w.Recent
		forgotten := slot <= to-w.Recent-w.Baseline
		for key, n := range keys {
			if leaves {
				c.change(key, -n, n)
			}
			if forgotten {
				c.change(key, 0, -n)
			}
		}
		if forgotten {
			delete(c.slots, slot)
		}
	}
	c.clock = to
}

func (c *Counter) change(key string, recent, before int64) {
	n := c.counts[key]
	n.Recent, n.Before = n.Recent+recent, n.Before+before
	c.touched[key] = true
	if c.counts[key] = n; n == (Counts{}) {
		delete(c.counts, key)
	}
}

// Counts are those of all keys that are in a window.
func (c *Counter) Counts() map[string]Counts { return c.counts }

// Changed are the keys whose counts have changed since the last call, in no order.
func (c *Counter) Changed() []string {
	list := make([]string, 0, len(c.touched))
	for key := range c.touched {
		list = append(list, key)
	}
	clear(c.touched)
	return list
}
