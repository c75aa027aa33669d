package keys_test

import (
	"math"
	"slices"
	"testing"

	"stampede/harness/keys"
)

// TestRanks: each rank is drawn as often as its probability says, within six standard deviations.
func TestRanks(t *testing.T) {
	const draws = 200_000
	for _, of := range []struct {
		n int
		s float64
	}{{1, 1}, {2, 0}, {10, 0.5}, {1000, 1}, {50, 2.5}} {
		ranks, found, sum := keys.RanksOf(of.n, of.s), make([]int, of.n), 0.
		source, err := keys.Uniform(7, math.MaxInt64)
		if err != nil {
			t.Fatal(err)
		}
		for i := range uint64(draws) {
			found[ranks.At(source.At(i)<<1)]++
		}
		for rank := range of.n {
			sum += math.Pow(float64(rank+1), -of.s)
		}
		for rank, n := range found {
			p := math.Pow(float64(rank+1), -of.s) / sum
			if want := p * draws; math.Abs(float64(n)-want) > 6*math.Sqrt(want*(1-p))+1 {
				t.Errorf("of %d ranks with skew %v rank %d was drawn %d times, not about %.0f", of.n, of.s,
					rank, n, want)
			}
		}
	}
	if first := keys.RanksOf(1000, 1); keys.RanksOf(1000, 1) != first {
		t.Error("ranks are made twice")
	}
}

// TestRecipe: a recipe that is read makes the same keys, of which none is beyond the last one.
func TestRecipe(t *testing.T) {
	r := keys.Recipe{Seed: 9, Draws: 1000, Keys: 70, Skew: 1100, Shift: 60}
	again, err := keys.ReadRecipe(r.Append(nil))
	if err != nil || again != r {
		t.Fatalf("%+v was read as %+v, %v", r, again, err)
	}
	list, counts := r.Make(nil), map[uint64]int{}
	if !slices.Equal(list, again.Make(make([]uint64, 3))) || len(list) != 1000 {
		t.Errorf("a recipe made %d keys, and others the second time", len(list))
	}
	for _, key := range list {
		if counts[key]++; key < 1 || key > 70 {
			t.Errorf("there is a key %d", key)
		}
	}
	if counts[61] < counts[62] || counts[61] < 100 {
		t.Errorf("the first key was drawn %d times, the second %d", counts[61], counts[62])
	}
}

// FuzzReadRecipe: bytes are an error, or a recipe that is encoded to what is read as the same.
func FuzzReadRecipe(f *testing.F) {
	f.Add(keys.Recipe{Seed: 1, Draws: 2, Keys: 3, Skew: 4, Shift: 5}.Append(nil))
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := keys.ReadRecipe(raw)
		if err != nil {
			return
		}
		if again, err := keys.ReadRecipe(r.Append(nil)); err != nil || again != r {
			t.Fatalf("%+v became %+v, %v", r, again, err)
		}
	})
}
