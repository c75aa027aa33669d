package export

import (
	"bytes"
	_ "embed" // markdown.gotmpl
	"fmt"
	"io"
	"slices"
	"strings"
	"text/template"

	"stampede/harness/plain"
	"stampede/harness/rundir"
	"stampede/reports/answer"
	"stampede/reports/words"
)

//go:embed markdown.gotmpl
var markdownText string

// markdown is what the template shows.
type markdown struct {
	Mark      words.Mark
	Run       rundir.RunInfo
	Sentences []string
	Cards     []answer.Card
	Gaps      []string
	Exhibits  []answer.Exhibit
	// Losses are those that a design declares, also if nothing was lost.
	Losses []answer.LossRow
	// Times says whose times the table of designs has.
	Times            string
	Groups           []answer.VariantGroup
	SLOs             answer.SloMatrix
	Started, Machine string
}

// Markdown writes a summary of at most 900 kB for a CI system's page: the
// verdict, the evidence, then the variants and the environment. Where that is too
// much, evidence is left out, a line at a time from its end, and it says so.
func Markdown(w io.Writer, d answer.Data) error { return MarkdownWithin(w, d, 0) }

// MarkdownWithin is Markdown for a page that has so many bytes already: both
// together stay within the limit. A page that is full gets nothing.
func MarkdownWithin(w io.Writer, d answer.Data, there int) error {
	t, err := words.Template(markdownText, template.FuncMap{"fence": codeBlock, "span": codeSpan,
		"cut": clean, "join": func(parts ...string) string { return words.JoinNonEmpty(" ", parts...) }})
	if err != nil {
		return err
	}
	m, parts := markdownOf(d), [3]bytes.Buffer{}
	for i, name := range []string{"head", "evidence", "tail"} {
		if err := t.ExecuteTemplate(&parts[i], name, m); err != nil {
			return fmt.Errorf("fill Markdown: %w", err)
		}
	}
	head, evidence, tail := parts[0].Bytes(), parts[1].Bytes(), parts[2].Bytes()
	left := max(0, words.MarkdownLimit-there)
	shown := words.Limited(evidence, left-len(head)-len(tail))
	if _, err := w.Write(words.Limited(slices.Concat(head, shown, tail), left)); err != nil {
		return fmt.Errorf("write Markdown: %w", err)
	}
	return nil
}

func markdownOf(d answer.Data) markdown {
	s, standings := d.Summary, answer.Ranked(d.Summary)
	m := markdown{Mark: answer.VerdictMark(answer.VerdictWord(s)), Run: s.Run, Gaps: d.Gaps,
		Sentences: answer.AnswerSentences(s, standings), Cards: answer.AnswerCards(s, standings),
		// Known-wrong designs are in the table; the page has their proof.
		Exhibits: answer.Exhibits(d, standings, answer.NewAnchors()),
		Losses:   answer.LossRows(standings), Groups: answer.VariantGroups(s, standings),
		SLOs: answer.Slos(standings), Started: words.Instant(s.Run.Started),
		Machine: words.JoinNonEmpty(" · ", answer.Glance(s), s.Environment.CPU, s.Environment.Kernel)}
	if measured := answer.StripOf(standings).Measured; measured != "" {
		m.Times = words.JoinNonEmpty(" ", measured+".", answer.QueuedNote(s, standings))
	}
	return m
}

// codeBlock fences text with more backticks than it has.
func codeBlock(text string) string {
	fence := fenceOf(text, "```")
	return fence + "sh\n" + plain.Text(text) + "\n" + fence
}

// codeSpan is code within a line, which may be cut off with it.
func codeSpan(text string) string {
	fence := fenceOf(text, "`")
	return fence + " " + plain.Text(text) + " " + fence
}

func fenceOf(text, fence string) string {
	for strings.Contains(text, fence) {
		fence += "`"
	}
	return fence
}
