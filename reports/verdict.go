package reports

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"stampede/harness/check"
	"stampede/harness/rundir"
	"stampede/harness/stats"
)

// mark is a verdict as icon, word and CSS class. The icon repeats what the
// word says, so that neither colour nor font decides what is read.
type mark struct {
	Icon, Word, Class string
}

// markTable has the marks of all words, on pages and in the terminal.
var markTable = map[string]mark{
	rundir.Pass:         {"✓", rundir.Pass, "good"},
	rundir.Fail:         {"✗", rundir.Fail, "bad"},
	rundir.NotJudged:    {"≈", rundir.NotJudged, "na"},
	rundir.Inconclusive: {"?", rundir.Inconclusive, "warn"},
	rundir.Invalid:      {"!", rundir.Invalid, "warn"},
	Interrupted:         {"■", Interrupted, "warn"},

	rundir.Clean:   {"✓", rundir.Clean, "good"},
	rundir.Noisy:   {"≈", rundir.Noisy, "na"},
	rundir.NoTimes: {none, rundir.NoTimes, "warn"},

	wordHolds:     {"✓", wordHolds, "good"},
	wordViolated:  {"✗", wordViolated, "bad"},
	wordMissed:    {"✗", wordMissed, "bad"},
	wordUntried:   {"?", wordUntried, "warn"},
	wordUndecided: {"?", wordUndecided, "warn"},
	wordCaught:    {"⚑", wordCaught, "wrong"},
	wordBesides:   {"⚐", wordBesides, "wrong"},
	wordElsewhere: {"⚐", wordElsewhere, "wrong"},
	wordLatent:    {"○", wordLatent, "na"},
}

// verdictMark returns the mark of a verdict word.
func verdictMark(word string) mark {
	if m, known := markTable[word]; known {
		return m
	}
	return markTable[rundir.Inconclusive]
}

// timingMark returns the mark of the state of times.
func timingMark(state string) mark {
	if m, known := markTable[state]; known {
		return m
	}
	return markTable[rundir.NoTimes]
}

// objectivesMark returns the mark of the verdict about objectives. That none was missed
// where none was asked is no success.
func objectivesMark(word string, t tally) mark {
	if t.SLOs == 0 && word == rundir.Pass {
		return mark{none, "none asked", "na"}
	}
	return verdictMark(word)
}

// VerdictMark is the sign of a verdict word on a page, and its class in the style
// of Look.
func VerdictMark(word string) (icon, class string) {
	m := verdictMark(word)
	return m.Icon, m.Class
}

// TimingMark is the sign of what times are worth, with its word and its class.
func TimingMark(state string) (icon, word, class string) {
	m := timingMark(state)
	return m.Icon, m.Word, m.Class
}

// Fastest names the fastest design of a run that holds, with its p99; "" if none has times.
func Fastest(s rundir.Summary) string {
	timed := timedOf(ranked(s))
	if len(timed) == 0 {
		return ""
	}
	return timed[0].Name + " " + approximately(timed[0]) + latency(timed[0].p99())
}

// statusMark returns the mark of a check's status.
func statusMark(s check.Status) mark {
	switch s {
	case check.Held:
		return mark{"✓", "held", "good"}
	case check.Broken:
		return mark{"✗", "broken", "bad"}
	}
	return mark{"?", "undecided", "warn"}
}

// OutcomeMark is what became of a repeat, in a word with its sign and its class: the answer
// about correctness, or the verdict where that has another reason, such as a missed
// objective.
func OutcomeMark(verdict, correctness string) (icon, word, class string) {
	m := verdictMark(verdict)
	switch correctness {
	case rundir.Holds, rundir.Caught, rundir.NotProvoked:
		if verdict == rundir.Pass {
			m = markTable[wordOf(correctness)]
		}
	case rundir.Violated, rundir.NotCaught, rundir.NotExercised, rundir.Undecided:
		if verdict != rundir.Invalid {
			m = markTable[wordOf(correctness)]
		}
	}
	return m.Icon, m.Word, m.Class
}

// mark returns the mark of a variant's word.
func (st standing) mark() mark { return markTable[st.word()] }

// breakMark returns the mark of an invariant that the variant broke.
func (st standing) breakMark(invariant string) mark {
	switch {
	case slices.Contains(st.Caught, invariant):
		return markTable[wordCaught]
	case slices.Contains(st.Besides, invariant):
		return markTable[wordBesides]
	case slices.Contains(st.Elsewhere, invariant):
		return markTable[wordElsewhere]
	}
	return markTable[wordViolated]
}

// answerSentences answer the scenario's question: which designs are correct, and what the
// correct ones cost.
func answerSentences(s rundir.Summary, standings []standing) []string {
	if len(standings) == 0 {
		return []string{"No design was run."}
	}
	all := []string{correctLines(s, standings)[0] + "."}
	if cost := costSentence(s, standings); cost != "" {
		all = append(all, cost)
	}
	return all
}

// brokeWhat says which invariants a variant broke, and how often.
func brokeWhat(st standing) string {
	return fmt.Sprintf("%s broke %s (%s)", st.Name, list(st.Broken, 2),
		plural(st.violations(st.Broken), "violation"))
}

// costSentence says which of the designs that hold answer fastest, as far as the times of
// this machine can tell.
func costSentence(s rundir.Summary, standings []standing) string {
	timed := timedOf(standings)
	if len(timed) == 0 {
		return ""
	}
	best := fastestOf(timed, s.NoiseFloor.Of("p99"))
	first, last := timed[0], timed[len(timed)-1]
	kind, p99 := first.measured(), approximately(first)+latency(first.p99())
	if slowest := best[len(best)-1]; len(best) > 1 && latency(slowest.p99()) != latency(first.p99()) {
		p99 += " to " + approximately(slowest) + latency(slowest.p99())
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
			list(namesOf(best), 2), kind, p99)
	}
	after := ""
	amongBest := slices.ContainsFunc(best, func(st standing) bool { return st.Baseline })
	for _, c := range s.Comparisons {
		if c.Candidate == first.Name && c.Metric == "p99" && c.Ratio > 0 && !amongBest {
			text += fmt.Sprintf(", %s%s the baseline %s", about(c), howFar(c.Ratio, c.N), c.Base)
			if note := queuedNote(s, []standing{first, baselineOf(standings)}); note != "" {
				after = " " + note
			}
			if c.PExact != nil {
				text += " (" + certainty(c) + ")"
			}
		}
	}
	if len(best) < len(timed) && !last.Baseline {
		text += "; " + last.Name + " is slowest: "
		if last.p99() == rundir.Infinite {
			text += "more than 1 % got no answer"
		} else {
			text += approximately(last) + latency(last.p99())
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
func (st standing) queued() bool {
	if st.Main == nil || st.Timing == rundir.NoTimes {
		return false
	}
	response, service := st.Main.Latency.Response, st.Main.Latency.Service
	return service.Count > 0 && response.P99 != rundir.Infinite &&
		response.P99 >= max(queuedShare*service.P99, service.P99+queuedLeast)
}

// queuedNote says of which designs a ratio of the p99 depends on how long the load lasted; ""
// if there is no ratio, or none of them had to wait.
func queuedNote(s rundir.Summary, standings []standing) string {
	late := slices.DeleteFunc(slices.Clone(standings), func(st standing) bool {
		return !st.queued() || !slices.ContainsFunc(s.Comparisons, func(c rundir.Comparison) bool {
			return c.Metric == "p99" && c.Ratio > 0 && (c.Candidate == st.Name || c.Base == st.Name)
		})
	})
	if len(late) == 0 {
		return ""
	}
	return fmt.Sprintf("%s could not keep up: most of %s p99 is waiting for a free place, so the "+
		"%s on how long the load lasted.", list(namesOf(late), 3), choose(len(late), "its", "their"),
		choose(len(late), "ratio depends", "ratios depend"))
}

// baselineOf is the design that ratios refer to.
func baselineOf(standings []standing) (base standing) {
	for _, st := range standings {
		if st.Baseline {
			return st
		}
	}
	return base
}

// timedOf are the designs that hold and have usable times, if the first has a p99. They come
// ranked.
func timedOf(standings []standing) (timed []standing) {
	for _, st := range standings {
		if _, ok := st.times(); ok && st.Group == holds {
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
func fastestOf(timed []standing, floor float64) (best []standing) {
	factor := max(1/(1-stats.LargeShare), floor)
	for _, st := range timed {
		if float64(st.p99()) < float64(timed[0].p99())*factor {
			best = append(best, st)
		}
	}
	return best
}

// clearlyFaster says whether a time is lower than another one by a large share.
func clearlyFaster[T int64 | float64](a, b T) bool {
	return float64(a) <= float64(b)*(1-stats.LargeShare)
}

func namesOf(standings []standing) (names []string) {
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
	switch far := ratioOf(max(ratio, 1/ratio), repeats); {
	case far == ratioOf(1, repeats):
		return "about that of"
	case ratio < 1:
		return far + " lower than"
	default:
		return far + " higher than"
	}
}

// certainty says how sure a ratio is; the interval points the way howFar
// does.
func certainty(c rundir.Comparison) string {
	if c.PExact == nil {
		return fmt.Sprintf("n = %d: too few repeats for a test", c.N)
	}
	text := ""
	if ci := c.CI95; ci != nil {
		low, high := ci[0], ci[1]
		if c.Ratio < 1 {
			low, high = 1/high, 1/low
		}
		text = fmt.Sprintf("95 %% CI %s to %s, ", times(low), times(high))
	}
	return text + fmt.Sprintf("exact p %s, n = %d", equals(c.PExact), c.N)
}

// equals writes "= 0.002" or "< 0.0001".
func equals(p *float64) string {
	text := pValue(p)
	if strings.HasPrefix(text, "<") {
		return text
	}
	return "= " + text
}

// list joins names, at most n of them: "a, b and 3 more".
func list(names []string, n int) string {
	if len(names) > n {
		return strings.Join(names[:n], ", ") + fmt.Sprintf(" and %d more", len(names)-n)
	}
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

func choose(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}
