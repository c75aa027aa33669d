package reports

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"stampede/harness/plain"
	"stampede/harness/rundir"
)

// TextOptions decides how Text writes.
type TextOptions struct {
	// Colour turns on ANSI colours.
	Colour bool
	// Report is the report's path, Exit the code that the command will
	// return; both stand in the last line.
	Report string
	Exit   int
	// Width is that of the table in columns; 0 means 80.
	Width int
}

// Text writes the verdict of every design as a table, what was violated, the three answers
// of the run, and as its last line
//
//	RESULT <scenario> <VERDICT> correct=A/B caught=C/D timing=STATE objectives=E/F report=PATH exit=N
//
// where A of B designs hold every invariant, C of D controls were caught, and E of F
// objectives were met, those of controls left out. What does not occur is left out.
func Text(w io.Writer, d Data, o TextOptions) error {
	s := d.Summary
	standings := ranked(s)
	var out bytes.Buffer
	title := oneLine(s.Run.Scenario) + " · " + oneLine(s.Run.Question)
	fmt.Fprintf(&out, "%s\n\n", strings.Join(plain.Wrap(title, o.width()), "\n"))
	textTable(&out, s, standings, o)
	if len(standings) > 0 && standings[0].Successes && standings[0].Main != nil {
		fmt.Fprintf(&out, "times are of %s\n", oneLine(standings[0].measured()))
	}
	if note := queuedNote(s, standings); note != "" {
		fmt.Fprintln(&out, strings.Join(plain.Wrap(oneLine(note), o.width()), "\n"))
	}
	for _, st := range standings {
		textProblems(&out, st)
	}
	out.WriteByte('\n')
	textFindings(&out, findings(s, standings), o)
	for _, gap := range d.Gaps {
		fmt.Fprintln(&out, "missing: "+oneLine(gap))
	}
	textResult(&out, s, standings, o)
	if _, err := w.Write(out.Bytes()); err != nil {
		return fmt.Errorf("write summary: %w", err)
	}
	return nil
}

// textFindings writes each answer behind its heading, wrapped to the width.
func textFindings(out *bytes.Buffer, list []finding, o TextOptions) {
	const indent = 12
	for _, f := range list {
		heading := f.Heading + strings.Repeat(" ", max(1, indent-utf8.RuneCountInString(f.Heading)))
		prefix := paint(heading, f.Mark.Class, o.Colour)
		for _, line := range f.Lines {
			for _, part := range plain.Wrap(oneLine(line), o.width()-indent) {
				fmt.Fprintln(out, prefix+part)
				prefix = strings.Repeat(" ", indent)
			}
		}
	}
}

func (o TextOptions) width() int {
	if o.Width <= 0 {
		return 80
	}
	return o.Width
}

func textResult(out *bytes.Buffer, s rundir.Summary, standings []standing, o TextOptions) {
	report := o.Report
	if report == "" {
		report = "none"
	}
	word := VerdictWord(s)
	fmt.Fprintf(out, "RESULT %s %s%s report=%s exit=%d\n", oneLine(s.Run.Scenario),
		paint(word, verdictMark(word).Class, o.Colour), resultFields(s, standings), oneLine(report),
		o.Exit)
}

// resultFields are the counts of the last line.
func resultFields(s rundir.Summary, standings []standing) string {
	c, t := correctOf(standings), count(standings)
	text := ""
	if c.Sound > 0 {
		text += fmt.Sprintf(" correct=%d/%d", c.Holding, c.Sound)
	}
	if c.Controls > 0 {
		text += fmt.Sprintf(" caught=%d/%d", c.Caught, c.Controls)
	}
	text += " timing=" + s.Verdict.Timing
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
func textTable(out *bytes.Buffer, s rundir.Summary, standings []standing, o TextOptions) {
	if len(standings) == 0 {
		return
	}
	rows := [][]string{{"DESIGN", "CORRECT", "p50", "p99", "vs BASE", "RACED"}}
	for _, st := range standings {
		rows = append(rows, textRow(s, st))
	}
	rows = telling(rows)
	columns := len(rows[0])
	var lines []string
	for ; columns > 2; columns-- {
		lines = aligned(rows, columns)
		if slices.IndexFunc(lines, func(line string) bool {
			return utf8.RuneCountInString(line) > o.width()
		}) < 0 {
			break
		}
	}
	for i, line := range lines {
		if i > 0 {
			m := standings[i-1].mark()
			line = strings.Replace(line, m.Icon+" "+m.Word, paint(m.Icon+" "+m.Word, m.Class, o.Colour), 1)
		}
		out.WriteString(line + "\n")
	}
}

// telling are the rows without the last columns, the ratios to the baseline and the races,
// where these say nothing of any design.
func telling(rows [][]string) [][]string {
	for column := len(rows[0]) - 1; column > timesColumn; column-- {
		silent := !slices.ContainsFunc(rows[1:], func(row []string) bool {
			return row[column] != none && row[column] != baselineCell
		})
		if silent {
			for i := range rows {
				rows[i] = slices.Delete(rows[i], column, column+1)
			}
		}
	}
	return rows
}

// timesColumn is the last one that is always there.
const timesColumn = 3

// baselineCell stands for the ratio of the baseline to itself.
const baselineCell = "baseline"

// aligned are the first columns of rows, in line.
func aligned(rows [][]string, columns int) []string {
	var table bytes.Buffer
	tw := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(tw, strings.Join(row[:min(columns, len(row))], "\t"))
	}
	_ = tw.Flush() // to a buffer: it cannot fail
	lines := strings.Split(strings.TrimRight(table.String(), "\n"), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, " ")
	}
	return lines
}

// textRow is a design's row of the table.
func textRow(s rundir.Summary, st standing) []string {
	row := variantRowOf(s, st)
	answer := row.Mark.Icon + " " + row.Mark.Word
	if st.Correctness == rundir.Holds {
		answer += " " + row.Invariants
	}
	ratio := againstBaseline(s, st.Name)
	if st.Baseline {
		ratio = baselineCell
	}
	return []string{oneLine(row.Name), answer, row.P50,
		row.P99, orNone(ratio), row.Raced}
}

// againstBaseline is how much faster or slower at p99 a design is than the baseline, "" if
// there is no ratio.
func againstBaseline(s rundir.Summary, variant string) string {
	for _, c := range s.Comparisons {
		if c.Candidate != variant || c.Metric != "p99" || c.Ratio <= 0 {
			continue
		}
		text := ratioOf(max(c.Ratio, 1/c.Ratio), c.N) + " slower"
		if c.Ratio < 1 {
			text = ratioOf(1/c.Ratio, c.N) + " faster"
		}
		if c.Approximate {
			text = "≈ " + text
		}
		return text
	}
	return ""
}

// approximately marks noisy times.
func approximately(st standing) string {
	if st.Timing == rundir.Noisy && st.Main != nil {
		return "≈ "
	}
	return ""
}

func orNone(text string) string {
	if text == "" {
		return none
	}
	return text
}

func paint(text, class string, colour bool) string {
	codes := map[string]string{"good": "32", "bad": "31", "warn": "33", "wrong": "35", "na": "33"}
	if !colour || codes[class] == "" {
		return text
	}
	return "\x1b[1;" + codes[class] + "m" + text + "\x1b[0m"
}

// textProblems says what went wrong with a variant, with the first
// violation of each invariant.
func textProblems(out *bytes.Buffer, st standing) {
	for _, name := range st.Broken {
		_, v, _ := st.evidence(name)
		text := plural(st.violations([]string{name}), "violation")
		if len(v.Violations) > 0 {
			text += ", first: " + oneLine(v.Violations[0].Text)
		}
		fmt.Fprintf(out, "\n✗ %s broke %s: %s", oneLine(st.Name), oneLine(name), text)
	}
	for _, name := range st.Missed {
		fmt.Fprintf(out, "\n✗ %s was expected to break %s and was not caught", oneLine(st.Name),
			oneLine(name))
	}
	for _, r := range st.Repeats {
		if r.Error != "" {
			fmt.Fprintf(out, "\n✗ %s, repeat %d: %s", oneLine(st.Name), r.Index+1, oneLine(r.Error))
		}
	}
}

// oneLine makes text safe for a terminal and a CI system's log, and no longer than a
// screen can bear.
func oneLine(text string) string { return plain.Line(short(text, 400)) }
