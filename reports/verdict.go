package reports

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"stampede/harness/check"
	"stampede/harness/rundir"
	"stampede/harness/stats"
)

// mark is a verdict as icon, word and CSS class. The icon repeats what the
// word says, so that neither colour nor font decides what is read.
type mark struct {
	Icon, Word, Class string
}

// verdictMark returns the mark of a verdict word.
func verdictMark(word string) mark {
	switch word {
	case rundir.Pass:
		return mark{"✓", word, "good"}
	case rundir.Fail:
		return mark{"✗", word, "bad"}
	case rundir.NotJudged:
		return mark{"≈", word, "na"}
	case rundir.Invalid:
		return mark{"!", word, "warn"}
	case Interrupted:
		return mark{"■", word, "warn"}
	}
	return mark{"?", cmp.Or(word, rundir.Inconclusive), "warn"}
}

// timingMark returns the mark of the state of times.
func timingMark(state string) mark {
	switch state {
	case rundir.Clean:
		return mark{"✓", state, "good"}
	case rundir.Noisy:
		return mark{"≈", state, "na"}
	}
	return mark{"–", rundir.NoTimes, "warn"}
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

// mark returns the mark of a variant's word.
func (st standing) mark() mark {
	switch word := st.word(); word {
	case wordHolds:
		return mark{"✓", word, "good"}
	case wordViolated, wordMissed:
		return mark{"✗", word, "bad"}
	case wordCaught, wordElsewhere, wordLatent:
		return mark{"⚑", word, "wrong"}
	default:
		return mark{"?", word, "warn"}
	}
}

// breakMark returns the mark of an invariant that the variant broke.
func (st standing) breakMark(invariant string) mark {
	switch {
	case slices.Contains(st.Caught, invariant):
		return mark{"⚑", wordExpected, "wrong"}
	case slices.Contains(st.Besides, invariant):
		return mark{"⚐", wordBesides, "wrong"}
	case slices.Contains(st.Elsewhere, invariant):
		return mark{"⚐", wordElsewhere, "wrong"}
	}
	return mark{"✗", wordViolated, "bad"}
}

// sentences says what the run has shown, in at most three sentences: what
// was right or wrong, what the right ones cost, and how far the objectives
// and the measurement can be trusted.
func sentences(s rundir.Summary, standings []standing) []string {
	var all []string
	for _, sentence := range []string{
		correctnessSentence(standings),
		costSentence(s, standings),
		trustSentence(s, standings),
	} {
		if sentence != "" {
			all = append(all, sentence)
		}
	}
	return all
}

func correctnessSentence(standings []standing) string {
	if len(standings) == 0 {
		return "No variant was run."
	}
	var sound, open, dormant int
	var unexpected, missed, caught, elsewhere []string
	for _, st := range standings {
		switch {
		case len(st.Broken) > 0:
			unexpected = append(unexpected, brokeWhat(st))
		case len(st.Missed) > 0:
			missed = append(missed, st.Name)
		case len(st.Caught) > 0:
			caught = append(caught, st.Name)
		case len(st.Elsewhere) > 0:
			elsewhere = append(elsewhere, fmt.Sprintf("%s broke %s", st.Name, list(st.Elsewhere, 2)))
		case st.Group == undecided:
			open++
		case st.Group == latent:
			dormant++
		default:
			sound++
		}
	}
	var parts []string
	if len(unexpected) > 0 {
		parts = append(parts, "unexpectedly, "+list(unexpected, 2))
	}
	if len(missed) > 0 {
		parts = append(parts, "the known error of "+list(missed, 3)+" was not caught")
	}
	parts = append(parts, soundPart(sound, len(standings)))
	if len(caught) > 0 {
		parts = append(parts, fmt.Sprintf("the %s caught: %s",
			choose(len(caught), "known-wrong one was", fmt.Sprintf("%d known-wrong were", len(caught))),
			list(caught, 4)))
	}
	if len(elsewhere) > 0 {
		parts = append(parts, "as known of it under what this scenario does not provoke, "+
			list(elsewhere, 2))
	}
	if dormant > 0 {
		parts = append(parts, fmt.Sprintf("%d known-wrong held, because this scenario does not "+
			"provoke their error", dormant))
	}
	if open > 0 {
		parts = append(parts, fmt.Sprintf("%d could not be judged in full", open))
	}
	return capitalise(strings.Join(parts, "; ")) + "."
}

func soundPart(sound, all int) string {
	switch {
	case sound == 0 && all == 1:
		return "the one design did not hold all its invariants"
	case sound == 0:
		return "none of " + plural(all, "design") + " held all its invariants"
	case all == 1:
		return "the design held all its invariants"
	}
	return fmt.Sprintf("%d of %s held all their invariants", sound, plural(all, "design"))
}

// brokeWhat says which invariants a variant broke, and how often.
func brokeWhat(st standing) string {
	return fmt.Sprintf("%s broke %s (%s)", st.Name, list(st.Broken, 2),
		plural(st.violations(st.Broken), "violation"))
}

// costSentence compares the fastest sound variant with the baseline, if the
// measurement can be trusted.
func costSentence(s rundir.Summary, standings []standing) string {
	if len(standings) == 0 {
		return ""
	}
	first := standings[0] // ranked: the fastest of those that hold
	if first.Group != holds || first.Main == nil || first.p99() == rundir.Infinite {
		return ""
	}
	sound, best := bestOf(standings)
	var text string
	kind, p99 := first.Main.Kind, latency(first.p99())
	if slowest := latency(best[len(best)-1].p99()); slowest != p99 {
		p99 += " to " + slowest
	}
	switch {
	case len(standings) == 1:
		text = fmt.Sprintf("Its p99 of %s is %s", kind, p99)
	case sound == 1:
		text = fmt.Sprintf("The one that holds, %s, answers %s with a p99 of %s", first.Name, kind, p99)
	case len(best) == 1:
		text = fmt.Sprintf("Of those that hold, %s answers %s fastest: p99 %s", first.Name, kind, p99)
	case len(best) == sound:
		return fmt.Sprintf("Those that hold do not differ by 5 %% in the p99 of %s: %s.", kind, p99)
	default:
		text = fmt.Sprintf("Of those that hold, %s answer %s fastest, without a difference of 5 %% "+
			"between them: p99 %s", list(namesOf(best), 3), kind, p99)
	}
	amongBest := slices.ContainsFunc(best, func(st standing) bool { return st.Baseline })
	for _, c := range s.Comparisons {
		if c.Candidate == first.Name && c.Metric == "p99" && c.Ratio > 0 && !amongBest {
			text += fmt.Sprintf(", %s the baseline %s (%s)", howFar(c.Ratio), c.Base, certainty(c))
		}
	}
	return text + "."
}

// bestOf counts the variants that hold, and returns those of them that are not clearly
// slower at p99 than the fastest one. They come ranked.
func bestOf(standings []standing) (sound int, best []standing) {
	for _, st := range standings {
		if st.Group != holds {
			break
		}
		sound++
		if !clearlyFaster(standings[0].p99(), st.p99()) {
			best = append(best, st)
		}
	}
	return sound, best
}

// clearlyFaster says whether a time is lower than another one by a large share.
func clearlyFaster(a, b int64) bool { return float64(a) <= float64(b)*(1-stats.LargeShare) }

func namesOf(standings []standing) (names []string) {
	for _, st := range standings {
		names = append(names, st.Name)
	}
	return names
}

// howFar says a ratio of times in words; a difference that its digits do not show is
// none.
func howFar(ratio float64) string {
	switch far := times(max(ratio, 1/ratio)); {
	case far == times(1):
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

// trustSentence says what limits the verdict: an interruption, an invalid
// measurement, missed objectives.
func trustSentence(s rundir.Summary, standings []standing) string {
	t := count(standings)
	var parts []string
	if s.Run.Interrupted {
		parts = append(parts, "the run was interrupted, so the numbers cover a part of it")
	}
	if state := s.Verdict.Timing; state != rundir.Clean {
		parts = append(parts, "the times are "+state)
	}
	if t.SLOs > 0 {
		parts = append(parts, fmt.Sprintf("%d of %s met", t.SLOsHeld, plural(t.SLOs, "objective")))
	}
	if len(parts) == 0 {
		return ""
	}
	return capitalise(strings.Join(parts, "; ")) + "."
}

// failedChecks lists the names of the assumptions of a class that failed.
func failedChecks(s rundir.Summary, class string) (names []string) {
	for _, v := range s.Variants {
		for _, r := range v.Repeats {
			for _, check := range r.Validity {
				if !check.OK && check.Class == class && !slices.Contains(names, check.Name) {
					names = append(names, check.Name)
				}
			}
		}
	}
	return names
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

// capitalise raises the first letter of text, which starts with one of ours.
func capitalise(text string) string { return strings.ToUpper(text[:1]) + text[1:] }
