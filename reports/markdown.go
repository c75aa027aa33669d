package reports

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"stampede/harness/plain"
	"stampede/harness/rundir"
)

// markdownLimit is what a summary may have: a GitHub step summary over 1 MiB
// aborts the upload.
const markdownLimit = 900_000

// Markdown writes a summary of at most 900 kB for a CI system's page: the
// verdict, the evidence, then the variants and the environment. Where that is too
// much, evidence is left out, a line at a time from its end, and it says so.
func Markdown(w io.Writer, d Data) error { return MarkdownWithin(w, d, 0) }

// MarkdownWithin is Markdown for a page that has so many bytes already: both
// together stay within the limit. A page that is full gets nothing.
func MarkdownWithin(w io.Writer, d Data, there int) error {
	standings := ranked(d.Summary)
	var head, evidence, tail bytes.Buffer
	markdownHead(&head, d, standings)
	markdownEvidence(&evidence, d, standings)
	markdownLosses(&tail, standings)
	markdownVariants(&tail, d.Summary, standings)
	markdownObjectives(&tail, standings)
	markdownEnvironment(&tail, d.Summary)
	left := max(0, markdownLimit-there)
	shown := limited(evidence.Bytes(), left-head.Len()-tail.Len())
	whole := slices.Concat(head.Bytes(), shown, tail.Bytes())
	if _, err := w.Write(limited(whole, left)); err != nil {
		return fmt.Errorf("write Markdown: %w", err)
	}
	return nil
}

func markdownHead(out *bytes.Buffer, d Data, standings []standing) {
	s := d.Summary
	m := verdictMark(VerdictWord(s))
	fmt.Fprintf(out, "## %s %s · %s\n\n", m.Icon, m.Word, escapeMD(s.Run.Scenario))
	if s.Run.Question != "" {
		fmt.Fprintf(out, "%s\n\n", escapeMD(s.Run.Question))
	}
	for _, sentence := range answerSentences(s, standings) {
		fmt.Fprintf(out, "%s\n", escapeMD(sentence))
	}
	out.WriteByte('\n')
	for _, c := range answerCards(s, standings) {
		fmt.Fprintf(out, "- %s: %s **%s**: %s\n", c.Name, c.Mark.Icon, c.Mark.Word,
			escapeMD(strings.Join(c.Lines, "; ")))
	}
	for _, gap := range d.Gaps {
		fmt.Fprintf(out, "- missing: %s\n", escapeMD(gap))
	}
}

// limited cuts at the last line that fits, with a note; where not even that fits,
// nothing is left.
func limited(text []byte, limit int) []byte {
	const note = "\n*Cut: the summary would be larger than CI systems accept. See report.html.*\n"
	if len(text) <= limit {
		return text
	}
	if limit < len(note) {
		return nil
	}
	cut := bytes.LastIndexByte(text[:limit-len(note)], '\n')
	return append(text[:cut+1:cut+1], note...)
}

func markdownEvidence(out *bytes.Buffer, d Data, standings []standing) {
	for _, e := range exhibits(d, standings, newAnchors()) {
		if e.Known {
			continue // known-wrong designs are in the table; the page has their proof
		}
		fmt.Fprintf(out, "\n### %s %s broke %s: %s %s\n\n", e.Mark.Icon, escapeMD(e.Variant),
			escapeMD(e.Invariant), e.Count, e.Repeats)
		if e.Statement != "" {
			fmt.Fprintf(out, "%s\n\n", escapeMD(e.Statement))
		}
		for _, v := range e.Violations {
			fmt.Fprintf(out, "1. %s %s\n", escapeMD(short(v.Text, longestText)), escapeMD(v.When))
			for _, op := range v.Ops {
				id := op.ID
				if op.Again {
					id += " (sent again)"
				}
				fmt.Fprintf(out, "   - %s %s %s by %s, due %s, answered %s, %s %s\n", id,
					escapeMD(op.Kind), escapeMD(op.Key), escapeMD(op.Client), op.Intended, op.End,
					op.Outcome, escapeMD(op.Reply))
			}
			if v.Missing != "" {
				fmt.Fprintf(out, "   - %s\n", v.Missing)
			}
		}
		fmt.Fprintf(out, "\n%s\n", escapeMD(strings.TrimSpace(e.More+" "+e.Where)))
		if e.Reproduce != "" {
			fmt.Fprintf(out, "\nThis design again: %s\n", codeSpan(e.Reproduce))
		}
	}
}

// markdownLosses tells of every loss that a design declares, also if nothing
// was lost.
func markdownLosses(out *bytes.Buffer, standings []standing) {
	rows := lossRows(standings)
	if len(rows) == 0 {
		return
	}
	out.WriteString("\n### Accepted losses\n\n" +
		"| design | invariant | what is lost | why it is accepted | lost | bound |\n" +
		"|---|---|---|---|--:|--:|\n")
	for _, r := range rows {
		fmt.Fprintf(out, "| %s | %s | %s | %s | %s | %s |\n", escapeMD(r.Variant),
			escapeMD(r.Invariant), escapeMD(r.What), escapeMD(r.Why), r.Count, r.Bound)
	}
}

func markdownVariants(out *bytes.Buffer, s rundir.Summary, standings []standing) {
	out.WriteString("\n### Designs\n\n" + markdownTimes(standings, queuedNote(s, standings)) +
		"| design | correctness | invariants | objectives | sent | OK/s | errors " +
		"| p50 | p99 | p99.9 | max | CPU/op | p99 to baseline |\n" +
		"|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n")
	for _, group := range variantGroups(s, standings) {
		for _, r := range group.Rows {
			name := escapeMD(r.Name)
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
func markdownTimes(standings []standing, queued string) string {
	measured := stripOf(standings).Measured
	if measured == "" {
		return ""
	}
	return "Times are of " + escapeMD(joinNonEmpty(" ", measured+".", queued)) +
		" ≈: the machine interfered, which only makes times longer.\n\n"
}

func markdownRatio(r variantRow) string {
	if r.Baseline {
		return "1"
	}
	text := orNone(r.Ratio.Ratio)
	if r.Ratio.Interval != "" {
		text += " [" + r.Ratio.Interval + "]"
	}
	if r.Ratio.P != "" {
		text += " p " + escapeMD(r.Ratio.P)
	}
	if r.Ratio.Significant {
		text += " **sig**"
	}
	return text
}

func markdownObjectives(out *bytes.Buffer, standings []standing) {
	m := slos(standings)
	if len(m.Columns) == 0 {
		return
	}
	out.WriteString("\n### Objectives\n\n| design |")
	for _, c := range m.Columns {
		fmt.Fprintf(out, " %s (%s) |", escapeMD(c.Name), escapeMD(c.Objective))
	}
	out.WriteString("\n|---|" + strings.Repeat("---|", len(m.Columns)) + "\n")
	for _, row := range m.Rows {
		fmt.Fprintf(out, "| %s |", escapeMD(row.Name))
		for _, c := range row.Cells {
			if c.Absent {
				out.WriteString(" – |")
				continue
			}
			fmt.Fprintf(out, " %s |", joinNonEmpty(" ", c.Mark.Icon, escapeMD(c.Actual), c.Margin))
		}
		out.WriteByte('\n')
	}
}

func markdownEnvironment(out *bytes.Buffer, s rundir.Summary) {
	fmt.Fprintf(out, "\n### Reproduce\n\n%s\n\n", codeBlock(s.Run.Reproduce))
	fmt.Fprintf(out, "%s · seed `%d` · %s\n", escapeMD(instant(s.Run.Started)), s.Run.Seed,
		escapeMD(joinNonEmpty(" · ", glance(s), s.Environment.CPU, s.Environment.Kernel)))
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

// escapeMD takes the meaning from Markdown's, HTML's and GitHub's special
// characters, and from what would make a list or a rule of a line's beginning, or an order
// to GitHub's runner where it is printed in a log.
func escapeMD(text string) string {
	text = strings.TrimSpace(plain.Line(text))
	if leading.MatchString(text) {
		mark := strings.IndexAny(text, ".)-+=")
		return text[:mark] + `\` + text[mark:mark+1] + special.Replace(text[mark+1:])
	}
	return special.Replace(text)
}

// leading is a list's mark or a rule at the beginning of a line.
var leading = regexp.MustCompile(`^([0-9]{1,9}[.)]( |$)|[-+]( |$)|[-=][-= ]*$)`)

var special = strings.NewReplacer(`\`, `\\`, "|", `\|`, "*", `\*`, "_", `\_`, "`", "\\`",
	"~", `\~`, "$", `\$`, "[", `\[`, "]", `\]`, "<", "&lt;", ">", "&gt;", "&", "&amp;", "#", `\#`,
	"@", "@\u200b")
