package check

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"stampede/harness/history"
)

// Func is the number that an objective limits.
type Func string

// The functions.
const (
	// Quantile is a percentile of a metric, written p50, p99 or p99.9.
	Quantile Func = "p"
	// Max is the largest value of a metric.
	Max Func = "max"
	// Share is a percentage of the scheduled operations.
	Share Func = "share"
	// Rate is operations per second.
	Rate Func = "rate"
	// Count is a number of operations.
	Count Func = "count"
)

// Objective is a limit on one number of one part of a run, written as
//
//	objective = function comparison limit [part]
//	function  = ("p50" | "p99" | "p99.9" | ... | "max") "(" metric ["," kind] ")"
//	          | "share" "(" outcome ["," kind] ")"
//	          | ("rate" | "count") "(" (outcome | "scheduled" | "started") ["," kind] ")"
//	metric    = "response" | "service" | "lag"
//	outcome   = "ok" | "refused" | "unknown" | "dropped"
//	limit     = a duration such as 500ms, a percentage such as 0.1%,
//	            a rate such as 1000/s, or a number, as the function has it
//	part      = "in" ("run" | "steady" | "warm-up" | "drain" | "[" from "," to "]")
//	          | ("before" | "during" | "after") fault
//
// for example "p99(response, buy) <= 500ms in steady". Without a part it is
// about the run. Latencies take < and <= alone. See ParseObjective.
type Objective struct {
	Func Func
	// Percent is the percentile of a Quantile, 0 < Percent < 100.
	Percent float64
	// Of is a metric, an outcome, "scheduled" or "started".
	Of string
	// Kind is the operation kind; empty means all together.
	Kind string
	// Op is <, <=, > or >=.
	Op string
	// Limit is in nanoseconds, percent, operations per second or operations.
	Limit float64
	Part  Part

	kindColumn, faultColumn int
}

// Part is the part of a run that an objective is about.
type Part struct {
	// Relation is "in", or "before", "during" or "after" a fault.
	Relation string
	// Name is a phase ("run" for the whole run) or a fault; empty for a span.
	Name string
	// From and To bound a span, from the run's base.
	From, To time.Duration
}

// String formats the part as a scope's name: "steady", "during redis-pause",
// "[2s, 8s]".
func (p Part) String() string {
	switch {
	case p.Name == "":
		return fmt.Sprintf("[%v, %v]", p.From, p.To)
	case p.Relation == "in":
		return p.Name
	}
	return p.Relation + " " + p.Name
}

// String formats the objective so that ParseObjective reads it back.
func (o Objective) String() string {
	var b strings.Builder
	b.WriteString(string(o.Func))
	if o.Func == Quantile {
		b.WriteString(number(o.Percent))
	}
	b.WriteString("(" + o.Of)
	if o.Kind != "" {
		b.WriteString(", " + o.Kind)
	}
	fmt.Fprintf(&b, ") %s %s", o.Op, o.format(o.Limit))
	switch {
	case o.Part == wholeRun():
	case o.Part.Relation == "in":
		b.WriteString(" in " + o.Part.String())
	default:
		b.WriteString(" " + o.Part.String())
	}
	return b.String()
}

func wholeRun() Part { return Part{Relation: "in", Name: "run"} }

// number formats a number in full.
func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// format prints a value of the objective's function with its unit.
func (o Objective) format(v float64) string {
	switch o.Func {
	case Share:
		return number(v) + "%"
	case Rate:
		return number(v) + "/s"
	case Count:
		return number(v)
	}
	if v >= float64(history.Never) {
		return "never"
	}
	return time.Duration(v).String()
}

// measured is format for what was measured, of which a time has few digits.
func (o Objective) measured(v float64) string {
	if d, err := time.ParseDuration(o.format(v)); err == nil {
		return TimeText(d)
	}
	return o.format(v)
}

// latency reports whether the objective is about a latency.
func (o Objective) latency() bool { return o.Func == Quantile || o.Func == Max }

// quantile returns the percentile as a fraction. Dividing by 100 would round:
// 99.9/100 is a little more than 0.999.
func (o Objective) quantile() float64 {
	if o.Func == Max {
		return 1
	}
	q, err := strconv.ParseFloat(number(o.Percent)+"e-2", 64)
	if err != nil {
		panic(err) // number formats no other way
	}
	return q
}

// ScopeName is the name under which Numbers knows the objective's part.
func (o Objective) ScopeName() string { return o.Part.String() }

// Resolve checks that the kind and the fault that the objective names exist;
// the error is a *ParseError with its column in text, what was parsed.
func (o Objective) Resolve(text string, kinds, faults []string) error {
	if o.Kind != "" && !slices.Contains(kinds, o.Kind) {
		return unknownName(text, o.kindColumn, "an operation kind", o.Kind, kinds)
	}
	if o.Part.Relation != "in" && !slices.Contains(faults, o.Part.Name) {
		return unknownName(text, o.faultColumn, "a fault", o.Part.Name, faults)
	}
	return nil
}

// Scope returns the part of the run that the objective needs to be measured,
// given what happened in it.
//
// Warm-up is in no scope but its own and those of spans. A fault lasts from
// its start until its target answers again; the error says that it did not
// happen or that there was no such phase.
func (o Objective) Scope(windows []history.Window) (Scope, error) {
	s := Scope{Name: o.ScopeName(), From: warmedUp(windows), To: history.Never}
	var err error
	switch p := o.Part; {
	case p.Name == "":
		s.From, s.To = p.From, p.To
	case p.Relation != "in":
		err = s.cut(p, windows)
	case p.Name != "run":
		s.From, s.To, err = extent(history.PhaseWindow, p.Name, windows)
	}
	if err == nil && s.From >= s.To {
		err = fmt.Errorf("%s is empty", s.Name)
	}
	return s, err
}

// cut limits the scope to before, during or after a fault.
func (s *Scope) cut(p Part, windows []history.Window) error {
	from, to, err := extent(history.FaultWindow, p.Name, windows)
	switch p.Relation {
	case "before":
		s.To = from
	case "during":
		s.From, s.To = from, to
	case "after":
		s.From = to
	}
	return err
}

// warmedUp is the end of the warm-up, 0 if there is none.
func warmedUp(windows []history.Window) time.Duration {
	_, to, err := extent(history.PhaseWindow, "warm-up", windows)
	if err != nil {
		return 0
	}
	return to
}

// extent is the time from the first to the last window of a name.
func extent(kind history.WindowKind, name string, windows []history.Window) (
	from, to time.Duration, err error,
) {
	of := slices.DeleteFunc(slices.Clone(windows), func(w history.Window) bool {
		return w.Kind != kind || w.Name != name ||
			kind == history.FaultWindow && len(w.Evidence) == 0
	})
	switch {
	case len(of) == 0 && kind == history.FaultWindow:
		return 0, 0, fmt.Errorf("there is no evidence that fault %s happened", name)
	case len(of) == 0:
		return 0, 0, fmt.Errorf("the run had no phase %s", name)
	}
	from = history.Never
	for _, w := range of {
		from = min(from, w.Start)
		to = max(to, w.Over())
	}
	return from, to, nil
}

// Scopes returns the scopes that objectives need, each once. Objectives whose
// scope did not happen are left out: judged, they are Undecided.
func Scopes(objectives []Objective, windows []history.Window) []Scope {
	var scopes []Scope
	for _, o := range objectives {
		s, err := o.Scope(windows)
		if err == nil && !slices.Contains(scopes, s) {
			scopes = append(scopes, s)
		}
	}
	return scopes
}

// ParseError says where an objective is wrong.
type ParseError struct {
	// Text is the whole objective; Column counts its characters from 1.
	Text   string
	Column int
	// Expected and Found describe what should be there and what is.
	Expected, Found string
	// Nearest is the known word that may have been meant, or empty.
	Nearest string
}

// Error formats the error with its column.
func (e *ParseError) Error() string {
	hint := ""
	if e.Nearest != "" {
		hint = fmt.Sprintf(" (did you mean %q?)", e.Nearest)
	}
	return fmt.Sprintf("objective %q, column %d: expected %s, found %s%s",
		e.Text, e.Column, e.Expected, e.Found, hint)
}

// unknownName is the error of a name that is none of the known ones.
func unknownName(text string, column int, what, name string, known []string) error {
	if len(known) == 0 {
		return &ParseError{Text: text, Column: column, Found: strconv.Quote(name),
			Expected: what + ", of which there is none"}
	}
	return &ParseError{Text: text, Column: column, Found: strconv.Quote(name),
		Expected: what + ": " + oneOf(known), Nearest: Nearest(name, known)}
}

// oneOf lists words as "a, b or c".
func oneOf(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}
