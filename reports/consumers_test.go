package reports_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/joshdk/go-junit"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	table "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/text"

	"stampede/harness/check"
	"stampede/harness/plain"
	"stampede/harness/rundir"
	"stampede/reports/answer"
	"stampede/reports/export"
)

// These tests read what CI systems read with parsers that others wrote.

// gitLabLimit is the largest JUnit file that GitLab reads.
const gitLabLimit = 30_000_000

func junitOf(t testing.TB, d answer.Data) []junit.Suite {
	t.Helper()
	suites, err := junit.Ingest([]byte(write(t, export.JUnit, d)))
	if err != nil {
		t.Fatal(err)
	}
	return suites
}

// totals counts the cases of all suites by what became of them.
func totals(suites []junit.Suite) map[junit.Status]int {
	count := map[junit.Status]int{}
	for _, suite := range suites {
		for _, c := range suite.Tests {
			count[c.Status]++
		}
	}
	return count
}

// TestJUnitHasACaseForEverything: every variant has a case for each of its invariants and
// objectives and for its measurement, and no two cases are named alike, of which
// GitLab drops one.
func TestJUnitHasACaseForEverything(t *testing.T) {
	for _, s := range scenes() {
		d := s.data(t)
		suites := junitOf(t, d)
		if len(suites) != len(d.Summary.Variants) {
			t.Errorf("%s: %d suites of %d variants", s.name, len(suites), len(d.Summary.Variants))
		}
		cases, want := 0, 0
		names := map[string]bool{}
		for _, suite := range suites {
			for _, c := range suite.Tests {
				name := c.Classname + "\x00" + c.Name
				if names[name] || c.Classname == "" {
					t.Errorf("%s: two cases %q, or one without a class", s.name, name)
				}
				names[name] = true
				cases++
			}
			if suite.Properties["seed"] == "" {
				t.Errorf("%s: %s has no seed", s.name, suite.Name)
			}
		}
		for _, v := range d.Summary.Variants {
			want += len(v.Invariants) + len(v.SLOs) + 1
			for _, inv := range v.Invariants { // what was not caught is a case of its own
				if v.Correctness == rundir.NotCaught && inv.Status != check.Broken &&
					slices.Contains(v.ExpectedBroken, inv.Invariant) {
					want++
				}
			}
		}
		if cases != want {
			t.Errorf("%s: %d cases, want %d", s.name, cases, want)
		}
		// Some systems show the attributes instead of counting.
		count := totals(suites)
		attributes := fmt.Sprintf(`tests="%d" failures="%d" errors="%d" skipped="%d"`, cases,
			count[junit.StatusFailed], count[junit.StatusError], count[junit.StatusSkipped])
		root, _, _ := strings.Cut(write(t, export.JUnit, d), "<testsuite ")
		if !strings.Contains(root, attributes) {
			t.Errorf("%s: the root is %s, want %s", s.name, root, attributes)
		}
	}
}

// CI and the exit code must agree: a run that passes has neither failures nor
// errors, a run that fails has a failure.
func TestJUnitAgreesWithTheVerdict(t *testing.T) {
	for name, want := range map[string][2]bool{ // failures, errors
		"three": {}, "latent": {}, "all_failed": {true, false}, "invalid": {false, true},
		"missed":    {true, false},
		"undecided": {false, true},
	} {
		count := totals(junitOf(t, sceneOf(t, name).data(t)))
		if (count[junit.StatusFailed] > 0) != want[0] || (count[junit.StatusError] > 0) != want[1] {
			t.Errorf("%s: %v", name, count)
		}
	}
}

// TestJUnitStaysUnderTheLimit: evidence without end is cut, cases are not.
func TestJUnitStaysUnderTheLimit(t *testing.T) {
	d := manyBroken(t, 400)
	text := write(t, export.JUnit, d)
	suites, err := junit.Ingest([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if len(text) > gitLabLimit || len(suites) != 400 || !strings.Contains(text, "Cut: ") {
		t.Errorf("%d bytes, %d suites", len(text), len(suites))
	}
	if strings.Contains(write(t, export.JUnit, sceneOf(t, "all_failed").data(t)), "Cut: ") {
		t.Error("little evidence was cut")
	}
}

// manyBroken has so many designs that break everything, and violations whose text
// is far too long and grows when it is escaped.
func manyBroken(t testing.TB, designs int) answer.Data {
	d := allFailed(t)
	v := d.Summary.Variants[0]
	records := d.Records[answer.RepeatRef{Variant: v.Name}]
	for _, inv := range v.Repeats[0].Invariants {
		for i := range inv.Violations {
			inv.Violations[i].Text = strings.Repeat(`<&">|`, 1000)
		}
	}
	d.Summary.Variants = nil
	for i := range designs {
		v.Name = fmt.Sprintf("design-%d", i)
		d.Summary.Variants = append(d.Summary.Variants, v)
		d.Records[answer.RepeatRef{Variant: v.Name}] = records
	}
	return d
}

// sample is one value that Prometheus reads.
type sample struct {
	labels labels.Labels
	value  float64
}

// scrape reads metrics with the parser of Prometheus, and holds them against what
// it does not care about and OpenMetrics 1.0 does: each family is declared once, all
// its samples follow, no two are alike.
func scrape(t testing.TB, metrics string) map[string][]sample {
	t.Helper()
	parser := textparse.NewOpenMetricsParser([]byte(metrics), labels.NewSymbolTable())
	families, seen := map[string][]sample{}, map[string]bool{}
	current := ""
	for {
		entry, err := parser.Next()
		if errors.Is(err, io.EOF) {
			return families
		}
		if err != nil {
			t.Fatal(err)
		}
		switch entry {
		case textparse.EntryType:
			name, _ := parser.Type()
			current = string(name)
			if _, ok := families[current]; ok {
				t.Errorf("%s is declared twice", current)
			}
			families[current] = nil
		case textparse.EntryUnit:
			if name, unit := parser.Unit(); !strings.HasSuffix(string(name), "_"+string(unit)) {
				t.Errorf("%s does not end in its unit %s", name, unit)
			}
		case textparse.EntrySeries:
			var l labels.Labels
			parser.Labels(&l)
			_, _, value := parser.Series()
			if seen[l.String()] || !strings.HasPrefix(l.Get(labels.MetricName), current) {
				t.Errorf("in family %s: %s, a second time or out of place", current, l)
			}
			seen[l.String()] = true
			families[current] = append(families[current], sample{l, value})
		}
	}
}

func TestMetricsAreReadByPrometheus(t *testing.T) {
	for _, s := range scenes() {
		t.Run(s.name, func(t *testing.T) {
			d := s.data(t)
			families := scrape(t, write(t, export.Metrics, d))
			verdicts := 0.
			for _, one := range families["stampede_verdict"] {
				verdicts += one.value
				if got := one.labels.Get("scenario"); got != plain.Text(d.Summary.Run.Scenario) {
					t.Errorf("scenario %q, want %q", got, plain.Text(d.Summary.Run.Scenario))
				}
			}
			if verdicts != 1 {
				t.Errorf("%g verdicts are set, want 1", verdicts)
			}
			var invariants, skipped int
			for _, v := range d.Summary.Variants {
				invariants += len(v.Invariants)
				skipped += len(v.NotApplicable)
			}
			if got := len(families["stampede_violations"]); got != invariants {
				t.Errorf("%d numbers of violations, want %d", got, invariants)
			}
			if got := len(families["stampede_invariant_held"]); got != invariants-skipped {
				t.Errorf("%d invariants held or not, want %d", got, invariants-skipped)
			}
			if got := len(families["stampede_throughput_per_second"]); got != len(d.Summary.Variants) {
				t.Errorf("%d throughputs of %d variants", got, len(d.Summary.Variants))
			}
		})
	}
}

// gitHubLimit is the largest summary of a step that GitHub takes.
const gitHubLimit = 1 << 20

// rendered is what a CI system makes of a summary.
type rendered struct {
	headings []string
	tables   int
	code     []string
}

// renderMarkdown parses a summary as GitHub does, and finds what does not belong there: markup,
// links and pictures that somebody else wrote, rows of a table that have cells too many
// or too few.
func renderMarkdown(t testing.TB, markdown string) (r rendered) {
	t.Helper()
	source := []byte(markdown)
	root := goldmark.New(goldmark.WithExtensions(extension.GFM)).Parser().Parse(text.NewReader(source))
	err := ast.Walk(root, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.RawHTML, *ast.HTMLBlock, *ast.Link, *ast.Image, *ast.CodeSpan, *ast.CodeBlock,
			*table.Strikethrough, *ast.ThematicBreak:
			if code, ok := n.(*ast.CodeSpan); ok && (isSeed(code, source) || isAgain(code, source)) {
				return ast.WalkSkipChildren, nil
			}
			t.Errorf("a %s where there should be text", n.Kind())
		case *ast.Heading:
			r.headings = append(r.headings, string(n.Lines().Value(source)))
		case *ast.FencedCodeBlock:
			r.code = append(r.code, string(n.Lines().Value(source)))
		case *table.Table:
			r.tables++
		case *table.TableRow:
			if row := string(line(source, n)); strings.Count(strings.ReplaceAll(row, `\|`, ""), "|") !=
				n.ChildCount()+1 {
				t.Errorf("a row of %d cells: %s", n.ChildCount(), row)
			}
		}
		return ast.WalkContinue, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// isSeed says that a piece of code is a number.
func isSeed(n *ast.CodeSpan, source []byte) bool {
	for child := n.FirstChild(); child != nil; child = child.NextSibling() {
		part, ok := child.(*ast.Text)
		if !ok || strings.Trim(string(part.Segment.Value(source)), "0123456789") != "" {
			return false
		}
	}
	return true
}

// isAgain says that a piece of code is the command behind a violation.
func isAgain(n *ast.CodeSpan, source []byte) bool {
	before, ok := n.PreviousSibling().(*ast.Text)
	return ok && string(before.Segment.Value(source)) == "This design again: "
}

// line is the line of the source that a row of a table is on.
func line(source []byte, row *table.TableRow) []byte {
	cell := row.FirstChild().Lines().At(0)
	start := bytes.LastIndexByte(source[:cell.Start], '\n') + 1
	end := bytes.IndexByte(source[start:], '\n')
	return source[start : start+end]
}

func TestMarkdownIsWhatItLooksLike(t *testing.T) {
	for _, s := range scenes() {
		t.Run(s.name, func(t *testing.T) {
			d := s.data(t)
			r := renderMarkdown(t, write(t, export.Markdown, d))
			if len(r.headings) < 3 || !slices.Contains(r.headings, "Designs") ||
				!slices.Contains(r.headings, "Reproduce") {
				t.Errorf("the headings are %q", r.headings)
			}
			want := 0
			if len(d.Summary.Variants) > 0 {
				want = 2 // variants and objectives
				for _, v := range d.Summary.Variants {
					for _, inv := range v.Invariants {
						if len(inv.Accepted) > 0 {
							want = 3 // losses too
						}
					}
				}
			}
			if r.tables != max(want, 1) {
				t.Errorf("%d tables, want %d", r.tables, want)
			}
			if len(r.code) != 1 {
				t.Errorf("the code is %q", r.code)
			}
		})
	}
}

// TestMarkdownKeepsTextText: text that would mean something to Markdown or to GitHub,
// where a scenario, a reply or an error can put it.
func TestMarkdownKeepsTextText(t *testing.T) {
	for _, hostile := range []string{"- a list", "1. a list", "23) a list", "+ a list", "---", "===",
		"~~struck~~", "> a quote", "# a heading", "    code", "```\ncode", "<b>bold</b>", "**bold**",
		"| a | table |", "[a link](http://e.x)", "![a picture](http://e.x)", "$x^2$", "@somebody",
		"&copy;", `a\`, "\ttab", "<!--", "- - -", "* * *"} {
		d := sceneOf(t, "all_failed").make(t)
		d.Summary.Run.Question, d.Summary.Run.Scenario = hostile, hostile
		d.Summary.Statements["no-oversell"] = hostile
		for v := range d.Summary.Variants {
			variant := &d.Summary.Variants[v]
			variant.Repeats[0].Invariants[0].Violations[0].Text = hostile
			variant.SLOs[0].Name = hostile
		}
		plain := sceneOf(t, "all_failed").make(t)
		got, want := renderMarkdown(t, write(t, export.Markdown, d)),
			renderMarkdown(t, write(t, export.Markdown, plain))
		if got.tables != want.tables || len(got.headings) != len(want.headings) ||
			!slices.Equal(got.code, want.code) {
			t.Errorf("%q: %+v, want %+v", hostile, got, want)
		}
	}
}

func TestMarkdownStaysUnderTheLimit(t *testing.T) {
	d := manyBroken(t, 60)
	markdown := write(t, export.Markdown, d)
	if len(markdown) > gitHubLimit || strings.Count(markdown, "*Cut: ") != 1 ||
		!strings.HasPrefix(markdown, "## ✗ FAIL") {
		t.Errorf("%d bytes, starts %q", len(markdown), markdown[:40])
	}
	// Evidence is what is cut: the table and how to reproduce the run stay.
	if r := renderMarkdown(t, markdown); r.tables != 2 || len(r.code) != 1 {
		t.Errorf("%d tables, %d blocks of code", r.tables, len(r.code))
	}
	if strings.Contains(write(t, export.Markdown, sceneOf(t, "three").data(t)), "*Cut: ") {
		t.Error("a small summary was cut")
	}
	// Without any evidence it may still be too much.
	d.Gaps = slices.Repeat([]string{"a file that could not be read"}, 50_000)
	if many := write(t, export.Markdown, d); len(many) > gitHubLimit {
		t.Errorf("%d bytes", len(many))
	}
}

// TestMarkdownSharesAPage: the scenarios of one step write to one file.
func TestMarkdownSharesAPage(t *testing.T) {
	d := manyBroken(t, 20)
	var page bytes.Buffer
	for range 5 {
		if err := export.MarkdownWithin(&page, d, page.Len()); err != nil {
			t.Fatal(err)
		}
	}
	if page.Len() > gitHubLimit {
		t.Errorf("%d bytes", page.Len())
	}
	full := page.Len()
	if err := export.MarkdownWithin(&page, d, gitHubLimit); err != nil || page.Len() != full {
		t.Errorf("a full page got %d bytes more: %v", page.Len()-full, err)
	}
}

// command is a workflow command as GitHub's runner reads one.
type command struct{ name, title, data string }

// runner reads a line as GitHub's runner does: https://github.com/actions/runner,
// ActionCommand.TryParseV2.
func runner(line string) (c command, ok bool) {
	rest, ok := strings.CutPrefix(strings.TrimLeft(line, " "), "::")
	if !ok {
		return c, false
	}
	info, data, ok := strings.Cut(rest, "::")
	if !ok {
		return c, false
	}
	name, properties, _ := strings.Cut(info, " ")
	c = command{name: name, data: unescape(data)}
	for _, property := range strings.Split(properties, ",") {
		if key, value, ok := strings.Cut(property, "="); ok && strings.TrimSpace(key) == "title" {
			c.title = unescape(value)
		}
	}
	return c, true
}

func unescape(text string) string {
	return strings.NewReplacer("%0D", "\r", "%0A", "\n", "%3A", ":", "%2C", ",", "%25", "%").
		Replace(text)
}

func annotationsOf(t testing.TB, d answer.Data, most int) (all []command) {
	t.Helper()
	var out bytes.Buffer
	n, err := export.Annotations(&out, d, most)
	if err != nil {
		t.Fatal(err)
	}
	for one := range strings.Lines(out.String()) {
		c, ok := runner(strings.TrimSuffix(one, "\n"))
		if !ok || c.name != "error" && c.name != "warning" || c.title == "" || c.data == "" {
			t.Errorf("GitHub does not understand %q", one)
		}
		all = append(all, c)
	}
	if n != len(all) || n > most {
		t.Errorf("%d lines, said %d, at most %d", len(all), n, most)
	}
	return all
}

func TestAnnotations(t *testing.T) {
	for name, want := range map[string][]command{
		"three": nil, "latent": nil,
		"missed": {{"error", "flash-sale-100k: redis_no_gate was not caught",
			"it is known to break no-oversell, and the run did not show it"}},
		"invalid": {{"warning", "flash-sale-100k: there is no answer about correctness",
			"0 of 1 design holds every invariant, 1 is undecided; no answer about conditional_update: " +
				"schedule kept: 71.2 % started, limit 99 %"}},
	} {
		if got := annotationsOf(t, sceneOf(t, name).data(t), 10); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if got := annotationsOf(t, sceneOf(t, "undecided").data(t), 10); !slices.ContainsFunc(got,
		func(c command) bool {
			return c.name == "warning" && strings.Contains(c.title, " undecided") && c.data != ""
		}) {
		t.Errorf("what was not decided is not told: %q", got)
	}
	all := annotationsOf(t, sceneOf(t, "all_failed").data(t), 10)
	want := command{"error", "flash-sale-100k: conditional_update broke no-oversell",
		"37 violations, first: item-1 has 101 of 100 units sold"}
	if !slices.Contains(all, want) {
		t.Errorf("%q, want among them %q", all, want)
	}
}

func TestAnnotationsAreFew(t *testing.T) {
	all := annotationsOf(t, manyBroken(t, 30), export.MostAnnotations)
	if len(all) != export.MostAnnotations || !strings.HasPrefix(all[9].data, "5") ||
		!strings.Contains(all[9].data, "more problems") {
		t.Errorf("%d, the last %+v", len(all), all[len(all)-1])
	}
	if none := annotationsOf(t, manyBroken(t, 2), 0); none != nil {
		t.Errorf("no room, and yet %q", none)
	}
}

// TestAnnotationsKeepTextText: nothing that was said ends a command or begins one.
func TestAnnotationsKeepTextText(t *testing.T) {
	d := sceneOf(t, "one").make(t)
	const said = "100%25 wrong, a:b\r\n::error::x"
	v := &d.Summary.Variants[0]
	v.Name = "a,title=b::c"
	broken := check.Verdict{Invariant: "no-oversell", Status: check.Broken, Count: 1,
		Violations: []check.Violation{{Text: said}}}
	v.Invariants = []check.Verdict{broken}
	v.Repeats[0].Invariants = []check.Verdict{broken}
	v.Verdict, d.Summary.Verdict.Overall = rundir.Fail, rundir.Fail
	all := annotationsOf(t, d, 10)
	want := command{"error", "flash-sale-100k: a,title=b::c broke no-oversell",
		"1 violation, first: 100%25 wrong, a:b  ::error::x"}
	if len(all) != 1 || all[0] != want {
		t.Errorf("%q, want %q", all, want)
	}
	if _, err := export.Annotations(fullDisk{}, d, 10); err == nil {
		t.Error("a full disk was not noticed")
	}
}
