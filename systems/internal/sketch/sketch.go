// Package sketch counts in fixed memory: heavy hitters of a stream (MisraGries, SpaceSaving,
// CountMin, HeavyKeeper) and how many events there were (Morris). Each sketch adds an event
// without allocating, from flat arrays that were made with it; sketches of parts of a stream are
// merged, and encoded for a store. Keys are 64-bit numbers: whoever has texts hashes them.
//
// The sketches are not safe for concurrent use. They hash with a fixed function, so that merged
// sketches agree; a stream that is made against that function can exceed their bounds.
package sketch

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// Item is a key and an estimate of how often it occurred.
type Item struct{ Key, Count uint64 }

// Sketch is what the sketches of heavy hitters have in common.
type Sketch interface {
	// Add counts an event.
	Add(key uint64)
	// Total is how many events were counted.
	Total() uint64
	// Estimate is about how often a key occurred.
	Estimate(key uint64) uint64
	// Top are the keys with the highest estimates, k at most, the highest first. Of equal ones
	// the lowest key is first.
	Top(k int) []Item
	// Bytes is the size of the arrays, which does not depend on the stream.
	Bytes() int
	// AppendBinary and UnmarshalBinary encode and decode it.
	AppendBinary(to []byte) ([]byte, error)
	UnmarshalBinary(from []byte) error
}

// ErrUnlike is of two sketches that cannot be merged, because their sizes differ.
var ErrUnlike = errors.New("sketches of different sizes cannot be merged")

func unlike(what string, ours, theirs int) error {
	return fmt.Errorf("%w: %s %d and %d", ErrUnlike, what, ours, theirs)
}

// Hash scatters keys; it is the finaliser of SplitMix64 (Steele, Lea and Flood, "Fast splittable
// pseudorandom number generators", OOPSLA 2014), a bijection.
func Hash(key uint64) uint64 {
	key += golden
	key = (key ^ key>>30) * 0xbf58476d1ce4e5b9
	key = (key ^ key>>27) * 0x94d049bb133111eb
	return key ^ key>>31
}

const golden = 0x9e3779b97f4a7c15 // 2^64 divided by the golden ratio

// Best sorts items, the highest count first and of equal ones the lowest key, and returns k of
// them at most.
func Best(items []Item, k int) []Item {
	slices.SortFunc(items, func(a, b Item) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Key, b.Key))
	})
	return items[:min(k, len(items))]
}

// source is a xorshift64* generator (Vigna, "An experimental exploration of Marsaglia's xorshift
// generators, scrambled", 2016). Its state is never zero.
type source uint64

func (s *source) next() uint64 {
	x := uint64(*s)
	x ^= x >> 12
	x ^= x << 25
	x ^= x >> 27
	*s = source(x)
	return x * 0x2545f4914f6cdd1d
}

// seeded is a source; sketches of different streams may have the same one.
const seeded source = golden
