package sketch

import (
	"encoding/binary"
	"fmt"
	"math"
)

// morrisBase is how finely a Morris counter counts: its relative error is about
// 1/sqrt(2*morrisBase), 1.1 %.
const morrisBase = 4096

// MorrisError is the relative standard error of a Morris counter.
const MorrisError = 0.01105

// Morris counts events in 16 bits, up to 36 billion of them (R. Morris, "Counting large numbers of
// events in small registers", CACM 21(10), 1978; P. Flajolet, "Approximate counting: a detailed
// analysis", BIT 25, 1985). It raises its register c with the probability (1 + 1/a)^-c, so that
// a*((1 + 1/a)^c - 1) is how many events there were, on average.
type Morris struct {
	register uint16
	raises   uint64 // the probability that the register is raised, of 2^64
	random   source
}

// NewMorris makes a counter of no events. Counters that are added up should have different seeds.
func NewMorris(seed uint64) *Morris {
	return &Morris{raises: math.MaxUint64, random: source(Hash(seed) | 1)}
}

// Add counts an event.
func (m *Morris) Add() {
	if m.random.next() <= m.raises && m.register < math.MaxUint16 {
		m.set(m.register + 1)
	}
}

func (m *Morris) set(register uint16) {
	m.register, m.raises = register, math.MaxUint64
	if register > 0 {
		m.raises = uint64(math.Ldexp(chance(register), 64))
	}
}

// chance is the probability that a register is raised.
func chance(register uint16) float64 {
	return math.Exp(-float64(register) * math.Log1p(1./morrisBase))
}

// Estimate is about how many events were counted.
func (m *Morris) Estimate() uint64 {
	return uint64(math.Round(morrisBase * math.Expm1(float64(m.register)*math.Log1p(1./morrisBase))))
}

// Merge adds what another one counted: each step of the lower register is as many events as it
// stands for, and raises the higher one with the probability of these (E. Cohen, "All-distances
// sketches, revisited", PODS 2014, section 7).
func (m *Morris) Merge(other *Morris) {
	high, low := max(m.register, other.register), min(m.register, other.register)
	const step = 1 + 1./morrisBase
	for odds := chance(high) * math.MaxUint64; low > 0; low-- {
		if float64(m.random.next()) <= odds && high < math.MaxUint16 {
			high++
			odds /= step
		}
		odds *= step
	}
	m.set(high)
}

// MorrisBytes is the size of an encoded counter.
const MorrisBytes = 10

// AppendBinary encodes the counter.
func (m *Morris) AppendBinary(to []byte) ([]byte, error) {
	to = binary.LittleEndian.AppendUint16(to, m.register)
	return binary.LittleEndian.AppendUint64(to, uint64(m.random)), nil
}

// UnmarshalBinary decodes a counter.
func (m *Morris) UnmarshalBinary(from []byte) error {
	if len(from) != MorrisBytes {
		return fmt.Errorf("%w: a Morris counter of %d bytes", ErrMalformed, len(from))
	}
	random := source(binary.LittleEndian.Uint64(from[2:]))
	if random == 0 {
		return fmt.Errorf("%w: a Morris counter without randomness", ErrMalformed)
	}
	m.random = random
	m.set(binary.LittleEndian.Uint16(from))
	return nil
}
