// Package keys decides which object an operation is about: distributions over
// the keys 0 … n-1, each a pure function of a seed and the operation's index.
// Key i can be computed without the keys before it, in any order and from any
// goroutine, in constant memory; a stored run can be generated again.
package keys

import (
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
)

// Source gives the key of the i-th operation, in [0, N).
type Source interface {
	// At returns the key of operation i. It is safe for concurrent use.
	At(i uint64) uint64
	// N is the number of keys.
	N() uint64
	// String describes the distribution on one line.
	String() string
}

// Uniform makes every one of n keys equally likely.
func Uniform(seed, n uint64) (Source, error) {
	if err := checkN(n); err != nil {
		return nil, err
	}
	return uniform{seed, n}, nil
}

type uniform struct{ seed, n uint64 }

func (u uniform) At(i uint64) uint64 {
	d := drawAt(u.seed, i)
	return d.below(u.n)
}
func (u uniform) N() uint64      { return u.n }
func (u uniform) String() string { return fmt.Sprintf("uniform over %d", u.n) }

// HotSpot sends the share of operations to the first hot of n keys and the
// rest to the other keys, each evenly.
func HotSpot(seed, n, hot uint64, share float64) (Source, error) {
	if err := checkHot(n, hot, share); err != nil {
		return nil, err
	}
	return hotSpot{seed, n, hot, share}, nil
}

type hotSpot struct {
	seed, n, hot uint64
	share        float64
}

func (h hotSpot) At(i uint64) uint64 {
	d := drawAt(h.seed, i)
	if d.unit() < h.share {
		return d.below(h.hot)
	}
	return h.hot + d.below(h.n-h.hot)
}
func (h hotSpot) N() uint64 { return h.n }
func (h hotSpot) String() string {
	return fmt.Sprintf("hot spot: %g%% to %d of %d", h.share*100, h.hot, h.n)
}

// MovingHot sends the share of operations to one hot key and the rest evenly
// to all others. Every that many operations another key becomes the hot one,
// in a random order in which each key has its turn before any has a second.
func MovingHot(seed, n, every uint64, share float64) (Source, error) {
	if err := checkHot(n, 1, share); err != nil {
		return nil, err
	}
	if every == 0 {
		return nil, fmt.Errorf("keys: a hot key must hold for at least 1 operation")
	}
	return movingHot{seed, n, every, share, newPermutation(mix(seed), n)}, nil
}

type movingHot struct {
	seed, n, every uint64
	share          float64
	turns          permutation
}

// hot is the hot key at operation i.
func (m movingHot) hot(i uint64) uint64 { return m.turns.At(i / m.every) }

func (m movingHot) At(i uint64) uint64 {
	d := drawAt(m.seed, i)
	hot := m.hot(i)
	if d.unit() < m.share {
		return hot
	}
	// One of the others: the keys at and after the hot one move up by one.
	other := d.below(m.n - 1)
	if other >= hot {
		other++
	}
	return other
}
func (m movingHot) N() uint64 { return m.n }
func (m movingHot) String() string {
	return fmt.Sprintf("moving hot key: %g%% to 1 of %d, another every %d operations",
		m.share*100, m.n, m.every)
}

func checkN(n uint64) error {
	if n == 0 || n > math.MaxInt64 {
		return fmt.Errorf("keys: the number of keys must be 1 or more, got %d", n)
	}
	return nil
}

// checkHot leaves at least one cold key, so that the share is always exact.
func checkHot(n, hot uint64, share float64) error {
	if err := checkN(n); err != nil {
		return err
	}
	if hot == 0 || hot >= n {
		return fmt.Errorf("keys: the number of hot keys must be from 1 to %d, got %d", n-1, hot)
	}
	if !(share >= 0 && share <= 1) {
		return fmt.Errorf("keys: the share of the hot keys must be from 0 to 1, got %g", share)
	}
	return nil
}

// draw is the random numbers of one operation.
type draw struct{ pcg rand.PCG }

// drawAt seeds a generator for one operation. Seed and index are mixed first,
// because neighbouring PCG states begin with related numbers.
func drawAt(seed, i uint64) draw {
	var d draw
	d.pcg.Seed(mix(seed+i*golden), mix(seed^mix(i)))
	return d
}

// unit is uniform in [0, 1).
func (d *draw) unit() float64 { return float64(d.pcg.Uint64()>>11) / (1 << 53) }

// below is uniform in [0, n), without bias (Lemire, "Fast random integer
// generation in an interval", 2019).
func (d *draw) below(n uint64) uint64 {
	high, low := bits.Mul64(d.pcg.Uint64(), n)
	if low < n {
		for limit := -n % n; low < limit; {
			high, low = bits.Mul64(d.pcg.Uint64(), n)
		}
	}
	return high
}

const golden = 0x9e3779b97f4a7c15 // 2^64 divided by the golden ratio

// mix is the finaliser of SplitMix64 (Steele, Lea and Flood, 2014): a
// bijection that scatters neighbouring inputs.
func mix(x uint64) uint64 {
	x += golden
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
