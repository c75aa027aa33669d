package arrival

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// anyShape draws a rate as a function of time.
func anyShape(t *rapid.T) shape {
	rate := func(name string) float64 { return rapid.Float64Range(0, 1e6).Draw(t, name) }
	length := func(name string) time.Duration {
		return time.Duration(rapid.Int64Range(1e6, 1e12).Draw(t, name))
	}
	var s shape
	var err error
	if rapid.Bool().Draw(t, "sine") {
		mean := rate("mean") + 1
		swing := rapid.SampledFrom([]float64{0, 0.5, 1}).Draw(t, "swing")
		s, err = newSine(mean, mean*(1+swing), length("period"), length("over"))
	} else {
		parts := []segment{{rate("from") + 1, rate("to"), length("for")}}
		for range rapid.IntRange(0, 3).Draw(t, "more") {
			from := rapid.SampledFrom([]float64{0, 10, 1e5}).Draw(t, "from")
			parts = append(parts, segment{from, rate("to"), length("for")})
		}
		s, err = newLines(parts...)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The inverse is the integral's: at the time that it gives for n operations,
// the integral is n, to within what a nanosecond there adds.
func TestInverseOfIntegral(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := anyShape(t)
		total := s.count(s.over().Seconds())
		n := rapid.Float64Range(0, 1).Draw(t, "share") * total
		x := s.inverse(n)
		if !(x >= 0 && x <= s.over().Seconds()*(1+1e-9)+1e-9) {
			t.Fatalf("%g of %g operations at %g s of %s", n, total, x, s.over())
		}
		slack := 1e-9*s.rate(math.Min(x, s.over().Seconds())) + 1e-9*total + 1e-9
		if got := s.count(x); math.Abs(got-n) > slack {
			t.Fatalf("at %g s the integral is %.12g, want %.12g", x, got, n)
		}
	})
}

// The integral is compared with Simpson's rule over a small step, which never
// crosses a change of segment: it is exact for straight lines.
func TestIntegralOfRate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := anyShape(t)
		begin, over := 0.0, s.over().Seconds()
		step := over * 1e-4
		switch s := s.(type) {
		case *sine:
			step = math.Min(step, s.period/100)
		case *lines:
			i := rapid.IntRange(0, len(s.parts)-1).Draw(t, "part")
			begin, over = s.begin[i], s.parts[i].over.Seconds()
			step = over * 1e-2
		}
		x := begin + rapid.Float64Range(0, 0.98).Draw(t, "from")*over
		got := s.count(x+step) - s.count(x)
		want := step / 6 * (s.rate(x) + 4*s.rate(x+step/2) + s.rate(x+step))
		if math.Abs(got-want) > 1e-6*want+1e-9*s.count(x+step)+1e-9 {
			t.Fatalf("from %g for %g s: %.12g operations, want %.12g", x, step, got, want)
		}
	})
}

// Where the rate is zero at the very moment, the formula would divide 0 by 0.
func TestInverseWhereTheRateIsZero(t *testing.T) {
	l, err := newLines(segment{0, 10, time.Second}, segment{10, 0, time.Second},
		segment{0, 10, time.Second})
	if err != nil {
		t.Fatal(err)
	}
	for n, want := range map[float64]float64{0: 0, 5: 1, 10: 2, 15: 3} {
		if got := l.inverse(n); got != want {
			t.Errorf("%g operations are reached at %g s, want %g", n, got, want)
		}
	}
}
