// Package arrival decides when operations are due: open-loop arrival
// processes whose due times follow from the shape of the load and a seed, and
// from nothing else. A slow system can therefore never thin out the load that
// it is judged under.
//
// A due time is never "the last one plus an interval", which would add up
// rounding errors: the i-th due time is the moment at which the integral of
// the rate reaches i (Λ⁻¹(i)), solved in closed form for rates that are
// straight lines and numerically for the sine. A Poisson process is the same
// inverse applied to the sums of exponential gaps of mean one (the
// time-rescaling theorem), which makes it inhomogeneous for free.
package arrival

import (
	"fmt"
	"iter"
	"math"
	"time"

	"stampede/harness/plain"
)

// MaxRate is the highest rate of a process, in operations per second: more
// than one a nanosecond cannot be told apart.
const MaxRate = 1e9

// MaxOver is the longest a process may last: up to it a float64 holds every
// nanosecond exactly.
const MaxOver = 100 * 24 * time.Hour

// Process is an arrival process. Make one with Constant, Ramp, Steps, Spike,
// Sine, Burst, Trace or Poisson; the zero value has no operations.
type Process struct {
	shape shape
	// exact is the number of operations of a burst or a trace; for others
	// the integral of the rate decides.
	exact int
	// first is how many of a burst's operations are due at once, at the start.
	first   int
	poisson bool
	text    string
}

// shape is the rate as a function of time.
type shape interface {
	// over is how long the process lasts.
	over() time.Duration
	// rate is the rate at x seconds from the start, in operations per second.
	rate(x float64) float64
	// count is the integral of the rate from 0 to x seconds, in operations.
	count(x float64) float64
	// inverse is the earliest time in seconds at which count reaches n, for
	// n from 0 to the total.
	inverse(n float64) float64
}

// Constant has rate operations per second, evenly spaced, for the time over.
// The first is due at 0.
func Constant(rate float64, over time.Duration) (Process, error) {
	line, err := newLines(segment{rate, rate, over})
	return named(line, err, "constant %s/s over %s", number(rate), over)
}

// Ramp goes in a straight line from one rate to another, in operations per
// second, over the time over.
func Ramp(from, to float64, over time.Duration) (Process, error) {
	line, err := newLines(segment{from, to, over})
	return named(line, err, "ramp %s/s to %s/s over %s", number(from), number(to), over)
}

// Step is a rate in operations per second that holds for a time.
type Step struct {
	Rate float64
	For  time.Duration
}

// Steps holds one rate after another.
func Steps(steps []Step) (Process, error) {
	parts := make([]segment, len(steps))
	text := "step"
	for i, s := range steps {
		parts[i] = segment{s.Rate, s.Rate, s.For}
		text += fmt.Sprintf(" %s/s for %s", number(s.Rate), s.For)
		if i < len(steps)-1 {
			text += ","
		}
	}
	line, err := newLines(parts...)
	return named(line, err, "%s", text)
}

// Spike has the rate base for the time over, but the rate peak from at for
// the time length.
func Spike(base, peak float64, at, length, over time.Duration) (Process, error) {
	if at < 0 || length <= 0 || at > over || length > over-at {
		return Process{}, fmt.Errorf(
			"arrival: a spike at %s for %s does not fit into %s", at, length, over)
	}
	parts := []segment{{base, base, at}, {peak, peak, length}, {base, base, over - at - length}}
	line, err := newLines(present(parts)...)
	return named(line, err, "spike %s/s to %s/s at %s for %s, over %s",
		number(base), number(peak), at, length, over)
}

// present leaves out the parts that last no time at all.
func present(parts []segment) []segment {
	var kept []segment
	for _, p := range parts {
		if p.over != 0 {
			kept = append(kept, p)
		}
	}
	return kept
}

// Sine swings around the rate mean up to peak and down as far below it, once
// a period, beginning at the mean and rising, for the time over:
//
//	rate(t) = mean + (peak - mean) * sin(2π t / period)
//
// The trough, 2*mean - peak, must not be negative.
func Sine(mean, peak float64, period, over time.Duration) (Process, error) {
	s, err := newSine(mean, peak, period, over)
	return named(s, err, "sine %s/s to %s/s every %s, over %s",
		number(mean), number(peak), period, over)
}

// SteepestPeak is the peak of a burst whose rate falls to zero.
const SteepestPeak = 2

// Burst has ops operations. The given number of first ones, fewer than ops, are due
// at once, at the start, like buyers who wait for a sale to open. The others come over
// the time over, at a rate that falls in a straight line from peak times its mean, 1 to
// SteepestPeak, to as much below the mean as it began above. Over zero means that all
// are due at once, whatever the peak.
func Burst(ops, first int, over time.Duration, peak float64) (Process, error) {
	if ops <= 0 {
		return Process{}, fmt.Errorf("arrival: a burst needs at least 1 operation, got %d", ops)
	}
	if first < 0 || first >= ops {
		return Process{}, fmt.Errorf("arrival: of a burst of %d, 0 to %d are due at once, got %d",
			ops, ops-1, first)
	}
	if over == 0 {
		return Process{
			shape: &trace{times: nil}, exact: ops,
			text: fmt.Sprintf("burst of %s at once", plain.Count(int64(ops))),
		}, nil
	}
	if err := checkOver(over); err != nil {
		return Process{}, err
	}
	if !(peak >= 1 && peak <= SteepestPeak) {
		return Process{}, fmt.Errorf("arrival: a burst's peak is 1 to %d times its mean, got %s",
			SteepestPeak, number(peak))
	}
	mean := float64(ops-first) / over.Seconds()
	line, err := newLines(segment{peak * mean, (SteepestPeak - peak) * mean, over})
	p, err := named(line, err, "burst of %s over %s", plain.Count(int64(ops)), over)
	p.exact, p.first = ops, first
	if first > 0 && err == nil {
		p.text += fmt.Sprintf(", %s of them at once", plain.Count(int64(first)))
	}
	if err == nil && peak != SteepestPeak {
		p.text += fmt.Sprintf(", from %s times the mean", number(peak))
	}
	return p, err
}

// Trace is due at the given times from the start, which must be in order.
func Trace(times []time.Duration) (Process, error) {
	if len(times) == 0 {
		return Process{}, fmt.Errorf("arrival: a trace needs at least one due time")
	}
	var last time.Duration
	for i, t := range times {
		if t < last {
			return Process{}, fmt.Errorf(
				"arrival: due time %d of the trace, %s, is before %s", i, t, last)
		}
		last = t
	}
	if last > MaxOver {
		return Process{}, tooLong(last)
	}
	return Process{
		shape: &trace{times: times}, exact: len(times),
		text: fmt.Sprintf("trace of %s over %s", plain.Count(int64(len(times))), last),
	}, nil
}

// Poisson gives p exponential gaps: an inhomogeneous Poisson process with the
// rate of p. A burst keeps its exact number of operations, which makes it a
// Poisson process given its count: the times are independent draws, in order.
func Poisson(p Process) (Process, error) {
	if _, fixed := p.shape.(*trace); fixed || p.shape == nil {
		return Process{}, fmt.Errorf(
			"arrival: %s has fixed due times, Poisson gaps cannot apply to it", p)
	}
	p.poisson = true
	p.text = "poisson, " + p.text
	return p, nil
}

// String describes the process on one line.
func (p Process) String() string {
	if p.shape == nil {
		return "nothing"
	}
	return p.text
}

// Over is how long the process lasts. Due times are before it, but for those
// of a trace, which may be at it.
func (p Process) Over() time.Duration {
	if p.shape == nil {
		return 0
	}
	return p.shape.over()
}

// Rate is the rate at a time from the start, in operations per second: what
// is offered, for charts. It is zero outside the process and for traces.
func (p Process) Rate(at time.Duration) float64 {
	if p.shape == nil || at < 0 || at >= p.Over() {
		return 0
	}
	return p.shape.rate(at.Seconds())
}

// Mean is the expected number of operations. Without Poisson gaps the number
// is this, rounded up.
func (p Process) Mean() float64 {
	if p.shape == nil || p.exact > 0 {
		return float64(p.exact)
	}
	return p.shape.count(p.Over().Seconds())
}

// Times yields the due times of a seed as Start does.
func (p Process) Times(seed uint64) iter.Seq[time.Duration] {
	return func(yield func(time.Duration) bool) {
		stream := p.Start(seed)
		for due, ok := stream.Next(); ok; due, ok = stream.Next() {
			if !yield(due) {
				return
			}
		}
	}
}

// named finishes a constructor.
func named(s shape, err error, format string, args ...any) (Process, error) {
	if err != nil {
		return Process{}, err
	}
	p := Process{shape: s, text: fmt.Sprintf(format, args...)}
	if p.Mean() <= 0 {
		return Process{}, fmt.Errorf("arrival: %s never has an operation due", p)
	}
	return p, nil
}

// number prints a rate without needless digits or exponents.
func number(rate float64) string {
	if rate == math.Trunc(rate) && math.Abs(rate) < 1e15 {
		return plain.Count(int64(rate))
	}
	return fmt.Sprintf("%g", rate)
}

// checkRate refuses rates that mean nothing.
func checkRate(rate float64) error {
	switch {
	case math.IsNaN(rate) || rate < 0:
		return fmt.Errorf("arrival: a rate must be 0/s or more, got %g/s", rate)
	case rate > MaxRate:
		return fmt.Errorf("arrival: a rate must be at most %g/s, got %g/s", float64(MaxRate), rate)
	}
	return nil
}

// checkOver refuses lengths of time that cannot be scheduled.
func checkOver(over time.Duration) error {
	if over <= 0 {
		return fmt.Errorf("arrival: a process must last longer than 0s, got %s", over)
	}
	if over > MaxOver {
		return tooLong(over)
	}
	return nil
}

func tooLong(over time.Duration) error {
	return fmt.Errorf("arrival: a process may last %s at most, got %s", MaxOver, over)
}
