package keys_test

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"stampede/harness/keys"
)

// anySource draws a distribution of any kind.
func anySource(t *rapid.T, seed uint64) keys.Source {
	n := rapid.Uint64Range(2, 1<<40).Draw(t, "n")
	share := rapid.Float64Range(0, 1).Draw(t, "share")
	s := rapid.Float64Range(0.01, 5).Draw(t, "s")
	every := rapid.Uint64Range(1, 1000).Draw(t, "every")
	var source keys.Source
	var err error
	switch rapid.IntRange(0, 4).Draw(t, "kind") {
	case 0:
		source, err = keys.Uniform(seed, n)
	case 1:
		source, err = keys.Zipf(seed, n, s)
	case 2:
		source, err = keys.HotSpot(seed, n, rapid.Uint64Range(1, n-1).Draw(t, "hot"), share)
	case 3:
		source, err = keys.MovingHot(seed, n, every, share)
	case 4:
		source, err = keys.WithoutReplacement(seed, n)
	}
	if err != nil {
		t.Fatal(err)
	}
	return source
}

func TestKeysAreInRange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		source := anySource(t, rapid.Uint64().Draw(t, "seed"))
		for range 50 {
			i := rapid.Uint64().Draw(t, "i")
			if key := source.At(i); key >= source.N() {
				t.Fatalf("%s: key %d of operation %d", source, key, i)
			}
		}
	})
}

// A key depends on nothing but seed and index: neither on the order of the
// questions nor on the source that is asked.
func TestKeysAreAFunctionOfSeedAndIndex(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		source := anySource(t, seed)
		var forward [100]uint64
		for i := range forward {
			forward[i] = source.At(uint64(i))
		}
		for i := len(forward) - 1; i >= 0; i-- {
			if key := source.At(uint64(i)); key != forward[i] {
				t.Fatalf("%s: operation %d had key %d, now %d", source, i, forward[i], key)
			}
		}
	})
}

func TestSeedsDiffer(t *testing.T) {
	a, _ := keys.Uniform(1, 1<<40)
	b, _ := keys.Uniform(2, 1<<40)
	for i := range uint64(1000) {
		if a.At(i) == b.At(i) {
			t.Fatalf("operation %d has the same key under two seeds", i)
		}
	}
}

func TestWithoutReplacementIsABijection(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Uint64Range(1, 3000).Draw(t, "n")
		source, err := keys.WithoutReplacement(rapid.Uint64().Draw(t, "seed"), n)
		if err != nil {
			t.Fatal(err)
		}
		for pack := range uint64(3) {
			seen := make([]bool, n)
			for i := range n {
				key := source.At(pack*n + i)
				if seen[key] {
					t.Fatalf("key %d of %d came twice in pack %d", key, n, pack)
				}
				seen[key] = true
			}
		}
	})
}

// A shuffled pack puts every key into every place equally often, and its
// neighbours are no more often neighbours than chance has it.
func TestWithoutReplacementIsShuffled(t *testing.T) {
	const n, seeds = 16, 8000
	var place [n][n]int
	neighbours := 0
	for seed := range uint64(seeds) {
		source, _ := keys.WithoutReplacement(seed, n)
		for i := range uint64(n) {
			place[i][source.At(i)]++
			if i > 0 && source.At(i) == source.At(i-1)+1 {
				neighbours++
			}
		}
	}
	stat, want := 0.0, float64(seeds)/n
	for _, row := range place {
		for _, count := range row {
			stat += (float64(count) - want) * (float64(count) - want) / want
		}
	}
	checkChiSquare(t, stat, (n-1)*(n-1))
	if got, want := float64(neighbours), float64(seeds)*(n-1)/n; math.Abs(got-want) > 0.05*want {
		t.Errorf("%g pairs of neighbours, expected about %g", got, want)
	}
}

func TestUniformIsEven(t *testing.T) {
	const n, draws = 100, 200_000
	source, _ := keys.Uniform(5, n)
	checkFrequencies(t, source, draws, func(uint64) float64 { return 1.0 / n })
}

// Zipf's frequencies are compared with the formula, below, at and above s=1.
func TestZipfFrequencies(t *testing.T) {
	for _, s := range []float64{0.2, 0.5, 0.99, 1, 1.01, 1.5, 3} {
		const n, draws = 50, 300_000
		source, err := keys.Zipf(11, n, s)
		if err != nil {
			t.Fatal(err)
		}
		norm := 0.0
		for k := range n {
			norm += math.Pow(float64(k+1), -s)
		}
		checkFrequencies(t, source, draws, func(key uint64) float64 {
			return math.Pow(float64(key+1), -s) / norm
		})
	}
}

func TestZipfOverManyKeys(t *testing.T) {
	const n, draws = 1 << 40, 100_000
	source, _ := keys.Zipf(3, n, 0.8)
	// With s < 1 the share of the first m keys tends to (m/n)^(1-s).
	below := 0
	for i := range uint64(draws) {
		if source.At(i) < n/1024 {
			below++
		}
	}
	want := math.Pow(1.0/1024, 0.2)
	if got := float64(below) / draws; math.Abs(got-want) > 0.01 {
		t.Errorf("the first 1/1024 of the keys got %.4f of the operations, want %.4f", got, want)
	}
}

func TestHotSpotShares(t *testing.T) {
	const n, hot, share = 20, 2, 0.7
	source, _ := keys.HotSpot(9, n, hot, share)
	checkFrequencies(t, source, 200_000, func(key uint64) float64 {
		if key < hot {
			return share / hot
		}
		return (1 - share) / (n - hot)
	})
}

func TestMovingHotMoves(t *testing.T) {
	const n, every, share = 10, 5000, 0.9
	source, _ := keys.MovingHot(4, n, every, share)
	turns := map[uint64]int{}
	for turn := range uint64(n) {
		counts := make([]int, n)
		for i := turn * every; i < (turn+1)*every; i++ {
			counts[source.At(i)]++
		}
		for key, count := range counts {
			got := float64(count) / every
			if math.Abs(got-share) < 0.03 {
				turns[uint64(key)]++
			} else if math.Abs(got-(1-share)/(n-1)) > 0.02 {
				t.Errorf("turn %d: key %d has a share of %.3f", turn, key, got)
			}
		}
	}
	if len(turns) != n {
		t.Errorf("the hot key went through %v, want each of %d keys once", turns, n)
	}
}

func TestBadKeys(t *testing.T) {
	tests := []struct {
		name string
		make func() (keys.Source, error)
		want string
	}{
		{"no keys", func() (keys.Source, error) { return keys.Uniform(1, 0) }, "1 or more"},
		{"too many keys", func() (keys.Source, error) {
			return keys.WithoutReplacement(1, 1<<63)
		}, "1 or more"},
		{"zipf 0", func() (keys.Source, error) { return keys.Zipf(1, 5, 0) }, "above 0"},
		{"zipf NaN", func() (keys.Source, error) {
			return keys.Zipf(1, 5, math.NaN())
		}, "above 0"},
		{"all hot", func() (keys.Source, error) {
			return keys.HotSpot(1, 5, 5, 0.5)
		}, "from 1 to 4, got 5"},
		{"share above 1", func() (keys.Source, error) {
			return keys.HotSpot(1, 5, 1, 1.1)
		}, "from 0 to 1, got 1.1"},
		{"moves always", func() (keys.Source, error) {
			return keys.MovingHot(1, 5, 0, 0.5)
		}, "at least 1 operation"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := test.make()
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("got %v, want an error with %q", err, test.want)
			}
		})
	}
}

func TestAtCostsNoMemory(t *testing.T) {
	source, _ := keys.Zipf(1, 1<<30, 0.9)
	i := uint64(0)
	if n := testing.AllocsPerRun(1000, func() { source.At(i); i++ }); n != 0 {
		t.Errorf("a key costs %g allocations", n)
	}
}

func checkFrequencies(t *testing.T, source keys.Source, draws int, want func(uint64) float64) {
	t.Helper()
	counts := make([]float64, source.N())
	for i := range draws {
		counts[source.At(uint64(i))]++
	}
	stat := 0.0
	for key, count := range counts {
		expected := want(uint64(key)) * float64(draws)
		stat += (count - expected) * (count - expected) / expected
	}
	checkChiSquare(t, stat, float64(len(counts)-1))
}

// checkChiSquare compares a statistic with the 0.1 % critical value in Wilson
// and Hilferty's approximation. The seeds are fixed, so this cannot flake.
func checkChiSquare(t *testing.T, stat, freedom float64) {
	t.Helper()
	const z = 3.09
	c := 2 / (9 * freedom)
	if limit := freedom * math.Pow(1-c+z*math.Sqrt(c), 3); stat > limit {
		t.Errorf("chi-square is %.1f, allowed is %.1f at %g degrees", stat, limit, freedom)
	}
}

func BenchmarkAt(b *testing.B) {
	zipf, _ := keys.Zipf(1, 1<<30, 0.9)
	pack, _ := keys.WithoutReplacement(1, 1_000_000)
	for name, source := range map[string]keys.Source{"zipf": zipf, "without replacement": pack} {
		b.Run(name, func(b *testing.B) {
			i := uint64(0)
			for b.Loop() {
				source.At(i)
				i++
			}
		})
	}
}
