package keys

import (
	"math"
	"sync"
)

// Ranks draws ranks 0 … n-1 in proportion to 1/(rank+1)^s, for any s from 0, in constant time: two
// reads of a table of 8 bytes a rank, where Zipf reckons logarithms and needs no table. It uses
// the alias method (M. Vose, "A linear algorithm for generating random numbers with a given
// distribution", IEEE TSE 17(9), 1991). Probabilities are exact to 2^-32.
type Ranks struct{ keep, alias []uint32 }

// RanksOf returns the ranks of a distribution. They are made once and shared.
func RanksOf(n int, s float64) *Ranks {
	key := distribution{n, s}
	made, there := ranks().Load(key)
	if !there {
		made, _ = ranks().LoadOrStore(key, newRanks(n, s))
	}
	return made.(*Ranks)
}

type distribution struct {
	n int
	s float64
}

// ranks has the ranks of each distribution that was asked for.
var ranks = sync.OnceValue(func() *sync.Map { return &sync.Map{} })

// At is the rank of a random number.
func (r *Ranks) At(random uint64) int {
	at := random >> 32 * uint64(len(r.keep)) >> 32
	if uint32(random) <= r.keep[at] {
		return int(at)
	}
	return int(r.alias[at])
}

func newRanks(items int, skew float64) *Ranks {
	d := &Ranks{keep: make([]uint32, items), alias: make([]uint32, items)}
	weights, sum := make([]float64, items), 0.
	for i := range weights {
		weights[i] = math.Pow(float64(i+1), -skew)
		sum += weights[i]
	}
	var light, heavy []int
	for i := range weights {
		if weights[i] *= float64(items) / sum; weights[i] < 1 {
			light = append(light, i)
		} else {
			heavy = append(heavy, i)
		}
	}
	for len(light) > 0 && len(heavy) > 0 {
		l, h := light[len(light)-1], heavy[len(heavy)-1]
		light = light[:len(light)-1]
		d.keep[l], d.alias[l] = uint32(weights[l]*math.MaxUint32), uint32(h)
		if weights[h] -= 1 - weights[l]; weights[h] < 1 {
			light, heavy = append(light, h), heavy[:len(heavy)-1]
		}
	}
	for _, rest := range [][]int{light, heavy} {
		for _, i := range rest {
			d.keep[i] = math.MaxUint32
		}
	}
	return d
}
