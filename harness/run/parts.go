package run

import (
	"fmt"
	"slices"
	"strings"

	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/measure"
	"stampede/harness/rundir"
	"stampede/harness/scenario"
	"stampede/harness/sut"
)

// The assumptions about what happened, beside the faults'. Without them a
// known-wrong variant had no occasion to show its error. The others, which
// measure.Gate judges, are about the numbers.
const (
	finishedName   = "finished"
	historyName    = "history"
	exercisedName  = "exercised"
	operationsName = "operations"
	emptyName      = "empty"
	storesName     = "stores"
	faultPrefix    = "fault "
)

// whole says that a repeat was what the scenario asks for: a variant that is
// not caught in it can be blamed for that.
func whole(r rundir.Repeat) bool {
	return r.Error == "" && !slices.ContainsFunc(r.Validity, func(v rundir.Validity) bool {
		return !v.OK && (strings.HasPrefix(v.Name, faultPrefix) || slices.Contains([]string{
			finishedName, historyName, exercisedName, operationsName, emptyName, storesName}, v.Name))
	})
}

// finished is the assumption that a repeat came to its end.
func finished(t Trial) rundir.Validity {
	v := rundir.Validity{Name: finishedName, OK: true, Detail: "the repeat came to its end"}
	switch {
	case t.Error != "":
		v.OK, v.Detail = false, t.Error
	case t.Interrupted:
		v.OK, v.Detail = false, "the load was stopped before its end"
	}
	return v
}

// assumptions are what must be so for the numbers and verdicts of a repeat to
// mean anything, beside what measure.Gate judges.
func (j *judge) assumptions(h *history.File, t Trial, res *measure.Result) []rundir.Validity {
	out := []rundir.Validity{wholeHistory(h, t), j.exercised(res), j.enough(res.Load)}
	if v, asked := startedEmpty(t); asked {
		out = append(out, v)
	}
	if t.StoresAsked {
		out = append(out, steadyStores(t))
	}
	for _, f := range j.scenario.Faults {
		out = append(out, fired(f, felt(f, j.variant(t.Variant)), h.Faults()))
	}
	return out
}

func wholeHistory(h *history.File, t Trial) rundir.Validity {
	v := rundir.Validity{Name: historyName, Detail: "every record is there, once and in order"}
	switch _, err := history.Validate(h); {
	case t.Lost > 0:
		v.Detail = fmt.Sprintf("%d records could not be written", t.Lost)
	case !h.Complete():
		v.Detail = fmt.Sprintf("it is cut short by %d bytes or more", h.Truncated())
	case err != nil:
		v.Detail = err.Error()
	default:
		v.OK = true
	}
	return v
}

// exercised: the main operation succeeded at least once, or nothing was
// measured but refusals.
func (j *judge) exercised(res *measure.Result) rundir.Validity {
	kinds := j.kinds()
	v := rundir.Validity{Name: exercisedName, Detail: "no operation succeeded"}
	if len(kinds) == 0 {
		return v
	}
	tally, _ := res.Tally(kinds[0], "run")
	v.OK = tally.OK > 0
	v.Detail = fmt.Sprintf("%d %s operations succeeded (at least 1)", tally.OK, kinds[0])
	return v
}

// minShare is the part of the planned operations that must be answered where a
// scenario does not say how many.
const minShare = 0.1

// enough: so many operations were answered that the numbers and what was not
// violated mean something. Dropped ones and those without an answer exercised
// nothing for certain.
func (j *judge) enough(l rundir.Load) rundir.Validity {
	least := j.leastOperations()
	answered := l.OK + l.Refused
	return rundir.Validity{Name: operationsName, OK: answered >= least,
		Detail: fmt.Sprintf("%d operations were answered (at least %d)", answered, least)}
}

// leastOperations is the least number of answers of a valid repeat, 1 or more.
func (j *judge) leastOperations() int64 {
	l := j.scenario.Load
	if l.MinOperations > 0 {
		return int64(l.MinOperations)
	}
	if l.Users > 0 {
		return int64(l.Users)
	}
	process, err := l.Arrival.Schedule()
	if err != nil {
		return 1 // decoding has refused such a load
	}
	return max(1, int64(minShare*process.Mean()))
}

// startedEmpty: nothing had been done to the instance before the load. What
// cannot be asked is not judged.
func startedEmpty(t Trial) (v rundir.Validity, asked bool) {
	v = rundir.Validity{Name: emptyName, OK: true, Detail: "nothing was there before the load"}
	if t.Empty == NotEmpty {
		v.OK, v.Detail = false, "before the load there were already "+t.Found
	}
	return v, t.Empty == Empty || t.Empty == NotEmpty
}

// steadyStores: no store was started anew but by a fault, and each answered in
// the end.
func steadyStores(t Trial) rundir.Validity {
	v := rundir.Validity{Name: storesName, OK: t.StoreTrouble == "", Detail: t.StoreTrouble}
	if v.OK {
		v.Detail = "no store was started anew but by a fault, and each answered after the load"
	}
	return v
}

// fired: a fault left evidence in its window. A fault of a store that the
// variant does not use is injected all the same, so that all variants have
// the same windows, but need not show; nor need one of a role that it does not
// have.
func fired(f scenario.Fault, hit bool, faults []history.Window) rundir.Validity {
	v := rundir.Validity{Name: faultPrefix + f.Name, OK: !hit, Detail: "it did not happen"}
	if !hit {
		v.Detail = "the variant does not use " + f.Target
		if !sut.Service(f.Target).Store() {
			v.Detail = "the variant has no such " + f.Target
		}
	}
	for _, w := range faults {
		switch {
		case w.Name != f.Name:
		case len(w.Evidence) > 0:
			v.OK, v.Detail = true, w.Evidence[0]
		case hit:
			v.Detail = "there is no evidence that it happened"
		}
	}
	return v
}

// verdict is a variant's verdict over some of its repeats, with the reasons.
func (j *judge) verdict(name string, repeats []rundir.Repeat) (string, []string) {
	p := j.parts(name, repeats)
	return overall(p.correctness, p.sla, p.measurement), p.reasons
}

// parts are the three verdicts of a variant.
type parts struct {
	correctness, sla, measurement string
	reasons                       []string
}

// parts judges a variant: the invariants by the worst repeat, but what a
// known-wrong variant is expected to break must be caught in each repeat.
func (j *judge) parts(name string, repeats []rundir.Repeat) parts {
	v := j.variant(name)
	expected, known := expectedBroken(v, j.scenario.Provokes), triggers(v)
	p := parts{correctness: rundir.Pass, sla: rundir.Pass, measurement: rundir.Pass}
	if len(repeats) == 0 {
		p.correctness, p.measurement = rundir.Inconclusive, rundir.Invalid
		if len(expected) == 0 {
			p.sla, _ = j.sla(nil)
		}
		p.reasons = []string{"it did not run"}
	}
	for _, r := range repeats {
		verdict, reasons := correctness(r.Invariants, expected, known, whole(r))
		p.add(&p.correctness, verdict, reasons)
		verdict, reasons = measurement(r.Validity)
		p.add(&p.measurement, verdict, reasons)
		if len(expected) == 0 {
			verdict, reasons = j.sla(r.SLOs)
			p.add(&p.sla, verdict, reasons)
		}
	}
	return p
}

// sla judges a repeat's objectives. Where nothing was measured, all are open.
func (j *judge) sla(slos []check.SLOVerdict) (string, []string) {
	if len(slos) < len(j.scenario.SLOs) {
		return rundir.Inconclusive, []string{"no objective was judged"}
	}
	return sla(slos)
}

// add makes a verdict worse and keeps the reasons, each once.
func (p *parts) add(verdict *string, by string, reasons []string) {
	*verdict = worst(*verdict, by)
	for _, r := range reasons {
		if len(p.reasons) < maxReasons && !slices.Contains(p.reasons, r) {
			p.reasons = append(p.reasons, r)
		}
	}
}

// maxReasons bounds the reasons that are told for one variant.
const maxReasons = 20

// mergeRepeats adds a variant's repeats up.
func (j *judge) mergeRepeats(v *rundir.Variant) error {
	m, err := measure.Merge(v.Repeats)
	if err != nil {
		return err
	}
	v.Load, v.Latency = m.Load, m.Latency
	v.Operations, v.ThroughputPerS = m.Operations, m.ThroughputPerS
	if v.Operations == nil {
		v.Operations = []rundir.Operation{}
	}
	v.Invariants, v.SLOs = []check.Verdict{}, []check.SLOVerdict{}
	if len(v.Repeats) > 0 {
		v.Invariants = worstInvariants(v.Repeats)
		v.SLOs = worstSLOs(v.Repeats)
	}
	p := j.parts(v.Name, v.Repeats)
	v.Correctness, v.SLA, v.Measurement = p.correctness, p.sla, p.measurement
	v.Verdict, v.Reasons = overall(p.correctness, p.sla, p.measurement), p.reasons
	return nil
}

// worstInvariants merges the verdicts of each invariant over the repeats.
func worstInvariants(repeats []rundir.Repeat) []check.Verdict {
	order, by := []string{}, map[string][]check.Verdict{}
	for _, r := range repeats {
		for _, v := range r.Invariants {
			if by[v.Invariant] == nil {
				order = append(order, v.Invariant)
			}
			by[v.Invariant] = append(by[v.Invariant], v)
		}
	}
	out := make([]check.Verdict, len(order))
	for i, name := range order {
		out[i] = merge(by[name])
	}
	return out
}

// worstSLOs keeps the worst verdict of each objective over the repeats; of
// equals, the one with the smallest margin.
func worstSLOs(repeats []rundir.Repeat) []check.SLOVerdict {
	out := []check.SLOVerdict{}
	for _, r := range repeats {
		for i, v := range r.SLOs {
			switch {
			case i == len(out):
				out = append(out, v)
			case outranks(v.Status, out[i].Status),
				v.Status == out[i].Status && v.Margin < out[i].Margin:
				out[i] = v
			}
		}
	}
	return out
}

// overall is the verdict of the whole run.
func (j *judge) overall(s rundir.Summary) rundir.Verdict {
	v := rundir.Verdict{Correctness: rundir.Pass, SLA: rundir.Pass, Measurement: rundir.Pass,
		Reasons: []string{}}
	for _, variant := range s.Variants {
		v.Correctness = worst(v.Correctness, variant.Correctness)
		v.SLA = worst(v.SLA, variant.SLA)
		v.Measurement = worst(v.Measurement, variant.Measurement)
		v.Reasons = append(v.Reasons, prefixed(variant.Name, variant.Reasons)...)
	}
	if len(s.Variants) == 0 || s.Run.Interrupted {
		v.Measurement = worst(v.Measurement, rundir.Inconclusive)
	}
	v.Overall = overall(v.Correctness, v.SLA, v.Measurement)
	return v
}
