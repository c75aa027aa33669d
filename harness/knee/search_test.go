package knee_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"stampede/harness/knee"
)

func usual() knee.Plan {
	return knee.Plan{FromPerS: 100, LeastPerS: 10, MostPerS: 50_000, Precision: 0.1, Repeats: 3,
		Again: 1, Windows: 40}
}

// step holds up to a rate and misses above it.
func step(at float64) knee.Try {
	return func(_ context.Context, rate float64) (knee.Window, error) {
		if rate <= at {
			return knee.Window{Verdict: knee.Held, P50NS: 1, P99NS: int64(rate)}, nil
		}
		return knee.Window{Verdict: knee.Missed, Reasons: []string{"too slow"}}, nil
	}
}

// scripted answers with the verdicts of each rate in turn, the last one for
// ever; a rate that is not there holds if it is below the first that is.
func scripted(script map[float64][]knee.Verdict) knee.Try {
	calls := map[float64]int{}
	return func(_ context.Context, rate float64) (knee.Window, error) {
		list, ok := script[rate]
		if !ok {
			return knee.Window{}, fmt.Errorf("nobody expected %v/s", rate)
		}
		i := min(calls[rate], len(list)-1)
		calls[rate]++
		return knee.Window{Verdict: list[i], Reasons: []string{"it " + string(list[i])}}, nil
	}
}

// path lists what was tried: "100 held bracket".
func path(r knee.Result) (list []string) {
	for _, w := range r.Windows {
		list = append(list, fmt.Sprintf("%v %s %s", w.RatePerS, w.Step, w.Verdict))
	}
	return list
}

func TestSearchFindsAStep(t *testing.T) {
	r, err := knee.Search(t.Context(), usual(), step(700))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"100 bracket held", "200 bracket held", "400 bracket held", "800 bracket missed",
		"800 bracket missed", "566 bisect held", "673 bisect held", "734 bisect missed",
		"734 bisect missed", "673 confirm held", "673 confirm held", "673 confirm held",
	}
	if got := path(r); !slices.Equal(got, want) {
		t.Errorf("it tried\n%s", strings.Join(got, "\n"))
	}
	if r.Outcome != knee.Found || r.RatePerS != 673 || r.AbovePerS != 734 || r.P99NS != 673 ||
		!slices.Equal(r.Above, []string{"too slow"}) || len(r.Notes) > 0 {
		t.Errorf("%+v", r)
	}
}

// TestANoisyMiss: a confirmation that misses while the machine interferes is tried again,
// and a bound that only failed so is approximate.
func TestANoisyMiss(t *testing.T) {
	p := knee.Plan{FromPerS: 100, LeastPerS: 50, MostPerS: 400, Precision: 1, Repeats: 2,
		Again: 0, Windows: 12}
	for name, c := range map[string]struct {
		noisy       bool
		approximate bool
		rate        float64
	}{
		"on a noisy machine": {true, true, 100},
		"on a quiet one":     {false, false, 50},
	} {
		inner := scripted(map[float64][]knee.Verdict{50: {knee.Held},
			100: {knee.Held, knee.Missed, knee.Held}, 200: {knee.Missed}})
		try := func(ctx context.Context, rate float64) (knee.Window, error) {
			w, err := inner(ctx, rate)
			w.Noisy = c.noisy
			return w, err
		}
		r, err := knee.Search(t.Context(), p, try)
		if err != nil || r.Outcome != knee.Found || r.RatePerS != c.rate ||
			r.Approximate != c.approximate {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}

func TestSearchOutcomes(t *testing.T) {
	const held, missed, broke, open = knee.Held, knee.Missed, knee.Broke, knee.Undecided
	small := knee.Plan{FromPerS: 100, LeastPerS: 50, MostPerS: 400, Precision: 1, Repeats: 2,
		Again: 1, Windows: 12}
	for name, c := range map[string]struct {
		script map[float64][]knee.Verdict
		want   knee.Outcome
		rate   float64
		above  float64
		tried  int
		note   string
	}{
		"up to the limit": {map[float64][]knee.Verdict{100: {held}, 200: {held}, 400: {held}},
			knee.Beyond, 400, 0, 5, ""},
		"nowhere": {map[float64][]knee.Verdict{100: {missed}, 50: {missed}},
			knee.Nowhere, 0, 50, 4, ""},
		"nowhere, and it broke": {map[float64][]knee.Verdict{100: {missed}, 50: {broke}},
			knee.Nowhere, 0, 50, 3, ""},
		"broke once is enough": {map[float64][]knee.Verdict{100: {held}, 200: {broke}},
			knee.Found, 100, 200, 4, ""},
		"missed once is not": {map[float64][]knee.Verdict{100: {held}, 200: {missed, held},
			400: {missed}}, knee.Found, 200, 400, 7, "200/s held in 3 of 4 windows and failed in 1"},
		"not decided above": {map[float64][]knee.Verdict{100: {held}, 200: {open}},
			knee.Between, 100, 200, 5, ""},
		"decided the second time": {map[float64][]knee.Verdict{100: {held}, 200: {open, held},
			400: {missed}}, knee.Found, 200, 400, 7, ""},
		"missed once, then not decided": {map[float64][]knee.Verdict{100: {held},
			200: {missed, open}}, knee.Between, 100, 200, 6, ""},
		"nothing decided": {map[float64][]knee.Verdict{100: {open}, 50: {open}},
			knee.NotDecided, 0, 50, 4, ""},
		"failed its confirmation": {map[float64][]knee.Verdict{100: {held},
			200: {held, held, missed}, 400: {missed}}, knee.Found, 100, 200, 8,
			"200/s held in 2 of 3 windows and failed in 1"},
		"failed all confirmations": {map[float64][]knee.Verdict{100: {held, missed},
			200: {missed}, 50: {held, broke}}, knee.Nowhere, 0, 50, 6,
			"50/s held in 1 of 2 windows and failed in 1"},
		"confirmed the second time": {map[float64][]knee.Verdict{100: {held, open, held},
			200: {missed}}, knee.Found, 100, 200, 6, ""},
		"confirmation not decided": {map[float64][]knee.Verdict{100: {held, open},
			200: {missed}, 50: {held}}, knee.Between, 50, 100, 8, ""},
		"a rate that failed under one that held": {map[float64][]knee.Verdict{100: {held},
			200: {held, missed}, 400: {held, missed}}, knee.Found, 100, 200, 7,
			"200/s held in 1 of 2 windows and failed in 1"},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := knee.Search(t.Context(), small, scripted(c.script))
			if err != nil {
				t.Fatal(err)
			}
			if r.Outcome != c.want || r.RatePerS != c.rate || r.AbovePerS != c.above ||
				len(r.Windows) != c.tried {
				t.Errorf("%s at %v/s, above %v/s, after\n%s", r.Outcome, r.RatePerS, r.AbovePerS,
					strings.Join(path(r), "\n"))
			}
			if (c.note != "") != (len(r.Notes) > 0) || c.note != "" && !slices.Contains(r.Notes, c.note) {
				t.Errorf("notes: %q, want %q", r.Notes, c.note)
			}
		})
	}
}

// A design that holds at a high rate and fails at a lower one is not given the
// high one, and it is said.
func TestSearchTellsWhatIsNotMonotone(t *testing.T) {
	const held, missed = knee.Held, knee.Missed
	r, err := knee.Search(t.Context(), usual(), scripted(map[float64][]knee.Verdict{100: {held},
		200: {held, missed}, 400: {missed}, 283: {missed}, 238: {missed}, 218: {missed},
		141: {missed}, 119: {held}, 130: {held}}))
	if err != nil {
		t.Fatal(err)
	}
	note := "200/s held in a window although 141/s failed: no single rate separates the two, and " +
		"the answer is below both"
	if r.Outcome != knee.Found || r.RatePerS != 130 || r.AbovePerS != 141 ||
		!slices.Contains(r.Notes, note) {
		t.Errorf("%s at %v/s, notes %q, after\n%s", r.Outcome, r.RatePerS, r.Notes,
			strings.Join(path(r), "\n"))
	}
}

func TestSearchStops(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	inner := step(700)
	r, err := knee.Search(ctx, usual(), func(ctx context.Context, rate float64) (knee.Window, error) {
		if rate == 400 {
			cancel()
			return knee.Window{}, ctx.Err()
		}
		return inner(ctx, rate)
	})
	if err != nil || r.Outcome != knee.Stopped || r.RatePerS != 0 || r.HeldOncePerS != 200 ||
		len(r.Windows) != 2 {
		t.Errorf("stopped: %+v, %v", r, err)
	}
	broken := errors.New("no store")
	fails := func(ctx context.Context, rate float64) (knee.Window, error) {
		if rate == 400 {
			return knee.Window{}, broken
		}
		return inner(ctx, rate)
	}
	r, err = knee.Search(t.Context(), usual(), fails)
	if !errors.Is(err, broken) || r.Outcome != knee.Stopped || len(r.Windows) != 2 {
		t.Errorf("failed: %+v, %v", r, err)
	}
}

func TestPlanValidate(t *testing.T) {
	if err := usual().Validate(); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*knee.Plan){
		"no lowest rate":   func(p *knee.Plan) { p.LeastPerS = 0 },
		"endless":          func(p *knee.Plan) { p.MostPerS = math.Inf(1) },
		"no rate":          func(p *knee.Plan) { p.MostPerS = math.NaN() },
		"upside down":      func(p *knee.Plan) { p.MostPerS = 5 },
		"starts too low":   func(p *knee.Plan) { p.FromPerS = 5 },
		"starts too high":  func(p *knee.Plan) { p.FromPerS = 1e6 },
		"starts nowhere":   func(p *knee.Plan) { p.FromPerS = math.NaN() },
		"too precise":      func(p *knee.Plan) { p.Precision = 0.001 },
		"not precise":      func(p *knee.Plan) { p.Precision = 2 },
		"no confirmation":  func(p *knee.Plan) { p.Repeats = 0 },
		"never tried":      func(p *knee.Plan) { p.Again = -1 },
		"too few windows":  func(p *knee.Plan) { p.Windows = 3 },
		"precision is NaN": func(p *knee.Plan) { p.Precision = math.NaN() },
	} {
		p := usual()
		change(&p)
		if err := p.Validate(); err == nil {
			t.Errorf("%s: no error", name)
		}
		if _, err := knee.Search(t.Context(), p, step(700)); err == nil {
			t.Errorf("%s: a search began", name)
		}
	}
}

func TestRounded(t *testing.T) {
	for rate, want := range map[float64]float64{
		1: 1, 12.345: 12.3, 0.012345: 0.0123, 1234: 1230, 99_999: 100_000, 565.685: 566,
	} {
		if got := knee.Rounded(rate); got != want {
			t.Errorf("%v: got %v, want %v", rate, got, want)
		}
	}
}

func drawPlan(t *rapid.T) knee.Plan {
	p := knee.Plan{
		LeastPerS: rapid.Float64Range(0.5, 100).Draw(t, "least"),
		Precision: rapid.Float64Range(0.01, 1).Draw(t, "precision"),
		Repeats:   rapid.IntRange(1, 5).Draw(t, "repeats"),
		Again:     rapid.IntRange(0, 3).Draw(t, "again"),
		Windows:   80,
	}
	p.MostPerS = p.LeastPerS * rapid.Float64Range(1, 5000).Draw(t, "most")
	p.FromPerS = rapid.Float64Range(p.LeastPerS, p.MostPerS).Draw(t, "from")
	return p
}

// TestSearchAnswersAStep: whatever the plan, the answer for a design with one
// sharp knee is right, and within the precision.
func TestSearchAnswersAStep(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPlan(t)
		at := p.LeastPerS * math.Pow(p.MostPerS/p.LeastPerS,
			rapid.Float64Range(-0.2, 1.2).Draw(t, "knee"))
		r, err := knee.Search(context.Background(), p, step(at))
		if err != nil {
			t.Fatal(err)
		}
		var right bool
		switch r.Outcome {
		case knee.Found:
			right = r.RatePerS <= at && r.AbovePerS > at && r.AbovePerS <= r.RatePerS*(1+p.Precision)
		case knee.Beyond:
			right = at >= p.MostPerS && r.RatePerS == p.MostPerS
		case knee.Nowhere:
			right = at < p.LeastPerS && r.RatePerS == 0
		}
		if !right || len(r.Notes) > 0 {
			t.Fatalf("the knee is at %v: %s at %v, above %v, notes %q", at, r.Outcome, r.RatePerS,
				r.AbovePerS, r.Notes)
		}
	})
}

// TestSearchNeverPraisesWhatFailed: whatever the windows say, the answer was
// confirmed as often as it should be and never failed in a confirmation, what is
// said to be above it did not hold, and the windows are bounded.
func TestSearchNeverPraisesWhatFailed(t *testing.T) {
	verdicts := []knee.Verdict{knee.Held, knee.Held, knee.Held, knee.Missed, knee.Broke,
		knee.Undecided}
	rapid.Check(t, func(t *rapid.T) {
		p := drawPlan(t)
		p.Windows = rapid.IntRange(p.Repeats+1, 60).Draw(t, "windows")
		at := rapid.Float64Range(p.LeastPerS, p.MostPerS).Draw(t, "knee")
		noise := rapid.SampledFrom(verdicts)
		calls := 0
		r, err := knee.Search(context.Background(), p,
			func(ctx context.Context, rate float64) (knee.Window, error) {
				calls++
				if rapid.IntRange(0, 2).Draw(t, "noisy") == 0 {
					return knee.Window{Verdict: noise.Draw(t, "verdict")}, nil
				}
				return step(at)(ctx, rate)
			})
		if err != nil || calls > p.Windows || calls != len(r.Windows) {
			t.Fatalf("%d windows of %d, %d told: %v", calls, p.Windows, len(r.Windows), err)
		}
		judge(t, p, r)
	})
}

func judge(t *rapid.T, p knee.Plan, r knee.Result) {
	confirmed, above, inRange := 0, 0, true
	for _, w := range r.Windows {
		inRange = inRange && w.RatePerS >= p.LeastPerS && w.RatePerS <= p.MostPerS
		switch {
		case w.RatePerS == r.RatePerS && w.Step == knee.Confirm && w.Verdict == knee.Held:
			confirmed++
		case w.RatePerS == r.RatePerS && (w.Step == knee.Confirm && w.Verdict != knee.Undecided ||
			w.Verdict == knee.Broke):
			t.Fatalf("%v/s is the answer although it %s", w.RatePerS, w.Verdict)
		case w.RatePerS == r.AbovePerS && w.Verdict != knee.Held:
			above++
		}
	}
	if !inRange {
		t.Fatalf("a rate is out of range: %v", path(r))
	}
	if r.RatePerS > 0 && confirmed != p.Repeats {
		t.Fatalf("%v/s was confirmed %d times of %d", r.RatePerS, confirmed, p.Repeats)
	}
	if r.Outcome == knee.Found && (r.RatePerS == 0 || above == 0 || r.AbovePerS <= r.RatePerS ||
		r.AbovePerS > r.RatePerS*(1+p.Precision)) {
		t.Fatalf("found %v/s, below %v/s which did not hold %d times", r.RatePerS, r.AbovePerS, above)
	}
	if r.Outcome == knee.Between && (r.RatePerS == 0 || above == 0 || r.AbovePerS <= r.RatePerS) {
		t.Fatalf("between %v/s and %v/s, which did not hold %d times", r.RatePerS, r.AbovePerS, above)
	}
	answered := []knee.Outcome{knee.Found, knee.Between, knee.Beyond}
	if slices.Contains(answered, r.Outcome) != (r.RatePerS > 0) && r.Outcome != knee.NotDecided {
		t.Fatalf("%s at %v/s", r.Outcome, r.RatePerS)
	}
}
