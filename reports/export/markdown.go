package export

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"stampede/harness/plain"
	"stampede/harness/rundir"
	"stampede/reports/answer"
	"stampede/reports/words"
)

// Markdown writes a summary of at most 900 kB for a CI system's page: the
// verdict, the evidence, then the variants and the environment. Where that is too
// much, evidence is left out, a line at a time from its end, and it says so.
func Markdown(w io.Writer, d answer.Data) error { return MarkdownWithin(w, d, 0) }

// MarkdownWithin is Markdown for a page that has so many bytes already: both
// together stay within the limit. A page that is full gets nothing.
func MarkdownWithin(w io.Writer, d answer.Data, there int) error {
	standings := answer.Ranked(d.Summary)
	var head, evidence, tail bytes.Buffer
	markdownHead(&head, d, standings)
	markdownEvidence(&evidence, d, standings)
	markdownLosses(&tail, standings)
	markdownVariants(&tail, d.Summary, standings)
	markdownObjectives(&tail, standings)
	markdownEnvironment(&tail, d.Summary)
	left := max(0, words.MarkdownLimit-there)
	shown := words.Limited(evidence.Bytes(), left-head.Len()-tail.Len())
	whole := slices.Concat(head.Bytes(), shown, tail.Bytes())
	if _, err := w.Write(words.Limited(whole, left)); err != nil {
		return fmt.Errorf("write Markdown: %w", err)
	}
	return nil
}

func markdownHead(out *bytes.Buffer, d answer.Data, standings []answer.Standing) {
	s := d.Summary
	m := answer.VerdictMark(answer.VerdictWord(s))
	fmt.Fprintf(out, "## %s %s · %s\n\n", m.Icon, m.Word, words.EscapeMD(s.Run.Scenario))
	if s.Run.Question != "" {
		fmt.Fprintf(out, "%s\n\n", words.EscapeMD(s.Run.Question))
	}
	for _, sentence := range answer.AnswerSentences(s, standings) {
		fmt.Fprintf(out, "%s\n", words.EscapeMD(sentence))
	}
	out.WriteByte('\n')
	for _, c := range answer.AnswerCards(s, standings) {
		fmt.Fprintf(out, "- %s: %s **%s**: %s\n", c.Name, c.Mark.Icon, c.Mark.Word,
			words.EscapeMD(strings.Join(c.Lines, "; ")))
	}
	for _, gap := range d.Gaps {
		fmt.Fprintf(out, "- missing: %s\n", words.EscapeMD(gap))
	}
}

func markdownEvidence(out *bytes.Buffer, d answer.Data, standings []answer.Standing) {
	for _, e := range answer.Exhibits(d, standings, answer.NewAnchors()) {
		if e.Known {
			continue // known-wrong designs are in the table; the page has their proof
		}
		fmt.Fprintf(out, "\n### %s %s broke %s: %s %s\n\n", e.Mark.Icon, words.EscapeMD(e.Variant),
			words.EscapeMD(e.Invariant), e.Count, e.Repeats)
		if e.Statement != "" {
			fmt.Fprintf(out, "%s\n\n", words.EscapeMD(e.Statement))
		}
		for _, v := range e.Violations {
			fmt.Fprintf(out, "1. %s %s\n", words.EscapeMD(words.Short(v.Text, longestText)),
				words.EscapeMD(v.When))
			for _, op := range v.Ops {
				id := op.ID
				if op.Again {
					id += " (sent again)"
				}
				fmt.Fprintf(out, "   - %s %s %s by %s, due %s, answered %s, %s %s\n", id,
					words.EscapeMD(op.Kind), words.EscapeMD(op.Key), words.EscapeMD(op.Client), op.Intended,
					op.End,
					op.Outcome, words.EscapeMD(op.Reply))
			}
			if v.Missing != "" {
				fmt.Fprintf(out, "   - %s\n", v.Missing)
			}
		}
		fmt.Fprintf(out, "\n%s\n", words.EscapeMD(strings.TrimSpace(e.More+" "+e.Where)))
		if e.Reproduce != "" {
			fmt.Fprintf(out, "\nThis design again: %s\n", codeSpan(e.Reproduce))
		}
	}
}

// markdownLosses tells of every loss that a design declares, also if nothing
// was lost.
func markdownLosses(out *bytes.Buffer, standings []answer.Standing) {
	rows := answer.LossRows(standings)
	if len(rows) == 0 {
		return
	}
	out.WriteString("\n### Accepted losses\n\n" +
		"| design | invariant | what is lost | why it is accepted | lost | bound |\n" +
		"|---|---|---|---|--:|--:|\n")
	for _, r := range rows {
		fmt.Fprintf(out, "| %s | %s | %s | %s | %s | %s |\n", words.EscapeMD(r.Variant),
			words.EscapeMD(r.Invariant), words.EscapeMD(r.What), words.EscapeMD(r.Why), r.Count, r.Bound)
	}
}

func markdownVariants(out *bytes.Buffer, s rundir.Summary, standings []answer.Standing) {
	out.WriteString("\n### Designs\n\n" + markdownTimes(standings, answer.QueuedNote(s, standings)) +
		"| design | correctness | invariants | objectives | sent | OK/s | errors " +
		"| p50 | p99 | p99.9 | max | CPU/op | p99 to baseline |\n" +
		"|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n")
	for _, group := range answer.VariantGroups(s, standings) {
		for _, r := range group.Rows {
			name := words.EscapeMD(r.Name)
			for _, tag := range r.Tags {
				name += " *(" + tag + ")*"
			}
			cells := []string{name, r.Mark.Icon + " " + r.Mark.Word, r.Invariants, r.SLOs, r.Sent,
				r.Throughput, r.Errors, r.P50, r.P99, r.P999,
				r.Max, r.CPU, markdownRatio(r)}
			fmt.Fprintf(out, "| %s |\n", strings.Join(cells, " | "))
		}
	}
}

// markdownTimes says whose times the table has.
func markdownTimes(standings []answer.Standing, queued string) string {
	measured := answer.StripOf(standings).Measured
	if measured == "" {
		return ""
	}
	return "Times are of " + words.EscapeMD(words.JoinNonEmpty(" ", measured+".", queued)) +
		" ≈: the machine interfered, which only makes times longer.\n\n"
}

func markdownRatio(r answer.VariantRow) string {
	if r.Baseline {
		return "1"
	}
	text := words.OrNone(r.Ratio.Ratio)
	if r.Ratio.Interval != "" {
		text += " [" + r.Ratio.Interval + "]"
	}
	if r.Ratio.P != "" {
		text += " p " + words.EscapeMD(r.Ratio.P)
	}
	if r.Ratio.Significant {
		text += " **sig**"
	}
	return text
}

func markdownObjectives(out *bytes.Buffer, standings []answer.Standing) {
	m := answer.Slos(standings)
	if len(m.Columns) == 0 {
		return
	}
	out.WriteString("\n### Objectives\n\n| design |")
	for _, c := range m.Columns {
		fmt.Fprintf(out, " %s (%s) |", words.EscapeMD(c.Name), words.EscapeMD(c.Objective))
	}
	out.WriteString("\n|---|" + strings.Repeat("---|", len(m.Columns)) + "\n")
	for _, row := range m.Rows {
		fmt.Fprintf(out, "| %s |", words.EscapeMD(row.Name))
		for _, c := range row.Cells {
			if c.Absent {
				out.WriteString(" – |")
				continue
			}
			fmt.Fprintf(out, " %s |", words.JoinNonEmpty(" ", c.Mark.Icon, words.EscapeMD(c.Actual),
				c.Margin))
		}
		out.WriteByte('\n')
	}
}

func markdownEnvironment(out *bytes.Buffer, s rundir.Summary) {
	fmt.Fprintf(out, "\n### Reproduce\n\n%s\n\n", codeBlock(s.Run.Reproduce))
	fmt.Fprintf(out, "%s · seed `%d` · %s\n", words.EscapeMD(words.Instant(s.Run.Started)), s.Run.Seed,
		words.EscapeMD(words.JoinNonEmpty(" · ", answer.Glance(s), s.Environment.CPU,
			s.Environment.Kernel)))
}

// codeBlock fences text with more backticks than it has.
func codeBlock(text string) string {
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	return fence + "sh\n" + plain.Text(text) + "\n" + fence
}

// codeSpan is code within a line, which may be cut off with it.
func codeSpan(text string) string {
	fence := "`"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	return fence + " " + plain.Text(text) + " " + fence
}
