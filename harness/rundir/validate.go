package rundir

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"stampede/harness/plain"
)

// Validate returns every contradiction in a summary: unknown verdicts,
// variants that appear twice, counts that do not add up, percentiles out of
// order, paths that lead out of the run directory.
func (s Summary) Validate() error {
	var wrong []error
	report := func(format string, args ...any) {
		wrong = append(wrong, fmt.Errorf(format, args...))
	}
	if s.Run.ID == "" || s.Run.Scenario == "" || s.Run.System == "" {
		report("run: id, scenario or system is missing")
	}
	oneOf := func(where, value string, allowed []string) {
		if !slices.Contains(allowed, value) {
			report("%s: %q is not one of %v", where, value, allowed)
		}
	}
	oneOf("verdict.overall", s.Verdict.Overall, verdicts())
	oneOf("verdict.correctness", s.Verdict.Correctness, verdicts())
	oneOf("verdict.objectives", s.Verdict.Objectives, objectives())
	oneOf("verdict.timing", s.Verdict.Timing, timings())
	seen := make(map[string]bool)
	for _, v := range s.Variants {
		if seen[v.Name] {
			report("variant %s appears twice", plain.Line(v.Name))
		}
		seen[v.Name] = true
		where := "variant " + plain.Line(v.Name)
		oneOf(where+": verdict", v.Verdict, verdicts())
		oneOf(where+": correctness", v.Correctness, answers())
		oneOf(where+": objectives", v.Objectives, objectives())
		oneOf(where+": timing", v.Timing, timings())
		for _, r := range v.Repeats {
			at := fmt.Sprintf("%s, repeat %d", where, r.Index)
			oneOf(at+": verdict", r.Verdict, verdicts())
			oneOf(at+": timing", r.Timing, timings())
		}
		v.validate(where, report)
	}
	return errors.Join(wrong...)
}

func verdicts() []string { return []string{Pass, Fail, Inconclusive, Invalid} }

func objectives() []string { return []string{Pass, Fail, NotJudged, Inconclusive} }

func timings() []string { return []string{Clean, Noisy, NoTimes} }

func answers() []string {
	return []string{Holds, Violated, Caught, NotCaught, NotProvoked, NotExercised, Undecided}
}

func (v Variant) validate(where string, report func(string, ...any)) {
	if v.Name == "" {
		report("a variant has no name")
	}
	v.Load.validate(where, report)
	v.Latency.validate(where, report)
	for _, op := range v.Operations {
		op.validate(where, report)
	}
	for _, r := range v.Repeats {
		r.validate(fmt.Sprintf("%s, repeat %d", where, r.Index), report)
	}
}

func (r Repeat) validate(where string, report func(string, ...any)) {
	for _, path := range []string{r.History, r.Audit, r.Timeline, r.Telemetry, r.Windows} {
		if path != "" && !filepath.IsLocal(filepath.FromSlash(path)) {
			report("%s: %q is not a path in the run directory", where, path)
		}
	}
	r.Load.validate(where, report)
	r.Latency.validate(where, report)
	if r.Quiet != nil {
		r.Quiet.Response.validate(where+", quiet", report)
	}
	for _, op := range r.Operations {
		op.validate(where, report)
	}
}

func (o Operation) validate(where string, report func(string, ...any)) {
	where += ", " + plain.Line(o.Kind)
	o.Load.validate(where, report)
	o.Latency.validate(where, report)
	if o.Successful != nil {
		o.Successful.validate(where+", successful", report)
	}
	for _, phase := range o.Phases {
		of := where + ", phase " + plain.Line(phase.Name)
		phase.Load.validate(of, report)
		phase.Response.validate(of, report)
	}
}

func (l Load) validate(where string, report func(string, ...any)) {
	if l.Scheduled != l.Started+l.Dropped {
		report("%s: scheduled %d is not started %d + dropped %d",
			where, l.Scheduled, l.Started, l.Dropped)
	}
	if l.Started != l.OK+l.Refused+l.Unknown {
		report("%s: started %d is not ok %d + refused %d + unknown %d",
			where, l.Started, l.OK, l.Refused, l.Unknown)
	}
}

func (l Latencies) validate(where string, report func(string, ...any)) {
	l.Response.validate(where+", response", report)
	l.Service.validate(where+", service", report)
	l.Lag.validate(where+", lag", report)
}

func (p Percentiles) validate(where string, report func(string, ...any)) {
	ascending := []int64{0, p.P50, p.P90, p.P99, p.P999, p.Max}
	if p.Count < 0 || !slices.IsSorted(ascending) {
		report("%s: percentiles %v of %d samples are not in order", where, ascending[1:], p.Count)
	}
}
