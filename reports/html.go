package reports

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
)

//go:embed page.gohtml parts.gohtml compare.gohtml index.gohtml knee.gohtml page.css page.js
var assets embed.FS

// page is what the template shows.
type page struct {
	Title     string
	CSP       template.HTMLAttr
	Style     template.HTML
	Script    template.HTML
	Mark      mark
	Icons     []mark
	Cards     []card
	Strip     strip
	Controls  []controlRow
	Run       rundir.RunInfo
	Date      string
	Took      string
	Glance    string
	Sentences []string
	Gaps      []string

	Variants    []variantGroup
	Columns     variantColumns
	Baseline    string
	Comparisons []comparisonRow
	Processor   processorTable
	Anatomies   []anatomy
	Struck      bool // whether a fault hit something in one of them
	Matrix      matrix
	Exhibits    []exhibit
	Losses      []lossRow
	SLOs        sloMatrix
	Toggles     []legendItem
	Percentiles []percentilePanel
	Operations  []operationRow
	Time        timePanel
	Watched     []watchedPanel
	Stores      storesView
	Phases      []phaseRow
	Faults      []faultRow
	RepeatChart figure
	Repeats     []repeatRow
	Errors      []errorTable
	Validity    []validityPart
	Floor       string
	// Limits are those of the load under which the times are, Reconciled says how the counts
	// of one load belong together.
	Limits, Reconciled string
	Environment        []section
	Scenario           string
	Warnings           []string
	Again              []command
	Downloads          []download
	Nav                []navItem
}

type navItem struct{ ID, Name string }

// HTML writes the report: one file that needs no network, no script and no
// style to be read. It contains no time but the run's, so the same data gives
// the same bytes.
func HTML(w io.Writer, d Data) error {
	p, err := newPage(d)
	if err != nil {
		return fmt.Errorf("make report: %w", err)
	}
	return fill(w, "page.gohtml", p)
}

// fill writes a page from one of the templates.
func fill(w io.Writer, name string, p any) error {
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

// soft lets a name break after its underscores and dots, as it may after its hyphens.
func soft(name string) template.HTML {
	breaks := strings.NewReplacer("_", "_<wbr>", ".", ".<wbr>")
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

func newPage(d Data) (page, error) {
	s := d.Summary
	standings := ranked(s)
	names := newAnchors()
	cards := answerCards(s, standings)
	p := page{
		Title: title(s, cards), Mark: verdictMark(VerdictWord(s)), Run: s.Run,
		Date: instant(s.Run.Started), Took: took(s.Run), Glance: glance(s),
		Sentences: answerSentences(s, standings), Cards: cards, Strip: stripOf(standings),
		Controls: controlRows(s, standings, names), Gaps: d.Gaps,
		Variants: variantGroups(s, standings), Baseline: s.Run.Baseline,
		Comparisons: comparisonRows(s.Comparisons),
		Processor:   processorTableOf(standings), Scenario: scenarioText(d.Scenario),
		Losses: lossRows(standings), SLOs: slos(standings),
		Operations: operationRows(standings), Phases: phaseRows(standings),
		Faults: faultRows(standings), Repeats: repeatRows(standings),
		Errors: errorTables(standings), Environment: environmentSections(s),
		Warnings: s.Warnings, Again: again(d), Downloads: downloads(d.Files),
	}
	for _, c := range cards {
		p.Icons = append(p.Icons, c.Mark)
	}
	if !slices.ContainsFunc(s.Comparisons, func(c rundir.Comparison) bool { return c.Ratio > 0 }) {
		p.Comparisons = nil // a table of dashes; that of the designs says why
	}
	p.Columns = columnsOf(p.Variants, s, standings)
	p.Matrix = invariantMatrix(s, standings, names)
	p.Exhibits = exhibits(d, standings, names)
	p.Validity = validityOf(standings)
	recorded := scenario.Recorded([]byte(d.Scenario))
	p.Limits = limitsText(recorded)
	p.Reconciled = reconciled(standings, recorded.Load.Arrival.Ops)
	p.Floor = floorText(s.NoiseFloor, standings)
	if err := p.draw(d, standings); err != nil {
		return page{}, err
	}
	p.dress(standings)
	for i, text := range p.Sentences {
		p.Sentences[i] = strings.ReplaceAll(text, "≈ ", "≈\u00a0")
	}
	return p, nil
}

// draw makes the charts.
func (p *page) draw(d Data, standings []standing) (err error) {
	var gaps []string
	if p.Percentiles, gaps, err = percentilePanels(standings); err != nil {
		return err
	}
	p.Gaps = append(slices.Clone(p.Gaps), gaps...)
	if p.Time, err = timePanels(d, standings); err != nil {
		return err
	}
	if p.Watched, err = watchedPanels(d, standings); err != nil {
		return err
	}
	if p.Anatomies, err = anatomies(standings); err != nil {
		return err
	}
	p.Struck = slices.ContainsFunc(p.Anatomies, func(a anatomy) bool { return a.Struck })
	for i, e := range p.Exhibits {
		counted := e.proof.counted
		if p.Exhibits[i].Counted, err = countedFigure(e.ID+"-n", counted, e.proof.faults,
			e.earlier()); err != nil {
			return err
		}
		if p.Exhibits[i].Counted.SVG != "" {
			continue // it shows the operations that raced
		}
		if p.Exhibits[i].Interleaving, err = interleaving(e.ID+"-i", e.proof); err != nil {
			return err
		}
		what := e.Invariant + " by " + e.Variant
		if p.Exhibits[i].Clients, err = clientTimeline(e.ID+"-c", what, e.proof); err != nil {
			return err
		}
	}
	if p.Stores, err = storesOf(d, standings); err != nil {
		return err
	}
	p.RepeatChart, err = repeatFigure(standings)
	return err
}

// dress adds style, script, the policy that allows just them, and navigation.
func (p *page) dress(standings []standing) {
	var indices []int
	for _, st := range standings {
		indices = append(indices, st.Index)
		p.Toggles = append(p.Toggles, legendItem{Variant: st.Index, Letter: st.Letter, Name: st.Name})
	}
	p.Style, p.Script, p.CSP = dressing(toggleRules(indices))
	p.Nav = p.sections()
}

// dressing is a page's style, with some rules more, its script, and the policy that
// allows just them.
func dressing(rules string) (style, script template.HTML, csp template.HTMLAttr) {
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
func (p *page) sections() []navItem {
	return shown([]navSection{
		{navItem{"verdict", "Answer"}, true},
		{navItem{"invariants", "Is it correct?"}, true},
		{navItem{"variants", "How fast is it?"}, true},
		{navItem{"slos", "Objectives"}, len(p.SLOs.Columns) > 0},
		{navItem{"latency", "Latency"}, len(p.Percentiles) > 0},
		{navItem{"time", "Over time"}, len(p.Time.Figures) > 0},
		{navItem{"stores", "Stores"}, len(p.Stores.Sources) > 0},
		{navItem{"errors", "Errors"}, len(p.Errors) > 0},
		{navItem{"measurement", "Can I trust the numbers?"}, true},
		{navItem{"repeats", "Repeats"}, len(p.Repeats) > 0},
		{navItem{"environment", "Environment"}, true},
		{navItem{"reproduce", "Reproduce"}, true},
		{navItem{"method", "Method"}, true},
		{navItem{"downloads", "Files"}, len(p.Downloads) > 0},
	})
}

// navSection is a section of a page, which may have nothing to show.
type navSection struct {
	navItem
	shown bool
}

// shown are the sections that a page has.
func shown(all []navSection) (items []navItem) {
	for _, s := range all {
		if s.shown {
			items = append(items, s.navItem)
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
	vars := func(colours [slots]string) string {
		var v strings.Builder
		for i, c := range colours {
			fmt.Fprintf(&v, "--s%d:%s;", i, c)
		}
		return v.String()
	}
	fmt.Fprintf(&b, "\n:root{%s}", vars(lightSlots))
	fmt.Fprintf(&b, "\n@media screen and (prefers-color-scheme:dark)"+
		"{:root:not([data-theme=light]){%s}}", vars(darkSlots))
	fmt.Fprintf(&b, "\n@media screen{:root[data-theme=dark]{%s}}", vars(darkSlots))
	for i := range slots {
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
func title(s rundir.Summary, cards []card) string {
	var each []string
	for _, c := range cards {
		each = append(each, c.Mark.Icon+" "+strings.ToLower(c.Name))
	}
	parts := []string{VerdictWord(s), strings.Join(each, ", "), s.Run.Scenario,
		plural(len(s.Variants), "design")}
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
		"run.json": "what the run set out to do", "events.ndjson": "what happened, as it happened",
		"hdr/":     "percentiles, and histograms over time, for HdrHistogram's tools",
		"history/": "every operation of every repeat",
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
