package answer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/measure"
	"stampede/harness/rundir"
	"stampede/reports/words"
)

// Card is one of the three answers of a run.
type Card struct {
	Name  string
	Mark  words.Mark
	Lines []string
}

// Findings are the answers, in the order in which they matter: whether the designs are
// correct, whether the times can be used, whether the objectives were met.
func Findings(s rundir.Summary, standings []Standing) []Card {
	word := VerdictWord(s)
	if s.Verdict.Correctness == rundir.Pass && !s.Run.Interrupted {
		word = rundir.Pass // an objective that was missed makes no design wrong
	}
	list := []Card{{"Correct", VerdictMark(word), CorrectLines(s, standings)}}
	if len(standings) == 0 {
		return list
	}
	timing := Card{"Timing", TimingMark(s.Verdict.Timing), timingLines(s, standings)}
	if s.Environment.Simulated() {
		timing = Card{"Timing", words.Mark{Icon: words.None, Word: "virtual", Class: "na"},
			[]string{"no time was measured; " + s.Environment.BackendReason}}
	}
	list = append(list, timing)
	if t := Count(standings); t.SLOs > 0 {
		list = append(list, Card{"Objectives", ObjectivesMark(s.Verdict.Objectives, t),
			objectiveLines(standings, t)})
	}
	return list
}

// AnswerCards are the answers for the page, whose first sentences say the first line about
// correctness and whose table of controls says the last one.
func AnswerCards(s rundir.Summary, standings []Standing) []Card {
	cards := Findings(s, standings)
	if len(standings) > 0 {
		cards[0].Lines = evidenceLines(s, standings)
		if len(cards[0].Lines) == 0 {
			cards[0].Lines = []string{judgedLine(s, standings)}
		}
	}
	if len(cards) == 2 {
		cards = append(cards, Card{"Objectives", words.Mark{Icon: words.None, Word: "none asked",
			Class: "na"}, []string{"the scenario asks for none"}})
	}
	return cards
}

// judgedLine says on how much the answer about correctness rests.
func judgedLine(s rundir.Summary, standings []Standing) string {
	var operations int64
	for _, st := range standings {
		operations += st.Load.Started
	}
	return fmt.Sprintf("%s judged from %s", words.Plural(len(invariantNames(s)), "invariant"),
		words.Plural(operations, "recorded operation"))
}

// correct counts the designs by what is known of their correctness.
type correct struct {
	// Sound designs are those that are not known to be wrong, and those that are and broke
	// something else; Holding are those of them that hold every invariant.
	Sound, Holding int
	// Open are those of the sound ones of which there is no answer.
	Open int
	// Controls are provoked, Caught of them were.
	Controls, Caught int
	// Dormant are known to be wrong under what the scenario does not provoke.
	Dormant []Standing
}

// CorrectOf counts the designs by what is known of their correctness.
func CorrectOf(standings []Standing) (c correct) {
	for _, st := range standings {
		switch {
		case len(st.ExpectedBroken) > 0:
			c.Controls++
			if st.Correctness == rundir.Caught {
				c.Caught++
			}
		case st.Correctness == rundir.NotProvoked:
			c.Dormant = append(c.Dormant, st)
		default:
			c.Sound++
			switch st.Group {
			case holds:
				c.Holding++
			case undecided:
				c.Open++
			}
		}
	}
	return c
}

// CorrectLines say what is known of correctness, and by which evidence.
func CorrectLines(s rundir.Summary, standings []Standing) (lines []string) {
	if len(standings) == 0 {
		return []string{"no design was run"}
	}
	c := CorrectOf(standings)
	lines = append([]string{countLine(c)}, evidenceLines(s, standings)...)
	return append(lines, words.NonEmpty(dormantLine(s, c.Dormant))...)
}

// evidenceLines say what is wrong with which design, where there is no answer, and by which
// evidence the others hold.
func evidenceLines(s rundir.Summary, standings []Standing) (lines []string) {
	for _, st := range standings {
		lines = append(lines, wrongLine(st))
	}
	return words.NonEmpty(append(lines, summaryLine(s, standings), raceLine(standings),
		faultsLine(standings))...)
}

// countLine says what became of how many designs; the numbers add up to that of all.
func countLine(c correct) string {
	var parts []string
	if c.Sound > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d %s every invariant", c.Holding, c.Sound,
			words.Choose(c.Sound, "holds", "hold")))
	}
	if c.Open > 0 {
		parts = append(parts, fmt.Sprintf("%d %s undecided", c.Open, words.Choose(c.Open, "is", "are")))
	}
	if c.Controls > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d known-wrong %s caught", c.Caught, c.Controls,
			words.Choose(c.Controls, "one was", "ones were")))
	}
	if n := len(c.Dormant); n > 0 {
		parts = append(parts, fmt.Sprintf("%d known-wrong %s not provoked here", n,
			words.Choose(n, "one is", "ones are")))
	}
	all := words.Plural(c.Sound+c.Controls+len(c.Dormant), "design")
	if c.Controls+len(c.Dormant) == 0 && c.Sound > 0 {
		parts[0] = strings.Replace(parts[0], fmt.Sprintf("of %d", c.Sound), "of "+all, 1)
		return strings.Join(parts, ", ")
	}
	return all + ": " + strings.Join(parts, ", ")
}

// wrongLine says what is wrong with a design, or why there is no answer; "" where all is
// as it should be.
func wrongLine(st Standing) string {
	switch st.Correctness {
	case rundir.Violated:
		return brokeWhat(st)
	case rundir.NotCaught:
		return fmt.Sprintf("%s is known to break %s and was not caught", st.Name, words.List(st.Missed,
			2))
	case rundir.NotExercised, rundir.Undecided:
		why := "no reason is recorded"
		if len(st.Reasons) > 0 {
			why = st.Reasons[0]
		}
		return fmt.Sprintf("no answer about %s: %s", st.Name, why)
	}
	return ""
}

// raceLine says how hard the designs that hold were tried; "" if nothing counts it.
func raceLine(standings []Standing) string {
	var successful, peak int64
	least, most := 1.0, 0.0
	kinds := ""
	for _, st := range standings {
		if st.Correctness != rundir.Holds || st.Races == nil || st.Races.Successful == 0 {
			continue
		}
		part := float64(st.Races.Raced) / float64(st.Races.Successful)
		least, most = min(least, part), max(most, part)
		successful += st.Races.Successful
		peak = max(peak, st.Races.Peak)
		kinds = strings.Join(st.Races.Kinds, " or ")
	}
	if successful == 0 {
		return ""
	}
	return fmt.Sprintf("%s successful %s operations, %s of which raced another on the same key, up "+
		"to %d at once", words.Grouped(successful), kinds, words.Percents(least, most), peak)
}

// faultsLine says which faults were injected, and that the run has the proof of each, or of
// which it has none; "" without faults. One that strikes what a design does not have does not
// count for it.
func faultsLine(standings []Standing) string {
	var names, texts, missing []string
	for _, st := range standings {
		for _, r := range st.Repeats {
			for _, w := range FaultWindows(r) {
				proved, idle := provedFault(r, w)
				if idle != "" {
					continue
				}
				if !slices.Contains(names, w.Name) {
					names = append(names, w.Name)
					what, _, _ := strings.Cut(w.Fault, " at ")
					texts = append(texts, fmt.Sprintf("%s (%s)", w.Name, words.JoinNonEmpty(" at ", what,
						words.Seconds(w.Start.Seconds()))))
				}
				if !proved && !slices.Contains(missing, w.Name) {
					missing = append(missing, w.Name)
				}
			}
		}
	}
	if len(names) == 0 {
		return ""
	}
	text := "faults: " + words.Grouped(len(names)) + " injected, "
	if n := len(missing); n > 0 {
		return text + fmt.Sprintf("%d not proved: %s", n, words.List(missing, 3))
	}
	return text + words.Choose(len(names), "", "all ") + "proved: " + words.List(texts, 3)
}

// provedFault says whether there is a proof of a fault, or why it strikes nothing of the design
// and needs none.
func provedFault(r rundir.Repeat, w history.Window) (proved bool, idle string) {
	if len(w.Evidence) > 0 {
		return true, ""
	}
	for _, v := range r.Validity {
		if v.Name == rundir.FaultAssumption+w.Name && v.OK {
			return false, v.Detail
		}
	}
	return false, ""
}

// dormantLine names the scenarios that provoke the errors which this one does not.
func dormantLine(s rundir.Summary, dormant []Standing) string {
	if len(dormant) == 0 {
		return ""
	}
	var scenarios []string
	for _, st := range dormant {
		// One scenario a design is enough to try it.
		if names := s.Run.ProvokedBy[st.Name]; len(names) > 0 && !slices.Contains(scenarios, names[0]) {
			scenarios = append(scenarios, names[0])
		}
	}
	if len(scenarios) == 0 {
		return ""
	}
	return "what is not provoked here is provoked by " + words.List(scenarios, 3)
}

// timingLines say whether the times can be used.
func timingLines(s rundir.Summary, standings []Standing) (lines []string) {
	if sideBySide(standings) {
		return []string{"the designs ran side by side, each with a part of the machine and its stores: " +
			"there are no times, and objectives are not judged"}
	}
	lines = append(lines, interferenceLine(standings))
	switch f := s.Run.Fitted; {
	case f == nil || !f.Capped:
	case f.CleanPerS == 0:
		lines = append(lines, rundir.Uncarried(f.PeakPerS))
	default:
		lines = append(lines, fmt.Sprintf("the load is more than half of the %s operations a second "+
			"that this machine sends cleanly: %s", words.Grouped(int(f.CleanPerS)), rundir.OfCapped))
	}
	if f := s.NoiseFloor; f != nil {
		lines = append(lines, fmt.Sprintf("the same design differed from itself by %s at p99: %s "+
			"mean nothing here", words.Times(f.P99), smallerThan(f)))
	}
	return lines
}

// sideBySide says that designs ran at the same time.
func sideBySide(standings []Standing) bool {
	return slices.ContainsFunc(standings, func(st Standing) bool {
		return slices.ContainsFunc(st.Repeats, func(r rundir.Repeat) bool {
			return slices.ContainsFunc(r.Validity, func(v rundir.Validity) bool {
				return v.Name == measure.SideBySideName
			})
		})
	})
}

// smallerThan names the differences in p99 that mean nothing.
func smallerThan(f *rundir.NoiseFloor) string {
	if least := f.Of("p99"); least > f.P99 {
		return "differences below " + words.Times(least)
	}
	return "smaller differences"
}

// interferenceLine says in how many of all repeats the times were disturbed, and how often by
// what.
func interferenceLine(standings []Standing) string {
	noisy, without := 0, 0
	for _, st := range standings {
		for _, r := range st.Repeats {
			switch r.Timing {
			case rundir.Noisy:
				noisy++
			case rundir.NoTimes:
				without++
			}
		}
	}
	if noisy+without == 0 {
		return "nothing interfered with the times of " + repeatsText(standings)
	}
	var states []string
	if noisy > 0 {
		states = append(states, fmt.Sprintf("%d %s noisy", noisy, words.Choose(noisy, "is", "are")))
	}
	if without > 0 {
		states = append(states, fmt.Sprintf("%d %s no usable times", without,
			words.Choose(without, "has", "have")))
	}
	text := repeatsText(standings) + "; " + strings.Join(states, ", ")
	if found := causes(standings); len(found) > 0 {
		text += ": " + strings.Join(found, ", ")
	}
	return text
}

// repeatsText counts all repeats, and says which of them are more than each design's own.
func repeatsText(standings []Standing) string {
	all, baseline, control, again := 0, 0, 0, 0
	for _, st := range standings {
		for _, r := range st.Repeats {
			all++
			if st.Baseline {
				baseline++
			}
			if r.Control {
				control++
			}
			if r.Again != nil {
				again++
			}
		}
	}
	text := words.Plural(all, "repeat")
	if control > 0 {
		text += fmt.Sprintf(", %d of them the baseline's", baseline)
	}
	if again > 0 {
		text += fmt.Sprintf(", %d run again after noise", again)
	}
	return text
}

// lateness says in words what it means that an assumption about times failed; that of the
// interference has a text of its own.
var lateness = []struct{ assumption, text string }{
	{measure.PacerLagName, "dispatch was late"},
	{measure.CoreWaitName, "a core came late"},
	{measure.GCPauseName, "the garbage collector paused the generator"},
	{measure.GeneratorCPUName, "the generator was short of CPU"},
}

// causes say what disturbed the times of the repeats that are not clean, each with the number
// of repeats in which it did: "other programs took 28 to 39 % of the CPU in 3".
func causes(standings []Standing) (parts []string) {
	steal, others, parted, failed := shares{}, shares{}, 0, map[string]int{}
	for _, st := range standings {
		for _, r := range st.Repeats {
			if r.Timing == rundir.Clean {
				continue
			}
			taken := steal.add(r.Generator.StealShare, measure.StealMost)
			if r.Processor != nil {
				taken = others.add(r.Processor.Machine.OthersShare(), measure.OthersMost) || taken
			}
			for _, v := range r.Validity {
				switch {
				case v.OK || v.Class != rundir.Times:
				case v.Name != measure.InterferenceName:
					failed[v.Name]++
				case !taken:
					parted++ // on average it was below the limits
				}
			}
		}
	}
	add := func(n int, text string) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%s in %d", text, n))
		}
	}
	add(steal.n, "the host took "+words.Percents(steal.least, steal.most)+" of the CPU")
	add(others.n, "other programs took "+words.Percents(others.least, others.most)+" of the CPU")
	add(parted, "the CPU was taken part of the time (interference)")
	for _, late := range lateness {
		add(failed[late.assumption], late.text+" ("+late.assumption+")")
	}
	return parts
}

// shares is the range of the shares that are above a limit.
type shares struct {
	n           int
	least, most float64
}

// add takes a share into the range if it is above the limit, and says whether it is.
func (s *shares) add(share, limit float64) bool {
	if share <= limit {
		return false
	}
	if s.n == 0 {
		s.least = share
	}
	s.n++
	s.least, s.most = min(s.least, share), max(s.most, share)
	return true
}

// objectivesMet says how many objectives were met by how many designs: each is judged once
// for each of them.
func objectivesMet(standings []Standing, t tally) string {
	names, designs := map[string]bool{}, 0
	for _, st := range standings {
		if len(st.ExpectedBroken) > 0 || len(st.SLOs) == 0 {
			continue
		}
		designs++
		for _, slo := range st.SLOs {
			names[slo.Name] = true
		}
	}
	switch {
	case designs < 2 || len(names)*designs != t.SLOs:
		return fmt.Sprintf("%d met", t.SLOsHeld)
	case t.SLOsHeld == t.SLOs:
		return fmt.Sprintf("%s met by each of %d designs", words.Plural(len(names), "objective"), designs)
	}
	return fmt.Sprintf("%s for each of %d designs: %d met", words.Plural(len(names), "objective"),
		designs,
		t.SLOsHeld)
}

// objectiveNames are what was promised, in few words; "" if only invariants promise a time.
func objectiveNames(standings []Standing) string {
	var names []string
	timed := 0
	for _, column := range Slos(standings).Columns {
		names = append(names, column.Name)
		o, err := check.ParseObjective(column.Objective)
		if err != nil || o.Func == check.Quantile || o.Func == check.Max {
			timed++
		}
	}
	if len(names) == 0 {
		return ""
	}
	text := words.List(names, 3)
	if timed == 0 {
		text += "; " + words.Choose(len(names), "it is not", "none is") + " about time"
	}
	return text
}

// objectiveLines say which objectives were met.
func objectiveLines(standings []Standing, t tally) (lines []string) {
	text := objectivesMet(standings, t)
	if missed := t.SLOs - t.SLOsHeld - t.NotJudged - t.Undecided; missed > 0 {
		text += fmt.Sprintf(", %d missed", missed)
	}
	if t.Undecided > 0 {
		text += fmt.Sprintf(", %d undecided", t.Undecided)
	}
	if t.NotJudged > 0 {
		text += fmt.Sprintf(", %d not judged", t.NotJudged)
	}
	if names := objectiveNames(standings); names != "" {
		text += " (" + names + ")"
	}
	lines = append(lines, text)
	if sideBySide(standings) {
		return lines // the timing says why none is judged
	}
	const most = 3
	for _, st := range standings {
		if len(st.ExpectedBroken) > 0 {
			continue
		}
		for _, slo := range st.SLOs {
			if slo.Status == check.Held || len(lines) > most {
				continue
			}
			how := "missed"
			if slo.Status != check.Broken {
				how = "is not judged on"
			}
			lines = append(lines, fmt.Sprintf("%s %s %s: %s", st.Name, how, slo.Name,
				cmp.Or(slo.Reason, slo.Actual+", limit "+slo.Limit)))
		}
		for _, inv := range st.Invariants {
			if inv.OnlyLate() && len(lines) <= most {
				lines = append(lines, fmt.Sprintf("%s missed the promise %s %s", st.Name, inv.Invariant,
					words.Choose(inv.Count, "once", fmt.Sprintf("%s times", words.Grouped(inv.Count)))))
			}
		}
	}
	return lines
}
