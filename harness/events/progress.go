package events

import (
	"slices"
	"time"

	"stampede/harness/rundir"
)

// Progress is a run as it stands: what its events add up to, for a display.
type Progress struct {
	// Plan is nil before the run has started.
	Plan  *Plan
	RunID string
	// Lines are the variants in the order in which they first run.
	Lines []VariantLine
	// Begun is when the run began, Last when the newest event came.
	Begun, Last time.Time
	// Environment is nil before the stores have been started.
	Environment *rundir.Environment
	// Notes are the last lines of text for people.
	Notes []string
	// Judged is what the run came to, Report where its page is, and Failed why it
	// has no summary; each is nil or empty before.
	Judged *Judged
	Report string
	Failed string

	done     int           // repeats
	overhead time.Duration // of these, beside their load
	measured int           // how many of them came to their end
}

// mostNotes is how many lines of text are kept.
const mostNotes = 8

// VariantLine is one variant of a run.
type VariantLine struct {
	Variant string
	// Done of Of repeats are over.
	Done, Of int
	// Verdict is the worst of those, empty before the first one, and Reasons are
	// those of that repeat.
	Verdict string
	Reasons []string
	// Correctness and Timing are those of the same repeat.
	Correctness, Timing string
	// Running says that a repeat is under way, since Since: number Repeat, from 0,
	// in Phase since PhaseSince.
	Running           bool
	Repeat            int
	Since, PhaseSince time.Time
	Phase             PhaseName
	// Tick has the newest numbers of the repeat that is under way or, if there is
	// none, the last one's. Faults are in force.
	Tick   Tick
	Faults []string
	// Kind and Main are those of the last repeat's outcome.
	Kind string
	Main rundir.Load
	// Trace are the rate and the times of that repeat so far.
	Trace []TracePoint

	overhead time.Duration
	measured int
	every    time.Duration // between two points of the trace
}

// TracePoint is a load at one moment.
type TracePoint struct {
	Elapsed               time.Duration
	OfferedPerS, DonePerS float64
	P99                   time.Duration // of the last one or two seconds
}

// mostPoints is how many points a trace has before every other one is dropped.
const mostPoints = 120

// Waiting says that a variant has not run yet.
func (l *VariantLine) Waiting() bool { return !l.Running && l.Done == 0 }

// Finished says that all repeats of a variant are over.
func (l *VariantLine) Finished() bool { return !l.Running && l.Done >= l.Of }

// Done and Total count the run's repeats.
func (b *Progress) Done() int { return b.done }

// Total is how many repeats there are in all; see Done.
func (b *Progress) Total() int {
	if b.Plan == nil {
		return 0
	}
	return len(b.Plan.Slots)
}

// Over says that nothing more will be run.
func (b *Progress) Over() bool { return b.Judged != nil || b.Failed != "" }

// Running is the variant that is at work, nil if none is.
func (b *Progress) Running() *VariantLine {
	for i := range b.Lines {
		if b.Lines[i].Running {
			return &b.Lines[i]
		}
	}
	return nil
}

// Add takes the next event in.
func (b *Progress) Add(e Event) {
	b.Last = e.At
	switch {
	case e.Log != nil:
		b.Notes = append(b.Notes, e.Log.Text)
		b.Notes = b.Notes[max(0, len(b.Notes)-mostNotes):]
	case e.RunStarted != nil:
		notes := b.Notes
		*b = Progress{Plan: e.RunStarted, RunID: e.RunID, Begun: e.At, Last: e.At, Notes: notes}
		b.lay()
	case e.Environment != nil:
		b.Environment = e.Environment
	case e.RunDone != nil:
		b.Judged = e.RunDone
	case e.ReportWritten != nil:
		b.Report = e.ReportWritten.Path
	case e.RunFailed != nil:
		b.Failed = e.RunFailed.Error
	default:
		b.addToLine(e)
	}
	if b.Over() {
		for i := range b.Lines {
			b.Lines[i].Running = false
		}
	}
}

// lay makes a line for each variant.
func (b *Progress) lay() {
	for _, slot := range b.Plan.Slots {
		if l := b.line(slot.Variant); l != nil {
			l.Of++
			continue
		}
		b.Lines = append(b.Lines, VariantLine{Variant: slot.Variant, Of: 1})
	}
}

func (b *Progress) line(variant string) *VariantLine {
	i := slices.IndexFunc(b.Lines, func(l VariantLine) bool { return l.Variant == variant })
	if i < 0 {
		return nil
	}
	return &b.Lines[i]
}

// addToLine takes in what happened to one variant.
func (b *Progress) addToLine(e Event) {
	switch {
	case e.RepeatStarted != nil:
		if l := b.line(e.RepeatStarted.Variant); l != nil {
			b.extend(l, *e.RepeatStarted)
			l.Running, l.Repeat, l.Since = true, e.RepeatStarted.Repeat, e.At
			l.Phase, l.PhaseSince, l.Tick, l.Faults = "", e.At, Tick{}, nil
			l.Trace, l.every = nil, tickEvery
		}
	case e.Phase != nil:
		if l := b.line(e.Phase.Variant); l != nil {
			l.Phase, l.PhaseSince = e.Phase.Phase, e.At
		}
	case e.Load != nil:
		if l := b.line(e.Load.Variant); l != nil {
			l.Tick = *e.Load
			l.trace(*e.Load)
		}
	case e.Fault != nil:
		if l := b.line(e.Fault.Variant); l != nil {
			l.Faults = slices.DeleteFunc(l.Faults, func(f string) bool { return f == e.Fault.Fault })
			if e.Fault.On {
				l.Faults = append(l.Faults, e.Fault.Fault)
			}
		}
	case e.RepeatDone != nil:
		if l := b.line(e.RepeatDone.Variant); l != nil {
			b.finish(l, *e.RepeatDone, e.At)
		}
	}
}

// extend takes in a repeat that the plan did not have: one that is run again.
func (b *Progress) extend(l *VariantLine, r Repeat) {
	if slices.ContainsFunc(b.Plan.Slots, func(s Slot) bool {
		return s.Variant == r.Variant && s.Repeat == r.Repeat
	}) {
		return
	}
	plan := *b.Plan
	plan.Slots = append(slices.Clone(plan.Slots), Slot{Variant: r.Variant, Repeat: r.Repeat})
	b.Plan = &plan
	l.Of++
}

// trace adds a point, at most one a second, and at half the points twice as rarely.
func (l *VariantLine) trace(t Tick) {
	elapsed := time.Duration(t.ElapsedNS)
	if elapsed == 0 {
		return // nothing has been done yet, at no rate
	}
	n := len(l.Trace)
	if n > 0 && elapsed.Truncate(l.every) == l.Trace[n-1].Elapsed.Truncate(l.every) {
		return
	}
	l.Trace = append(l.Trace, TracePoint{Elapsed: elapsed, OfferedPerS: t.OfferedPerS,
		DonePerS: t.AchievedPerS, P99: time.Duration(t.P99RecentNS)})
	if len(l.Trace) < mostPoints {
		return
	}
	for i := range mostPoints / 2 {
		l.Trace[i] = l.Trace[2*i]
	}
	l.Trace = l.Trace[:mostPoints/2]
	l.every *= 2
}

// finish takes in the end of a repeat.
func (b *Progress) finish(l *VariantLine, o Outcome, at time.Time) {
	l.Running, l.Faults = false, nil
	l.Done++
	b.done++
	l.Tick.Load, l.Tick.P99NS, l.Tick.Repeat = o.Load, o.P99NS, o.Repeat
	l.Tick.InFlight, l.Tick.Waiting = 0, 0
	l.Kind, l.Main = o.Kind, o.Main
	if l.Verdict == "" || worse(o.Verdict, l.Verdict) {
		l.Verdict, l.Reasons = o.Verdict, o.Reasons
		l.Correctness, l.Timing = o.Correctness, o.Timing
	}
	spent := at.Sub(l.Since) - time.Duration(b.Plan.LoadNS)
	if l.Since.IsZero() || spent < 0 {
		return // it was cut short
	}
	l.overhead, b.overhead = l.overhead+spent, b.overhead+spent
	l.measured++
	b.measured++
}

// worse says whether a verdict is worse than another.
func worse(a, b string) bool {
	order := []string{rundir.Pass, rundir.Inconclusive, rundir.Invalid, rundir.Fail}
	return slices.Index(order, a) > slices.Index(order, b)
}

// Remaining is about how long the run will go on: the load of what is left, with
// what the repeats so far took beside their load. atLeast says that none has been
// measured, so that it is the load alone. known is false before the run has started
// and after it.
func (b *Progress) Remaining(now time.Time) (left time.Duration, atLeast, known bool) {
	if b.Plan == nil || b.Over() {
		return 0, false, false
	}
	for i := range b.Lines {
		own := b.remaining(&b.Lines[i], now)
		if b.Plan.SideBySide {
			left = max(left, own)
		} else {
			left += own
		}
	}
	return left, b.measured == 0, true
}

// remaining is what is left of a variant's repeats.
func (b *Progress) remaining(l *VariantLine, now time.Time) time.Duration {
	length := time.Duration(b.Plan.LoadNS)
	whole := length + b.beside(l)
	left := time.Duration(l.Of-l.Done) * whole
	if l.Running {
		// What is being offered will take what the plan says; what is beside it
		// may already have taken longer than it did before.
		load := length
		if l.Tick.ElapsedNS > 0 {
			load = max(0, length-time.Duration(l.Tick.ElapsedNS))
		}
		if slices.Contains([]PhaseName{Drain, Settle, Audit, Judge}, l.Phase) {
			load = 0
		}
		left += max(load, whole-now.Sub(l.Since)) - whole
	}
	return left
}

// beside is what a repeat of a variant takes beside its load.
func (b *Progress) beside(l *VariantLine) time.Duration {
	switch {
	case l.measured > 0:
		return l.overhead / time.Duration(l.measured)
	case b.measured > 0:
		return b.overhead / time.Duration(b.measured)
	}
	return 0
}
