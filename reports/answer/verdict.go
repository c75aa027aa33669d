package answer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"stampede/harness/check"
	"stampede/harness/rundir"
	"stampede/harness/stats"
	"stampede/reports/words"
)

// markTable has the marks of all words, on pages and in the terminal.
var markTable = map[string]words.Mark{
	rundir.Pass:         {Icon: "✓", Word: rundir.Pass, Class: "good"},
	rundir.Fail:         {Icon: "✗", Word: rundir.Fail, Class: "bad"},
	rundir.NotJudged:    {Icon: "≈", Word: rundir.NotJudged, Class: "na"},
	rundir.Inconclusive: {Icon: "?", Word: rundir.Inconclusive, Class: "warn"},
	rundir.Invalid:      {Icon: "!", Word: rundir.Invalid, Class: "warn"},
	Interrupted:         {Icon: "■", Word: Interrupted, Class: "warn"},

	rundir.Clean:   {Icon: "✓", Word: rundir.Clean, Class: "good"},
	rundir.Noisy:   {Icon: "≈", Word: rundir.Noisy, Class: "na"},
	rundir.NoTimes: {Icon: words.None, Word: rundir.NoTimes, Class: "warn"},

	wordHolds:     {Icon: "✓", Word: wordHolds, Class: "good"},
	wordViolated:  {Icon: "✗", Word: wordViolated, Class: "bad"},
	wordMissed:    {Icon: "✗", Word: wordMissed, Class: "bad"},
	wordUntried:   {Icon: "?", Word: wordUntried, Class: "warn"},
	wordUndecided: {Icon: "?", Word: wordUndecided, Class: "warn"},
	wordCaught:    {Icon: "⚑", Word: wordCaught, Class: "wrong"},
	wordBesides:   {Icon: "⚐", Word: wordBesides, Class: "wrong"},
	wordElsewhere: {Icon: "⚐", Word: wordElsewhere, Class: "wrong"},
	wordLatent:    {Icon: "○", Word: wordLatent, Class: "na"},
}

// VerdictMark returns the mark of a verdict word.
func VerdictMark(word string) words.Mark {
	return cmp.Or(markTable[word], markTable[rundir.Inconclusive])
}

// TimingMark returns the mark of the state of times.
func TimingMark(state string) words.Mark {
	return cmp.Or(markTable[state], markTable[rundir.NoTimes])
}

// ObjectivesMark returns the mark of the verdict about objectives. That none was missed
// where none was asked is no success.
func ObjectivesMark(word string, t tally) words.Mark {
	if t.SLOs == 0 && word == rundir.Pass {
		return words.Mark{Icon: words.None, Word: "none asked", Class: "na"}
	}
	return VerdictMark(word)
}

// Fastest names the fastest design of a run that holds, with its p99; "" if none has times.
func Fastest(s rundir.Summary) string {
	timed := timedOf(Ranked(s))
	if len(timed) == 0 {
		return ""
	}
	return timed[0].Name + " " + timed[0].p99Text()
}

// p99Text is the p99, marked if the times are noisy.
func (st Standing) p99Text() string { return Approximately(st) + words.Latency(st.p99()) }

// statusMark returns the mark of a check's status.
func statusMark(s check.Status) words.Mark {
	switch s {
	case check.Held:
		return words.Mark{Icon: "✓", Word: "held", Class: "good"}
	case check.Broken:
		return words.Mark{Icon: "✗", Word: "broken", Class: "bad"}
	}
	return words.Mark{Icon: "?", Word: "undecided", Class: "warn"}
}

// OutcomeMark is what became of a repeat, in a word with its sign and its class: the answer
// about correctness, or the verdict where that has another reason, such as a missed
// objective.
func OutcomeMark(verdict, correctness string) words.Mark {
	sound := slices.Contains([]string{rundir.Holds, rundir.Caught, rundir.NotProvoked}, correctness)
	if correctness == "" || verdict == rundir.Invalid || sound && verdict != rundir.Pass {
		return VerdictMark(verdict)
	}
	return markTable[wordOf(correctness)]
}

// Mark returns the mark of a variant's word.
func (st Standing) Mark() words.Mark { return markTable[st.Word()] }

// BreakMark returns the mark of an invariant that the variant broke.
func (st Standing) BreakMark(invariant string) words.Mark {
	for word, list := range map[string][]string{wordCaught: st.Caught, wordBesides: st.Besides,
		wordElsewhere: st.Elsewhere} {
		if slices.Contains(list, invariant) {
			return markTable[word]
		}
	}
	return markTable[wordViolated]
}

// SimulatedWord marks all that shows a run in virtual time.
const SimulatedWord = "SIMULATED"

// Marked is the run's scenario, marked if it was simulated, where figures of several runs meet.
func Marked(s rundir.Summary) string {
	if s.Environment.Simulated() {
		return s.Run.Scenario + " " + SimulatedWord
	}
	return s.Run.Scenario
}

// Bottlenecks say of each design of a simulation what was waited for longest.
func Bottlenecks(standings []Standing) (lines []string) {
	for _, st := range standings {
		for _, r := range st.Repeats {
			if r.Bottleneck != "" {
				lines = append(lines, st.Name+": "+r.Bottleneck)
				break
			}
		}
	}
	return lines
}

// AnswerSentences answer the scenario's question: which designs are correct, and what the
// correct ones cost.
func AnswerSentences(s rundir.Summary, standings []Standing) []string {
	if len(standings) == 0 {
		return []string{"No design was run."}
	}
	all := []string{CorrectLines(s, standings)[0] + "."}
	if s.Environment.Simulated() {
		all = []string{SimulatedWord + ", nothing was measured.", all[0]}
	}
	if cost := costSentence(s, standings); cost != "" {
		all = append(all, cost)
	}
	return all
}

// brokeWhat says which invariants a variant broke, and how often.
func brokeWhat(st Standing) string {
	return fmt.Sprintf("%s broke %s (%s)", st.Name, words.List(st.Broken, 2),
		words.Plural(st.Violations(st.Broken), "violation"))
}

// costSentence says which of the designs that hold answer fastest, as far as the times of
// this machine can tell.
func costSentence(s rundir.Summary, standings []Standing) string {
	timed := timedOf(standings)
	if len(timed) == 0 {
		return ""
	}
	best := fastestOf(timed, s.NoiseFloor.Of("p99"))
	first, last := timed[0], timed[len(timed)-1]
	kind, p99 := first.Measured(), first.p99Text()
	if slowest := best[len(best)-1]; words.Latency(slowest.p99()) != words.Latency(first.p99()) {
		p99 += " to " + slowest.p99Text()
	}
	var text string
	switch {
	case len(timed) == 1:
		text = fmt.Sprintf("%s answers %s with a p99 of %s", first.Name, kind, p99)
	case len(best) == 1:
		text = fmt.Sprintf("%s answers %s fastest: p99 %s", first.Name, kind, p99)
	case len(best) == len(timed):
		return fmt.Sprintf("Their p99 of %s cannot be told apart: %s.", kind, p99)
	default:
		text = fmt.Sprintf("%s answer %s fastest and cannot be told apart: p99 %s",
			words.List(namesOf(best), 2), kind, p99)
	}
	after := ""
	amongBest := slices.ContainsFunc(best, func(st Standing) bool { return st.Baseline })
	for _, c := range s.Comparisons {
		if c.Candidate == first.Name && c.Metric == "p99" && c.Ratio > 0 && !amongBest {
			text += fmt.Sprintf(", %s%s the baseline %s", about(c), howFar(c.Ratio, c.N), c.Base)
			if note := QueuedNote(s, []Standing{first, baselineOf(standings)}); note != "" {
				after = " " + note
			}
			if c.PExact != nil {
				text += " (" + Certainty(c) + ")"
			}
		}
	}
	if len(best) < len(timed) && !last.Baseline {
		text += "; " + last.Name + " is slowest: "
		if last.p99() == rundir.Infinite {
			text += "more than 1 % got no answer"
		} else {
			text += last.p99Text()
		}
	}
	return text + "." + after
}

// The p99 of the response is mostly waiting where it is so many times that of the execution,
// and by so much longer that it is no mere jitter.
const (
	queuedShare = 3
	queuedLeast = int64(100 * time.Millisecond)
)

// queued says that most of the p99 of a design's main operation is the wait for a free place:
// the design could not keep up with the load.
func (st Standing) queued() bool {
	if st.Main == nil || st.Timing == rundir.NoTimes {
		return false
	}
	response, service := st.Main.Latency.Response, st.Main.Latency.Service
	return service.Count > 0 && response.P99 != rundir.Infinite &&
		response.P99 >= max(queuedShare*service.P99, service.P99+queuedLeast)
}

// QueuedNote says of which designs a ratio of the p99 depends on how long the load lasted; ""
// if there is no ratio, or none of them had to wait.
func QueuedNote(s rundir.Summary, standings []Standing) string {
	late := slices.DeleteFunc(slices.Clone(standings), func(st Standing) bool {
		return !st.queued() || !slices.ContainsFunc(s.Comparisons, func(c rundir.Comparison) bool {
			return c.Metric == "p99" && c.Ratio > 0 && (c.Candidate == st.Name || c.Base == st.Name)
		})
	})
	if len(late) == 0 {
		return ""
	}
	return fmt.Sprintf("%s could not keep up: most of %s p99 is waiting for a free place, so the "+
		"%s on how long the load lasted.", words.List(namesOf(late), 3),
		words.Choose(len(late), "its", "their"),
		words.Choose(len(late), "ratio depends", "ratios depend"))
}

// baselineOf is the design that ratios refer to.
func baselineOf(standings []Standing) (base Standing) {
	for _, st := range standings {
		if st.Baseline {
			return st
		}
	}
	return base
}

// timedOf are the designs that hold and have usable times, if the first has a p99. They come
// ranked.
func timedOf(standings []Standing) (timed []Standing) {
	for _, st := range standings {
		if _, ok := st.Times(); ok && st.Group == holds {
			timed = append(timed, st)
		}
	}
	if len(timed) > 0 && timed[0].p99() == rundir.Infinite {
		return nil
	}
	return timed
}

// fastestOf are the designs that cannot be told from the fastest one at p99: two designs must
// differ by a large share, and by more than the noise floor.
func fastestOf(timed []Standing, floor float64) (best []Standing) {
	factor := max(1/(1-stats.LargeShare), floor)
	for _, st := range timed {
		if float64(st.p99()) < float64(timed[0].p99())*factor {
			best = append(best, st)
		}
	}
	return best
}

// ClearlyFaster says whether a time is lower than another one by a large share.
func ClearlyFaster[T int64 | float64](a, b T) bool {
	return float64(a) <= float64(b)*(1-stats.LargeShare)
}

func namesOf(standings []Standing) (names []string) {
	for _, st := range standings {
		names = append(names, st.Name)
	}
	return names
}

// about marks a ratio of noisy times.
func about(c rundir.Comparison) string {
	if c.Approximate {
		return "≈ "
	}
	return ""
}

// howFar says a ratio of times in words; a difference that its digits do not show is
// none.
func howFar(ratio float64, repeats int) string {
	switch far := words.RatioOf(max(ratio, 1/ratio), repeats); {
	case far == words.RatioOf(1, repeats):
		return "about that of"
	case ratio < 1:
		return far + " lower than"
	default:
		return far + " higher than"
	}
}

// Certainty says how sure a ratio is; the interval points the way howFar
// does.
func Certainty(c rundir.Comparison) string {
	if c.PExact == nil {
		return fmt.Sprintf("n = %d: too few repeats for a test", c.N)
	}
	text := ""
	if ci := c.CI95; ci != nil {
		low, high := ci[0], ci[1]
		if c.Ratio < 1 {
			low, high = 1/high, 1/low
		}
		text = fmt.Sprintf("95 %% CI %s to %s, ", words.Times(low), words.Times(high))
	}
	return text + fmt.Sprintf("exact p %s, n = %d", equals(c.PExact), c.N)
}

// equals writes "= 0.002" or "< 0.0001".
func equals(p *float64) string {
	text := words.PValue(p)
	if strings.HasPrefix(text, "<") {
		return text
	}
	return "= " + text
}
