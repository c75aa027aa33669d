// Package knee searches for the highest steady rate that a design serves while
// its objectives and invariants hold, by offering constant rates for windows of
// a fixed length.
//
// The search knows no store and no clock: whoever calls it offers the load.
package knee

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
)

// Verdict says what became of a window.
type Verdict string

// The verdicts.
const (
	// Held: every objective and invariant held, and what was offered was served.
	Held Verdict = "held"
	// Missed: an objective was missed, or work piled up.
	Missed Verdict = "missed"
	// Broke: an invariant was violated. That is proved, not measured, so one
	// window is enough.
	Broke Verdict = "broke"
	// Undecided: evidence is missing, or something was not judged.
	Undecided Verdict = "undecided"
)

// Step says what a window was for.
type Step string

// The steps.
const (
	// Bracket doubles or halves the rate until one holds and a higher one does not.
	Bracket Step = "bracket"
	// Bisect narrows the two down.
	Bisect Step = "bisect"
	// Confirm repeats the rate that was found.
	Confirm Step = "confirm"
)

// Window is one rate, offered for one window.
type Window struct {
	// RatePerS is the constant rate of arrivals.
	RatePerS float64 `json:"rate_per_s"`
	Step     Step    `json:"step"`
	// Verdict is held, missed, broke or undecided.
	Verdict Verdict `json:"verdict"`
	// Noisy says that the machine interfered, so that what was missed may not be the
	// design's doing.
	Noisy bool `json:"noisy"`
	// Reasons say why it did not hold, or was not decided.
	Reasons []string `json:"reasons"`
	// OfferedPerS and AchievedPerS are the operations that were due and that ended, per
	// second of the second half of the window. Operations that follow from others
	// count too, so that they may be more than the arrivals.
	OfferedPerS  float64 `json:"offered_per_s"`
	AchievedPerS float64 `json:"achieved_per_s"`
	// Count, P50NS and P99NS are the response times of the main operation kind, from when
	// it was due; the largest number stands for operations that were dropped or
	// never ended.
	Count int64 `json:"count"`
	P50NS int64 `json:"p50_ns"`
	P99NS int64 `json:"p99_ns"`
	// Seed is the window's own, Run the path of its run directory, from that of the search.
	Seed uint64 `json:"seed"`
	Run  string `json:"run"`
}

// Outcome says what a search came to.
type Outcome string

// The outcomes.
const (
	// Found: the rate was confirmed, and one that is higher by no more than the
	// precision failed.
	Found Outcome = "found"
	// Between: a rate was confirmed, and one that is higher by more than the precision
	// failed or was not decided.
	Between Outcome = "between"
	// Beyond: the highest rate that was allowed was confirmed.
	Beyond Outcome = "beyond"
	// Nowhere: even the lowest rate that was allowed failed.
	Nowhere Outcome = "nowhere"
	// NotDecided: no rate was confirmed, or whether a higher one holds was not tried.
	NotDecided Outcome = "not decided"
	// Stopped: the search was stopped before its end.
	Stopped Outcome = "stopped"
)

// Result is what a search found out about one design.
type Result struct {
	// Outcome is found, between, beyond, nowhere, not decided or stopped.
	Outcome Outcome `json:"outcome"`
	// RatePerS is the highest rate that was confirmed, 0 if none was.
	RatePerS float64 `json:"rate_per_s"`
	// P50NS and P99NS are the worst of the windows that confirmed it, 0 without one.
	P50NS int64 `json:"p50_ns"`
	P99NS int64 `json:"p99_ns"`
	// AbovePerS is the lowest rate above that failed or was not decided, 0 if
	// there is none, and Above why.
	AbovePerS float64  `json:"above_per_s"`
	Above     []string `json:"above"`
	// Approximate says that the rate above failed only while the machine interfered: on a
	// quiet one it might hold.
	Approximate bool `json:"approximate"`
	// HeldOncePerS is the highest rate that held in some window and failed in none, 0
	// if there is none. Without confirmation it is a hint and no answer.
	HeldOncePerS float64 `json:"held_once_per_s"`
	// Notes say what does not fit: rates that held now and failed then.
	Notes []string `json:"notes"`
	// Windows are all that were tried, in order.
	Windows []Window `json:"windows"`
}

// Plan bounds a search.
type Plan struct {
	// FromPerS is the first rate; LeastPerS and MostPerS are the lowest and the
	// highest one.
	FromPerS  float64 `json:"from_per_s"`
	LeastPerS float64 `json:"least_per_s"`
	MostPerS  float64 `json:"most_per_s"`
	// Precision is how much higher, as a share, the rate that fails may be.
	Precision float64 `json:"precision"`
	// Repeats is how many windows confirm the answer; all of them must hold.
	Repeats int `json:"repeats"`
	// Again is how many more tries a window gets that is not decided.
	Again int `json:"again"`
	// Windows is the largest number of windows.
	Windows int `json:"windows"`
}

// Validate says what is wrong with a plan.
func (p Plan) Validate() error {
	switch {
	case !(p.LeastPerS > 0) || math.IsInf(p.MostPerS, 0) || !(p.MostPerS >= p.LeastPerS):
		return fmt.Errorf("the rates to search go from %v/s to %v/s", p.LeastPerS, p.MostPerS)
	case !(p.FromPerS >= p.LeastPerS && p.FromPerS <= p.MostPerS):
		return fmt.Errorf("the first rate, %v/s, is not between %v/s and %v/s", p.FromPerS,
			p.LeastPerS, p.MostPerS)
	case !(p.Precision >= 0.01 && p.Precision <= 1):
		return fmt.Errorf("the precision is %v; expected 0.01 to 1", p.Precision)
	case p.Repeats < 1:
		return fmt.Errorf("%d repeats confirm nothing; expected 1 or more", p.Repeats)
	case p.Again < 0:
		return fmt.Errorf("a window cannot be tried again %d times", p.Again)
	case p.Windows < p.Repeats+1:
		return fmt.Errorf("%d windows are too few for %d repeats", p.Windows, p.Repeats)
	}
	return nil
}

// Try offers a constant rate of operations per second for a window and judges it. The
// search fills in the rate and the step.
type Try func(ctx context.Context, ratePerS float64) (Window, error)

// Search looks for the knee. When ctx is cancelled it returns what is known by
// then; an error of try ends it, and comes with what is known.
//
// It doubles or halves the rate until one holds and a higher one does not, then
// bisects on a logarithmic scale, then confirms; what fails its confirmation is
// a rate that failed, and the search goes on below it. A rate fails when it breaks
// an invariant or misses its objectives in two windows, or in one that should
// confirm it. What is not decided, however often it is tried, bounds the search as
// a failure does, but is no answer. The idea of bisecting a rate of fixed windows is that of
// RFC 2544 (section 26.1), with repeats because software is not a switch.
func Search(ctx context.Context, p Plan, try Try) (Result, error) {
	if err := p.Validate(); err != nil {
		return Result{}, err
	}
	s := &search{Plan: p, try: try, held: map[float64]bool{}, failed: map[float64]bool{},
		open: map[float64]bool{}}
	err := s.run(ctx)
	if err != nil && ctx.Err() != nil {
		err = nil // it was asked to stop
	}
	return s.result(), err
}

// search is a search under way.
type search struct {
	Plan
	try     Try
	windows []Window
	// held, failed and open are the rates that were judged, by what they are
	// taken for; confirmed is the answer.
	held, failed, open map[float64]bool
	confirmed          float64
	// over says that the search came to an end of its own.
	over bool
}

// errSpent says that there are no windows left.
var errSpent = errors.New("the windows are used up")

func (s *search) run(ctx context.Context) error {
	for {
		lo, hi := s.bounds()
		var err error
		switch {
		case lo == 0 && hi == 0:
			err = s.probe(ctx, s.FromPerS, Bracket)
		case hi == 0 && lo < s.MostPerS:
			err = s.probe(ctx, min(2*lo, s.MostPerS), Bracket)
		case lo == 0 && hi > s.LeastPerS:
			err = s.probe(ctx, max(hi/2, s.LeastPerS), Bracket)
		case lo == 0:
			s.over = true
			return nil
		case hi != 0 && hi > lo*(1+s.Precision):
			err = s.probe(ctx, between(lo, hi), Bisect)
		default:
			err = s.confirm(ctx, lo)
		}
		if errors.Is(err, errSpent) {
			s.over = true
			return nil
		}
		if err != nil || s.confirmed > 0 {
			s.over = err == nil
			return err
		}
	}
}

// bounds are the lowest rate that does not hold and the highest one below it
// that does; 0 for none.
func (s *search) bounds() (lo, hi float64) {
	hi = lowest(s.failed)
	if open := lowest(s.open); open > 0 && (hi == 0 || open < hi) {
		hi = open
	}
	for rate := range s.held {
		if rate > lo && (hi == 0 || rate < hi) {
			lo = rate
		}
	}
	return lo, hi
}

// lowest is the smallest of the rates, 0 if there are none.
func lowest(rates map[float64]bool) (least float64) {
	for rate := range rates {
		if least == 0 || rate < least {
			least = rate
		}
	}
	return least
}

// between is the rate halfway between two on a logarithmic scale, with three
// digits where that still is between them.
func between(lo, hi float64) float64 {
	middle := math.Sqrt(lo * hi)
	if r := Rounded(middle); r > lo && r < hi {
		return r
	}
	return middle
}

// Rounded is a positive rate with three digits.
func Rounded(rate float64) float64 {
	unit := math.Pow(10, math.Floor(math.Log10(rate))-2)
	if unit >= 1 {
		return math.Round(rate/unit) * unit
	}
	// 1/unit is a whole number, and exact.
	return math.Round(rate*math.Round(1/unit)) / math.Round(1/unit)
}

// probe tries a rate, twice if it misses.
func (s *search) probe(ctx context.Context, rate float64, step Step) error {
	first, err := s.decide(ctx, rate, step)
	if err != nil {
		return err
	}
	second := first
	if first == Missed {
		if second, err = s.decide(ctx, rate, step); err != nil {
			return err
		}
	}
	switch second {
	case Held:
		s.held[rate] = true
	case Undecided: // missed once is not missed, and not held either
		s.open[rate] = true
	default:
		s.failed[rate] = true
	}
	return nil
}

// confirm repeats a rate that held; one failure is enough to refuse it, unless the machine
// interfered: then it takes two.
func (s *search) confirm(ctx context.Context, rate float64) error {
	for range s.Repeats {
		verdict, err := s.decide(ctx, rate, Confirm)
		if err == nil && verdict == Missed && s.windows[len(s.windows)-1].Noisy {
			verdict, err = s.decide(ctx, rate, Confirm)
		}
		switch {
		case err != nil:
			return err
		case verdict == Undecided:
			s.open[rate] = true
			return nil
		case verdict != Held:
			s.failed[rate] = true
			return nil
		}
	}
	s.confirmed = rate
	return nil
}

// decide tries a rate until it is decided, but not for ever.
func (s *search) decide(ctx context.Context, rate float64, step Step) (Verdict, error) {
	for tries := 0; ; tries++ {
		verdict, err := s.window(ctx, rate, step)
		if err != nil || verdict != Undecided || tries == s.Again {
			return verdict, err
		}
	}
}

// window tries a rate once.
func (s *search) window(ctx context.Context, rate float64, step Step) (Verdict, error) {
	if len(s.windows) == s.Windows {
		return "", errSpent
	}
	if err := ctx.Err(); err != nil {
		return "", err
	}
	w, err := s.try(ctx, rate)
	if err != nil {
		return "", err
	}
	w.RatePerS, w.Step, w.Reasons = rate, step, append([]string{}, w.Reasons...)
	s.windows = append(s.windows, w)
	return w.Verdict, nil
}

// onlyNoisy says that a rate failed in no window without interference.
func (s *search) onlyNoisy(rate float64) bool {
	return !slices.ContainsFunc(s.windows, func(w Window) bool {
		return w.RatePerS == rate && (w.Verdict == Broke || w.Verdict != Held && !w.Noisy)
	})
}

// result puts together what is known.
func (s *search) result() (r Result) {
	r = Result{RatePerS: s.confirmed, Windows: append([]Window{}, s.windows...),
		Notes: s.notes()}
	for _, w := range s.windows {
		if w.Step == Confirm && w.RatePerS == s.confirmed {
			r.P50NS, r.P99NS = max(r.P50NS, w.P50NS), max(r.P99NS, w.P99NS)
		}
	}
	lo, hi := s.bounds()
	r.HeldOncePerS, r.AbovePerS, r.Above = lo, hi, s.why(hi)
	defer func() { r.Approximate = r.AbovePerS > 0 && s.onlyNoisy(r.AbovePerS) }()
	failed := lowest(s.failed)
	switch {
	case !s.over:
		r.Outcome = Stopped
	case s.confirmed > 0 && failed > 0 && failed <= s.confirmed*(1+s.Precision):
		r.Outcome = Found
		r.AbovePerS, r.Above = failed, s.why(failed)
	case s.confirmed == s.MostPerS:
		r.Outcome = Beyond
	case s.confirmed > 0 && hi > 0:
		r.Outcome = Between
	case s.confirmed == 0 && failed == s.LeastPerS:
		r.Outcome = Nowhere
	default:
		r.Outcome = NotDecided
		if len(s.windows) == s.Windows {
			r.Notes = append(r.Notes, fmt.Sprintf("%d windows were not enough", s.Windows))
		}
	}
	return r
}

// why is what was said of the windows of a rate that did not hold, each thing
// once.
func (s *search) why(rate float64) []string {
	reasons := []string{}
	for _, w := range s.windows {
		for _, reason := range w.Reasons {
			if w.RatePerS == rate && w.Verdict != Held && !slices.Contains(reasons, reason) {
				reasons = append(reasons, reason)
			}
		}
	}
	return reasons
}
