// Package reports tells what a run has shown: an HTML page, a Markdown
// summary, JUnit, OpenMetrics, percentile files and text for the terminal.
//
// Reports read run directories only. The same Data gives the same bytes.
package reports

import (
	"cmp"
	"slices"

	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/rundir"
	"stampede/harness/stats"
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
	wrong                  // broke an invariant, or should have
)

// standing is a variant with what the reports derive from it.
type standing struct {
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

// ranked returns the variants as reports show them: those that hold before
// the undecided and the wrong ones, within a group by the main operation's
// p99, those without usable times last.
func ranked(s rundir.Summary) []standing {
	all := make([]standing, len(s.Variants))
	for i, v := range s.Variants {
		all[i] = stand(v, s.Run.Baseline)
		all[i].Index = i
	}
	successes := stats.OfSuccesses(s.Variants)
	for i := range all {
		all[i].Successes = successes
	}
	slices.SortStableFunc(all, func(a, b standing) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.p99(), b.p99()),
			cmp.Compare(a.Index, b.Index))
	})
	for i := range all {
		all[i].Letter = letter(i)
	}
	colour(all)
	return all
}

// colour gives every design its slot, by its place in the one chart that it is in beside the
// baseline.
func colour(all []standing) {
	for _, members := range chartGroups(all) {
		for slot, m := range members {
			i := slices.IndexFunc(all, func(st standing) bool { return st.Index == m.Index })
			all[i].Slot = slot
		}
	}
}

func stand(v rundir.Variant, baseline string) standing {
	st := standing{Variant: v, Baseline: v.Name == baseline}
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
		st.Group = wrong
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

func (st *standing) sortBroken(invariant string) {
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
func (st standing) response() (p rundir.Percentiles) {
	if st.Main == nil {
		return p
	}
	return st.responseOf(*st.Main)
}

// responseOf are those of one repeat's main operation, or of all together.
func (st standing) responseOf(op rundir.Operation) rundir.Percentiles {
	if !st.Successes {
		return op.Latency.Response
	}
	p, _ := op.SuccessfulResponse()
	return p
}

// measured says whose times they are: "buy", or "successful buy operations".
func (st standing) measured() string {
	if st.Successes {
		return "successful " + st.Main.Kind + " operations"
	}
	return st.Main.Kind
}

// p99 is the p99 of response; a variant without one, or whose times cannot be used, ranks
// last.
func (st standing) p99() int64 {
	p := st.response()
	if st.Timing == rundir.NoTimes || p.Count == 0 {
		return rundir.Infinite
	}
	return p.P99
}

// letter returns A, B, … Z, AA, AB, … for 0, 1, …
func letter(i int) string {
	name := ""
	for i >= 0 {
		name = string(rune('A'+i%26)) + name
		i = i/26 - 1
	}
	return name
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

// word is what became of the variant's correctness, in one or a few words.
func (st standing) word() string {
	if st.Correctness == rundir.NotProvoked && len(st.Elsewhere) > 0 {
		return wordElsewhere
	}
	return wordOf(st.Correctness)
}

// wordOf is an answer about correctness in one or a few words.
func wordOf(correctness string) string {
	switch correctness {
	case rundir.Holds:
		return wordHolds
	case rundir.Violated:
		return wordViolated
	case rundir.NotCaught:
		return wordMissed
	case rundir.Caught:
		return wordCaught
	case rundir.NotExercised:
		return wordUntried
	case rundir.NotProvoked:
		return wordLatent
	}
	return wordUndecided
}

// knownWrong says what the variant is known to break, and when: "no-oversell
// under redis-loss".
func (st standing) knownWrong() (list []string) {
	for _, name := range sortedKeys(st.KnownWrong) {
		list = append(list, name+" under "+st.KnownWrong[name])
	}
	return list
}

// violations sums the violations of the given invariants.
func (st standing) violations(names []string) int {
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
	add := func(name string) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, v := range s.Variants {
		for _, inv := range v.Invariants {
			add(inv.Invariant)
		}
	}
	return names
}

// evidence finds the repeat that proves a broken invariant: the first one in
// which it was broken, and in how many it was.
func (st standing) evidence(invariant string) (r rundir.Repeat, v check.Verdict, times int) {
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
	// left out, and NotJudged were left open by noise alone. Promises of time that were
	// missed, or not judged, count with them.
	SLOsHeld, SLOs, NotJudged int
}

func count(standings []standing) tally {
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
		t.Violations += st.violations(st.Broken)
		t.Caught += st.violations(st.Caught)
		t.Besides += st.violations(st.Besides)
		t.Elsewhere += st.violations(st.Elsewhere)
		if len(st.ExpectedBroken) > 0 {
			continue // the speed of a wrong answer is no objective met
		}
		for _, slo := range st.SLOs {
			t.SLOs++
			if slo.Status == check.Held {
				t.SLOsHeld++
			}
			if slo.NotJudged {
				t.NotJudged++
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
