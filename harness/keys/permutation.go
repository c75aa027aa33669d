package keys

import (
	"fmt"
	"math/bits"
)

// WithoutReplacement deals n keys like a shuffled pack: operations 0 … n-1
// get every key exactly once, the next n again in another order, and so on.
func WithoutReplacement(seed, n uint64) (Source, error) {
	if err := checkN(n); err != nil {
		return nil, err
	}
	return permutation{seed, n, halfBits(n)}, nil
}

// permutation is a bijection of [0, n) computed without a table: a Feistel
// network over the smallest even number of bits that holds n-1, whose outputs
// outside the range are fed in again until one falls inside (cycle walking;
// J. Black and P. Rogaway, "Ciphers with arbitrary finite domains", 2002).
// The domain is less than four times n, so that takes under four steps on
// average.
type permutation struct {
	seed, n uint64
	half    uint // bits of each half
}

func newPermutation(seed, n uint64) permutation { return permutation{seed, n, halfBits(n)} }

func halfBits(n uint64) uint { return max(1, uint(bits.Len64(n-1)+1)/2) }

func (p permutation) At(i uint64) uint64 {
	pack := mix(p.seed ^ mix(i/p.n))
	x := p.feistel(pack, i%p.n)
	for x >= p.n {
		x = p.feistel(pack, x)
	}
	return x
}

// feistel permutes the numbers of 2*half bits. Four rounds make a good
// permutation of a good round function (Luby and Rackoff); small halves mix
// less in each, so there are eight.
func (p permutation) feistel(key, x uint64) uint64 {
	const rounds = 8
	mask := uint64(1)<<p.half - 1
	left, right := x>>p.half, x&mask
	for round := range uint64(rounds) {
		left, right = right, left^mix(key+round*golden^right)&mask
	}
	return left<<p.half | right
}

func (p permutation) N() uint64      { return p.n }
func (p permutation) String() string { return fmt.Sprintf("without replacement from %d", p.n) }
