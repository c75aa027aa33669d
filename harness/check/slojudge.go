package check

import (
	"fmt"
	"math"

	"stampede/harness/history"
)

// MaxMargin bounds a margin, which would be infinite for an operation that
// never ended.
const MaxMargin = 1000

// beyond is how many samples must lie beyond a quantile for it to be judged:
// with fewer, one slow operation decides.
const beyond = 10

// Judge judges the objective on measured numbers. name labels the verdict.
//
// It is Undecided if the scope was not measured or nothing was scheduled in
// it; for a percentile, if fewer than 10/(1-q) operations were, so that at
// least ten lie beyond it (p50 needs 20, p99 1,000, p99.9 10,000); and for a
// share that is inside its limit, if so few operations were scheduled that a
// single one more would have been outside it.
func (o Objective) Judge(name string, n Numbers) SLOVerdict {
	scope := o.ScopeName()
	tally, ok := n.Tally(o.Kind, scope)
	switch {
	case !ok:
		return o.Undecided(name, scope+" was not measured")
	case tally.Scheduled == 0:
		return o.Undecided(name, "no operation was scheduled in "+scope)
	case o.latency():
		return o.judgeLatency(name, n)
	case o.Func == Rate:
		return o.judgeRate(name, n, tally)
	}
	return o.judgeCount(name, tally)
}

// JudgeRun judges the objective on the numbers of a run in which windows
// happened. A fault that it is about and that did not happen is Undecided.
func (o Objective) JudgeRun(name string, n Numbers, windows []history.Window) SLOVerdict {
	if _, err := o.Scope(windows); err != nil {
		return o.Undecided(name, err.Error())
	}
	return o.Judge(name, n)
}

// Undecided is the verdict of an objective that could not be judged.
func (o Objective) Undecided(name, reason string) SLOVerdict {
	return SLOVerdict{Name: name, Objective: o.String(), Limit: o.format(o.Limit), Reason: reason}
}

// verdict judges a value.
func (o Objective) verdict(name string, actual float64, samples int64) SLOVerdict {
	v := o.Undecided(name, "")
	v.Actual, v.Samples = o.measured(math.Round(actual*1e4)/1e4), samples
	v.Status, v.Margin = Broken, o.margin(actual)
	if o.meets(actual) {
		v.Status = Held
	}
	return v
}

// meets reports whether a value is inside the limit.
func (o Objective) meets(v float64) bool {
	switch o.Op {
	case "<":
		return v < o.Limit
	case "<=":
		return v <= o.Limit
	case ">":
		return v > o.Limit
	}
	return v >= o.Limit
}

// margin is how far inside the limit a value is, as a share of the limit. A
// limit of zero has no share: then it is the value itself, as if one were it.
func (o Objective) margin(v float64) float64 {
	m := o.Limit - v
	if o.Op == ">" || o.Op == ">=" {
		m = -m
	}
	if o.Limit != 0 {
		m /= o.Limit
	}
	return math.Max(-MaxMargin, math.Min(m, MaxMargin))
}

func (o Objective) judgeLatency(name string, n Numbers) SLOVerdict {
	q := o.quantile()
	ns, samples, ok := n.Quantile(o.Of, o.Kind, o.ScopeName(), q)
	if !ok {
		return o.Undecided(name, fmt.Sprintf("%s of %s was not measured", o.Of, o.ScopeName()))
	}
	if need := o.samplesNeeded(); samples < need {
		v := o.Undecided(name, fmt.Sprintf("%d samples are too few: %s%s needs %d",
			samples, o.Func, percentText(o), need))
		v.Samples = samples
		return v
	}
	v := o.verdict(name, float64(ns), samples)
	if ns == int64(history.Never) {
		v.Reason = "it lies among operations that were dropped or never ended"
	}
	return v
}

// Needs is how many operations of its kind and part an objective needs to be
// judged, 1 or more.
func (o Objective) Needs() int64 {
	switch {
	case o.latency():
		return o.samplesNeeded()
	case o.Func == Share:
		return int64(o.resolution())
	}
	return 1
}

// samplesNeeded is how many samples the objective's percentile needs.
func (o Objective) samplesNeeded() int64 {
	if o.Func == Max {
		return 1
	}
	// A hair is taken off, because 1-q is not exact.
	return int64(math.Ceil(beyond/(1-o.quantile()) - 1e-6))
}

func percentText(o Objective) string {
	if o.Func == Max {
		return ""
	}
	return number(o.Percent)
}

func (o Objective) judgeRate(name string, n Numbers, t Tally) SLOVerdict {
	span := n.Span(o.ScopeName())
	if span <= 0 {
		return o.Undecided(name, o.ScopeName()+" has no length")
	}
	return o.verdict(name, float64(t.of(o.Of))/span.Seconds(), t.Scheduled)
}

func (o Objective) judgeCount(name string, t Tally) SLOVerdict {
	count := float64(t.of(o.Of))
	if o.Func == Count {
		return o.verdict(name, count, t.Scheduled)
	}
	all := float64(t.Scheduled)
	v := o.verdict(name, 100*count/all, t.Scheduled)
	if need := o.resolution(); v.Status == Held && all < need {
		v.Status = Undecided
		v.Reason = fmt.Sprintf("%d operations are too few: a limit of %s needs %s",
			t.Scheduled, v.Limit, number(need))
	}
	return v
}

// resolution is how many operations it takes until one of them weighs no more
// than the limit of a share. An upper limit of 0% and a lower one of 100%
// leave no room for one and need no resolution.
func (o Objective) resolution() float64 {
	room := o.Limit
	if o.Op == ">" || o.Op == ">=" {
		room = 100 - o.Limit
	}
	if room <= 0 {
		return 1
	}
	return math.Ceil(100/room - 1e-6)
}

// of returns one of the counts by its name in an objective.
func (t Tally) of(name string) int64 {
	switch name {
	case "ok":
		return t.OK
	case "refused":
		return t.Refused
	case "unknown":
		return t.Unknown
	case "dropped":
		return t.Dropped
	case "started":
		return t.Started
	}
	return t.Scheduled
}
