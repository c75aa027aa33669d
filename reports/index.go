package reports

import (
	"cmp"
	"fmt"
	"html/template"
	"io"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"

	"stampede/harness/rundir"
)

const (
	// maxTrend is how many runs of a scenario an index lists, and draws.
	maxTrend = 30
	// maxGaps is how many unreadable runs it names.
	maxGaps = 20
)

// Index is what an index over many runs is made of.
type Index struct {
	runs     []indexRun
	searches []indexSearch
	// older is how many searches are not listed.
	older int
	gaps  []string
}

// indexSearch is a search for a knee. Href is "" if it has no page, State says why.
type indexSearch struct{ Scenario, Date, Seed, Href, State string }

// indexRun is what is kept of a run: a summary is too large to keep hundreds of.
type indexRun struct {
	href, system, scenario, date string
	profile, backend, version    string
	seed                         uint64
	verdict                      rundir.Verdict
	objectives                   mark
	word                         string
	// like is what two runs must have in common for their times to be compared.
	like     string
	variants []indexVariant
}

type indexVariant struct {
	name     string
	mark     mark
	kind     string
	p99      int64 // 0 if it was not measured
	measured bool
}

// LoadIndex reads the summaries of all finished runs under root, newest first, and lists
// the searches for knees. A run that cannot be read is told on the page; only a root that
// cannot be read is an error.
func LoadIndex(root string) (Index, error) {
	entries, err := rundir.List(root)
	if err != nil {
		return Index{}, err
	}
	var x Index
	for _, e := range entries {
		if e.State != rundir.Finished {
			continue
		}
		run, err := rundir.Open("", e.Path)
		var s rundir.Summary
		if err == nil {
			s, err = run.Summary()
		}
		if err != nil {
			x.gaps = append(x.gaps, err.Error())
			continue
		}
		relative, err := filepath.Rel(root, filepath.Join(e.Path, rundir.ReportFile))
		if err != nil {
			return x, fmt.Errorf("index runs: %w", err)
		}
		x.runs = append(x.runs, indexRunOf(filepath.ToSlash(relative), s))
	}
	return x, x.listSearches(root)
}

// listSearches lists the newest searches under a root.
func (x *Index) listSearches(root string) error {
	entries, err := rundir.Names(filepath.Join(root, rundir.SearchFolder))
	if err != nil {
		return err
	}
	x.older = max(0, len(entries)-maxTrend)
	for _, e := range entries[:len(entries)-x.older] {
		search := indexSearch{Scenario: e.Scenario, Date: instant(e.Started),
			Seed: fmt.Sprint(e.Seed), State: "without a page"}
		page := filepath.Join(e.Path, rundir.ReportFile)
		if info, err := os.Stat(page); err == nil && info.Mode().IsRegular() {
			relative, err := filepath.Rel(root, page)
			if err != nil {
				return fmt.Errorf("index searches: %w", err)
			}
			search.Href = (&url.URL{Path: filepath.ToSlash(relative)}).String()
		} else if rundir.StateOf(e.Path) == rundir.Running {
			search.State = "under way"
		}
		x.searches = append(x.searches, search)
	}
	return nil
}

func indexRunOf(path string, s rundir.Summary) indexRun {
	r := indexRun{href: (&url.URL{Path: path}).String(), system: s.Run.System,
		scenario: s.Run.Scenario, date: instant(s.Run.Started), profile: s.Run.Profile,
		backend: s.Environment.Backend, seed: s.Run.Seed, verdict: s.Verdict, word: VerdictWord(s),
		objectives: objectivesMark(s.Verdict.Objectives, count(ranked(s))),
		version:    cmp.Or(s.Tool.Commit, s.Tool.Version), like: s.Environment.Fingerprint + "\n" +
			s.Run.Profile + "\n" + s.Run.ScenarioDigest}
	for _, st := range ranked(s) {
		v := indexVariant{name: st.Name, mark: st.mark()}
		if st.Main != nil {
			v.kind, v.p99 = st.Main.Kind, st.Main.Latency.Response.P99
		}
		v.measured = v.p99 > 0 && st.Timing == rundir.Clean
		r.variants = append(r.variants, v)
	}
	slices.SortFunc(r.variants, func(a, b indexVariant) int { return cmp.Compare(a.name, b.name) })
	return r
}

// indexPage is what the template shows.
type indexPage struct {
	Title, Glance string
	Icons         []mark
	CSP           template.HTMLAttr
	Style, Script template.HTML
	Gaps          []string
	Systems       []indexSystem
	Searches      []indexSearch
	Older         string
}

type indexSystem struct {
	ID, Name string
	Columns  []string
	Rows     []indexRow
	Trends   []trend
}

type indexRow struct {
	Scenario, Href, Date, Profile string
	Mark                          mark
	Cells                         []mark
}

// trend is all runs of a scenario.
type trend struct {
	Scenario, Count, More string
	Chart                 figure
	Runs                  []trendRun
}

type trendRun struct {
	Href, Date, Profile, Backend, Version string
	Seed                                  uint64
	// Marks are the verdict and its three parts.
	Marks []mark
}

// WriteIndex writes one page over many runs: for each system a matrix of the newest
// run of each scenario, and for each scenario its runs, with the p99 of those that can
// be compared. Links are relative to the page's folder, which is the runs' own.
func WriteIndex(w io.Writer, x Index) error {
	p := indexPage{Title: "Runs of stampede", Glance: indexGlance(x), Searches: x.searches}
	if x.older > 0 {
		p.Older = plural(x.older, "older one") + " not listed"
	}
	p.Gaps = x.gaps[:min(len(x.gaps), maxGaps)]
	if more := len(x.gaps) - maxGaps; more > 0 {
		p.Gaps = append(slices.Clone(p.Gaps), fmt.Sprintf("and %d more", more))
	}
	for i, name := range systemsOf(x.runs) {
		s, err := indexSystemOf(fmt.Sprintf("system-%d", i), name, x.runs)
		if err != nil {
			return err
		}
		p.Systems = append(p.Systems, s)
	}
	p.Style, p.Script, p.CSP = dressing("")
	return fill(w, "index.gohtml", p)
}

func indexGlance(x Index) string {
	counts, order := map[string]int{}, []string{}
	for _, r := range x.runs {
		if counts[r.word] == 0 {
			order = append(order, r.word)
		}
		counts[r.word]++
	}
	slices.Sort(order)
	parts := []string{plural(len(x.runs), "finished run")}
	for _, word := range order {
		parts = append(parts, fmt.Sprintf("%d %s", counts[word], word))
	}
	if len(x.runs) > 0 {
		parts = append(parts, "newest "+x.runs[0].date)
	}
	return strings.Join(parts, " · ")
}

func systemsOf(runs []indexRun) (names []string) {
	for _, r := range runs {
		if !slices.Contains(names, r.system) {
			names = append(names, r.system)
		}
	}
	slices.Sort(names)
	return names
}

func indexSystemOf(id, name string, runs []indexRun) (indexSystem, error) {
	s := indexSystem{ID: id, Name: name}
	byScenario := map[string][]indexRun{}
	for _, r := range runs {
		if r.system == name {
			byScenario[r.scenario] = append(byScenario[r.scenario], r)
		}
	}
	for _, scenario := range sortedKeys(byScenario) {
		for _, v := range byScenario[scenario][0].variants {
			if !slices.Contains(s.Columns, v.name) {
				s.Columns = append(s.Columns, v.name)
			}
		}
	}
	slices.Sort(s.Columns)
	for i, scenario := range sortedKeys(byScenario) {
		all := byScenario[scenario]
		s.Rows = append(s.Rows, indexRowOf(all[0], s.Columns))
		t, err := trendOf(fmt.Sprintf("%s-%d", id, i), all)
		if err != nil {
			return s, err
		}
		s.Trends = append(s.Trends, t)
	}
	return s, nil
}

func indexRowOf(r indexRun, columns []string) indexRow {
	row := indexRow{Scenario: r.scenario, Href: r.href, Date: r.date, Profile: r.profile,
		Mark: verdictMark(r.word), Cells: make([]mark, len(columns))}
	for _, v := range r.variants {
		row.Cells[slices.Index(columns, v.name)] = v.mark
	}
	return row
}

func trendOf(id string, all []indexRun) (trend, error) {
	t := trend{Scenario: all[0].scenario, Count: plural(len(all), "run")}
	if more := len(all) - maxTrend; more > 0 {
		t.More = fmt.Sprintf("%d older ones are not listed", more)
		all = all[:maxTrend]
	}
	for _, r := range all {
		t.Runs = append(t.Runs, trendRun{Href: r.href, Date: r.date, Profile: r.profile,
			Backend: r.backend, Version: r.version, Seed: r.seed,
			Marks: []mark{verdictMark(r.word), verdictMark(r.verdict.Correctness),
				r.objectives, timingMark(r.verdict.Timing)}})
	}
	var err error
	t.Chart, err = trendFigure(id, all)
	return t, err
}

// trendFigure draws the p99 of the variants over the runs that are like the newest one:
// same machine and stores, same profile, same scenario. Fewer than two are no trend.
func trendFigure(id string, all []indexRun) (figure, error) {
	f := figure{ID: id, Title: "p99 of " + all[0].scenario + " over its runs"}
	var like []indexRun
	for _, r := range slices.Backward(all) {
		if r.like == all[0].like {
			like = append(like, r)
		}
	}
	names, values := trendSeries(like)
	if len(like) < 2 || len(names) == 0 {
		return f, nil
	}
	p := newPlot()
	var every []float64
	for _, series := range values {
		every = append(every, series...)
	}
	at := timeAxis(p, every, 4)
	p.X.Min, p.X.Max = 0.5, float64(len(like))+0.5
	p.X.Tick.Marker = secondTicks{most: 8}
	p.X.Label.Text, p.Y.Label.Text = "runs that can be compared, oldest first", "p99"
	p.Add(gridLines{})
	f.Columns = append([]string{"run"}, names...)
	for i, series := range values {
		var points []point
		for k, v := range series {
			points = append(points, point{float64(k + 1), at(v)})
		}
		p.Add(curve{points: points, style: line(roleFirst+role(i), 1.5, dash(i), noVariant)},
			dots{points: seenPoints(points), slot: i, variant: noVariant})
		f.Legend = append(f.Legend, legendItem{Slot: i, Variant: noVariant, Name: names[i]})
	}
	for k, r := range like {
		row := []string{r.date}
		for i := range names {
			row = append(row, seconds(values[i][k]))
		}
		f.Rows = append(f.Rows, row)
	}
	f.Finding = trendFinding(names, values)
	d := stack(vg.Length(560), 10, []*plot.Plot{p}, []vg.Length{190})
	f.place(d, p, 1, float64(len(like)), len(like))
	svg, err := inline(d.canvas, id, f.Title, f.Finding)
	f.SVG = svg
	return f, err
}

func seenPoints(points []point) []point {
	return slices.DeleteFunc(slices.Clone(points), func(p point) bool { return math.IsNaN(p.Y) })
}

// trendSeries are the p99 in seconds, for each run, of the variants that were measured
// in the newest run, the first few by name; NaN where one was not.
func trendSeries(runs []indexRun) (names []string, values [][]float64) {
	if len(runs) == 0 {
		return nil, nil
	}
	for _, v := range runs[len(runs)-1].variants {
		if v.measured && v.mark.Class == "good" && len(names) < slots {
			names = append(names, v.name)
		}
	}
	for _, name := range names {
		series := make([]float64, len(runs))
		for i, r := range runs {
			series[i] = math.NaN()
			for _, v := range r.variants {
				if v.name == name && v.measured {
					series[i] = secondsOf(v.p99)
				}
			}
		}
		values = append(values, series)
	}
	return names, values
}

// trendFinding says which variant's newest p99 differs most from the run before it.
func trendFinding(names []string, values [][]float64) string {
	most, text := 1.0, "No p99 differs from the run before."
	for i, series := range values {
		now, before := series[len(series)-1], series[len(series)-2]
		ratio := now / before
		if far := max(ratio, 1/ratio); far > most { // NaN is not: one run did not measure it
			most = far
			text = fmt.Sprintf("Against the run before, the p99 of %s changed most: %s, it was %s. "+
				"One run each proves no difference.", names[i], seconds(now), seconds(before))
		}
	}
	return text
}
