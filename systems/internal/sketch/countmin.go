package sketch

import (
	"math"
	"math/bits"
)

// CountMin counts keys in rows of cells, one cell of each row for a key, of which the least is the
// estimate (G. Cormode and S. Muthukrishnan, "An improved data stream summary: the count-min sketch
// and its applications", J. Algorithms 55(1), 2005). Of n events, w cells in a row and d rows
//
//	true <= estimate <= true + n*e/w
//
// for each key but for e^-d of them. An event raises only the cells that have the least count
// (C. Estan and G. Varghese, "New directions in traffic measurement and accounting", SIGCOMM
// 2002), so that estimates are lower, and still bounded when sketches are merged.
//
// Beside the cells it keeps the keys with the highest estimates. With h of them, a key that is not
// among them occurred at most n*(1/h + e/w) times.
type CountMin struct {
	cells []uint32
	width int // of a row, a power of two
	total uint64
	best  table
}

// NewCountMin makes rows of at least some cells each, and keeps as many keys as said.
func NewCountMin(width, rows, keep int) *CountMin {
	width = 1 << bits.Len(uint(width-1))
	return &CountMin{cells: make([]uint32, rows*width), width: width, best: newTable(keep)}
}

// Add counts an event.
func (c *CountMin) Add(key uint64) {
	c.total++
	least := c.raise(key)
	if slot := c.best.find(key); slot >= 0 {
		c.best.counts[slot] = max(c.best.counts[slot], uint64(least))
		return
	}
	c.best.offer(key, uint64(least))
}

// raise counts an event in the cells, and returns the estimate.
func (c *CountMin) raise(key uint64) uint32 {
	at, step := spread(key)
	mask := uint32(c.width - 1)
	least := uint32(math.MaxUint32)
	for row := 0; row < len(c.cells); row += c.width {
		least = min(least, c.cells[row+int(at&mask)])
		at += step
	}
	if least == math.MaxUint32 {
		return least
	}
	at, step = spread(key)
	for row := 0; row < len(c.cells); row += c.width {
		cell := &c.cells[row+int(at&mask)]
		*cell = max(*cell, least+1)
		at += step
	}
	return least + 1
}

// spread is where a key is in the first row and how far from there in the next (A. Kirsch and M.
// Mitzenmacher, "Less hashing, same performance", ESA 2006).
func spread(key uint64) (at, step uint32) {
	h := Hash(key)
	return uint32(h), uint32(h>>32) | 1
}

// Total is how many events were counted.
func (c *CountMin) Total() uint64 { return c.total }

// Estimate is at least how often a key occurred. That of a key that is kept is of its last event:
// what other keys have added to its cells since then does not count.
func (c *CountMin) Estimate(key uint64) uint64 {
	if slot := c.best.find(key); slot >= 0 {
		return c.best.counts[slot]
	}
	at, step := spread(key)
	mask := uint32(c.width - 1)
	least := uint32(math.MaxUint32)
	for row := 0; row < len(c.cells); row += c.width {
		least = min(least, c.cells[row+int(at&mask)])
		at += step
	}
	return uint64(least)
}

// Top are the keys with the highest estimates, of those that are kept.
func (c *CountMin) Top(k int) []Item { return Best(c.best.items(0), k) }

// Bytes is the size of the arrays.
func (c *CountMin) Bytes() int { return 4*len(c.cells) + c.best.bytes() }

// Merge adds what another one counted; the bounds stay, for all events. The keys that are kept are
// chosen anew from those of both.
func (c *CountMin) Merge(other *CountMin) error {
	switch {
	case c.width != other.width:
		return unlike("cells in a row", c.width, other.width)
	case len(c.cells) != len(other.cells):
		return unlike("cells", len(c.cells), len(other.cells))
	case cap(c.best.keys) != cap(other.best.keys):
		return unlike("keys", cap(c.best.keys), cap(other.best.keys))
	}
	c.best.choose(&other.best, func(key uint64) uint64 {
		return c.Estimate(key) + other.Estimate(key)
	})
	for i, cell := range other.cells {
		c.cells[i] = saturated(c.cells[i], cell)
	}
	c.total += other.total
	return nil
}

func saturated(a, b uint32) uint32 {
	return uint32(min(uint64(a)+uint64(b), math.MaxUint32))
}
