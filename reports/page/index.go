package page

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

	"stampede/harness/rundir"
	"stampede/reports/answer"
	"stampede/reports/words"
)

const (
	// maxTrend is how many runs of a scenario an index lists, and draws; maxMarks is of how
	// many a design's row has the marks.
	maxTrend = 30
	maxMarks = 8
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
	objectives                   words.Mark
	word                         string
	// like is what two runs must have in common for their times to be compared.
	like     string
	variants []indexVariant
}

type indexVariant struct {
	name, anchor, sign string
	mark               words.Mark
	p99                int64 // 0 if there are no usable times
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
		search := indexSearch{Scenario: e.Scenario, Date: words.Instant(e.Started),
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
		scenario: s.Run.Scenario, date: words.Instant(s.Run.Started), profile: s.Run.Profile,
		backend: s.Environment.Backend, seed: s.Run.Seed, verdict: s.Verdict, word: answer.VerdictWord(s),
		objectives: answer.ObjectivesMark(s.Verdict.Objectives, answer.Count(answer.Ranked(s))),
		version:    cmp.Or(s.Tool.Commit, s.Tool.Version), like: s.Environment.Fingerprint + "\n" +
			s.Run.Profile + "\n" + s.Run.ScenarioDigest}
	standings := answer.Ranked(s)
	if len(standings) > 0 && standings[0].Successes {
		r.like += "\nsuccessful" // times of all operations are others
	}
	for _, st := range standings {
		v := indexVariant{name: st.Name, anchor: answer.AnchorOf(st), sign: answer.Approximately(st),
			mark: st.Mark()}
		if p, ok := st.Times(); ok {
			v.p99 = p.P99
		}
		r.variants = append(r.variants, v)
	}
	return r
}

// indexPage is what the template shows.
type indexPage struct {
	Title, Glance string
	Icons         []words.Mark
	CSP           template.HTMLAttr
	Style, Script template.HTML
	Gaps          []string
	Systems       []indexSystem
	// Verdicts are those of the newest runs, to choose from; empty if there is one alone.
	Verdicts []string
	Searches []indexSearch
	Older    string
}

type indexSystem struct {
	ID, Name  string
	Scenarios []indexScenario
}

// indexScenario is all runs of a scenario: the newest with its designs, and the list.
type indexScenario struct {
	ID, Name, Href, Date, Profile string
	Parts                         []indexPart
	Rows                          []indexRow
	// Trends says that a row has one.
	Trends      bool
	Count, More string
	Runs        []trendRun
}

// Verdict is that of the newest run.
func (s indexScenario) Verdict() indexPart { return s.Parts[0] }

// indexPart is the verdict or one of its three parts.
type indexPart struct {
	Name string
	Mark words.Mark
}

// indexRow is a design, as it was in the newest run and in those before it.
type indexRow struct {
	Name, Href, P99 string
	Mark            words.Mark
	// Marks are what became of it in the runs, oldest first.
	Marks []indexMark
	Trend trend
}

type indexMark struct {
	Href, Date string
	Mark       words.Mark
}

// trend is the p99 of a design over the runs that are like the newest one: the same machine
// and stores, the same profile, the same scenario. Without two of them it is empty.
type trend struct {
	// Path joins the points, Dots are their places, of trendWidth and trendHeight.
	Path string
	Dots []trendDot
	// Text says the same.
	Text string
}

type trendDot struct {
	X, Y  int
	Noisy bool
}

// The size of a trend.
const (
	trendWidth  = 160
	trendHeight = 24
)

type trendRun struct {
	Href, Date, Profile, Backend, Version string
	Seed                                  uint64
	// Parts are the verdict and its three parts.
	Parts []indexPart
}

// WriteIndex writes one page over many runs: for each scenario the designs of its newest run,
// each with what became of it in the runs before, and the list of its runs. Links are
// relative to the page's folder, which is the runs' own.
func WriteIndex(w io.Writer, x Index) error {
	p := indexPage{Title: "Runs of stampede", Glance: indexGlance(x), Searches: x.searches}
	if x.older > 0 {
		p.Older = words.Plural(x.older, "older one") + " not listed"
	}
	p.Gaps = x.gaps[:min(len(x.gaps), maxGaps)]
	if more := len(x.gaps) - maxGaps; more > 0 {
		p.Gaps = append(slices.Clone(p.Gaps), fmt.Sprintf("and %d more", more))
	}
	for i, name := range systemsOf(x.runs) {
		system := indexSystemOf(fmt.Sprintf("system-%d", i), name, x.runs)
		p.Systems = append(p.Systems, system)
		for _, sc := range system.Scenarios {
			p.Verdicts = append(p.Verdicts, sc.Verdict().Mark.Word)
		}
	}
	slices.Sort(p.Verdicts)
	if p.Verdicts = slices.Compact(p.Verdicts); len(p.Verdicts) < 2 {
		p.Verdicts = nil
	}
	p.Style, p.Script, p.CSP = Dressing("")
	return Fill(w, "index.gohtml", p)
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
	parts := []string{words.Plural(len(x.runs), "finished run")}
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
		names = words.With(names, r.system)
	}
	slices.Sort(names)
	return names
}

func indexSystemOf(id, name string, runs []indexRun) indexSystem {
	s := indexSystem{ID: id, Name: name}
	byScenario := map[string][]indexRun{}
	for _, r := range runs {
		if r.system == name {
			byScenario[r.scenario] = append(byScenario[r.scenario], r)
		}
	}
	for i, scenario := range words.SortedKeys(byScenario) {
		s.Scenarios = append(s.Scenarios,
			indexScenarioOf(fmt.Sprintf("%s-%d", id, i), byScenario[scenario]))
	}
	return s
}

// indexScenarioOf is a scenario by its runs, newest first.
func indexScenarioOf(id string, all []indexRun) indexScenario {
	newest := all[0]
	sc := indexScenario{ID: id, Name: newest.scenario, Href: newest.href, Date: newest.date,
		Profile: newest.profile, Count: words.Plural(len(all), "run"), Parts: newest.parts()}
	if more := len(all) - maxTrend; more > 0 {
		sc.More = fmt.Sprintf("%d older ones are not listed", more)
		all = all[:maxTrend]
	}
	for _, v := range newest.variants {
		row := indexRowOf(v, all)
		sc.Rows, sc.Trends = append(sc.Rows, row), sc.Trends || row.Trend.Path != ""
	}
	for _, r := range all {
		sc.Runs = append(sc.Runs, trendRun{Href: r.href, Date: r.date, Profile: r.profile,
			Backend: r.backend, Version: r.version, Seed: r.seed, Parts: r.parts()})
	}
	return sc
}

// parts are the verdict and its three parts, in the order of the report.
func (r indexRun) parts() []indexPart {
	return []indexPart{{"", answer.VerdictMark(r.word)}, {"Correct",
		answer.VerdictMark(r.verdict.Correctness)},
		{"Timing", answer.TimingMark(r.verdict.Timing)}, {"Objectives", r.objectives}}
}

// indexRowOf is a design of the newest run of some, with what became of it in all.
func indexRowOf(newest indexVariant, all []indexRun) indexRow {
	row := indexRow{Name: newest.name, Href: all[0].href + "#" + newest.anchor, Mark: newest.mark,
		P99: words.None}
	if newest.p99 > 0 {
		row.P99 = newest.sign + words.Seconds(secondsOf(newest.p99))
	}
	var like []indexVariant
	for _, r := range slices.Backward(all) {
		i := slices.IndexFunc(r.variants, func(v indexVariant) bool { return v.name == newest.name })
		if i < 0 {
			continue
		}
		row.Marks = append(row.Marks, indexMark{r.href, r.date, r.variants[i].mark})
		if r.like == all[0].like && r.variants[i].p99 > 0 {
			like = append(like, r.variants[i])
		}
	}
	row.Marks = row.Marks[max(0, len(row.Marks)-maxMarks):]
	row.Trend = trendOf(like)
	return row
}

// trendOf draws times on a logarithmic scale, from the least to the most of them; one that is
// infinite is at the top.
func trendOf(runs []indexVariant) (t trend) {
	if len(runs) < 2 {
		return t
	}
	low, high := math.Inf(1), math.Inf(-1)
	for _, v := range runs {
		if v.p99 != rundir.Infinite {
			low, high = min(low, answer.Exponent(v.p99)), max(high, answer.Exponent(v.p99))
		}
	}
	// Below a tenth of a decade a difference would look like a large one.
	high = max(high, low+0.1)
	for i, v := range runs {
		share := 1.0
		if v.p99 != rundir.Infinite {
			share = (answer.Exponent(v.p99) - low) / (high - low)
		}
		dot := trendDot{X: 4 + i*(trendWidth-8)/(len(runs)-1), Noisy: v.sign != "",
			Y: trendHeight - 4 - int(math.Round(share*(trendHeight-8)))}
		t.Dots = append(t.Dots, dot)
		t.Path += fmt.Sprintf("%s%d %d", string("ML"[min(i, 1)]), dot.X, dot.Y)
	}
	before := runs[len(runs)-2]
	t.Text = "before " + before.sign + words.Seconds(secondsOf(before.p99))
	return t
}
