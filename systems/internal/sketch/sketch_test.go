package sketch_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	boom "github.com/tylertreat/BoomFilters"
	"pgregory.net/rapid"

	"stampede/harness/keys"
	"stampede/systems/internal/sketch"
)

// kind is a sketch with its bound: of n events an estimate is at most under*n too low and at most
// over*n too high, but for a share of the keys.
type kind struct {
	name                string
	make                func() sketch.Sketch
	merge               func(a, b sketch.Sketch) error
	under, over, misses float64
}

func merge[T any](do func(a, b T) error) func(a, b sketch.Sketch) error {
	return func(a, b sketch.Sketch) error { return do(a.(T), b.(T)) }
}

const slots = 64

func kinds() []kind {
	return []kind{
		{"Exact", func() sketch.Sketch { return sketch.NewExact() }, merge((*sketch.Exact).Merge),
			0, 0, 0},
		{"MisraGries", func() sketch.Sketch { return sketch.NewMisraGries(slots) },
			merge((*sketch.MisraGries).Merge), 1. / (slots + 1), 0, 0},
		{"SpaceSaving", func() sketch.Sketch { return sketch.NewSpaceSaving(slots) },
			merge((*sketch.SpaceSaving).Merge), 0, 1. / slots, 0},
		{"CountMin", func() sketch.Sketch { return sketch.NewCountMin(256, 5, slots) },
			merge((*sketch.CountMin).Merge), 0, math.E / 256, math.Exp(-5)},
		{"HeavyKeeper", func() sketch.Sketch { return sketch.NewHeavyKeeper(256, 2, slots) },
			merge((*sketch.HeavyKeeper).Merge), 1. / slots, 0, 0.01},
	}
}

// stream is some events, and how often each key occurs.
type stream struct {
	events []uint64
	counts map[uint64]uint64
}

func streamOf(events []uint64) stream {
	s := stream{events, map[uint64]uint64{}}
	for _, key := range events {
		s.counts[key]++
	}
	return s
}

// drawn draws a stream: uniform, zipf, or of runs of one key.
func drawn(t *rapid.T) stream {
	n := rapid.IntRange(0, 4000).Draw(t, "events")
	many := rapid.Uint64Range(1, 3000).Draw(t, "keys")
	skew := rapid.Float64Range(0.3, 2).Draw(t, "skew")
	run := rapid.IntRange(1, 20).Draw(t, "run")
	source, err := keys.Zipf(rapid.Uint64().Draw(t, "seed"), many, skew)
	if err != nil {
		t.Fatal(err)
	}
	list := make([]uint64, n)
	for i := range list {
		list[i] = source.At(uint64(i / run))
	}
	return streamOf(list)
}

func (k kind) of(events []uint64) sketch.Sketch {
	s := k.make()
	for _, key := range events {
		s.Add(key)
	}
	return s
}

// bounded checks every estimate, and that no heavy key is left out of the top.
func (k kind) bounded(t interface{ Errorf(string, ...any) }, s sketch.Sketch, in stream) {
	n := float64(len(in.events))
	missed := 0
	for key := range uint64(3001) {
		estimate, truth := float64(s.Estimate(key)), float64(in.counts[key])
		if estimate < truth-k.under*n || estimate > truth+k.over*n {
			if missed++; k.misses == 0 {
				t.Errorf("%s: key %d of %v events: %v, not %v", k.name, key, n, estimate, truth)
			}
		}
	}
	if most := 3001*k.misses + 6*math.Sqrt(3001*k.misses); float64(missed) > most {
		t.Errorf("%s: %d keys are beyond the bound, more than %v", k.name, missed, most)
	}
	if s.Total() != uint64(n) {
		t.Errorf("%s: %d events, not %v", k.name, s.Total(), n)
	}
}

// TestBounds: estimates of any stream are within the bounds, also of one that was added in parts
// which were merged, in either order.
func TestBounds(t *testing.T) {
	for _, k := range kinds() {
		t.Run(k.name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				in := drawn(t)
				k.bounded(t, k.of(in.events), in)
				at := rapid.IntRange(0, len(in.events)).Draw(t, "at")
				a, b := k.of(in.events[:at]), k.of(in.events[at:])
				back := k.of(in.events[at:])
				if err := errors.Join(k.merge(back, a), k.merge(a, b)); err != nil {
					t.Fatal(err)
				}
				k.bounded(t, a, in)
				if x, y := a.Top(slots), back.Top(slots); !slices.Equal(x, y) {
					t.Fatalf("merged with %v, the other way round with %v", x, y)
				}
				// A merged sketch counts on.
				more := drawn(t)
				for _, key := range more.events {
					a.Add(key)
				}
				k.bounded(t, a, streamOf(slices.Concat(in.events, more.events)))
			})
		})
	}
}

// TestHeavy: the keys above the bound are in the top, in the order of a sort, and merging parts
// loses none.
func TestHeavy(t *testing.T) {
	for _, k := range kinds() {
		for seed := range uint64(20) {
			source, err := keys.Zipf(seed, 20_000, 1.2)
			if err != nil {
				t.Fatal(err)
			}
			list := make([]uint64, 50_000)
			for i := range list {
				list[i] = source.At(uint64(i))
			}
			in := streamOf(list)
			merged := k.make()
			for part := range slices.Chunk(list, 10_000) {
				if err := k.merge(merged, k.of(part)); err != nil {
					t.Fatal(err)
				}
			}
			for what, s := range map[string]sketch.Sketch{"one pass": k.of(list), "merged": merged} {
				found := map[uint64]bool{}
				for _, it := range s.Top(slots) {
					found[it.Key] = true
				}
				for key, count := range in.counts {
					if float64(count) > (k.under+k.over+1./slots)*float64(len(list)) && !found[key] {
						t.Errorf("%s, seed %d, %s: key %d of %d events is missing", k.name, seed, what, key,
							count)
					}
				}
			}
		}
	}
}

// TestExact: with as many counters as keys all are exact, but for the probabilities of HeavyKeeper.
func TestExact(t *testing.T) {
	in := []uint64{7, 7, 7, 3, 3, 9}
	want := []sketch.Item{{Key: 7, Count: 3}, {Key: 3, Count: 2}, {Key: 9, Count: 1}}
	for _, k := range kinds() {
		s := k.of(in)
		if got := s.Top(10); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", k.name, got, want)
		}
		if got := s.Top(1); !slices.Equal(got, want[:1]) || s.Estimate(4) != 0 {
			t.Errorf("%s: %v, want %v; key 4 is %d", k.name, got, want[:1], s.Estimate(4))
		}
	}
}

// TestOracle: on one stream CountMin is nowhere above the count-min sketch of BoomFilters of the
// same error and certainty by more than the bound, and both keep the ten heaviest keys.
func TestOracle(t *testing.T) {
	const n = 200_000
	source, err := keys.Zipf(1, 100_000, 1.1)
	if err != nil {
		t.Fatal(err)
	}
	theirs, top := boom.NewCountMinSketch(0.001, 0.001), boom.NewTopK(0.001, 0.001, 10)
	ours := sketch.NewCountMin(2719, 7, 1000)
	counts := map[uint64]uint64{}
	for i := range uint64(n) {
		key := source.At(i)
		name := fmt.Append(nil, key)
		theirs.Add(name)
		top.Add(name)
		ours.Add(key)
		counts[key]++
	}
	worse := 0
	for key, count := range counts {
		got, oracle := ours.Estimate(key), theirs.Count(fmt.Append(nil, key))
		if got < count || oracle < count {
			t.Fatalf("key %d: ours %d, theirs %d, truly %d", key, got, oracle, count)
		}
		if got > oracle {
			worse++
		}
	}
	if worse > len(counts)/10 {
		t.Errorf("of %d keys %d have a worse estimate than that of BoomFilters", len(counts), worse)
	}
	kept := map[string]bool{}
	for _, e := range top.Elements() {
		kept[string(e.Data)] = true
	}
	for _, it := range ours.Top(10) {
		if !kept[fmt.Sprint(it.Key)] {
			t.Errorf("key %d is among our ten, and not among those of BoomFilters", it.Key)
		}
	}
}

// TestFlat: the size does not depend on the stream, and adding allocates nothing.
func TestFlat(t *testing.T) {
	for _, k := range kinds()[1:] { // a map grows
		s := k.make()
		before := s.Bytes()
		random := rand.New(rand.NewPCG(1, 2))
		if allocs := testing.AllocsPerRun(50_000, func() { s.Add(random.Uint64N(5000)) }); allocs != 0 {
			t.Errorf("%s allocates %v times an event", k.name, allocs)
		}
		if s.Bytes() != before {
			t.Errorf("%s grew from %d to %d bytes", k.name, before, s.Bytes())
		}
	}
}

// TestUnlike: sketches of different sizes are not merged.
func TestUnlike(t *testing.T) {
	for _, err := range []error{
		sketch.NewMisraGries(3).Merge(sketch.NewMisraGries(4)),
		sketch.NewSpaceSaving(3).Merge(sketch.NewSpaceSaving(4)),
		sketch.NewCountMin(8, 2, 3).Merge(sketch.NewCountMin(16, 2, 3)),
		sketch.NewCountMin(8, 2, 3).Merge(sketch.NewCountMin(8, 3, 3)),
		sketch.NewCountMin(8, 2, 3).Merge(sketch.NewCountMin(8, 2, 4)),
		sketch.NewHeavyKeeper(8, 2, 3).Merge(sketch.NewHeavyKeeper(16, 2, 3)),
		sketch.NewHeavyKeeper(8, 2, 3).Merge(sketch.NewHeavyKeeper(8, 3, 3)),
		sketch.NewHeavyKeeper(8, 2, 3).Merge(sketch.NewHeavyKeeper(8, 2, 4)),
	} {
		if !errors.Is(err, sketch.ErrUnlike) {
			t.Errorf("merging gave %v", err)
		}
	}
}

// TestMorris: counters are within six standard errors of the truth, and so are merged ones.
func TestMorris(t *testing.T) {
	const six = 6 * sketch.MorrisError
	whole, parts := 0., 0.
	const runs = 40
	for seed := range uint64(runs) {
		one, sum := sketch.NewMorris(seed), sketch.NewMorris(seed+1000)
		n := 0
		for part := range 5 {
			other := sketch.NewMorris(seed*100 + uint64(part) + 2000)
			for range 20_000 * (part + 1) {
				one.Add()
				other.Add()
				n++
			}
			sum.Merge(other)
		}
		a, b := float64(one.Estimate())/float64(n)-1, float64(sum.Estimate())/float64(n)-1
		if math.Abs(a) > six || math.Abs(b) > six {
			t.Errorf("seed %d: off by %.3f, merged by %.3f", seed, a, b)
		}
		whole, parts = whole+a, parts+b
	}
	if most := 4 * sketch.MorrisError / math.Sqrt(runs); math.Abs(whole/runs) > most ||
		math.Abs(parts/runs) > most {
		t.Errorf("off by %.4f on average, merged by %.4f", whole/runs, parts/runs)
	}
}
