package judge

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"stampede/harness/check"
	"stampede/harness/rundir"
	"stampede/harness/sut"
)

// Verdict is the verdict of a variant.
type Verdict struct {
	// Answer is what is known of its correctness, Correctness that as a verdict.
	Answer, Correctness, Objectives string
	Reasons                         []string
}

// Overall is correctness and objectives together.
func (p Verdict) Overall() string { return overall(p.Correctness, p.Objectives) }

// Verdict judges a variant: the invariants by the worst of all repeats, what a
// control is expected to break in each of them, and the objectives by the repeats whose times
// are used. A repeat that ran again cannot take back what another one decided: what it leaves
// open does not count, and a violation that one of them shows is shown, because its absence in
// another may be luck.
func (j *Judge) Verdict(name string, repeats []rundir.Repeat) Verdict {
	v := j.variant(name)
	expected, known := j.scenario.MustCatch(v), triggers(v)
	p := Verdict{Answer: rundir.Holds, Objectives: rundir.Pass}
	failed := false
	if len(repeats) == 0 {
		p.Answer, p.Reasons = rundir.Undecided, []string{"it did not run"}
		if len(j.scenario.SLOs) > 0 && len(expected) == 0 {
			p.Objectives = rundir.Inconclusive
		}
	}
	for i, r := range repeats {
		lacks := missing(r)
		failed = failed || r.Again == nil && failedItself(lacks)
		out, reasons := answer(r.Invariants, expected, known, proofs(repeats, planned(r)), lacks)
		if i == 0 {
			p.Answer = out
		}
		if r.Again != nil && out != rundir.Violated && out != rundir.NotCaught {
			out, reasons, lacks = p.Answer, nil, nil
		}
		p.Answer = worse(answers, p.Answer, out)
		p.add(reasons)
		for _, v := range lacks {
			p.add([]string{v.Name + ": " + v.Detail})
		}
		if len(expected) == 0 && r.Used {
			verdict, reasons := j.objectivesOf(r)
			p.Objectives = worse(severity, p.Objectives, verdict)
			p.add(reasons)
		}
	}
	p.Correctness = decided(p.Answer, failed)
	return p
}

// objectivesOf judges a repeat's objectives. Where nothing was measured, all are open.
func (j *Judge) objectivesOf(r rundir.Repeat) (string, []string) {
	if len(r.SLOs) < len(j.scenario.SLOs) {
		return rundir.Inconclusive, []string{"no objective was judged"}
	}
	return objectives(r.SLOs, r.Invariants)
}

// add keeps reasons, each once.
func (p *Verdict) add(reasons []string) {
	for _, r := range reasons {
		if len(p.Reasons) < maxReasons && !slices.Contains(p.Reasons, r) {
			p.Reasons = append(p.Reasons, r)
		}
	}
}

// maxReasons bounds the reasons that are told for one variant.
const maxReasons = 20

// triggers maps what a variant is known to break to the triggers, "power-loss, redis-loss".
func triggers(v sut.Variant) map[string]string {
	if len(v.Breaks) == 0 {
		return nil
	}
	out := map[string]string{}
	for _, b := range v.Breaks {
		if out[b.Invariant] != "" {
			out[b.Invariant] += ", "
		}
		out[b.Invariant] += string(b.Under)
	}
	return out
}

// answer judges one set of invariants against what was expected to break. A control is
// caught only if all that it was expected to break is Broken; what it breaks besides is
// told but not held against it. Any other design holds only if every invariant does,
// apart from promises of time, which are judged with the objectives, and from those that it
// is known to break under something that the scenario does not provoke: a slow machine may.
// Missing are the assumptions about evidence that failed: without it nothing holds, and
// no design can be blamed for what it did not catch.
func answer(
	verdicts []check.Verdict, expected []string, known map[string]string, shown map[string]bool,
	missing []rundir.Validity,
) (string, []string) {
	if len(verdicts) == 0 {
		return rundir.Undecided, []string{"no invariant was judged"}
	}
	if len(expected) > 0 {
		return control(verdicts, expected, shown, missing)
	}
	out, reasons := rundir.Holds, []string(nil)
	if len(known) > 0 {
		out = rundir.NotProvoked
	}
	if len(missing) > 0 {
		out = lacking(missing)
	}
	for _, v := range verdicts {
		switch {
		case v.Status == check.Held, v.OnlyLate() && v.Open == "", v.NotJudged():
		case v.Status == check.Broken && !v.OnlyLate():
			if under := known[v.Invariant]; under != "" && proven(v) {
				reasons = append(reasons, fmt.Sprintf("violated, as it is known to be under %s: %s: %s",
					under, v.Invariant, v.First()))
				continue
			}
			out = rundir.Violated
			reasons = append(reasons, "violated "+v.Invariant+": "+v.First())
		default:
			out = worse(answers, out, open(v))
			reasons = append(reasons, v.Invariant+" is "+strings.ToLower(open(v))+": "+
				cmp.Or(v.Open, v.Reason))
		}
	}
	return out, reasons
}

// open is the answer where an invariant was not decided.
func open(v check.Verdict) string {
	if v.NotExercised {
		return rundir.NotExercised
	}
	return rundir.Undecided
}

// lacking is the answer without some of the evidence.
func lacking(missing []rundir.Validity) string {
	for _, v := range missing {
		if !rundir.Exercise(v.Name) {
			return rundir.Undecided
		}
	}
	return rundir.NotExercised
}

// control judges a design that is known to be wrong under what the scenario provokes. The
// design is to blame only where the invariant held: then the error was provoked and not seen.
// Shown are the invariants that it broke when the repeat ran, the first time or again.
func control(
	verdicts []check.Verdict, expected []string, shown map[string]bool, missing []rundir.Validity,
) (string, []string) {
	out, reasons := rundir.Caught, []string(nil)
	for _, name := range expected {
		i := slices.IndexFunc(verdicts, func(v check.Verdict) bool { return v.Invariant == name })
		switch {
		case i >= 0 && proven(verdicts[i]):
			reasons = append(reasons, "violated as expected: "+name+": "+verdicts[i].First())
			continue
		case shown[name]:
			continue
		case i < 0:
			out = worse(answers, out, rundir.Undecided)
		case verdicts[i].Status != check.Held:
			out = worse(answers, out, open(verdicts[i]))
		case len(missing) == 0:
			out = worse(answers, out, rundir.NotCaught)
		}
		if len(missing) > 0 {
			out = worse(answers, out, lacking(missing))
		}
		reasons = append(reasons, "known to break "+name+" but was not caught: "+
			notCaught(verdicts, i))
	}
	for _, v := range verdicts {
		if v.Status == check.Broken && !slices.Contains(expected, v.Invariant) {
			reasons = append(reasons, "also broke "+v.Invariant+": "+v.First())
		}
	}
	return out, reasons
}

// answers orders what is known of correctness, the best first.
var answers = []string{rundir.Holds, rundir.NotProvoked, rundir.Caught, rundir.NotExercised,
	rundir.Undecided, rundir.NotCaught, rundir.Violated}

// worse returns the one of two that an order of ours has later.
func worse(order []string, a, b string) string {
	return order[max(slices.Index(order, a), slices.Index(order, b))]
}

// decided turns an answer into a verdict: INVALID, where nothing was violated, if stampede
// itself failed.
func decided(answer string, failed bool) string {
	switch {
	case answer == rundir.Violated, answer == rundir.NotCaught:
		return rundir.Fail
	case failed:
		return rundir.Invalid
	case answer == rundir.NotExercised, answer == rundir.Undecided:
		return rundir.Inconclusive
	}
	return rundir.Pass
}

// proven says that a violation was found, not of lateness alone, which a slow machine causes
// as well, and names operations behind it.
func proven(v check.Verdict) bool {
	return v.Status == check.Broken && v.Count > v.Late && len(v.Witness) > 0
}

// proofs are the invariants that are proved to be broken by a planned repeat or by one that
// repeats it.
func proofs(repeats []rundir.Repeat, index int) map[string]bool {
	shown := map[string]bool{}
	for _, r := range repeats {
		if planned(r) != index {
			continue
		}
		for _, v := range r.Invariants {
			shown[v.Invariant] = shown[v.Invariant] || proven(v)
		}
	}
	return shown
}

func notCaught(verdicts []check.Verdict, i int) string {
	if i < 0 {
		return "it was not judged"
	}
	text := "it is " + verdicts[i].Status.String()
	switch verdicts[i].Status {
	case check.Undecided:
		text = "it is " + strings.ToLower(open(verdicts[i]))
	case check.Broken:
		text += ", and no operation is named as a witness"
		if verdicts[i].OnlyLate() {
			text = "it was only late"
		}
	}
	if verdicts[i].Reason != "" {
		text += ": " + verdicts[i].Reason
	}
	return text
}

// objectives judges what depends on times: the objectives, and the promises of time among
// the invariants. One that is Broken fails. One that only noise leaves open is not judged.
func objectives(slos []check.SLOVerdict, invariants []check.Verdict) (string, []string) {
	verdict, reasons := rundir.Pass, []string(nil)
	add := func(as, reason string) {
		verdict = worse(severity, verdict, as)
		reasons = append(reasons, reason)
	}
	for _, s := range slos {
		switch {
		case s.Status == check.Held:
		case s.Status == check.Broken:
			add(rundir.Fail, "missed "+s.Name+": "+s.Actual+", limit "+s.Limit)
		case s.NotJudged:
			add(rundir.NotJudged, s.Name+" is not judged: "+s.Reason)
		default:
			add(rundir.Inconclusive, s.Name+" is undecided: "+s.Reason)
		}
	}
	for _, v := range invariants {
		switch {
		case v.OnlyLate():
			add(rundir.Fail, "missed the promise "+v.Invariant+": "+v.First())
		case v.NotJudged():
			add(rundir.NotJudged, v.Invariant+" is not judged: "+v.Reason)
		}
	}
	return verdict, reasons
}

// severity orders verdicts of one kind, over repeats and variants.
var severity = []string{rundir.Pass, rundir.NotJudged, rundir.Inconclusive, rundir.Invalid,
	rundir.Fail}

// overall puts correctness and objectives together; the state of the times is no part of
// it. What is not judged because of noise fails nothing.
func overall(correctness, objectives string) string {
	if correctness != rundir.Pass {
		return correctness
	}
	if objectives == rundir.NotJudged {
		return rundir.Pass
	}
	return objectives
}

// prefixed puts a variant's name before each of its reasons.
func prefixed(name string, reasons []string) []string {
	out := make([]string, len(reasons))
	for i, r := range reasons {
		out[i] = name + ": " + strings.TrimSpace(r)
	}
	return out
}
