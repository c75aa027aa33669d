package stats_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"stampede/harness/rundir"
	"stampede/harness/stats"
)

func near(t *testing.T, name string, got, want, within float64) {
	t.Helper()
	if math.Abs(got-want) > within {
		t.Errorf("%s = %v, want %v ± %v", name, got, want, within)
	}
}

func upTo(n int, offset float64) []float64 {
	values := make([]float64, n)
	for i := range values {
		values[i] = offset + float64(i)
	}
	return values
}

// The smallest p that n values a side can give is 2/C(2n,n).
func TestMannWhitneySmallestP(t *testing.T) {
	for n, want := range map[int]float64{3: 0.1, 4: 0.0286, 5: 0.0079, 6: 0.0022} {
		if p := stats.MannWhitney(upTo(n, 0), upTo(n, 1000)); math.Round(p*1e4)/1e4 != want {
			t.Errorf("n = %d: p = %v, want %v", n, p, want)
		}
	}
	near(t, "n = 20", stats.MannWhitney(upTo(20, 0), upTo(20, 100)), 2/137846528820.0, 1e-20)
}

func TestMannWhitneyVectors(t *testing.T) {
	inf := math.Inf(1)
	tests := []struct {
		name string
		a, b []float64
		want float64
	}{
		// Counted by hand: rank sums of 2 out of 5 are 3..9, mean 6.
		{"one pair out of order", []float64{1, 3}, []float64{2, 4, 5}, 4.0 / 10},
		{"no difference possible", []float64{1, 4}, []float64{2, 3}, 1},
		{"all equal", []float64{7, 7, 7, 7}, []float64{7, 7, 7, 7}, 1},
		// Pool 1,1,2,2 has mid-ranks 1.5,1.5,3.5,3.5; of 6 deals 2 are extreme.
		{"ties", []float64{1, 1}, []float64{2, 2}, 2.0 / 6},
		// Mid-ranks 1, 2.5, 2.5, 4: sums 3.5 ×2, 5 ×2, 6.5 ×2.
		{"tie across the sides", []float64{1, 2}, []float64{2, 3}, 4.0 / 6},
		{"infinite values tie", []float64{1, 1, 1, 1}, []float64{inf, inf, inf, inf}, 2.0 / 70},
		{"empty", nil, []float64{1}, 1},
	}
	for _, tt := range tests {
		near(t, tt.name, stats.MannWhitney(tt.a, tt.b), tt.want, 1e-12)
	}
}

// bruteForce deals the pool in every way.
func bruteForce(a, b []float64) float64 {
	pool := append(append([]float64{}, a...), b...)
	rank := func(x float64) float64 {
		less, equal := 0, 0
		for _, y := range pool {
			if y < x {
				less++
			} else if y == x {
				equal++
			}
		}
		return float64(less) + float64(equal+1)/2
	}
	mean := float64(len(a)) * float64(len(pool)+1) / 2
	sum := func(mask uint) (s float64) {
		for i, x := range pool {
			if mask>>i&1 == 1 {
				s += rank(x)
			}
		}
		return s
	}
	far := math.Abs(sum(1<<len(a)-1) - mean)
	extreme, total := 0, 0
	for mask := range uint(1) << len(pool) {
		ones := 0
		for i := range pool {
			ones += int(mask >> i & 1)
		}
		if ones != len(a) {
			continue
		}
		total++
		if math.Abs(sum(mask)-mean) >= far-1e-9 {
			extreme++
		}
	}
	return float64(extreme) / float64(total)
}

func TestMannWhitneyAgainstBruteForce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.Map(rapid.IntRange(0, 6), func(i int) float64 { return float64(i) })
		a := rapid.SliceOfN(value, 1, 5).Draw(t, "a")
		b := rapid.SliceOfN(value, 1, 5).Draw(t, "b")
		got, want := stats.MannWhitney(a, b), bruteForce(a, b)
		if math.Abs(got-want) > 1e-12 {
			t.Fatalf("p = %v, brute force %v", got, want)
		}
		if swapped := stats.MannWhitney(b, a); math.Abs(got-swapped) > 1e-12 {
			t.Fatalf("p = %v, with the sides swapped %v", got, swapped)
		}
	})
}

func TestHolm(t *testing.T) {
	// The worked example of R's p.adjust(c(0.01, 0.04, 0.03), "holm").
	got := stats.Holm([]float64{0.01, 0.04, 0.03})
	for i, want := range []float64{0.03, 0.06, 0.06} {
		near(t, "adjusted", got[i], want, 1e-12)
	}
	if got := stats.Holm([]float64{0.6, 0.7}); got[0] != 1 || got[1] != 1 {
		t.Errorf("adjusted p above 1: %v", got)
	}
	if got := stats.Holm(nil); len(got) != 0 {
		t.Errorf("Holm(nil) = %v", got)
	}
}

func TestHolmNeverBelowP(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.SliceOf(rapid.Float64Range(0, 1)).Draw(t, "p")
		for i, adjusted := range stats.Holm(p) {
			if adjusted < p[i] || adjusted > 1 {
				t.Fatalf("p[%d] = %v became %v", i, p[i], adjusted)
			}
		}
	})
}

func TestMedian(t *testing.T) {
	if got := stats.Median([]float64{9, 1, 5}); got != 5 {
		t.Errorf("odd: %v", got)
	}
	if got := stats.Median([]float64{4, 1, 3, 2}); got != 2.5 {
		t.Errorf("even: %v", got)
	}
	if !math.IsNaN(stats.Median(nil)) {
		t.Error("the median of nothing is a number")
	}
}

func TestRatioInterval(t *testing.T) {
	base := []float64{100, 101, 99, 100, 102, 98}
	double := []float64{200, 202, 198, 200, 204, 196}
	got, ok := stats.RatioInterval(base, double, rand.New(rand.NewPCG(1, 2)))
	if !ok || got[0] > 2 || got[1] < 2 || got[1]-got[0] > 0.1 {
		t.Errorf("interval of an exact doubling = %v, %v", got, ok)
	}
	again, _ := stats.RatioInterval(base, double, rand.New(rand.NewPCG(1, 2)))
	if got != again {
		t.Errorf("the same seed gave %v and %v", got, again)
	}
	infinite := []float64{1, math.Inf(1), 1, 1, 1, 1}
	if got, ok := stats.RatioInterval(infinite, base, rand.New(rand.NewPCG(1, 2))); ok {
		t.Errorf("interval %v from infinite values", got)
	}
}

// The interval must contain the true ratio about as often as it says. With
// six values a side the percentile bootstrap is known to fall short; a wrong
// percentile or a swapped side would fall far below.
func TestRatioIntervalCoverage(t *testing.T) {
	if testing.Short() {
		t.Skip("200 bootstraps")
	}
	rng := rand.New(rand.NewPCG(7, 7))
	sample := func(scale float64) []float64 {
		values := make([]float64, 6)
		for i := range values {
			values[i] = scale * math.Exp(rng.NormFloat64()/10)
		}
		return values
	}
	covered := 0
	for range 200 {
		got, ok := stats.RatioInterval(sample(10), sample(15), rng)
		if ok && got[0] <= 1.5 && 1.5 <= got[1] {
			covered++
		}
	}
	if covered < 170 {
		t.Errorf("a 95 %% interval held the truth in %d of 200 samples", covered)
	}
}

// variant makes a variant of one kind with one repeat per value.
func variant(name string, p99 ...int64) rundir.Variant {
	v := rundir.Variant{Name: name, Timing: rundir.Clean,
		Operations: []rundir.Operation{{Kind: "buy"}}}
	for i, ns := range p99 {
		response := rundir.Percentiles{Count: 1000, P50: 1000 + int64(i), P99: ns, Max: ns}
		v.Repeats = append(v.Repeats, rundir.Repeat{
			Index: i, Used: true, Timing: rundir.Clean, ThroughputPerS: 500 + float64(i),
			Operations: []rundir.Operation{{Kind: "buy",
				Latency: rundir.Latencies{Response: response}}},
		})
	}
	return v
}

func find(t *testing.T, all []rundir.Comparison, candidate, metric string) rundir.Comparison {
	t.Helper()
	for _, c := range all {
		if c.Candidate == candidate && c.Metric == metric {
			return c
		}
	}
	t.Fatalf("no comparison of %s of %s in %+v", metric, candidate, all)
	return rundir.Comparison{}
}

func TestComparisons(t *testing.T) {
	all := stats.Comparisons([]rundir.Variant{
		variant("base", 100, 101, 102, 103, 104, 105),
		variant("slow", 200, 202, 204, 206, 208, 210),
		variant("same", 100, 101, 102, 103, 104, 105),
	}, "base", 1, nil)
	if len(all) != 6 {
		t.Fatalf("%d comparisons, want 2 variants × 3 metrics", len(all))
	}
	slow := find(t, all, "slow", "p99")
	near(t, "ratio", slow.Ratio, 2, 1e-9)
	near(t, "p", *slow.PExact, 2.0/924, 1e-9)
	near(t, "corrected p", *slow.PHolm, 3*2.0/924, 1e-9)
	if !slow.Significant || !slow.Large || slow.CI95 == nil || slow.N != 6 || slow.Note != "" {
		t.Errorf("a clear doubling: %+v", slow)
	}
	same := find(t, all, "same", "p99")
	if same.Significant || same.Large || *same.PExact != 1 {
		t.Errorf("equal numbers: %+v", same)
	}
}

// TestNoiseFloor: a ratio without a test counts only beyond the noise floor, and one of
// noisy times only if there is one.
func TestNoiseFloor(t *testing.T) {
	noisy := func(v rundir.Variant) rundir.Variant {
		v.Timing = rundir.Noisy
		return v
	}
	floor := &rundir.NoiseFloor{P50: 1.2, P99: 1.6}
	base, tested := variant("base", 100), variant("base", 100, 101, 102, 103, 104, 105)
	for name, test := range map[string]struct {
		base, other rundir.Variant
		floor       *rundir.NoiseFloor
		ratio       float64
		approximate bool
	}{
		"clean, without a floor":  {base, variant("x", 150), nil, 1.5, false},
		"clean, beyond the floor": {base, variant("x", 170), floor, 1.7, false},
		"clean, within the floor": {base, variant("x", 150), floor, 0, false},
		"faster than the floor":   {base, variant("x", 50), floor, 0.5, false},
		"noisy, beyond the floor": {base, noisy(variant("x", 170)), floor, 1.7, true},
		"noisy, within the floor": {noisy(base), variant("x", 150), floor, 0, true},
		"noisy, without a floor":  {noisy(base), variant("x", 900), nil, 0, true},
		"beyond the floor of p99": {base, variant("x", 170), &rundir.NoiseFloor{P50: 9, P99: 1.6},
			1.7, false},
		"within what luck hides": {base, variant("x", 104), &rundir.NoiseFloor{P50: 1, P99: 1}, 0,
			false},
		"beyond what luck hides": {base, variant("x", 106), &rundir.NoiseFloor{P50: 1, P99: 1}, 1.06,
			false},
		"tested, within the floor": {tested, tested, floor, 1, false},
	} {
		test.other.Name = "x"
		c := find(t, stats.Comparisons([]rundir.Variant{test.base, test.other}, "base", 1, test.floor),
			"x", "p99")
		if math.Abs(c.Ratio-test.ratio) > 1e-9 || c.Approximate != test.approximate ||
			test.approximate && c.PExact != nil {
			t.Errorf("%s: %+v, want %v", name, c, test.ratio)
		}
	}
}

func TestComparisonsSayWhatIsMissing(t *testing.T) {
	tests := []struct {
		name     string
		repeats  int
		p, ci    bool
		wantNote string
	}{
		{"one", 1, false, false, "1 repeat a side: a p-value needs 4, an interval 6"},
		{"three", 3, false, false, "3 repeats a side: a p-value needs 4, an interval 6"},
		{"four", 4, true, false, "4 repeats a side: an interval needs 6"},
		{"six", 6, true, true, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			values := []int64{10, 11, 12, 13, 14, 15}[:tt.repeats]
			all := stats.Comparisons([]rundir.Variant{
				variant("base", values...), variant("other", values...)}, "base", 1, nil)
			c := find(t, all, "other", "p99")
			if (c.PExact != nil) != tt.p || (c.CI95 != nil) != tt.ci || c.Note != tt.wantNote {
				t.Errorf("%+v", c)
			}
		})
	}
}

func TestComparisonsOfInfinitePercentiles(t *testing.T) {
	inf := rundir.Infinite
	all := stats.Comparisons([]rundir.Variant{
		variant("base", 100, 101, 102, 103, 104, 105),
		variant("dropping", inf, inf, inf, inf, inf, inf),
	}, "base", 1, nil)
	c := find(t, all, "dropping", "p99")
	if c.Ratio != 0 || !c.Large || !c.Significant || c.CI95 != nil || c.Note == "" {
		t.Errorf("%+v", c)
	}
}

func TestComparisonsLeaveOutUnfinishedRepeats(t *testing.T) {
	broken := variant("broken", 100, 200)
	broken.Repeats[1].Error = "store died"
	empty := variant("empty", 100)
	empty.Repeats[0].Operations[0].Latency.Response.Count = 0
	variants := []rundir.Variant{variant("base", 100, 100), broken, empty}
	all := stats.Comparisons(variants, "base", 1, nil)
	if c := find(t, all, "broken", "p99"); c.N != 1 || c.Ratio != 1 {
		t.Errorf("a failed repeat was counted: %+v", c)
	}
	if c := find(t, all, "empty", "p99"); c.N != 0 || c.Note == "" {
		t.Errorf("no operations: %+v", c)
	}
	if got := stats.Comparisons([]rundir.Variant{broken}, "absent", 1, nil); got != nil {
		t.Errorf("comparisons without a baseline: %+v", got)
	}
}

// TestComparisonsOfSuccesses: where a design refused operations, which is quick, designs are
// compared by what they did, if that is known of each.
func TestComparisonsOfSuccesses(t *testing.T) {
	refusing := func(name string, successful int64) rundir.Variant {
		v := variant(name, 100)
		v.Operations[0].Load = rundir.Load{Scheduled: 10, OK: 4, Refused: 6}
		p := rundir.Percentiles{Count: 4, P50: successful, P99: successful}
		v.Operations[0].Successful, v.Repeats[0].Operations[0].Successful = &p, &p
		return v
	}
	base := refusing("base", 1000)
	ratio := func(list ...rundir.Variant) float64 {
		return find(t, stats.Comparisons(list, "base", 1, nil), list[len(list)-1].Name, "p99").Ratio
	}
	if got := ratio(base, refusing("quick", 500)); got != 0.5 {
		t.Errorf("of successful operations the ratio is %v", got)
	}
	unknown := refusing("unknown", 500)
	unknown.Operations[0].Successful = nil
	if got := ratio(base, unknown); got != 1 {
		t.Errorf("one does not say, and of all operations the ratio is %v", got)
	}
	if stats.OfSuccesses([]rundir.Variant{variant("none refused", 100)}) {
		t.Error("nobody refused anything")
	}
}

func TestIntervalIndependentOfOtherVariants(t *testing.T) {
	base := variant("base", 100, 111, 102, 133, 104, 125)
	a := variant("a", 150, 141, 162, 153, 174, 165)
	b := variant("b", 250, 241, 262, 253, 274, 265)
	alone := stats.Comparisons([]rundir.Variant{base, b}, "base", 9, nil)
	both := stats.Comparisons([]rundir.Variant{a, base, b}, "base", 9, nil)
	if x, y := *find(t, alone, "b", "p99").CI95, *find(t, both, "b", "p99").CI95; x != y {
		t.Errorf("interval %v alone, %v beside another variant", x, y)
	}
}

func TestWhatCanBeShown(t *testing.T) {
	for _, c := range []struct {
		base, candidate, metrics int
		want                     bool
	}{
		{1, 1, 1, false}, {3, 100, 1, false}, {4, 4, 1, true}, {4, 4, 2, false},
		{4, 4, 3, false}, {5, 5, 3, true}, {4, 5, 3, true}, {6, 6, 3, true},
	} {
		if got := stats.CanShow(c.base, c.candidate, c.metrics); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
	if one, three := stats.LeastRepeats(1), stats.LeastRepeats(3); one != 4 || three != 5 {
		t.Errorf("least repeats %d and %d", one, three)
	}
}

func TestWorse(t *testing.T) {
	of := func(metric string, values ...float64) stats.Sample {
		return stats.Sample{Metric: metric, Values: values}
	}
	for _, c := range []struct {
		base, candidate stats.Sample
		want            bool
	}{
		{of("p99", 1, 2, 3), of("p99", 1, 3, 3), true},
		{of("p99", 1, 3, 3), of("p99", 1, 2, 3), false},
		{of("p99", 1), of("p99", math.Inf(1)), true},
		{of("p99", math.Inf(1)), of("p99", 1), false},
		{of("p99"), of("p99", 1), false},
		{of("throughput", 2), of("throughput", 1), true},
		{of("throughput", 1), of("throughput", 2), false},
	} {
		if got := stats.Worse(c.base, c.candidate); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
