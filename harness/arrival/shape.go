package arrival

import (
	"errors"
	"fmt"
	"math"
	"sort"
	"time"
)

// segment is a rate that goes in a straight line from one value to another.
type segment struct {
	from, to float64 // operations per second
	over     time.Duration
}

// lines is a rate made of straight lines, one after another.
type lines struct {
	parts []segment
	// begin[i] and done[i] are the seconds and the operations before parts[i];
	// each has one more element, the totals.
	begin, done []float64
	total       time.Duration
}

func newLines(parts ...segment) (*lines, error) {
	if len(parts) == 0 {
		return nil, errors.New("arrival: a step process needs at least one step")
	}
	l := &lines{parts: parts, begin: []float64{0}, done: []float64{0}}
	for i, p := range parts {
		if err := errors.Join(checkRate(p.from), checkRate(p.to), checkOver(p.over)); err != nil {
			return nil, err
		}
		// Compared by subtraction, so that a long list cannot overflow.
		if p.over > MaxOver-l.total {
			return nil, fmt.Errorf("arrival: a process may last %s at most in all", MaxOver)
		}
		l.total += p.over
		l.begin = append(l.begin, l.total.Seconds())
		l.done = append(l.done, l.done[i]+(p.from+p.to)/2*p.over.Seconds())
	}
	return l, nil
}

func (l *lines) over() time.Duration { return l.total }

func (l *lines) rate(x float64) float64 {
	i := l.part(l.begin, x)
	p := l.parts[i]
	return p.from + p.slope()*(x-l.begin[i])
}

func (l *lines) count(x float64) float64 {
	i := l.part(l.begin, x)
	p := l.parts[i]
	dx := math.Min(x-l.begin[i], p.over.Seconds())
	return l.done[i] + p.from*dx + p.slope()*dx*dx/2
}

// inverse solves from*x + slope*x²/2 = n by the form of the quadratic formula
// that loses no digits when the slope is small or zero.
func (l *lines) inverse(n float64) float64 {
	i := l.part(l.done, n)
	p := l.parts[i]
	rest := n - l.done[i]
	if rest <= 0 {
		return l.begin[i]
	}
	root := math.Sqrt(math.Max(0, p.from*p.from+2*p.slope()*rest))
	return l.begin[i] + math.Min(2*rest/(p.from+root), p.over.Seconds())
}

// part is the last segment that begins at or before v on the given axis, so
// that an idle segment never receives an operation.
func (l *lines) part(axis []float64, v float64) int {
	i := sort.Search(len(l.parts), func(i int) bool { return axis[i] > v }) - 1
	return max(0, i)
}

func (s segment) slope() float64 { return (s.to - s.from) / s.over.Seconds() }

// sine is mean + swing*sin(2πx/period).
type sine struct {
	mean, swing float64 // operations per second
	period      float64 // seconds
	total       time.Duration
}

func newSine(mean, peak float64, period, over time.Duration) (*sine, error) {
	if err := errors.Join(checkRate(mean), checkRate(peak), checkOver(over)); err != nil {
		return nil, err
	}
	switch {
	case period <= 0:
		return nil, fmt.Errorf("arrival: a sine's period must be longer than 0s, got %s", period)
	case peak < mean:
		return nil, fmt.Errorf("arrival: a sine's peak, %g/s, is below its mean, %g/s", peak, mean)
	case 2*mean-peak < 0:
		return nil, fmt.Errorf("arrival: a sine around %g/s with peak %g/s falls to %g/s",
			mean, peak, 2*mean-peak)
	}
	return &sine{mean, peak - mean, period.Seconds(), over}, nil
}

func (s *sine) over() time.Duration { return s.total }

func (s *sine) rate(x float64) float64 {
	return s.mean + s.swing*math.Sin(2*math.Pi*x/s.period)
}

func (s *sine) count(x float64) float64 {
	turn := 2 * math.Pi / s.period
	return s.mean*x + s.swing/turn*(1-math.Cos(turn*x))
}

// inverse takes whole periods off, in which the swing cancels, and finds the
// rest by Newton's method; a bracket that halves whenever a step leaves it
// keeps that safe where the rate touches zero.
func (s *sine) inverse(n float64) float64 {
	const (
		steps     = 200   // far more than the bracket needs to shrink to nothing
		precision = 1e-10 // seconds
	)
	whole := math.Floor(n / (s.mean * s.period))
	n -= whole * s.mean * s.period
	low, high := 0.0, s.period
	x := n / s.mean
	for range steps {
		miss := s.count(x) - n
		if miss > 0 {
			high = x
		} else {
			low = x
		}
		next := x - miss/s.rate(x)
		if !(next > low && next < high) {
			next = (low + high) / 2
		}
		step := math.Abs(next - x)
		x = next
		if step <= precision {
			break
		}
	}
	return whole*s.period + x
}

// trace is a list of due times; an empty one is due at 0 for ever.
type trace struct{ times []time.Duration }

func (t *trace) over() time.Duration {
	if len(t.times) == 0 {
		return 0
	}
	return t.times[len(t.times)-1]
}

func (t *trace) rate(float64) float64 { return 0 }

func (t *trace) count(x float64) float64 {
	at := time.Duration(x * float64(time.Second))
	return float64(sort.Search(len(t.times), func(i int) bool { return t.times[i] > at }))
}

func (t *trace) inverse(n float64) float64 { return t.at(int(n)).Seconds() }

// at is the i-th due time.
func (t *trace) at(i int) time.Duration {
	if len(t.times) == 0 {
		return 0
	}
	return t.times[i]
}
