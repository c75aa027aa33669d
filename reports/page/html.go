// Package page writes the HTML pages of a run, of a search for the highest rate and of all
// runs. A page needs no network, and no script to be read.
package page

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"time"

	"stampede/harness/check"
	"stampede/harness/plain"
	"stampede/harness/rundir"
	"stampede/harness/scenario"
	"stampede/reports/answer"
	"stampede/reports/chart"
	"stampede/reports/words"
)

//go:embed page.gohtml parts.gohtml compare.gohtml index.gohtml knee.gohtml sweep.gohtml
//go:embed page.css page.js
var assets embed.FS

// page is what the template shows.
type page struct {
	Title    string
	CSP      template.HTMLAttr
	Style    template.HTML
	Script   template.HTML
	Mark     words.Mark
	Icons    []words.Mark
	Cards    []answer.Card
	Strip    answer.Strip
	Controls []answer.ControlRow
	Run      rundir.RunInfo
	Date     string
	Took     string
	// Simulated marks a simulation, and Bottlenecks are its designs'.
	Simulated   string
	Bottlenecks []string
	Prediction  *answer.PredictionTable
	Glance      string
	Sentences   []string
	Gaps        []string

	Variants    []answer.VariantGroup
	Columns     answer.VariantColumns
	Baseline    string
	Comparisons []answer.ComparisonRow
	Processor   answer.Table
	Figures     answer.Table
	Anatomies   []anatomy
	Struck      bool // whether a fault hit something in one of them
	Matrix      answer.Matrix
	Exhibits    []answer.Exhibit
	Losses      []answer.LossRow
	SLOs        answer.SloMatrix
	Toggles     []chart.LegendItem
	Percentiles []percentilePanel
	Operations  []answer.OperationRow
	Time        timePanel
	Watched     []watchedPanel
	Stores      storesView
	Phases      []answer.PhaseRow
	Faults      []answer.FaultRow
	RepeatChart chart.Figure
	Repeats     []answer.RepeatRow
	Errors      []answer.ErrorTable
	Validity    []answer.ValidityPart
	Floor       string
	// Limits are those of the load under which the times are, Reconciled says how the counts
	// of one load belong together.
	Limits, Reconciled string
	Environment        []answer.Section
	Scenario           string
	Warnings           []string
	Again              []answer.Command
	Downloads          []download
	Nav                []NavItem
}

// NavItem is a link to a section of a page.
type NavItem struct{ ID, Name string }

// HTML writes the report: one file that needs no network, no script and no
// style to be read. It contains no time but the run's, so the same data gives
// the same bytes.
func HTML(w io.Writer, d answer.Data) error {
	return Fill(w, "page.gohtml", newPage(d))
}

// Fill writes a page from one of the templates.
func Fill(w io.Writer, name string, p any) error {
	words := template.FuncMap{"nb": unbroken, "soft": soft, "icon": favicon}
	t, err := template.New(name).Funcs(words).ParseFS(assets, name, "parts.gohtml")
	if err != nil {
		return fmt.Errorf("parse report template: %w", err)
	}
	var out bytes.Buffer
	if err := t.Execute(&out, p); err != nil {
		return fmt.Errorf("fill report template: %w", err)
	}
	if _, err := w.Write(squeeze(out.Bytes())); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// unbroken keeps a number and its unit on one line; what is infinite may
// break before its explanation.
func unbroken(text string) string {
	if strings.HasPrefix(text, "∞") {
		return text
	}
	return strings.ReplaceAll(text, " ", "\u00a0")
}

// soft lets a name or a path break after its underscores, dots and slashes, as it may after
// its hyphens.
func soft(name string) template.HTML {
	breaks := strings.NewReplacer("_", "_<wbr>", ".", ".<wbr>", "/", "/<wbr>")
	return template.HTML(breaks.Replace(template.HTMLEscapeString(name)))
}

// squeeze takes out the indentation and the empty lines that the template's lines leave
// behind, the end tags that HTML does not ask for, and the characters that no text may
// have, wherever they came from. White space
// means nothing in a page but between <pre> and </pre>, where all of it stays; text of
// others has no such marks, for it was escaped.
func squeeze(page []byte) []byte {
	var out strings.Builder
	rest := string(page)
	for rest != "" {
		loose, opened, isPre := strings.Cut(rest, "<pre")
		if isPre {
			loose += "<pre"
		}
		squeezeLoose(&out, loose)
		kept, after, closed := strings.Cut(opened, "</pre>")
		out.WriteString(plain.Block(kept))
		if rest = after; closed {
			rest = "</pre>" + after
		}
	}
	return []byte(out.String())
}

// squeezeLoose is squeeze for text outside of <pre>, which may begin and end within a
// line.
func squeezeLoose(out *strings.Builder, text string) {
	for line := range strings.Lines(text) {
		whole := strings.HasSuffix(line, "\n")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		out.WriteString(optionalEnds.Replace(plain.Text(line)))
		if whole {
			out.WriteByte('\n')
		}
	}
}

// optionalEnds takes out end tags that may be left out wherever the templates have them
// (HTML, "Optional tags"): a page has thousands of cells.
var optionalEnds = strings.NewReplacer("</td>", "", "</th>", "", "</tr>", "", "</li>", "")

func newPage(d answer.Data) page {
	s := d.Summary
	standings := answer.Ranked(s)
	names := answer.NewAnchors()
	cards := answer.AnswerCards(s, standings)
	p := page{
		Title: title(s, cards), Mark: answer.VerdictMark(answer.VerdictWord(s)), Run: s.Run,
		Date: words.Instant(s.Run.Started), Took: took(s.Run), Glance: answer.Glance(s),
		Sentences: answer.AnswerSentences(s, standings), Cards: cards, Strip: answer.StripOf(standings),
		Controls: answer.ControlRows(s, standings, names), Gaps: d.Gaps,
		Variants: answer.VariantGroups(s, standings), Baseline: s.Run.Baseline,
		Comparisons: answer.ComparisonRows(s.Comparisons),
		Figures:     answer.FigureTableOf(standings),
		Processor:   answer.ProcessorTableOf(standings), Scenario: scenarioText(d.Scenario),
		Losses: answer.LossRows(standings), SLOs: answer.Slos(standings),
		Operations: answer.OperationRows(standings), Phases: answer.PhaseRows(standings),
		Faults: answer.FaultRows(standings), Repeats: answer.RepeatRows(standings),
		Errors: answer.ErrorTables(standings), Environment: answer.EnvironmentSections(s),
		Prediction: answer.PredictionOf(d.Prediction),
		Warnings:   s.Warnings, Again: answer.Again(d), Downloads: downloads(d.Files),
	}
	if s.Environment.Simulated() {
		p.Simulated, p.Bottlenecks = answer.SimulatedWord, answer.Bottlenecks(standings)
	}
	for _, c := range cards {
		p.Icons = append(p.Icons, c.Mark)
	}
	if !slices.ContainsFunc(s.Comparisons, func(c rundir.Comparison) bool { return c.Ratio > 0 }) {
		p.Comparisons = nil // a table of dashes; that of the designs says why
	}
	p.Columns = answer.ColumnsOf(p.Variants, s, standings)
	p.Matrix = answer.InvariantMatrix(s, standings, names)
	p.Exhibits = answer.Exhibits(d, standings, names)
	p.Validity = answer.ValidityOf(standings)
	recorded := scenario.Recorded([]byte(d.Scenario))
	p.Limits = answer.LimitsText(recorded)
	p.Reconciled = answer.Reconciled(standings, recorded.Load.Arrival.Ops)
	p.Floor = answer.FloorText(s.NoiseFloor, standings)
	p.draw(d, standings)
	p.dress(standings)
	for i, text := range p.Sentences {
		p.Sentences[i] = strings.ReplaceAll(text, "≈ ", "≈\u00a0")
	}
	return p
}

// draw makes the charts.
func (p *page) draw(d answer.Data, standings []answer.Standing) {
	var gaps []string
	p.Percentiles, gaps = percentilePanels(standings)
	p.Gaps = append(slices.Clone(p.Gaps), gaps...)
	p.Time, p.Watched = timePanels(d, standings), watchedPanels(d, standings)
	p.Anatomies, p.Stores = anatomies(standings), storesOf(d, standings)
	p.Struck = slices.ContainsFunc(p.Anatomies, func(a anatomy) bool { return a.Struck })
	for i := range p.Exhibits {
		e := &p.Exhibits[i]
		e.Counted = countedFigure(e.ID+"-n", e.Proof.Counted, e.Proof.Faults, e.Earlier())
		if e.Counted.Drawn() {
			continue // it shows the operations that raced
		}
		e.Interleaving = interleaving(e.ID+"-i", e.Proof)
		e.Clients = clientTimeline(e.ID+"-c", e.Invariant+" by "+e.Variant, e.Proof)
	}
	p.RepeatChart = repeatFigure(standings)
}

// dress adds style, script, the policy that allows just them, and navigation.
func (p *page) dress(standings []answer.Standing) {
	var indices []int
	for _, st := range standings {
		indices = append(indices, st.Index)
		p.Toggles = append(p.Toggles, chart.LegendItem{Variant: st.Index, Letter: st.Letter,
			Name: st.Name})
	}
	p.Style, p.Script, p.CSP = Dressing(toggleRules(indices))
	p.Nav = p.sections()
}

// Dressing is a page's style, with some rules more, its script, and the policy that
// allows just them.
func Dressing(rules string) (style, script template.HTML, csp template.HTMLAttr) {
	css, js := Look()
	css += rules
	csp = template.HTMLAttr(fmt.Sprintf(`content="default-src 'none'; style-src '%s'; `+
		`script-src '%s'; img-src data:; base-uri 'none'; form-action 'none'"`, Digest(css), Digest(js)))
	return template.HTML("<style>" + css + "</style>"), template.HTML("<script>" + js + "</script>"),
		csp
}

// Look is the style of all pages and the script of all pages.
func Look() (css, js string) { return asset("page.css") + themeRules(), asset("page.js") }

// sections lists the page's sections that have something to show.
func (p *page) sections() []NavItem {
	return shown([]navSection{
		{NavItem{"verdict", "Answer"}, true},
		{NavItem{"invariants", "Is it correct?"}, true},
		{NavItem{"variants", "How fast is it?"}, true},
		{NavItem{"prediction", "Predicted and measured"}, p.Prediction != nil},
		{NavItem{"slos", "Objectives"}, len(p.SLOs.Columns) > 0},
		{NavItem{"latency", "Latency"}, len(p.Percentiles) > 0},
		{NavItem{"time", "Over time"}, len(p.Time.Figures) > 0},
		{NavItem{"stores", "Stores"}, len(p.Stores.Sources) > 0},
		{NavItem{"errors", "Errors"}, len(p.Errors) > 0},
		{NavItem{"measurement", "Can I trust the numbers?"}, true},
		{NavItem{"repeats", "Repeats"}, len(p.Repeats) > 0},
		{NavItem{"environment", "Environment"}, true},
		{NavItem{"reproduce", "Reproduce"}, true},
		{NavItem{"method", "Method"}, true},
		{NavItem{"downloads", "Files"}, len(p.Downloads) > 0},
	})
}

// navSection is a section of a page, which may have nothing to show.
type navSection struct {
	NavItem
	shown bool
}

// shown are the sections that a page has.
func shown(all []navSection) (items []NavItem) {
	for _, s := range all {
		if s.shown {
			items = append(items, s.NavItem)
		}
	}
	return items
}

// asset returns an embedded file without indentation and empty lines, as the
// page will have it, so that its digest is right.
func asset(name string) string {
	data, err := assets.ReadFile(name)
	if err != nil {
		panic(fmt.Sprintf("reports: embedded file %s: %v", name, err))
	}
	return strings.TrimSpace(string(squeeze(data)))
}

// Digest is the source expression of a content security policy that allows this
// inline text.
func Digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// themeRules gives the chart roles their colours in both themes.
func themeRules() string {
	var b strings.Builder
	light, dark := chart.Palettes()
	vars := func(colours [chart.Slots]string) string {
		var v strings.Builder
		for i, c := range colours {
			fmt.Fprintf(&v, "--s%d:%s;", i, c)
		}
		return v.String()
	}
	fmt.Fprintf(&b, "\n:root{%s}", vars(light))
	fmt.Fprintf(&b, "\n@media screen and (prefers-color-scheme:dark)"+
		"{:root:not([data-theme=light]){%s}}", vars(dark))
	fmt.Fprintf(&b, "\n@media screen{:root[data-theme=dark]{%s}}", vars(dark))
	for i := range chart.Slots {
		fmt.Fprintf(&b, "\n.k%[1]d{stroke:var(--s%[1]d)}.f%[1]d{fill:var(--s%[1]d)}", i)
	}
	return b.String()
}

// toggleRules let the legend's boxes hide variants, by their indices, in every chart
// without a script.
func toggleRules(variants []int) string {
	var b strings.Builder
	for _, i := range variants {
		fmt.Fprintf(&b, "\nbody:has(#tg%[1]d:not(:checked)) .v%[1]d{visibility:hidden}", i)
	}
	return b.String()
}

// title is what a browser's tab says: the verdict, then the three answers, as
// "✗ correct, ≈ timing, ✓ objectives".
func title(s rundir.Summary, cards []answer.Card) string {
	var each []string
	for _, c := range cards {
		each = append(each, c.Mark.Icon+" "+strings.ToLower(c.Name))
	}
	parts := []string{answer.VerdictWord(s), strings.Join(each, ", "), s.Run.Scenario,
		words.Plural(len(s.Variants), "design")}
	if !s.Run.Started.IsZero() {
		parts = append(parts, s.Run.Started.UTC().Format(time.DateOnly))
	}
	return plain.Text(strings.Join(parts, " · "))
}

// maxScenario is how much of a scenario the page shows.
const maxScenario = 64 << 10

// scenarioText is the scenario as it was run, cut at the end of a line.
func scenarioText(text string) string {
	if len(text) <= maxScenario {
		return strings.TrimRight(text, "\n")
	}
	whole := strings.LastIndexByte(text[:maxScenario], '\n') + 1
	return text[:whole] + "# (the rest is in " + rundir.ScenarioFile + ")"
}

// took says how long the run was.
func took(r rundir.RunInfo) string {
	if r.Started.IsZero() || !r.Finished.After(r.Started) {
		return ""
	}
	return r.Finished.Sub(r.Started).Round(time.Second).String()
}

// download is a file of the run directory.
type download struct{ Path, What string }

// downloads lists the run's files with what each is, the page itself left
// out. A folder is listed as one, since it may have hundreds of files.
func downloads(files []string) []download {
	known := map[string]string{
		"summary.json": "every number of this page", "junit.xml": "verdicts for CI",
		"summary.md": "this page, short", "metrics.txt": "OpenMetrics",
		"scenario.resolved.yaml": "the scenario as it was run", "env.json": "the environment",
		"run.json":        "what the run set out to do",
		"prediction.json": "what was predicted and measured",
		"events.ndjson":   "what happened, as it happened",
		"hdr/":            "percentiles, and histograms over time, for HdrHistogram's tools",
		"history/":        "every operation of every repeat",
		"violations/": fmt.Sprintf("the first %d violations of each invariant in each repeat, "+
			"with up to %d of their operations", check.MaxViolations, check.MaxProof),
		"telemetry/": "what stores and roles said of themselves over time",
		"timeline/":  "numbers over time", "windows/": "response times and errors over time",
		"audit/": "the stores' final state", "logs/": "logs",
	}
	var list []download
	for _, name := range slices.Sorted(slices.Values(files)) {
		if folder, _, ok := strings.Cut(name, "/"); ok {
			name = folder + "/"
		}
		entry := download{name, known[name]}
		if name != "report.html" && !slices.Contains(list, entry) {
			list = append(list, entry)
		}
	}
	return list
}
