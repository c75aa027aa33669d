package run

import (
	"fmt"
	"slices"
	"strings"

	"stampede/harness/check"
	"stampede/harness/rundir"
	"stampede/harness/sut"
)

// expectedBroken returns the invariants that a variant must be caught
// breaking under the triggers that a scenario provokes, in declared order.
func expectedBroken(v sut.Variant, provokes []string) []string {
	names := []string{}
	for _, b := range v.Breaks {
		provoked := slices.Contains(provokes, string(b.Under))
		if provoked && !slices.Contains(names, b.Invariant) {
			names = append(names, b.Invariant)
		}
	}
	return names
}

// triggers maps what a variant is known to break to the trigger.
func triggers(v sut.Variant) map[string]string {
	if len(v.Breaks) == 0 {
		return nil
	}
	out := map[string]string{}
	for _, b := range v.Breaks {
		out[b.Invariant] = string(b.Under)
	}
	return out
}

// merge returns the worst verdict of one invariant over the repeats: the
// first one that is Broken, else the first Undecided, else the first. Checked,
// Unknown, Watched and Accepted are of all repeats, Count is the largest.
func merge(verdicts []check.Verdict) check.Verdict {
	worst := verdicts[0]
	checked, unknown := 0, 0
	for _, v := range verdicts {
		checked += v.Checked
		unknown += v.Unknown
		if outranks(v.Status, worst.Status) ||
			v.Status == check.Broken && worst.Status == check.Broken && v.Count > worst.Count {
			worst = v
		}
	}
	worst.Checked, worst.Unknown = checked, unknown
	worst.Watched, worst.Accepted = check.WatchedOver(verdicts), check.LossesOver(verdicts)
	return worst
}

// outranks says that a is worse than b.
func outranks(a, b check.Status) bool { return a != b && check.Worse(a, b) == a }

// correctness judges one set of invariants against what was expected to
// break. A known-wrong variant passes only if all that it was expected to
// break is Broken; what it breaks besides is told but not held against it.
// Any other variant passes only if every invariant is Held, but for those that it
// is known to break under something that the scenario does not provoke: a slow
// machine may. A repeat that was not run as a whole cannot be blamed for what it
// did not catch.
func correctness(
	verdicts []check.Verdict, expected []string, known map[string]string, whole bool,
) (string, []string) {
	if len(verdicts) == 0 {
		return rundir.Inconclusive, []string{"no invariant was judged"}
	}
	if len(expected) > 0 {
		return knownWrong(verdicts, expected, whole)
	}
	verdict, reasons := rundir.Pass, []string(nil)
	for _, v := range verdicts {
		switch v.Status {
		case check.Held:
		case check.Broken:
			if under := known[v.Invariant]; under != "" && proven(v) {
				reasons = append(reasons, fmt.Sprintf("violated, as it is known to be under %s: %s: %s",
					under, v.Invariant, firstViolation(v)))
				continue
			}
			verdict = rundir.Fail
			reasons = append(reasons, "broke "+v.Invariant+": "+firstViolation(v))
		default:
			if verdict == rundir.Pass {
				verdict = rundir.Inconclusive
			}
			reasons = append(reasons, v.Invariant+" is undecided: "+v.Reason)
		}
	}
	return verdict, reasons
}

func knownWrong(
	verdicts []check.Verdict, expected []string, whole bool,
) (string, []string) {
	verdict, reasons := rundir.Pass, []string(nil)
	for _, name := range expected {
		i := slices.IndexFunc(verdicts, func(v check.Verdict) bool { return v.Invariant == name })
		if i >= 0 && proven(verdicts[i]) {
			reasons = append(reasons, "violated as expected: "+name+": "+firstViolation(verdicts[i]))
			continue
		}
		if open := !whole || i >= 0 && excused(verdicts[i]); !open {
			verdict = rundir.Fail
		} else if verdict == rundir.Pass {
			verdict = rundir.Inconclusive
		}
		reasons = append(reasons, "known to break "+name+" but was not caught: "+
			notCaught(verdicts, i))
	}
	for _, v := range verdicts {
		if v.Status == check.Broken && !slices.Contains(expected, v.Invariant) {
			reasons = append(reasons, "also broke "+v.Invariant+": "+firstViolation(v))
		}
	}
	return verdict, reasons
}

// excused says that there were violations which the machine or the end of the run excuses.
func excused(v check.Verdict) bool {
	return v.Status == check.Undecided && v.Late+v.Unfinished > 0
}

// proven says that a violation was found and names operations behind it.
func proven(v check.Verdict) bool {
	return v.Status == check.Broken && v.Count > 0 && len(v.Witness) > 0
}

func notCaught(verdicts []check.Verdict, i int) string {
	if i < 0 {
		return "it was not judged"
	}
	text := "it is " + verdicts[i].Status.String()
	if verdicts[i].Status == check.Broken {
		text += ", and no operation is named as a witness"
	}
	if verdicts[i].Reason != "" {
		text += ": " + verdicts[i].Reason
	}
	return text
}

func firstViolation(v check.Verdict) string {
	text := v.Reason
	if len(v.Violations) > 0 {
		text = v.Violations[0].Text
	}
	if v.Count > 1 {
		text += fmt.Sprintf(" (and %d more)", v.Count-1)
	}
	return text
}

// sla judges objectives: one that is Broken fails, one that is Undecided
// leaves the verdict open.
func sla(slos []check.SLOVerdict) (string, []string) {
	verdict, reasons := rundir.Pass, []string(nil)
	for _, s := range slos {
		switch s.Status {
		case check.Held:
		case check.Broken:
			verdict = rundir.Fail
			reasons = append(reasons, "missed "+s.Name+": "+s.Actual+", limit "+s.Limit)
		default:
			if verdict == rundir.Pass {
				verdict = rundir.Inconclusive
			}
			reasons = append(reasons, s.Name+" is undecided: "+s.Reason)
		}
	}
	return verdict, reasons
}

// measurement judges the assumptions under which a repeat's numbers mean
// anything: one that does not hold makes them INVALID.
func measurement(validity []rundir.Validity) (string, []string) {
	reasons := []string(nil)
	for _, v := range validity {
		if !v.OK {
			reasons = append(reasons, v.Name+": "+v.Detail)
		}
	}
	if len(reasons) > 0 {
		return rundir.Invalid, reasons
	}
	return rundir.Pass, nil
}

// severity orders verdicts of one kind, over repeats and variants.
var severity = []string{rundir.Pass, rundir.Inconclusive, rundir.Invalid, rundir.Fail}

// worst returns the most severe of the verdicts; PASS if there are none.
func worst(verdicts ...string) string {
	highest := 0
	for _, v := range verdicts {
		highest = max(highest, slices.Index(severity, v))
	}
	return severity[highest]
}

// overall puts the three verdicts together. A proven violation stands whatever
// the measurement was worth, because the operations that prove it happened all
// the same; a missed objective does not: a late generator missed it as well.
func overall(correctness, sla, measurement string) string {
	if correctness == rundir.Fail {
		return rundir.Fail
	}
	if measurement == rundir.Invalid {
		return rundir.Invalid
	}
	return worst(correctness, sla, measurement)
}

// prefixed puts a variant's name before each of its reasons.
func prefixed(name string, reasons []string) []string {
	out := make([]string, len(reasons))
	for i, r := range reasons {
		out[i] = name + ": " + strings.TrimSpace(r)
	}
	return out
}
