package sketch

import (
	"math"
	"math/bits"
	"sync"
)

// HeavyKeeper counts keys in rows of buckets, each with the fingerprint of one key and its count
// (T. Yang et al., "HeavyKeeper: an accurate algorithm for finding top-k elephant flows",
// IEEE/ACM ToN 27(5), 2019). An event of another key takes one off the bucket's count, with a
// probability that falls with it as 1.08^-count, and the bucket at zero. Light keys go, and of n
// events a heavy one loses more than n/w, where a row has w buckets, with a small probability:
//
//	true - n/w <= estimate <= true, for nearly all keys.
//
// An estimate is too high only where two keys have one fingerprint and meet in a bucket: of m keys
// about m*d/2^32 do.
//
// Beside the buckets it keeps the keys with the highest estimates. As in the paper's second
// optimisation, a bucket that is above what is kept and of a key that is not kept is another
// key's with the same fingerprint, and not raised.
type HeavyKeeper struct {
	buckets []bucket
	width   int // of a row, a power of two
	total   uint64
	best    table
	random  source
	decays  []uint64
}

type bucket struct{ mark, count uint32 }

// decays are the probabilities that a count loses one, of 2^64. From its length on they are less
// than 10^-9, and taken for none.
var decays = sync.OnceValue(func() []uint64 {
	list := make([]uint64, 270)
	for count := range list {
		list[count] = uint64(math.Ldexp(math.Pow(1.08, -float64(count)), 64) - 1)
	}
	list[0] = math.MaxUint64
	return list
})

// NewHeavyKeeper makes rows of at least some buckets each, and keeps as many keys as said.
func NewHeavyKeeper(width, rows, keep int) *HeavyKeeper {
	width = 1 << bits.Len(uint(width-1))
	return &HeavyKeeper{buckets: make([]bucket, rows*width), width: width, best: newTable(keep),
		random: seeded, decays: decays()}
}

// Add counts an event.
func (h *HeavyKeeper) Add(key uint64) {
	h.total++
	slot := h.best.find(key)
	limit := uint32(math.MaxUint32)
	if slot < 0 && h.best.full() {
		_, least := h.best.weakest()
		limit = uint32(min(least, math.MaxUint32-1)) + 1
	}
	count := uint64(h.raise(key, limit))
	switch {
	case slot >= 0:
		h.best.counts[slot] = max(h.best.counts[slot], count)
	case count > 0:
		h.best.offer(key, count)
	}
}

// raise counts an event in the buckets up to a limit, and returns the highest count that the key
// has there.
func (h *HeavyKeeper) raise(key uint64, limit uint32) (highest uint32) {
	at, step := spread(key)
	mark, mask := markOf(key), uint32(h.width-1)
	for row := 0; row < len(h.buckets); row += h.width {
		b := &h.buckets[row+int(at&mask)]
		at += step
		switch {
		case b.count > 0 && b.mark == mark:
			if b.count < limit {
				b.count++
			}
		case int(b.count) >= len(h.decays) || h.random.next() > h.decays[b.count]:
			continue
		case b.count > 1:
			b.count--
			continue
		default:
			*b = bucket{mark, 1}
		}
		highest = max(highest, b.count)
	}
	return highest
}

// markOf is a fingerprint; it does not follow from where a key is in the rows.
func markOf(key uint64) uint32 { return uint32(Hash(key^golden) >> 32) }

// Total is how many events were counted.
func (h *HeavyKeeper) Total() uint64 { return h.total }

// Estimate is at most how often a key occurred, apart from fingerprints.
func (h *HeavyKeeper) Estimate(key uint64) (count uint64) {
	at, step := spread(key)
	mark, mask := markOf(key), uint32(h.width-1)
	for row := 0; row < len(h.buckets); row += h.width {
		if b := h.buckets[row+int(at&mask)]; b.mark == mark {
			count = max(count, uint64(b.count))
		}
		at += step
	}
	if slot := h.best.find(key); slot >= 0 {
		count = max(count, h.best.counts[slot])
	}
	return count
}

// Top are the keys with the highest estimates, of those that are kept.
func (h *HeavyKeeper) Top(k int) []Item { return Best(h.best.items(0), k) }

// Bytes is the size of the arrays.
func (h *HeavyKeeper) Bytes() int { return 8*len(h.buckets) + h.best.bytes() }

// Merge adds what another one counted. Of a bucket that two keys have the one with the higher
// count keeps it, and of a key that is kept the estimates of both are added, so that the bounds
// stay, for all events.
func (h *HeavyKeeper) Merge(other *HeavyKeeper) error {
	switch {
	case h.width != other.width:
		return unlike("buckets in a row", h.width, other.width)
	case len(h.buckets) != len(other.buckets):
		return unlike("buckets", len(h.buckets), len(other.buckets))
	case cap(h.best.keys) != cap(other.best.keys):
		return unlike("keys", cap(h.best.keys), cap(other.best.keys))
	}
	h.best.choose(&other.best, func(key uint64) uint64 {
		return h.Estimate(key) + other.Estimate(key)
	})
	for i, b := range other.buckets {
		switch ours := &h.buckets[i]; {
		case ours.mark == b.mark || ours.count == 0:
			*ours = bucket{b.mark, saturated(ours.count, b.count)}
		case ours.count < b.count || ours.count == b.count && ours.mark < b.mark:
			*ours = b
		}
	}
	h.total += other.total
	return nil
}
