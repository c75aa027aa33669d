package compare

import (
	"bytes"
	_ "embed" // compare.gotmpl
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"

	"stampede/harness/check"
	"stampede/harness/plain"
	"stampede/reports/answer"
	"stampede/reports/page"
	"stampede/reports/words"
)

// The words that a comparison is known by.
const (
	wordUnlike     = "NOT COMPARABLE"
	wordRegression = "REGRESSION"
	wordWorse      = "WORSE VERDICT"
	wordTooFew     = "UNDECIDED"
	wordNoWorse    = "NO REGRESSION"
	wordSame       = "SAME RUN"
)

// mark is what a comparison has shown, the worst first.
func (c Comparison) mark(acrossMachines bool) words.Mark {
	switch {
	case c.SameRun:
		return words.Mark{Icon: "=", Word: wordSame, Class: "na"}
	case len(c.Worsened(acrossMachines)) > 0:
		return words.Mark{Icon: "✗", Word: wordWorse, Class: "bad"}
	case len(c.unlike(acrossMachines)) > 0 || len(c.Metrics) == 0:
		return words.Mark{Icon: "!", Word: wordUnlike, Class: "warn"}
	case len(c.Regressions) > 0:
		return words.Mark{Icon: "✗", Word: wordRegression, Class: "bad"}
	case len(c.Few)+len(c.open(acrossMachines)) > 0 || c.Untimed():
		return words.Mark{Icon: "?", Word: wordTooFew, Class: "warn"}
	}
	return words.Mark{Icon: "✓", Word: wordNoWorse, Class: "good"}
}

// sentences says what a comparison has shown, in at most three sentences.
func (c Comparison) sentences(acrossMachines bool) (all []string) {
	add := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	if c.SameRun {
		add("%s and %s: %s.", c.Base, c.Candidate, sameRun)
		return all
	}
	var changed []string
	for _, v := range append(c.Worsened(acrossMachines), c.open(acrossMachines)...) {
		changed = append(changed, fmt.Sprintf("%s of %s was %s and is %s", v.Name, v.Variant, v.From,
			v.To))
	}
	if len(changed) > 0 {
		add("%s: %s.", c.Candidate, words.List(changed, 2))
	}
	if unlike := c.unlike(acrossMachines); len(unlike) > 0 {
		add("The times of %s and %s cannot be compared: %s. They are shown, and prove nothing.",
			c.Candidate, c.Base, c.whyUnlike(unlike))
		return all
	}
	switch {
	case len(c.Metrics) == 0:
		add("%s and %s have no design in common.", c.Candidate, c.Base)
	case len(c.Regressions) > 0:
		r := c.Regressions[0]
		text := fmt.Sprintf("%s became worse in %s: %s of the base (%s)", r.Variant, metricName(r),
			words.RatioOf(r.Ratio, r.N), answer.Certainty(r.Comparison))
		if r.Ratio == 0 {
			text = fmt.Sprintf("%s became worse in %s: %s", r.Variant, metricName(r), r.Note)
		}
		if more := len(c.Regressions) - 1; more > 0 {
			text += fmt.Sprintf("; so did %s", words.Plural(more, "other metric"))
		}
		add("%s.", text)
	case len(c.Few) > 0:
		add("Too few repeats to tell: %s.", c.Few[0])
	case c.Untimed():
		add("No design has clean times in both runs, so that no regression can be seen.")
	default:
		add("No metric of %s got worse by 5 %% or more and significantly.", c.Candidate)
	}
	return all
}

// whyUnlike says in what the runs differ.
func (c Comparison) whyUnlike(unlike []Mismatch) string {
	var what []string
	for _, m := range unlike {
		what = append(what, m.What)
	}
	return "they differ in " + words.List(what, 3)
}

func metricName(r Regression) string { return words.JoinNonEmpty(" of ", r.Metric, r.Op) }

// comparePage is what the template shows.
type comparePage struct {
	Title, Base   string
	CSP           template.HTMLAttr
	Style, Script template.HTML
	Mark          words.Mark
	Icons         []words.Mark
	Nav           []page.NavItem
	Glance        string
	Parts         []comparePart
}

// comparePart is one candidate against the base.
type comparePart struct {
	Comparison
	ID        string
	Mark      words.Mark
	Sentences []string
	Unlike    bool
	Listed    []Mismatch
	More      int  // mismatches that are not listed
	Across    bool // machines
	Runs      []sideRow
	Changes   []changeRow
	Rows      []compareRow
	// Tested says that a row has an interval or a p.
	Tested bool
	Noise  []string
}

// sideRow is a fact about both runs.
type sideRow struct{ What, Base, Candidate string }

type changeRow struct {
	VerdictChange
	Mark words.Mark
}

// mark is what a change is in every format. What is undecided is neither better nor
// worse: nobody has seen it hold, or fail.
func (c VerdictChange) mark() words.Mark {
	switch {
	case c.Expected:
		return words.Mark{Icon: "⚑", Word: "known to be wrong", Class: "wrong"}
	case c.To == check.Broken:
		return words.Mark{Icon: "✗", Word: "worse", Class: "bad"}
	case c.To != check.Held:
		return words.Mark{Icon: "?", Word: "not decided", Class: "warn"}
	}
	return words.Mark{Icon: "✓", Word: "better", Class: "good"}
}

// compareRow is a metric of a variant.
type compareRow struct {
	metricRow
	KnownWrong, Worse bool
	// First is the first row of its design.
	First bool
}

// HTML writes comparisons of candidates with one base as a page: one file, as HTML
// writes that of a run. With acrossMachines, runs on different machines or stores count
// as comparable; what differs is shown all the same.
func HTML(w io.Writer, acrossMachines bool, comparisons ...Comparison) error {
	p := comparePage{Mark: words.Mark{Icon: "?", Word: wordTooFew, Class: "warn"}}
	var candidates []string
	for i, c := range comparisons {
		part := comparePartOf(fmt.Sprintf("c%d", i), c, acrossMachines)
		p.Parts = append(p.Parts, part)
		p.Nav = append(p.Nav, page.NavItem{ID: part.ID, Name: c.Candidate})
		p.Base = c.Base
		if i == 0 || severity(part.Mark) > severity(p.Mark) {
			p.Mark = part.Mark
		}
		candidates = append(candidates, c.Candidate)
	}
	p.Glance = words.Plural(len(comparisons), "candidate")
	if len(comparisons) > 0 {
		s := comparisons[0].Sides[0]
		p.Glance = words.JoinNonEmpty(" · ", s.Scenario, "profile "+s.Profile, p.Glance)
	}
	p.Title = plain.Text(fmt.Sprintf("%s · %s against %s", p.Mark.Word, words.List(candidates, 2),
		p.Base))
	p.Icons = []words.Mark{p.Mark}
	p.Style, p.Script, p.CSP = page.Dressing("")
	return page.Fill(w, "compare.gohtml", p)
}

// severity orders marks: what is bad, what is open, what is good.
func severity(m words.Mark) int { return slices.Index([]string{"good", "warn", "bad"}, m.Class) }

func comparePartOf(id string, c Comparison, acrossMachines bool) comparePart {
	p := comparePart{Comparison: c, ID: id, Mark: c.mark(acrossMachines),
		Sentences: c.sentences(acrossMachines), Unlike: len(c.unlike(acrossMachines)) > 0,
		Across: acrossMachines}
	p.Listed, p.More = told(c.Mismatches)
	a, b := c.Sides[0], c.Sides[1]
	p.Runs = []sideRow{
		{"Run", a.Run, b.Run}, {"Verdict", a.Verdict, b.Verdict},
		{"Started", words.Instant(a.Started), words.Instant(b.Started)}, {"Tool", a.Tool, b.Tool},
		{"Scenario", words.JoinNonEmpty(", profile ", a.Scenario, a.Profile),
			words.JoinNonEmpty(", profile ", b.Scenario, b.Profile)},
		{"Seed", fmt.Sprint(a.Seed), fmt.Sprint(b.Seed)},
		{"Repeats", fmt.Sprint(a.Repeats), fmt.Sprint(b.Repeats)},
		{"Environment", a.Fingerprint, b.Fingerprint},
	}
	for _, v := range c.Changes {
		p.Changes = append(p.Changes, changeRow{VerdictChange: v, Mark: v.mark()})
	}
	p.Noise = c.noise()
	for _, v := range c.Metrics {
		for i, row := range metricRows(v) {
			p.Tested = p.Tested || row.of.PExact != nil || row.of.CI95 != nil
			p.Rows = append(p.Rows, compareRow{metricRow: row, KnownWrong: v.KnownWrong,
				Worse: !p.Unlike && c.regressed(v.Variant, row.of), First: i == 0})
		}
	}
	controls, others := words.Split(p.Rows, func(r compareRow) bool { return r.KnownWrong })
	p.Rows = slices.Concat(others, controls)
	return p
}

// regressed says whether a metric is among the regressions.
func (c Comparison) regressed(variant string, m MetricComparison) bool {
	return slices.ContainsFunc(c.Regressions, func(r Regression) bool {
		return r.Variant == variant && r.Metric == m.Metric && r.Op == m.Op
	})
}

//go:embed compare.gotmpl
var markdownText string

// Markdown writes comparisons of candidates with one base for a CI system's page,
// as HTML does for people.
func Markdown(w io.Writer, acrossMachines bool, comparisons ...Comparison) error {
	t, err := words.Template(markdownText, nil)
	if err != nil {
		return err
	}
	var parts []comparePart
	for _, c := range comparisons {
		parts = append(parts, comparePartOf("", c, acrossMachines))
	}
	var out bytes.Buffer
	if err := t.Execute(&out, parts); err != nil {
		return fmt.Errorf("fill comparison: %w", err)
	}
	if _, err := w.Write(words.Limited(out.Bytes(), words.MarkdownLimit)); err != nil {
		return fmt.Errorf("write comparison: %w", err)
	}
	return nil
}

// Differences say what differs and what follows from that, a line for each thing or store.
func (p comparePart) Differences() (lines []string) {
	for _, d := range p.differences(p.Listed) {
		lines = append(lines, d.effect(p.Across)+": "+d.text+andMore(p.More))
	}
	return lines
}

// Only names the designs that just one of the runs has.
func (c Comparison) Only() (lines []string) {
	if len(c.OnlyBase) > 0 {
		lines = append(lines, "only in "+c.Base+": "+strings.Join(c.OnlyBase, ", "))
	}
	if len(c.OnlyCandidate) > 0 {
		lines = append(lines, "only in "+c.Candidate+": "+strings.Join(c.OnlyCandidate, ", "))
	}
	return lines
}
