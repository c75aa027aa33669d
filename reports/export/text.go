// Package export writes what a run has shown as text, Markdown, JUnit, OpenMetrics and
// annotations of a CI system.
package export

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"strings"

	"stampede/harness/plain"
	"stampede/harness/rundir"
	"stampede/reports/answer"
	"stampede/reports/words"
)

// Text writes the verdict of every design as a table, what was violated, the three answers
// of the run, and as its last line
//
//	RESULT <scenario> <VERDICT> correct=A/B caught=C/D timing=STATE objectives=E/F report=PATH exit=N
//
// where A of B designs hold every invariant, C of D controls were caught, and E of F
// objectives were met, those of controls left out. What does not occur is left out.
func Text(w io.Writer, d answer.Data, o words.TextOptions) error {
	s := d.Summary
	standings := answer.Ranked(s)
	var out bytes.Buffer
	title := words.OneLine(s.Run.Scenario) + " · " + words.OneLine(s.Run.Question)
	if s.Environment.Simulated() {
		title = answer.SimulatedWord + " · " + title
	}
	fmt.Fprintf(&out, "%s\n\n", strings.Join(plain.Wrap(title, o.Columns()), "\n"))
	textTable(&out, s, standings, o)
	if len(standings) > 0 && standings[0].Successes && standings[0].Main != nil {
		fmt.Fprintf(&out, "times are of %s\n", words.OneLine(standings[0].Measured()))
	}
	if note := answer.QueuedNote(s, standings); note != "" {
		fmt.Fprintln(&out, strings.Join(plain.Wrap(words.OneLine(note), o.Columns()), "\n"))
	}
	for _, line := range answer.Bottlenecks(standings) {
		fmt.Fprintln(&out, strings.Join(plain.Wrap("in "+words.OneLine(line), o.Columns()), "\n"))
	}
	textPrediction(&out, d.Prediction, o)
	for _, st := range standings {
		textProblems(&out, st)
	}
	out.WriteByte('\n')
	textFindings(&out, s, standings, o)
	for _, gap := range d.Gaps {
		fmt.Fprintln(&out, "missing: "+words.OneLine(gap))
	}
	textResult(&out, s, standings, o)
	if _, err := w.Write(out.Bytes()); err != nil {
		return fmt.Errorf("write summary: %w", err)
	}
	return nil
}

// textPrediction writes what was predicted beside what was measured.
func textPrediction(out *bytes.Buffer, p *rundir.Prediction, o words.TextOptions) {
	t := answer.PredictionOf(p)
	if t == nil {
		return
	}
	for _, text := range append([]string{t.Of}, t.Notes...) {
		fmt.Fprintln(out, strings.Join(plain.Wrap(words.OneLine(text), o.Columns()), "\n"))
	}
	const row = "%-22s %-16s %12s %12s %8s\n"
	fmt.Fprintf(out, row, "design", "figure", "predicted", "measured", "error")
	for _, r := range t.Rows {
		fmt.Fprintf(out, row, words.OneLine(r.Design), r.Quantity, r.Predicted, r.Measured, r.Error)
	}
}

// textFindings writes each answer behind its heading, wrapped to the width.
func textFindings(out *bytes.Buffer, s rundir.Summary, standings []answer.Standing,
	o words.TextOptions) {
	const indent = 12
	for _, f := range answer.Findings(s, standings) {
		heading := strings.ToUpper(f.Name)
		if f.Mark.Word == rundir.Noisy {
			heading += " ≈"
		}
		prefix := words.Paint(fmt.Sprintf("%-*s", indent, heading), f.Mark.Class, o.Colour)
		for _, line := range f.Lines {
			for _, part := range plain.Wrap(words.OneLine(line), o.Columns()-indent) {
				fmt.Fprintln(out, prefix+part)
				prefix = strings.Repeat(" ", indent)
			}
		}
	}
}

func textResult(out *bytes.Buffer, s rundir.Summary, standings []answer.Standing,
	o words.TextOptions) {
	word := answer.VerdictWord(s)
	fmt.Fprintf(out, "RESULT %s %s%s report=%s exit=%d\n", words.OneLine(s.Run.Scenario),
		words.Paint(word, answer.VerdictMark(word).Class, o.Colour), resultFields(s, standings),
		words.OneLine(cmp.Or(o.Report, "none")), o.Exit)
}

// resultFields are the counts of the last line.
func resultFields(s rundir.Summary, standings []answer.Standing) string {
	c, t := answer.CorrectOf(standings), answer.Count(standings)
	text := ""
	if s.Environment.Simulated() {
		text = " " + answer.SimulatedWord
	}
	if c.Sound > 0 {
		text += fmt.Sprintf(" correct=%d/%d", c.Holding, c.Sound)
	}
	if c.Controls > 0 {
		text += fmt.Sprintf(" caught=%d/%d", c.Caught, c.Controls)
	}
	if s.Environment.Simulated() {
		text += " timing=virtual"
	} else {
		text += " timing=" + s.Verdict.Timing
	}
	if t.SLOs > 0 {
		text += fmt.Sprintf(" objectives=%d/%d", t.SLOsHeld, t.SLOs)
	}
	if t.NotJudged > 0 {
		text += fmt.Sprintf("(%d not judged)", t.NotJudged)
	}
	return text
}

// textTable aligns by runes, colours added afterwards so that their
// escapes take no room. Where the width does not do, columns from the right are left out.
func textTable(out *bytes.Buffer, s rundir.Summary, standings []answer.Standing,
	o words.TextOptions) {
	if len(standings) == 0 {
		return
	}
	rows, marks := [][]string{{"DESIGN", "CORRECT", "p50", "p99", "vs BASE", "RACED"}}, []words.Mark{}
	for _, st := range standings {
		rows, marks = append(rows, textRow(s, st)), append(marks, st.Mark())
	}
	rows = words.Telling(rows)
	columns := len(rows[0])
	for columns > 3 && words.Widest(words.Aligned(rows, columns)) > o.Columns() {
		columns--
	}
	out.WriteString(strings.Join(words.Marked(rows, columns, marks, o.Colour), "\n") + "\n")
}

// textRow is a design's row of the table.
func textRow(s rundir.Summary, st answer.Standing) []string {
	row := answer.VariantRowOf(s, st)
	answer := row.Mark.Icon + " " + row.Mark.Word
	if st.Correctness == rundir.Holds {
		answer += " " + row.Invariants
	}
	ratio := againstBaseline(s, st.Name)
	if st.Baseline {
		ratio = words.BaselineCell
	}
	return []string{words.OneLine(row.Name), answer, row.P50,
		row.P99, words.OrNone(ratio), row.Raced}
}

// againstBaseline is how much faster or slower at p99 a design is than the baseline, "" if
// there is no ratio.
func againstBaseline(s rundir.Summary, variant string) string {
	for _, c := range s.Comparisons {
		if c.Candidate != variant || c.Metric != "p99" || c.Ratio <= 0 {
			continue
		}
		text := words.RatioOf(max(c.Ratio, 1/c.Ratio), c.N) + " slower"
		if c.Ratio < 1 {
			text = words.RatioOf(1/c.Ratio, c.N) + " faster"
		}
		if c.Approximate {
			text = "≈ " + text
		}
		return text
	}
	return ""
}

// textProblems says what went wrong with a variant, with the first
// violation of each invariant.
func textProblems(out *bytes.Buffer, st answer.Standing) {
	for _, name := range st.Broken {
		_, v, _ := st.Evidence(name)
		text := words.Plural(st.Violations([]string{name}), "violation")
		if len(v.Violations) > 0 {
			text += ", first: " + words.OneLine(v.Violations[0].Text)
		}
		fmt.Fprintf(out, "\n✗ %s broke %s: %s", words.OneLine(st.Name), words.OneLine(name), text)
	}
	for _, name := range st.Missed {
		fmt.Fprintf(out, "\n✗ %s was expected to break %s and was not caught", words.OneLine(st.Name),
			words.OneLine(name))
	}
	for _, r := range st.Repeats {
		if r.Error != "" {
			fmt.Fprintf(out, "\n✗ %s, repeat %d: %s", words.OneLine(st.Name), r.Index+1,
				words.OneLine(r.Error))
		}
	}
}
