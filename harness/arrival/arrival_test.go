package arrival_test

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"stampede/harness/arrival"
)

func must(t interface{ Fatal(...any) }, p arrival.Process, err error) arrival.Process {
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func collect(p arrival.Process, seed uint64) []time.Duration {
	return slices.Collect(p.Times(seed))
}

func TestDueTimes(t *testing.T) {
	ms := func(values ...float64) []time.Duration {
		times := make([]time.Duration, len(values))
		for i, v := range values {
			times[i] = time.Duration(math.Round(v * 1e6))
		}
		return times
	}
	tests := []struct {
		name string
		make func() (arrival.Process, error)
		text string
		want []time.Duration
	}{
		{"constant", func() (arrival.Process, error) {
			return arrival.Constant(10, 500*time.Millisecond)
		}, "constant 10/s over 500ms", ms(0, 100, 200, 300, 400)},
		{"fractional rate", func() (arrival.Process, error) {
			return arrival.Constant(0.5, 5*time.Second)
		}, "constant 0.5/s over 5s", ms(0, 2000, 4000)},
		{"ramp from zero", func() (arrival.Process, error) {
			return arrival.Ramp(0, 8, time.Second) // integral 4x²
		}, "ramp 0/s to 8/s over 1s", ms(0, 500, 1000*math.Sqrt(0.5), 1000*math.Sqrt(0.75))},
		{"ramp to zero", func() (arrival.Process, error) {
			return arrival.Ramp(8, 0, time.Second) // integral 8x-4x²
		}, "ramp 8/s to 0/s over 1s",
			ms(0, 1000*(1-math.Sqrt(0.75)), 1000*(1-math.Sqrt(0.5)), 500)},
		{"steps with a pause", func() (arrival.Process, error) {
			return arrival.Steps([]arrival.Step{{2, time.Second}, {0, time.Second}, {2, time.Second}})
		}, "step 2/s for 1s, 0/s for 1s, 2/s for 1s", ms(0, 500, 2000, 2500)},
		{"spike", func() (arrival.Process, error) {
			return arrival.Spike(1, 4, time.Second, 500*time.Millisecond, 3*time.Second)
		}, "spike 1/s to 4/s at 1s for 500ms, over 3s", ms(0, 1000, 1250, 1500, 2500)},
		{"burst at once", func() (arrival.Process, error) {
			return arrival.Burst(3, 0, 0, arrival.SteepestPeak)
		}, "burst of 3 at once", ms(0, 0, 0)},
		{"burst", func() (arrival.Process, error) {
			return arrival.Burst(4, 0, time.Second, arrival.SteepestPeak)
		}, "burst of 4 over 1s",
			ms(0, 1000*(1-math.Sqrt(0.75)), 1000*(1-math.Sqrt(0.5)), 500)},
		{"thousands", func() (arrival.Process, error) {
			return arrival.Constant(2000, 2*time.Millisecond)
		}, "constant 2,000/s over 2ms", []time.Duration{0, 500 * time.Microsecond,
			time.Millisecond, 1500 * time.Microsecond}},
		{"gentle burst", func() (arrival.Process, error) {
			return arrival.Burst(4, 0, time.Second, 1.5) // integral 6x-2x²
		}, "burst of 4 over 1s, from 1.5 times the mean",
			ms(0, 1000*(1.5-math.Sqrt(1.75)), 1000*(1.5-math.Sqrt(1.25)), 1000*(1.5-math.Sqrt(0.75)))},
		{"flat burst", func() (arrival.Process, error) {
			return arrival.Burst(4, 0, time.Second, 1)
		}, "burst of 4 over 1s, from 1 times the mean", ms(0, 250, 500, 750)},
		{"crowd at the door", func() (arrival.Process, error) {
			return arrival.Burst(6, 2, time.Second, 1)
		}, "burst of 6 over 1s, 2 of them at once, from 1 times the mean", ms(0, 0, 0, 250, 500, 750)},
		{"trace", func() (arrival.Process, error) {
			return arrival.Trace(ms(1, 1, 7))
		}, "trace of 3 over 7ms", ms(1, 1, 7)},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p, err := test.make()
			if err != nil {
				t.Fatal(err)
			}
			if p.String() != test.text {
				t.Errorf("String() = %q, want %q", p, test.text)
			}
			got := collect(p, 1)
			if len(got) != len(test.want) {
				t.Fatalf("due times %v, want %v", got, test.want)
			}
			for i := range got {
				if d := got[i] - test.want[i]; d < -1 || d > 1 {
					t.Errorf("due time %d is %s, want %s", i, got[i], test.want[i])
				}
			}
		})
	}
}

func TestBadProcesses(t *testing.T) {
	tests := []struct {
		name string
		make func() (arrival.Process, error)
		want string
	}{
		{"negative rate", func() (arrival.Process, error) {
			return arrival.Constant(-1, time.Second)
		}, "0/s or more, got -1/s"},
		{"not a number", func() (arrival.Process, error) {
			return arrival.Constant(math.NaN(), time.Second)
		}, "got NaN/s"},
		{"infinite rate", func() (arrival.Process, error) {
			return arrival.Ramp(1, math.Inf(1), time.Second)
		}, "at most 1e+09/s"},
		{"more than one a nanosecond", func() (arrival.Process, error) {
			return arrival.Constant(1e9+1, time.Second)
		}, "at most 1e+09/s"},
		{"no time", func() (arrival.Process, error) {
			return arrival.Constant(1, 0)
		}, "longer than 0s"},
		{"too long", func() (arrival.Process, error) {
			return arrival.Constant(1, arrival.MaxOver+1)
		}, "at most"},
		{"steps too long in all", func() (arrival.Process, error) {
			return arrival.Steps([]arrival.Step{{1, arrival.MaxOver}, {1, time.Second}})
		}, "at most in all"},
		{"no load", func() (arrival.Process, error) {
			return arrival.Ramp(0, 0, time.Second)
		}, "never has an operation due"},
		{"no steps", func() (arrival.Process, error) {
			return arrival.Steps(nil)
		}, "at least one step"},
		{"spike outside", func() (arrival.Process, error) {
			return arrival.Spike(1, 2, time.Second, time.Second, 1500*time.Millisecond)
		}, "does not fit into"},
		{"sine below zero", func() (arrival.Process, error) {
			return arrival.Sine(10, 21, time.Second, time.Minute)
		}, "falls to -1/s"},
		{"sine upside down", func() (arrival.Process, error) {
			return arrival.Sine(10, 9, time.Second, time.Minute)
		}, "below its mean"},
		{"sine without period", func() (arrival.Process, error) {
			return arrival.Sine(10, 12, 0, time.Minute)
		}, "period must be longer"},
		{"empty burst", func() (arrival.Process, error) {
			return arrival.Burst(0, 0, time.Second, arrival.SteepestPeak)
		}, "at least 1 operation"},
		{"crowd of all", func() (arrival.Process, error) {
			return arrival.Burst(2, 2, time.Second, arrival.SteepestPeak)
		}, "of a burst of 2, 0 to 1 are due at once, got 2"},
		{"burst backwards", func() (arrival.Process, error) {
			return arrival.Burst(1, 0, -time.Second, arrival.SteepestPeak)
		}, "longer than 0s"},
		{"burst that rises", func() (arrival.Process, error) {
			return arrival.Burst(4, 0, time.Second, 0.9)
		}, "1 to 2 times its mean, got 0.9"},
		{"burst below zero", func() (arrival.Process, error) {
			return arrival.Burst(4, 0, time.Second, 2.1)
		}, "1 to 2 times its mean, got 2.1"},
		{"burst of no peak", func() (arrival.Process, error) {
			return arrival.Burst(4, 0, time.Second, math.NaN())
		}, "1 to 2 times its mean, got NaN"},
		{"burst too dense", func() (arrival.Process, error) {
			return arrival.Burst(1000, 0, time.Nanosecond, arrival.SteepestPeak)
		}, "at most 1e+09/s"},
		{"empty trace", func() (arrival.Process, error) {
			return arrival.Trace(nil)
		}, "at least one due time"},
		{"trace out of order", func() (arrival.Process, error) {
			return arrival.Trace([]time.Duration{2, 1})
		}, "is before"},
		{"trace before the start", func() (arrival.Process, error) {
			return arrival.Trace([]time.Duration{-1})
		}, "is before 0s"},
		{"poisson trace", func() (arrival.Process, error) {
			return arrival.Poisson(must(t, first(arrival.Trace([]time.Duration{1})), nil))
		}, "fixed due times"},
		{"poisson burst at once", func() (arrival.Process, error) {
			return arrival.Poisson(must(t, first(arrival.Burst(5, 0, 0, arrival.SteepestPeak)), nil))
		}, "fixed due times"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p, err := test.make()
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("got %s, %v; want an error with %q", p, err, test.want)
			}
		})
	}
}

func first(p arrival.Process, _ error) arrival.Process { return p }

// anyProcess draws a process of any kind but a trace, of moderate size.
func anyProcess(t *rapid.T) arrival.Process {
	rate := func(name string) float64 { return rapid.Float64Range(0, 2000).Draw(t, name) }
	length := func(name string) time.Duration {
		return time.Duration(rapid.Int64Range(1e6, 3e9).Draw(t, name))
	}
	var p arrival.Process
	var err error
	switch rapid.IntRange(0, 5).Draw(t, "kind") {
	case 0:
		p, err = arrival.Constant(rate("rate")+1, length("over"))
	case 1:
		p, err = arrival.Ramp(rate("from")+1, rate("to"), length("over"))
	case 2:
		steps := []arrival.Step{{rate("first") + 1, length("first for")}}
		for range rapid.IntRange(0, 4).Draw(t, "more") {
			steps = append(steps, arrival.Step{Rate: rate("rate"), For: length("for")})
		}
		p, err = arrival.Steps(steps)
	case 3:
		over := length("over")
		at := time.Duration(rapid.Int64Range(0, int64(over)-1).Draw(t, "at"))
		p, err = arrival.Spike(rate("base"), rate("peak")+1, at, over-at, over)
	case 4:
		mean := rate("mean") + 1
		p, err = arrival.Sine(mean, mean*(1+rapid.Float64Range(0, 1).Draw(t, "swing")),
			length("period"), length("over"))
	case 5:
		p, err = arrival.Burst(rapid.IntRange(1, 5000).Draw(t, "ops"), 0, length("over"),
			rapid.Float64Range(1, arrival.SteepestPeak).Draw(t, "peak"))
	}
	return must(t, p, err)
}

// The number of operations up to any due time is the integral of the rate, to
// within one: the inverse is checked against sums of the rate itself.
func TestCountIsIntegralOfRate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := anyProcess(t)
		times := collect(p, 1)
		if n := float64(len(times)); math.Abs(n-p.Mean()) > 1 {
			t.Fatalf("%s has %g operations, its mean is %g", p, n, p.Mean())
		}
		const cells = 20000
		width := float64(p.Over()) / cells
		done, next := 0.0, 0
		for cell := range cells {
			middle := time.Duration((float64(cell) + 0.5) * width)
			done += p.Rate(middle) * width / 1e9
			end := time.Duration((float64(cell) + 1) * width)
			for next < len(times) && times[next] < end {
				next++
			}
			// A step inside a cell may put its integral wrong by one cell.
			slack := 1.01 + 4000*width/1e9
			if math.Abs(float64(next)-done) > slack {
				t.Fatalf("%s: %d operations before %s, the integral is %g", p, next, end, done)
			}
		}
	})
}

func TestDueTimesAreInOrderAndInside(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := anyProcess(t)
		if rapid.Bool().Draw(t, "poisson") {
			p = must(t, first(arrival.Poisson(p)), nil)
		}
		times := collect(p, rapid.Uint64().Draw(t, "seed"))
		if !slices.IsSorted(times) {
			t.Fatalf("%s: due times are not in order", p)
		}
		if len(times) > 0 && (times[0] < 0 || times[len(times)-1] >= p.Over()) {
			t.Fatalf("%s: due times from %s to %s", p, times[0], times[len(times)-1])
		}
	})
}

func TestSeedDecidesEverything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := must(t, first(arrival.Poisson(anyProcess(t))), nil)
		seed := rapid.Uint64().Draw(t, "seed")
		if once, again := p.Digest(seed), p.Digest(seed); once != again {
			t.Fatalf("%s: one seed gives two digests", p)
		}
		if len(collect(p, seed)) > 2 && p.Digest(seed) == p.Digest(seed+1) {
			t.Fatalf("%s: two seeds give one digest", p)
		}
	})
}

// The golden digests notice a change of the streams, which would make stored
// seeds mean another load.
func TestDigestsStay(t *testing.T) {
	constant := must(t, first(arrival.Constant(1000, time.Second)), nil)
	poisson := must(t, first(arrival.Poisson(constant)), nil)
	tests := []struct {
		p    arrival.Process
		want string
	}{
		{constant, "00ff2ae3126c0e0b5dd292581655d8ed9f7c1624664e716ded2e449982bfcf3c"},
		{poisson, "ca9a9fcc9945a13dc38079fc50a21d3f4ac09fc18a8dc5f103d3453d36e6ef69"},
	}
	for _, test := range tests {
		if got := test.p.Digest(42); got != test.want {
			t.Errorf("%s: digest %s, want %s", test.p, got, test.want)
		}
	}
}

func TestTraceRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		gaps := rapid.SliceOfN(rapid.Int64Range(0, 1e9), 1, 200).Draw(t, "gaps")
		times := make([]time.Duration, len(gaps))
		var at time.Duration
		for i, gap := range gaps {
			at += time.Duration(gap)
			times[i] = at
		}
		p := must(t, first(arrival.Trace(times)), nil)
		if got := collect(p, 0); !slices.Equal(got, times) {
			t.Fatalf("trace %v came back as %v", times, got)
		}
	})
}

// Gaps of a homogeneous Poisson process are exponential: the largest distance
// between their distribution and 1-e^-x (Kolmogorov-Smirnov) stays below the
// 0.1 % critical value, 1.95/√n. The seeds are fixed, so this cannot flake.
func TestPoissonGapsAreExponential(t *testing.T) {
	const rate = 1000.0
	p := must(t, first(arrival.Constant(rate, 50*time.Second)), nil)
	p = must(t, first(arrival.Poisson(p)), nil)
	for seed := range uint64(5) {
		times := collect(p, seed)
		gaps := make([]float64, len(times)-1)
		for i := range gaps {
			gaps[i] = (times[i+1] - times[i]).Seconds() * rate
		}
		checkExponential(t, gaps)
		if n := float64(len(times)); math.Abs(n-p.Mean()) > 4*math.Sqrt(p.Mean()) {
			t.Errorf("seed %d: %g operations, expected about %g", seed, n, p.Mean())
		}
	}
}

// Seen on the clock of its own integral, an inhomogeneous Poisson process is a
// homogeneous one.
func TestInhomogeneousPoissonOnItsOwnClock(t *testing.T) {
	p := must(t, first(arrival.Ramp(0, 2000, 40*time.Second)), nil)
	p = must(t, first(arrival.Poisson(p)), nil)
	times := collect(p, 7)
	integral := func(d time.Duration) float64 { return 25 * d.Seconds() * d.Seconds() }
	gaps := make([]float64, len(times)-1)
	for i := range gaps {
		gaps[i] = integral(times[i+1]) - integral(times[i])
	}
	checkExponential(t, gaps)
}

// A Poisson burst keeps its count, and its times follow the burst's shape:
// the integral at them is uniform.
func TestPoissonBurstKeepsItsCount(t *testing.T) {
	const ops = 20000
	for _, waiting := range []int{0, 500} {
		p := must(t, first(arrival.Burst(ops, waiting, 10*time.Second, arrival.SteepestPeak)), nil)
		p = must(t, first(arrival.Poisson(p)), nil)
		times := collect(p, 3)
		if len(times) != ops || waiting > 0 && times[waiting-1] != 0 || times[waiting] == 0 {
			t.Fatalf("%d operations, want %d, %d of them at once", len(times), ops, waiting)
		}
		shares := make([]float64, ops-waiting)
		for i, at := range times[waiting:] {
			x := at.Seconds() / 10
			shares[i] = 2*x - x*x
		}
		checkDistribution(t, shares, func(x float64) float64 { return x })
	}
}

// Of two uniform draws, the smaller has the distribution 1-(1-x)² and the larger
// x².
func TestPoissonBurstOfTwo(t *testing.T) {
	p := must(t, first(arrival.Burst(2, 0, 10*time.Second, arrival.SteepestPeak)), nil)
	p = must(t, first(arrival.Poisson(p)), nil)
	var firsts, seconds []float64
	for seed := range uint64(5000) {
		times := collect(p, seed)
		x, y := times[0].Seconds()/10, times[1].Seconds()/10
		firsts, seconds = append(firsts, 2*x-x*x), append(seconds, 2*y-y*y)
	}
	checkDistribution(t, firsts, func(x float64) float64 { return 1 - (1-x)*(1-x) })
	checkDistribution(t, seconds, func(x float64) float64 { return x * x })
}

func checkExponential(t *testing.T, gaps []float64) {
	t.Helper()
	checkDistribution(t, gaps, func(x float64) float64 { return 1 - math.Exp(-x) })
}

func checkDistribution(t *testing.T, values []float64, cdf func(float64) float64) {
	t.Helper()
	slices.Sort(values)
	n, worst := float64(len(values)), 0.0
	for i, v := range values {
		below, above := cdf(v)-float64(i)/n, float64(i+1)/n-cdf(v)
		worst = max(worst, below, above)
	}
	if limit := 1.95 / math.Sqrt(n); worst > limit {
		t.Errorf("the distribution is off by %.4f, allowed is %.4f", worst, limit)
	}
}

func TestNextCostsNoMemory(t *testing.T) {
	p := must(t, first(arrival.Sine(1e6, 2e6, time.Minute, time.Hour)), nil)
	stream := must(t, first(arrival.Poisson(p)), nil).Start(1)
	if n := testing.AllocsPerRun(1000, func() { stream.Next() }); n != 0 {
		t.Errorf("a due time costs %g allocations", n)
	}
}

func BenchmarkNext(b *testing.B) {
	const forever = 24 * time.Hour
	shapes := map[string]arrival.Process{
		"constant": must(b, first(arrival.Constant(1e8, forever)), nil),
		"ramp":     must(b, first(arrival.Ramp(0, 1e8, forever)), nil),
		"sine":     must(b, first(arrival.Sine(1e8, 2e8, time.Minute, forever)), nil),
	}
	for name, p := range shapes {
		b.Run(name, func(b *testing.B) {
			stream := p.Start(1)
			for b.Loop() {
				stream.Next()
			}
		})
		b.Run("poisson "+name, func(b *testing.B) {
			stream := must(b, first(arrival.Poisson(p)), nil).Start(1)
			for b.Loop() {
				stream.Next()
			}
		})
	}
}
