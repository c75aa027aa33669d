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
	"stampede/harness/stats"
	"stampede/harness/sut"
)

// The assumptions about what happened, beside the faults' and those of measure.Gate. All of
// them are evidence.
const (
	finishedName = "finished"
	historyName  = "history"
	emptyName    = "empty"
	storesName   = "stores"
)

// ownFailures are the assumptions that fail by stampede's own doing.
var ownFailures = []string{measure.AccountingName, historyName, measure.ScheduleName}

// missing are the assumptions about evidence that do not hold.
func missing(r rundir.Repeat) (list []rundir.Validity) {
	for _, v := range r.Validity {
		if !v.OK && v.Class == rundir.Evidence {
			list = append(list, v)
		}
	}
	return list
}

// failedItself says that stampede failed in a repeat that came to its end.
func failedItself(missing []rundir.Validity) bool {
	own := false
	for _, v := range missing {
		if v.Name == finishedName {
			return false
		}
		own = own || slices.Contains(ownFailures, v.Name)
	}
	return own
}

// finished is the assumption that a repeat came to its end.
func finished(t Trial) rundir.Validity {
	v := rundir.Validity{Name: finishedName, OK: true, Detail: "the repeat finished"}
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
	out := []rundir.Validity{finished(t), wholeHistory(h, t), exercised(j.kinds(), res),
		j.enough(res.Recorded)}
	if v, asked := startedEmpty(t); asked {
		out = append(out, v)
	}
	if t.StoresAsked {
		out = append(out, steadyStores(t))
	}
	for _, f := range j.scenario.Faults {
		out = append(out, fired(f, felt(f, j.variant(t.Variant)), h.Faults()))
	}
	for i := range out {
		out[i] = evidence(out[i])
	}
	return out
}

// raced: operations competed for the same objects, so that what concurrency could break
// had occasion to.
func raced(r rundir.Races) rundir.Validity {
	return rundir.Validity{Name: rundir.Raced, OK: r.Raced >= r.Least, Detail: fmt.Sprintf(
		"%d of %d successful operations (%s) overlapped another one on the same key (at least %d), "+
			"up to %d at once", r.Raced, r.Successful, strings.Join(r.Kinds, ", "), r.Least, r.Peak)}
}

// evidence marks an assumption as one about evidence.
func evidence(v rundir.Validity) rundir.Validity {
	v.Class = rundir.Evidence
	return v
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

// exercised: the main operation, the first of the kinds, succeeded at least once. The
// warm-up counts: what happened in it is judged too, and only its times are left out.
func exercised(kinds []string, res *measure.Result) rundir.Validity {
	v := rundir.Validity{Name: rundir.Exercised, Detail: "no operation succeeded"}
	if len(kinds) == 0 {
		return v
	}
	warm, _ := res.Tally(kinds[0], warmUpName)
	steady, _ := res.Tally(kinds[0], "run")
	v.OK = warm.OK+steady.OK > 0
	v.Detail = fmt.Sprintf("%d %s operations succeeded (at least 1)", warm.OK+steady.OK, kinds[0])
	return v
}

// minShare is the part of the planned operations that must be answered where a
// scenario does not say how many.
const minShare = 0.1

// enough: so many operations were answered, those of the warm-up included, that what was
// not violated means something. Dropped ones and those without an answer exercised nothing
// for certain.
func (j *judge) enough(l rundir.Load) rundir.Validity {
	least := j.leastOperations()
	answered := l.OK + l.Refused
	return rundir.Validity{Name: rundir.Operations, OK: answered >= least,
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
	v = rundir.Validity{Name: emptyName, OK: true, Detail: "the stores were empty before the load"}
	if t.Empty == NotEmpty {
		v.OK, v.Detail = false, "the stores were not empty before the load: "+t.Found
	}
	return v, t.Empty == Empty || t.Empty == NotEmpty
}

// steadyStores: no store was started anew but by a fault, and each answered in
// the end.
func steadyStores(t Trial) rundir.Validity {
	v := rundir.Validity{Name: storesName, OK: t.StoreTrouble == "", Detail: t.StoreTrouble}
	if v.OK {
		v.Detail = "no store restarted without a fault, and each answered after the load"
	}
	return v
}

// fired: a fault left evidence in its window. A fault of a store that the
// variant does not use is injected all the same, so that all variants have
// the same windows, but need not show; nor need one of a role that it does not
// have.
func fired(f scenario.Fault, hit bool, faults []history.Window) rundir.Validity {
	v := rundir.Validity{Name: rundir.FaultAssumption + f.Name, OK: !hit, Detail: "it did not happen"}
	if !hit {
		v.Detail = "the design does not use " + f.Target
		if !sut.Service(f.Target).Store() {
			v.Detail = "the design has no such " + f.Target
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

// parts are the verdicts of a variant.
type parts struct {
	// answer is what is known of its correctness, correctness that as a verdict.
	answer, correctness, objectives string
	reasons                         []string
}

func (p parts) overall() string { return overall(p.correctness, p.objectives) }

// parts judges a variant: the invariants by the worst of all repeats, what a
// control is expected to break in each of them, and the objectives by the repeats whose times
// are used. A repeat that ran again cannot take back what another one decided: what it leaves
// open does not count.
func (j *judge) parts(name string, repeats []rundir.Repeat) parts {
	v := j.variant(name)
	expected, known := expectedBroken(v, j.scenario.Provokes), triggers(v)
	p := parts{answer: rundir.Holds, objectives: rundir.Pass}
	failed := false
	if len(repeats) == 0 {
		p.answer, p.reasons = rundir.Undecided, []string{"it did not run"}
		if len(j.scenario.SLOs) > 0 && len(expected) == 0 {
			p.objectives = rundir.Inconclusive
		}
	}
	for i, r := range repeats {
		lacks := missing(r)
		failed = failed || r.Again == nil && failedItself(lacks)
		out, reasons := answer(r.Invariants, expected, known, lacks)
		if i == 0 {
			p.answer = out
		}
		if r.Again != nil && out != rundir.Violated && out != rundir.NotCaught {
			out, reasons, lacks = p.answer, nil, nil
		}
		p.answer = worseAnswer(p.answer, out)
		p.add(reasons)
		for _, v := range lacks {
			p.add([]string{v.Name + ": " + v.Detail})
		}
		if len(expected) == 0 && r.Used {
			verdict, reasons := j.objectivesOf(r)
			p.objectives = worst(p.objectives, verdict)
			p.add(reasons)
		}
	}
	p.correctness = decided(p.answer, failed)
	return p
}

// objectivesOf judges a repeat's objectives. Where nothing was measured, all are open.
func (j *judge) objectivesOf(r rundir.Repeat) (string, []string) {
	if len(r.SLOs) < len(j.scenario.SLOs) {
		return rundir.Inconclusive, []string{"no objective was judged"}
	}
	return objectives(r.SLOs, r.Invariants)
}

// add keeps reasons, each once.
func (p *parts) add(reasons []string) {
	for _, r := range reasons {
		if len(p.reasons) < maxReasons && !slices.Contains(p.reasons, r) {
			p.reasons = append(p.reasons, r)
		}
	}
}

// maxReasons bounds the reasons that are told for one variant.
const maxReasons = 20

// timings orders the states of times, the best first.
var timings = []string{rundir.Clean, rundir.Noisy, rundir.NoTimes}

// use marks the repeats whose times are the variant's and returns their state: of each
// repeat the run of it with the best times, and of those the ones in the best state that
// there is. The second run of the baseline is a control and never used, nor is another run of
// a repeat without all evidence.
func use(repeats []rundir.Repeat) (state string, used []rundir.Repeat) {
	rank := func(i int) int { return slices.Index(timings, repeats[i].Timing) }
	best := map[int]int{} // the place of the best run, by the index of the repeat
	least := len(timings)
	for i, r := range repeats {
		repeats[i].Used = false
		if r.Control || r.Again != nil && len(missing(r)) > 0 {
			continue
		}
		of := r.Index
		if r.Again != nil {
			of = *r.Again
		}
		if other, ok := best[of]; !ok || rank(i) < rank(other) {
			best[of] = i
		}
		least = min(least, rank(i))
	}
	if least == len(timings) {
		return rundir.NoTimes, nil
	}
	for _, i := range best {
		repeats[i].Used = rank(i) == least
	}
	for _, r := range repeats {
		if r.Used {
			used = append(used, r)
		}
	}
	return timings[least], used
}

// mergeRepeats adds a variant's repeats up.
func (j *judge) mergeRepeats(v *rundir.Variant) error {
	var used []rundir.Repeat
	v.Timing, used = use(v.Repeats)
	m, err := measure.Merge(used)
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
		v.SLOs = worstSLOs(used)
		v.Races = allRaces(v.Repeats)
	}
	p := j.parts(v.Name, v.Repeats)
	v.Correctness, v.Objectives = p.answer, p.objectives
	v.Verdict, v.Reasons = p.overall(), p.reasons
	return nil
}

// allRaces adds the races of repeats up, the control left out so that designs compare; nil
// if none were counted.
func allRaces(repeats []rundir.Repeat) (sum *rundir.Races) {
	for _, r := range repeats {
		if r.Races == nil || r.Control {
			continue
		}
		if sum == nil {
			sum = &rundir.Races{Kinds: r.Races.Kinds, Least: r.Races.Least}
		}
		sum.Successful += r.Races.Successful
		sum.Raced += r.Races.Raced
		sum.Peak = max(sum.Peak, r.Races.Peak)
	}
	return sum
}

// worstInvariants merges the verdicts of each invariant over the repeats.
func worstInvariants(repeats []rundir.Repeat) []check.Verdict {
	order, by := []string{}, map[string][]check.Verdict{}
	for _, r := range repeats {
		for _, v := range r.Invariants {
			if !slices.Contains(order, v.Invariant) {
				order = append(order, v.Invariant)
			}
			if !r.Used && (v.OnlyLate() && v.Open == "" || v.NotJudged()) && len(repeats) > 1 {
				continue // promises of time are judged by the times that are used
			}
			by[v.Invariant] = append(by[v.Invariant], v)
		}
	}
	out := []check.Verdict{}
	for _, name := range order {
		if len(by[name]) > 0 {
			out = append(out, merge(by[name]))
		}
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
	v := rundir.Verdict{Correctness: rundir.Pass, Objectives: rundir.Pass, Timing: rundir.Clean,
		Reasons: []string{}}
	clean, without := 0, 0
	for _, variant := range s.Variants {
		invalid := variant.Verdict == rundir.Invalid
		v.Correctness = worst(v.Correctness, decided(variant.Correctness, invalid))
		v.Objectives = worst(v.Objectives, variant.Objectives)
		switch variant.Timing {
		case rundir.Clean:
			clean++
		case rundir.NoTimes:
			without++
		}
		v.Reasons = append(v.Reasons, prefixed(variant.Name, variant.Reasons)...)
	}
	switch {
	case without == len(s.Variants):
		v.Timing = rundir.NoTimes
	case clean < len(s.Variants):
		v.Timing = rundir.Noisy
	}
	if len(s.Variants) == 0 || s.Run.Interrupted {
		v.Correctness = worst(v.Correctness, rundir.Inconclusive)
	}
	v.Overall = overall(v.Correctness, v.Objectives)
	return v
}

// noiseFloor is how far the baseline's second run, the control, differs from its first one;
// nil if it did not run twice or has no times. With successes it is of successful operations.
func noiseFloor(v rundir.Variant, successes bool) *rundir.NoiseFloor {
	if len(v.Operations) == 0 {
		return nil
	}
	var first, control *rundir.Percentiles
	for _, r := range v.Repeats {
		p, ok := stats.MainResponse(r, v.Operations[0].Kind, successes)
		switch {
		case !ok || r.Timing == rundir.NoTimes:
		case r.Control && (control == nil || r.Timing == rundir.Clean):
			control = &p
		case !r.Control && r.Used && first == nil:
			first = &p
		}
	}
	if first == nil || control == nil {
		return nil
	}
	p50, ok50 := factor(first.P50, control.P50)
	p99, ok99 := factor(first.P99, control.P99)
	if !ok50 || !ok99 {
		return nil
	}
	return &rundir.NoiseFloor{Variant: v.Name, P50: p50, P99: p99}
}

// factor is how many times as long the longer of two times is, 1 or more; false if that is
// no finite number.
func factor(a, b int64) (float64, bool) {
	if a == b {
		return 1, true
	}
	low, high := min(a, b), max(a, b)
	return float64(high) / float64(low), low > 0 && high != rundir.Infinite
}
