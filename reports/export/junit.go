package export

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"fmt"
	"io"
	"slices"
	"strings"

	"stampede/harness/check"
	"stampede/harness/plain"
	"stampede/harness/rundir"
	"stampede/reports/answer"
	"stampede/reports/words"
)

// The part of the JUnit XML format that CI systems agree on; see
// github.com/testmoapp/junitxml for what is read from it.
type (
	junitSuites struct {
		XMLName  xml.Name     `xml:"testsuites"`
		Name     string       `xml:"name,attr"`
		Tests    int          `xml:"tests,attr"`
		Failures int          `xml:"failures,attr"`
		Errors   int          `xml:"errors,attr"`
		Skipped  int          `xml:"skipped,attr"`
		Time     string       `xml:"time,attr"`
		Suites   []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name       string          `xml:"name,attr"`
		Tests      int             `xml:"tests,attr"`
		Failures   int             `xml:"failures,attr"`
		Errors     int             `xml:"errors,attr"`
		Skipped    int             `xml:"skipped,attr"`
		Timestamp  string          `xml:"timestamp,attr,omitempty"`
		Properties []junitProperty `xml:"properties>property"`
		Cases      []junitCase     `xml:"testcase"`
	}
	junitProperty struct {
		Name  string `xml:"name,attr"`
		Value string `xml:"value,attr"`
	}
	junitCase struct {
		Class   string       `xml:"classname,attr"`
		Name    string       `xml:"name,attr"`
		Time    string       `xml:"time,attr"`
		Failure *junitDetail `xml:"failure"`
		Error   *junitDetail `xml:"error"`
		Skipped *junitDetail `xml:"skipped"`
		Out     string       `xml:"system-out,omitempty"`
	}
	junitDetail struct {
		Message string `xml:"message,attr"`
		Type    string `xml:"type,attr,omitempty"`
		Text    string `xml:",chardata"`
	}
)

// junitLimit is how many bytes of evidence a file may have, as written: GitLab
// refuses a report of more than 30 MB.
const junitLimit = 20_000_000

// JUnit writes the run as JUnit XML: a suite for each design, a test case for each invariant
// and objective and for the evidence. A violation is a failure with the operations that
// prove it, a missed objective or promise of time a failure of type "missed", an open
// question an error. Skipped are what does not apply, what noise leaves unjudged, and open
// questions about a design that passes all the same. A violation that does not count against
// a design passes, with the proof as output. The state of the times is a property. Evidence
// beyond 20 MB is left out, and the case says so.
func JUnit(w io.Writer, d answer.Data) error {
	s := d.Summary
	all := junitSuites{Name: clean("stampede " + s.Run.Scenario), Time: "0"}
	if s.Run.Finished.After(s.Run.Started) {
		all.Time = fmt.Sprintf("%.3f", s.Run.Finished.Sub(s.Run.Started).Seconds())
	}
	standings := answer.Ranked(s)
	proofs := &junitProofs{all: answer.Exhibits(d, standings, answer.NewAnchors()), left: junitLimit}
	for _, st := range standings {
		suite := junitSuiteOf(s, st, proofs)
		all.Tests += suite.Tests
		all.Failures += suite.Failures
		all.Errors += suite.Errors
		all.Skipped += suite.Skipped
		all.Suites = append(all.Suites, suite)
	}
	data, err := xml.MarshalIndent(all, "", "  ")
	if err != nil {
		return fmt.Errorf("encode JUnit: %w", err)
	}
	if _, err := w.Write(append([]byte(xml.Header), append(data, '\n')...)); err != nil {
		return fmt.Errorf("write JUnit: %w", err)
	}
	return nil
}

func junitSuiteOf(s rundir.Summary, st answer.Standing, proofs *junitProofs) junitSuite {
	suite := junitSuite{Name: clean(answer.Marked(s) + "/" + st.Name), Properties: []junitProperty{
		{"seed", fmt.Sprint(s.Run.Seed)}, {"reproduce", clean(answer.ReproduceVariant(s, st.Name))},
		{"commit", clean(s.Tool.Commit)}, {"backend", clean(s.Environment.Backend)},
		{"verdict", clean(st.Verdict)}, {"correctness", clean(st.Correctness)},
		{"timing", clean(st.Timing)}, {"objectives", clean(st.Objectives)},
	}}
	if !s.Run.Started.IsZero() {
		suite.Timestamp = s.Run.Started.UTC().Format("2006-01-02T15:04:05")
	}
	for _, inv := range st.Invariants {
		suite.add(junitInvariant(st, inv, proofs))
	}
	for _, name := range st.Missed {
		suite.add(junitCase{Name: "expected to break: " + name, Failure: &junitDetail{
			Message: "the run did not catch the error that this design is known for", Type: "missed"}})
	}
	for _, slo := range st.SLOs {
		suite.add(junitObjective(st, slo))
	}
	suite.add(junitEvidence(st))
	return suite
}

// add counts a case, and makes its name unique: some CI systems drop
// duplicates.
func (suite *junitSuite) add(c junitCase) {
	c.Class, c.Name, c.Time = suite.Name, clean(c.Name), "0"
	name := c.Name
	for i := 2; suite.has(c.Name); i++ {
		c.Name = fmt.Sprintf("%s (%d)", name, i)
	}
	suite.Tests++
	switch {
	case c.Failure != nil:
		suite.Failures++
	case c.Error != nil:
		suite.Errors++
	case c.Skipped != nil:
		suite.Skipped++
	}
	suite.Cases = append(suite.Cases, c)
}

func (suite *junitSuite) has(name string) bool {
	for _, c := range suite.Cases {
		if c.Name == name {
			return true
		}
	}
	return false
}

func junitInvariant(st answer.Standing, inv check.Verdict, proofs *junitProofs) junitCase {
	c := junitCase{Name: "invariant: " + inv.Invariant}
	if reason, skip := st.NotApplicable[inv.Invariant]; skip {
		c.Skipped = &junitDetail{Message: clean("does not apply: " + reason)}
		return c
	}
	switch {
	case inv.Status == check.Held:
		c.Out = fmt.Sprintf("held; checked %s, allowed for %s of unknown outcome",
			words.Grouped(inv.Checked), words.Grouped(inv.Unknown))
	case slices.Contains(st.Late, inv.Invariant):
		junitLate(&c, st, inv, proofs)
	case inv.NotJudged():
		c.Skipped = &junitDetail{Message: clean("not judged: " + inv.Reason)}
	case inv.Status == check.Broken && !slices.Contains(st.Broken, inv.Invariant):
		c.Out = st.BreakMark(inv.Invariant).Word + "\n" + proofs.of(st, inv)
	case inv.Status == check.Broken:
		c.Failure = &junitDetail{Type: "violated", Message: clean(fmt.Sprintf("%s: %s",
			words.Plural(max(inv.Count, 1), "violation"), inv.Reason)), Text: proofs.of(st, inv)}
	default:
		c.open(st, "undecided", cmp.Or(inv.Reason, "undecided"))
	}
	return c
}

// junitLate is a promise of time that was missed on clean times. It is not asked of a
// design that is known to be wrong.
func junitLate(c *junitCase, st answer.Standing, inv check.Verdict, proofs *junitProofs) {
	if len(st.ExpectedBroken) > 0 {
		c.Out = "missed\n" + proofs.of(st, inv)
		return
	}
	c.Failure = &junitDetail{Type: "missed", Text: proofs.of(st, inv),
		Message: clean(fmt.Sprintf("%s late: %s", words.Choose(max(inv.Count, 1), "once",
			words.Grouped(inv.Count)+" times"), inv.Reason))}
}

// open marks a case that has no answer: an error, unless the design passes all the same.
func (c *junitCase) open(st answer.Standing, kind, message string) {
	detail := &junitDetail{Message: clean(message)}
	if st.Verdict == rundir.Pass {
		c.Skipped = detail
		return
	}
	detail.Type = kind
	c.Error = detail
}

// junitProofs are the proofs of a file, and how many bytes of them it has room for.
type junitProofs struct {
	all  []answer.Exhibit
	left int
}

// of is the evidence against a variant as plain text, a line each.
func (p *junitProofs) of(st answer.Standing, inv check.Verdict) string {
	var b strings.Builder
	for _, e := range p.all {
		if e.Variant != st.Name || e.Invariant != inv.Invariant {
			continue
		}
		for _, v := range e.Violations {
			fmt.Fprintf(&b, "%s. %s %s\n", v.Number, words.Short(v.Text, longestText), v.When)
			for _, op := range v.Ops {
				fmt.Fprintf(&b, "   %s %s %s by %s, due %s, answered %s: %s %s\n", op.ID, op.Kind,
					op.Key, op.Client, op.Intended, op.End, op.Outcome, op.Reply)
			}
			if v.Missing != "" {
				fmt.Fprintf(&b, "   %s\n", v.Missing)
			}
		}
		fmt.Fprintln(&b, e.More, e.Where)
	}
	return p.cut(cleanLines(b.String()))
}

// cut takes the lines that there is room for.
func (p *junitProofs) cut(text string) string {
	var kept strings.Builder
	for line := range strings.Lines(text) {
		var escaped bytes.Buffer
		_ = xml.EscapeText(&escaped, []byte(line)) // to a buffer: it cannot fail
		if p.left < escaped.Len() {
			p.left = 0
			kept.WriteString("Cut: CI systems refuse larger files. See report.html.\n")
			break
		}
		p.left -= escaped.Len()
		kept.WriteString(line)
	}
	return kept.String()
}

func junitObjective(st answer.Standing, slo check.SLOVerdict) junitCase {
	c := junitCase{Name: fmt.Sprintf("objective: %s: %s", slo.Name, slo.Objective)}
	if len(st.ExpectedBroken) > 0 {
		c.Skipped = &junitDetail{Message: "not asked of a design that is known to be wrong"}
		return c
	}
	text := clean(words.JoinNonEmpty(", ", "actual "+answer.AtAGlance(slo.Actual), "limit "+slo.Limit,
		answer.MarginText(slo), fmt.Sprintf("n = %d", slo.Samples)))
	switch {
	case slo.Status == check.Held:
		c.Out = text
	case slo.Status == check.Broken:
		c.Failure = &junitDetail{Type: "missed", Message: text}
	case slo.NotJudged:
		c.Skipped = &junitDetail{Message: clean("not judged: " + slo.Reason)}
	default:
		c.open(st, "undecided", cmp.Or(slo.Reason, "undecided"))
	}
	return c
}

// junitEvidence is without an answer when an assumption about evidence failed or a repeat
// was not finished.
func junitEvidence(st answer.Standing) junitCase {
	c := junitCase{Name: "evidence"}
	var problems []string
	for _, r := range st.Repeats {
		if r.Error != "" {
			problems = append(problems, fmt.Sprintf("repeat %d: %s", r.Index+1, r.Error))
		}
		for _, v := range r.Validity {
			if !v.OK && v.Class == rundir.Evidence {
				problems = append(problems, fmt.Sprintf("repeat %d: %s: %s", r.Index+1, v.Name, v.Detail))
			}
		}
	}
	if len(st.Repeats) == 0 {
		problems = append(problems, "no repeat was run")
	}
	if len(problems) == 0 {
		return c
	}
	c.open(st, "invalid", problems[0])
	for _, detail := range []*junitDetail{c.Error, c.Skipped} {
		if detail != nil && len(problems) > 1 {
			detail.Text = cleanLines(strings.Join(problems, "\n"))
		}
	}
	return c
}

// longestText is how many characters of one text a CI system gets.
const longestText = 2000

// clean makes text fit for one line of XML.
func clean(text string) string { return words.Short(text, longestText) }

// cleanLines is clean for several lines.
func cleanLines(text string) string {
	var out bytes.Buffer
	for line := range strings.Lines(text) {
		out.WriteString(strings.TrimRight(plain.Text(line), " "))
		out.WriteByte('\n')
	}
	return out.String()
}
