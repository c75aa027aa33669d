// Package answer reads a run directory and says what the run has shown: the designs ranked,
// what proves a violation, and what of it may be trusted.
package answer

import (
	"cmp"
	"slices"

	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/rundir"
	"stampede/harness/stats"
	"stampede/reports/chart"
	"stampede/reports/words"
)

// Data is everything that reports are made of.
type Data struct {
	Summary rundir.Summary
	// Timelines are the numbers over time, where they could be read.
	Timelines map[RepeatRef]rundir.Timeline
	// Windows are the distributions over time, where they could be read.
	Windows map[RepeatRef]rundir.Windows
	// Telemetry is what stores and roles said of themselves, where they were asked.
	Telemetry map[RepeatRef]rundir.Telemetry
	// Records are the records that violations name, by their Seq.
	Records map[RepeatRef]map[uint64]history.Record
	// Deeds are all that the clients behind the violations did that a page draws.
	Deeds map[RepeatRef][]history.Record
	// Neighbours are the operations beside those that prove a violation alone, by the Seq
	// of those, where a page draws them.
	Neighbours map[RepeatRef]map[uint64][]history.Record
	// Prediction is what a simulation was held against, nil if that was nothing.
	Prediction *rundir.Prediction
	// Scenario is the scenario as it was run, in YAML.
	Scenario string
	// Place is the run directory from the folder of the runs on, with slashes:
	// "runs/flash-sale-100k/20261121T093000Z-42-7f3a19c0".
	Place string
	// Files are the files of the run directory, relative, with slashes.
	Files []string
	// Gaps say what could not be read, one line each. A report shows them:
	// nothing is missing silently.
	Gaps []string
}

// RepeatRef names one repeat of one variant. Repeat is rundir.Repeat.Index.
type RepeatRef struct {
	Variant string
	Repeat  int
}

// VerdictWord is the one word a run is known by: the overall verdict, or
// INTERRUPTED for a run that was stopped, unless it had failed already.
func VerdictWord(s rundir.Summary) string {
	if s.Run.Interrupted && s.Verdict.Overall != rundir.Fail {
		return Interrupted
	}
	if s.Verdict.Overall == "" {
		return rundir.Inconclusive
	}
	return s.Verdict.Overall
}

// Interrupted is the verdict word of a run that was stopped before its end.
const Interrupted = "INTERRUPTED"

// group says where a variant ranks, before any speed.
type group int

// The groups, best first.
const (
	holds     group = iota // held every invariant that was decided
	undecided              // no invariant broken, but not all decided
	latent                 // held here, but known to break under what did not happen
	Wrong                  // broke an invariant, or should have
)

// Standing is a variant with what the reports derive from it.
type Standing struct {
	rundir.Variant
	// Index is the place in the summary, from 0; Letter is the variant's mark
	// in charts, by rank.
	Index  int
	Letter string
	Group  group
	// Slot is its colour in every chart of the page in which designs are told apart.
	Slot int
	// Baseline is set for the variant that ratios refer to.
	Baseline bool
	// Broken are the broken invariants that the variant should have held, Caught
	// those that it was expected to break, and Missed those that it was expected to
	// break and did not. Besides are what a variant broke that was expected to break
	// others, and Elsewhere what one broke that was expected to break nothing here and is
	// known to break it under another trigger. Neither is held against it.
	Broken, Caught, Missed, Besides, Elsewhere []string
	// Late are promises of time that were missed, which are judged as objectives are.
	Late             []string
	Held, Applicable int
	// Main is the main operation kind, nil if none was measured.
	Main *rundir.Operation
	// Successes says that Response is of Main's successful operations alone, for all designs
	// of the run.
	Successes bool
}

// Ranked returns the variants as reports show them: those that hold before
// the undecided and the wrong ones, within a group by the main operation's
// p99, those without usable times last.
func Ranked(s rundir.Summary) []Standing {
	all := make([]Standing, len(s.Variants))
	for i, v := range s.Variants {
		all[i] = stand(v, s.Run.Baseline)
		all[i].Index = i
	}
	successes := stats.OfSuccesses(s.Variants)
	for i := range all {
		all[i].Successes = successes
	}
	slices.SortStableFunc(all, func(a, b Standing) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.p99(), b.p99()),
			cmp.Compare(a.Index, b.Index))
	})
	for i := range all {
		all[i].Letter = words.Letter(i)
	}
	colour(all)
	return all
}

// colour gives every design its slot, by its place in the one chart that it is in beside the
// baseline.
func colour(all []Standing) {
	for _, members := range ChartGroups(all) {
		for slot, m := range members {
			i := slices.IndexFunc(all, func(st Standing) bool { return st.Index == m.Index })
			all[i].Slot = slot
		}
	}
}

func stand(v rundir.Variant, baseline string) Standing {
	st := Standing{Variant: v, Baseline: v.Name == baseline}
	if len(v.Operations) > 0 {
		st.Main = &v.Operations[0]
	}
	broken := map[string]bool{}
	for _, inv := range v.Invariants {
		if _, skip := v.NotApplicable[inv.Invariant]; skip {
			continue
		}
		st.Applicable++
		switch {
		case inv.Status == check.Held:
			st.Held++
		case inv.OnlyLate() && !slices.Contains(v.ExpectedBroken, inv.Invariant):
			st.Late = append(st.Late, inv.Invariant)
		case inv.Status == check.Broken:
			broken[inv.Invariant] = true
			st.sortBroken(inv.Invariant)
		}
	}
	for _, name := range v.ExpectedBroken {
		if v.Correctness != rundir.NotCaught {
			break // without evidence a design is not blamed for what it did not break
		}
		if !broken[name] || !inEveryRepeat(v.Repeats, name) {
			st.Missed = append(st.Missed, name)
		}
	}
	switch v.Correctness {
	case rundir.Violated, rundir.Caught, rundir.NotCaught:
		st.Group = Wrong
	case rundir.NotProvoked:
		st.Group = latent
	case rundir.Holds:
	default:
		st.Group = undecided
	}
	return st
}

// inEveryRepeat reports whether every repeat that was judged broke the
// invariant: an error that is caught now and then is not caught.
func inEveryRepeat(repeats []rundir.Repeat, invariant string) bool {
	for _, r := range repeats {
		caught := slices.ContainsFunc(r.Invariants, func(v check.Verdict) bool {
			return v.Invariant == invariant && v.Status == check.Broken
		})
		if !caught && len(r.Invariants) > 0 {
			return false
		}
	}
	return true
}

func (st *Standing) sortBroken(invariant string) {
	list := &st.Broken
	switch {
	case slices.Contains(st.ExpectedBroken, invariant):
		list = &st.Caught
	case len(st.ExpectedBroken) > 0:
		list = &st.Besides
	case st.KnownWrong[invariant] != "":
		list = &st.Elsewhere
	}
	*list = append(*list, invariant)
}

// response are the response times of the main operation by which designs are ranked and
// shown; of nothing if none was measured.
func (st Standing) response() (p rundir.Percentiles) {
	if st.Main == nil {
		return p
	}
	return st.responseOf(*st.Main)
}

// responseOf are those of one repeat's main operation, or of all together.
func (st Standing) responseOf(op rundir.Operation) rundir.Percentiles {
	if !st.Successes {
		return op.Latency.Response
	}
	p, _ := op.SuccessfulResponse()
	return p
}

// Measured says whose times they are: "buy", or "successful buy operations".
func (st Standing) Measured() string {
	if st.Successes {
		return "successful " + st.Main.Kind + " operations"
	}
	return st.Main.Kind
}

// p99 is the p99 of response; a variant without one, or whose times cannot be used, ranks
// last.
func (st Standing) p99() int64 {
	p := st.response()
	if st.Timing == rundir.NoTimes || p.Count == 0 {
		return rundir.Infinite
	}
	return p.P99
}

// status words of a variant, as every report prints them.
const (
	wordHolds     = "holds"
	wordBesides   = "also broken"
	wordElsewhere = "violated as known elsewhere"
	wordViolated  = "VIOLATED"
	wordMissed    = "NOT CAUGHT"
	wordUndecided = "undecided"
	wordUntried   = "NOT EXERCISED"
	wordCaught    = "caught"
	wordLatent    = "not provoked"
)

// Word is what became of the variant's correctness, in one or a few words.
func (st Standing) Word() string {
	if st.Correctness == rundir.NotProvoked && len(st.Elsewhere) > 0 {
		return wordElsewhere
	}
	return wordOf(st.Correctness)
}

// wordOf is an answer about correctness in one or a few words.
func wordOf(correctness string) string {
	return cmp.Or(map[string]string{rundir.Holds: wordHolds, rundir.Violated: wordViolated,
		rundir.NotCaught: wordMissed, rundir.Caught: wordCaught, rundir.NotExercised: wordUntried,
		rundir.NotProvoked: wordLatent}[correctness], wordUndecided)
}

// knownWrong says what the variant is known to break, and when: "no-oversell
// under redis-loss".
func (st Standing) knownWrong() (list []string) {
	for _, name := range words.SortedKeys(st.KnownWrong) {
		list = append(list, name+" under "+st.KnownWrong[name])
	}
	return list
}

// Violations sums the violations of the given invariants.
func (st Standing) Violations(names []string) int {
	sum := 0
	for _, inv := range st.Invariants {
		if inv.Status == check.Broken && slices.Contains(names, inv.Invariant) {
			sum += max(inv.Count, 1)
		}
	}
	return sum
}

// invariantNames lists every judged invariant once, in order of appearance.
func invariantNames(s rundir.Summary) []string {
	var names []string
	for _, v := range s.Variants {
		for _, inv := range v.Invariants {
			names = words.With(names, inv.Invariant)
		}
	}
	return names
}

// Evidence finds the repeat that proves a broken invariant: the first one in
// which it was broken, and in how many it was.
func (st Standing) Evidence(invariant string) (r rundir.Repeat, v check.Verdict, times int) {
	for _, repeat := range st.Repeats {
		for _, inv := range repeat.Invariants {
			if inv.Invariant != invariant || inv.Status != check.Broken {
				continue
			}
			if times == 0 {
				r, v = repeat, inv
			}
			times++
		}
	}
	return r, v, times
}

// tally is the run in numbers.
type tally struct {
	// Passed and Failed count variants by verdict, Open the others.
	Passed, Failed, Open int
	// Violations were not expected, Caught were; Besides and Elsewhere were neither, and
	// are not held against the design.
	Violations, Caught, Besides, Elsewhere int
	// SLOsHeld of SLOs objectives were kept, those of known-wrong variants
	// left out; NotJudged were left open by noise alone, and Undecided otherwise. Promises
	// of time that were missed, or not judged, count with them.
	SLOsHeld, SLOs, NotJudged, Undecided int
}

// Count counts the standings by their groups and their objectives.
func Count(standings []Standing) tally {
	var t tally
	for _, st := range standings {
		switch st.Verdict {
		case rundir.Pass:
			t.Passed++
		case rundir.Fail:
			t.Failed++
		default:
			t.Open++
		}
		t.Violations += st.Violations(st.Broken)
		t.Caught += st.Violations(st.Caught)
		t.Besides += st.Violations(st.Besides)
		t.Elsewhere += st.Violations(st.Elsewhere)
		if len(st.ExpectedBroken) > 0 {
			continue // the speed of a wrong answer is no objective met
		}
		for _, slo := range st.SLOs {
			t.SLOs++
			switch {
			case slo.Status == check.Held:
				t.SLOsHeld++
			case slo.NotJudged:
				t.NotJudged++
			case slo.Status == check.Undecided:
				t.Undecided++
			}
		}
		for _, inv := range st.Invariants {
			if inv.OnlyLate() || inv.NotJudged() {
				t.SLOs++
			}
			if inv.NotJudged() {
				t.NotJudged++
			}
		}
	}
	return t
}

// Breaks says whether a repeat of a variant broke something that it should hold.
func (st Standing) Breaks(r rundir.Repeat) bool {
	return slices.ContainsFunc(r.Invariants, func(v check.Verdict) bool {
		return v.Status == check.Broken && slices.Contains(st.Broken, v.Invariant)
	})
}

// Note says why a design stands for others.
func (m Member) Note() string {
	switch {
	case m.Baseline:
		return "baseline"
	case m.Group == Wrong:
		return m.Word()
	}
	return ""
}

// Member is a variant in a chart.
type Member struct{ Standing }

// ChartGroups deals the variants into charts of at most slots series: first those that stand
// for all (see prominent), then the others, those that hold before the wrong ones. The
// baseline is in every chart, in the first slot; any other variant is in one chart, so that
// its slot is its colour on the whole page.
func ChartGroups(standings []Standing) [][]Member {
	if len(standings) <= chart.Slots {
		return [][]Member{seat(baselineFirst(standings))}
	}
	first := baselineFirst(prominent(standings))
	groups := [][]Member{seat(first)}
	base, others := words.Split(standings, func(st Standing) bool { return st.Baseline })
	others = slices.DeleteFunc(others, func(st Standing) bool {
		return slices.ContainsFunc(first, func(f Standing) bool { return f.Index == st.Index })
	})
	unsound, sound := words.Split(others, func(st Standing) bool { return st.Group == Wrong })
	for _, side := range [][]Standing{sound, unsound} {
		for part := range slices.Chunk(side, Evenly(len(side), chart.Slots-len(base))) {
			groups = append(groups, seat(base, part))
		}
	}
	return groups
}

// wrongOnes is how many of the wrong designs stand for all.
const wrongOnes = 2

// prominent are the designs that stand for all where a chart has no room for all: the
// baseline, the fastest and the slowest of those that hold, the first of those that broke
// something, and then the fastest of the others.
func prominent(standings []Standing) (chosen []Standing) {
	slowest := -1
	for i, st := range standings {
		if st.Group == holds {
			slowest = i
		}
	}
	taken := map[int]bool{}
	take := func(i int) {
		if len(taken) < chart.Slots {
			taken[i] = true
		}
	}
	broken := 0
	for i, st := range standings {
		if st.Group == Wrong {
			broken++
		}
		if i == 0 || st.Baseline || i == slowest || st.Group == Wrong && broken <= wrongOnes {
			take(i)
		}
	}
	for i := range standings {
		take(i)
	}
	for i, st := range standings {
		if taken[i] {
			chosen = append(chosen, st)
		}
	}
	return chosen
}

// baselineFirst keeps the order but for the baseline.
func baselineFirst(standings []Standing) []Standing {
	base, others := words.Split(standings, func(st Standing) bool { return st.Baseline })
	return append(base, others...)
}

// Evenly returns the chunk size that deals n into as few chunks of at most
// room as possible, of about equal size.
func Evenly(n, room int) int {
	if n == 0 {
		return room
	}
	chunks := (n + room - 1) / room
	return (n + chunks - 1) / chunks
}

func seat(sides ...[]Standing) []Member {
	var members []Member
	for _, st := range slices.Concat(sides...) {
		members = append(members, Member{st})
	}
	return members
}

// Operation returns a variant's numbers of one kind, nil if it has none.
func Operation(ops []rundir.Operation, kind string) *rundir.Operation {
	for i := range ops {
		if ops[i].Kind == kind {
			return &ops[i]
		}
	}
	return nil
}

// MainResponse are the response times of the main operation in a repeat, as the design's are
// shown; false if there are none.
func MainResponse(r rundir.Repeat, st Standing) (p rundir.Percentiles, ok bool) {
	if st.Main == nil {
		return p, false
	}
	return stats.MainResponse(r, st.Main.Kind, st.Successes)
}

// ForP999 is how many operations an interval must have for its p99.9 to be drawn: of
// fewer it is the slowest.
const ForP999 = 1000

// FaultWindows are the windows of a repeat's faults.
func FaultWindows(r rundir.Repeat) (faults []history.Window) {
	for _, w := range r.Faults {
		if w.Kind == history.FaultWindow {
			faults = append(faults, w)
		}
	}
	return faults
}
