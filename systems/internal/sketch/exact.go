package sketch

import (
	"encoding/binary"
	"slices"
)

// Exact counts keys in a map. It is what the other sketches are compared with, and grows.
type Exact struct {
	counts map[uint64]uint64
	total  uint64
}

// NewExact makes a map.
func NewExact() *Exact { return &Exact{counts: map[uint64]uint64{}} }

// Add counts an event.
func (e *Exact) Add(key uint64) {
	e.counts[key]++
	e.total++
}

// Raise counts several events.
func (e *Exact) Raise(key, by uint64) {
	e.counts[key] += by
	e.total += by
}

// Total is how many events were counted.
func (e *Exact) Total() uint64 { return e.total }

// Estimate is how often a key occurred.
func (e *Exact) Estimate(key uint64) uint64 { return e.counts[key] }

// Top are the most frequent keys.
func (e *Exact) Top(k int) []Item {
	list := make([]Item, 0, len(e.counts))
	for key, count := range e.counts {
		list = append(list, Item{Key: key, Count: count})
	}
	return Best(list, k)
}

// exactEntry is about what a key takes in a Go map of numbers, at its usual load.
const exactEntry = 16 * 10 / 7

// Bytes is about the size of the map.
func (e *Exact) Bytes() int { return exactEntry * len(e.counts) }

// Merge adds what another one counted.
func (e *Exact) Merge(other *Exact) error {
	for key, count := range other.counts {
		e.Raise(key, count)
	}
	return nil
}

// AppendBinary encodes the map, by the keys in order.
func (e *Exact) AppendBinary(to []byte) ([]byte, error) {
	list := make([]uint64, 0, len(e.counts))
	for key := range e.counts {
		list = append(list, key)
	}
	slices.Sort(list)
	before := uint64(0)
	for _, key := range list {
		to = binary.AppendUvarint(to, key-before)
		to = binary.AppendUvarint(to, e.counts[key])
		before = key
	}
	return to, nil
}

// UnmarshalBinary decodes a map.
func (e *Exact) UnmarshalBinary(from []byte) error {
	decoded, key := NewExact(), uint64(0)
	for len(from) > 0 {
		step, n := binary.Uvarint(from)
		if n <= 0 {
			return ErrMalformed
		}
		count, m := binary.Uvarint(from[n:])
		if key += step; m <= 0 || count == 0 || decoded.counts[key] > 0 {
			return ErrMalformed
		}
		decoded.Raise(key, count)
		from = from[n+m:]
	}
	*e = *decoded
	return nil
}

// Each calls back with every key and its count, in no order.
func (e *Exact) Each(see func(key, count uint64)) {
	for key, count := range e.counts {
		see(key, count)
	}
}

// Keys is how many keys there are.
func (e *Exact) Keys() int { return len(e.counts) }
