package reports

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

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
}

// Text writes the verdict of every variant as a table, what broke, the
// sentences of the page, and as its last line
//
//	RESULT <scenario> <VERDICT> violations=N sla=A/B report=PATH exit=N
//
// where violations counts the unexpected ones, and sla the objectives kept,
// those of known-wrong variants left out.
func Text(w io.Writer, d Data, o TextOptions) error {
	s := d.Summary
	standings := ranked(s)
	var out bytes.Buffer
	fmt.Fprintf(&out, "%s · %s\n\n", oneLine(s.Run.Scenario), oneLine(s.Run.Question))
	textTable(&out, s, standings, o.Colour)
	for _, st := range standings {
		textProblems(&out, st)
	}
	out.WriteByte('\n')
	for _, sentence := range sentences(s, standings) {
		fmt.Fprintln(&out, oneLine(sentence))
	}
	for _, gap := range d.Gaps {
		fmt.Fprintln(&out, "missing: "+oneLine(gap))
	}
	textResult(&out, s, count(standings), o)
	if _, err := w.Write(out.Bytes()); err != nil {
		return fmt.Errorf("write summary: %w", err)
	}
	return nil
}

func textResult(out *bytes.Buffer, s rundir.Summary, t tally, o TextOptions) {
	open := ""
	if t.Open > 0 {
		open = fmt.Sprintf(", %d open", t.Open)
	}
	fmt.Fprintf(out, "%d passed, %d failed%s\n", t.Passed, t.Failed, open)
	report := o.Report
	if report == "" {
		report = "none"
	}
	word := VerdictWord(s)
	fmt.Fprintf(out, "RESULT %s %s violations=%d sla=%d/%d report=%s exit=%d\n",
		oneLine(s.Run.Scenario), paint(word, verdictMark(word).Class, o.Colour),
		t.Violations, t.SLOsHeld, t.SLOs, oneLine(report), o.Exit)
}

// textTable aligns by runes, colours added afterwards so that their
// escapes take no room.
func textTable(out *bytes.Buffer, s rundir.Summary, standings []standing, colour bool) {
	var table bytes.Buffer
	tw := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, strings.Join([]string{"VARIANT", "VERDICT", "CORRECTNESS", "INVARIANTS", "SLO",
		"SENT", "OK/s", "p50", "p99", "max", "p99/BASE"}, "\t"))
	for _, st := range standings {
		row := variantRowOf(s, st)
		ratio := row.Ratio.Ratio
		if row.Baseline {
			ratio = "baseline"
		}
		fmt.Fprintln(tw, strings.Join([]string{oneLine(row.Name), verdictMark(st.Verdict).Word,
			row.Mark.Icon + " " + row.Mark.Word, row.Invariants, row.SLOs, row.Sent, row.Throughput,
			row.P50, row.P99, row.Max, orNone(ratio)}, "\t"))
	}
	_ = tw.Flush() // to a buffer: it cannot fail
	for i, line := range strings.Split(strings.TrimRight(table.String(), "\n"), "\n") {
		line = strings.TrimRight(line, " ")
		if i > 0 {
			line = paintWord(line, verdictMark(standings[i-1].Verdict), colour)
		}
		out.WriteString(line + "\n")
	}
}

func orNone(text string) string {
	if text == "" {
		return none
	}
	return text
}

// paintWord colours the verdict in a line of the table.
func paintWord(line string, m mark, colour bool) string {
	return strings.Replace(line, "  "+m.Word+" ", "  "+paint(m.Word, m.Class, colour)+" ", 1)
}

func paint(text, class string, colour bool) string {
	codes := map[string]string{"good": "32", "bad": "31", "warn": "33"}
	if !colour {
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
