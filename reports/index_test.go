package reports_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"stampede/harness/rundir"
	"stampede/reports/page"
)

// storeRun writes the summary of a run as a finished run under root.
func storeRun(t *testing.T, root string, s rundir.Summary) {
	t.Helper()
	dir, err := rundir.Create(root, s.Run.Scenario, s.Run.Seed, s.Run.Started)
	if err != nil {
		t.Fatal(err)
	}
	s.Run.ID = dir.ID()
	var slots []rundir.Slot
	for _, v := range s.Variants {
		slots = append(slots, rundir.Interleave([]string{v.Name}, len(v.Repeats))...)
	}
	info := s.Run
	info.Finished = time.Time{}
	if err := dir.WriteManifest(rundir.Manifest{Tool: s.Tool, Run: info, Slots: slots}); err != nil {
		t.Fatal(err)
	}
	if err := dir.WriteSummary(s); err != nil {
		t.Fatal(err)
	}
	if err := dir.Close(); err != nil {
		t.Fatal(err)
	}
}

// slow makes the first design's p99 of its main operation what it is told.
func slow(s *rundir.Summary, p99 time.Duration) {
	r := &s.Variants[0].Operations[0].Latency.Response
	r.P99, r.P999, r.Max = p99.Nanoseconds(), p99.Nanoseconds(), p99.Nanoseconds()
}

// runs makes three runs of a scenario, the last on another machine, one of another,
// and a directory that nobody can read.
func runs(t *testing.T) (root string) {
	t.Helper()
	root = t.TempDir()
	at := func(hour int, change func(*rundir.Summary)) {
		designs := flashSale()
		s := fixture{designs: []design{designs[0], designs[8], designs[7]}, repeats: 1,
			ops: 1000}.build(t).Summary
		s.Run.Started = time.Date(2026, 11, 21, hour, 0, 0, 0, time.UTC)
		s.Run.Finished = s.Run.Started.Add(time.Minute)
		if change != nil {
			change(&s)
		}
		storeRun(t, root, s)
	}
	at(9, nil)
	at(10, func(s *rundir.Summary) {
		s.Environment.Fingerprint = "elsewhere"
		slow(s, time.Hour)
	})
	at(11, func(s *rundir.Summary) {
		slow(s, 2*time.Second)
	})
	at(12, func(s *rundir.Summary) {
		s.Run.Scenario, s.Run.System = "views-skew", "views"
	})
	broken := filepath.Join(root, "flash-sale-100k", "20261121T130000Z-1-00000000")
	if err := os.MkdirAll(broken, 0o755); err != nil {
		t.Fatal(err)
	}
	err := os.WriteFile(filepath.Join(broken, rundir.SummaryFile), []byte("{"), 0o644)
	if err != nil {
		t.Fatal(err)
	}
	return root
}

func index(t *testing.T, root string) string {
	t.Helper()
	x, err := page.LoadIndex(root)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := page.WriteIndex(&out, x); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestIndex(t *testing.T) {
	root := runs(t)
	page := index(t, root)
	golden(t, "index.html.txt", strings.ReplaceAll(outline(page), root, "runs"))
	if n := strings.Count(page, `<svg viewBox="0 0 160 24"`); n != 3 {
		t.Errorf("%d trends, want one for each design of the first scenario: a single run is none", n)
	}
	if n := strings.Count(page, "/report.html#variant-"); n != 2*3 {
		t.Errorf("%d designs lead to their report, want each of each scenario", n)
	}
}

// mixedRuns are runs, and one of another scenario that failed.
func mixedRuns(t *testing.T) (root string) {
	t.Helper()
	root = runs(t)
	s := fixture{designs: flashSale()[:1], repeats: 1, ops: 1000}.build(t).Summary
	s.Run.Scenario, s.Verdict.Overall, s.Verdict.Objectives = "flash-sale-other", rundir.Fail,
		rundir.Fail
	storeRun(t, root, s)
	return root
}

// TestIndexByVerdict: scenarios can be chosen by their verdict where there is more than one.
func TestIndexByVerdict(t *testing.T) {
	if page := index(t, runs(t)); strings.Contains(page, `id="only"`) {
		t.Error("there is a choice between one verdict")
	}
	page := index(t, mixedRuns(t))
	for _, want := range []string{"<option>FAIL</option><option>PASS</option></select>",
		`<div data-verdict="FAIL">`, `<div data-verdict="PASS">`} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q", want)
		}
	}
}

// TestTrendToInfinity: a design that stopped answering has a trend, and so has one that
// answers again.
func TestTrendToInfinity(t *testing.T) {
	for name, p99 := range map[string][2]time.Duration{
		"1.00 s": {time.Second, time.Duration(rundir.Infinite)},
		"∞":      {time.Duration(rundir.Infinite), time.Second},
	} {
		root := t.TempDir()
		for i, p99 := range p99 {
			s := fixture{designs: flashSale()[2:4], repeats: 1, ops: 1000}.build(t).Summary
			s.Run.Started = time.Date(2026, 11, 21, i, 0, 0, 0, time.UTC)
			slow(&s, p99)
			storeRun(t, root, s)
		}
		if page := index(t, root); !strings.Contains(page, ">before "+name+"<") {
			t.Errorf("from %s: it does not say so", name)
		}
	}
}

// TestIndexListsSearches: the searches for knees have a list of their own, with a link to
// the page of each that has one.
func TestIndexListsSearches(t *testing.T) {
	root := t.TempDir()
	if page := index(t, root); strings.Contains(page, "Searches") {
		t.Error("without a search there is a list")
	}
	at := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	made, err := rundir.CreateSearch(root, "views-skew", 7, at)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(made.File(rundir.ReportFile), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := made.Close(); err != nil {
		t.Fatal(err)
	}
	running, err := rundir.CreateSearch(root, "flash-sale-100k", 8, at.Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	defer running.Close()
	for i := range 29 {
		one, err := rundir.CreateSearch(root, "likes-spike", 9, at.Add(-time.Duration(i+1)*time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		if err := one.Close(); err != nil {
			t.Fatal(err)
		}
	}
	page := index(t, root)
	for _, want := range []string{
		`<li><a href="#searches">Searches</a>`, "; 1 older one not listed.",
		`<a href="knee/views-skew/` + filepath.Base(made.Path()) +
			`/report.html">2026-11-21 09:00:00 UTC`,
		`2026-11-21 10:00:00 UTC <span class="note">under way</span><td>flash-sale-100k<td class="n">8`,
		`<span class="note">without a page</span><td>likes-spike`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
}

// TestIndexOfHostileRuns: whatever a run's summary says, it stays text.
func TestIndexOfHostileRuns(t *testing.T) {
	root := t.TempDir()
	for i := range 2 { // two make a trend
		s := hostiles(t).Summary
		s.Run.Scenario = "sale"
		s.Run.Started = time.Date(2026, 11, 21, i, 0, 0, 0, time.UTC)
		storeRun(t, root, s)
	}
	page := index(t, root)
	for _, tag := range tags(page) {
		if problem := forbidden(tag); problem != "" && !strings.HasPrefix(problem, "link to \"sale/") {
			t.Error(problem)
		}
	}
	keepsQuiet(t, "index.html.txt", outline(page))
	if strings.Contains(page, "<script>alert") || !strings.Contains(page, "&lt;script&gt;alert(1)") {
		t.Error("a hostile text is no text, or is not there")
	}
}

// TestIndexLinksLeadSomewhere: they are relative to the folder of the runs.
func TestIndexLinksLeadSomewhere(t *testing.T) {
	root := runs(t)
	page := index(t, root)
	_, link, ok := strings.Cut(page, `<th scope="row"><a href="`)
	if !ok {
		t.Fatal("there are no links")
	}
	link, _, _ = strings.Cut(link, `"`)
	if _, err := os.Stat(filepath.Join(root, filepath.Dir(link), rundir.SummaryFile)); err != nil {
		t.Errorf("the first link leads to %s: %v", link, err)
	}
}

func TestIndexOfNothing(t *testing.T) {
	if page := index(t, t.TempDir()); !strings.Contains(page, "no finished runs") {
		t.Error("it does not say that there is nothing")
	}
}

func TestIndexIsBounded(t *testing.T) {
	root := t.TempDir()
	s := fixture{designs: flashSale()[:1], repeats: 1, ops: 1000}.build(t).Summary
	for i := range 33 {
		s.Run.Started = time.Date(2026, 11, 21, 0, i, 0, 0, time.UTC)
		storeRun(t, root, s)
	}
	page := index(t, root)
	if !strings.Contains(page, "3 older ones are not listed") {
		t.Error("it does not say what it leaves out")
	}
	if n := strings.Count(page, "/report.html\""); n != 1+30+8 {
		t.Errorf("%d links, want 30 of the list, the newest and the marks of 8", n)
	}
	if len(page) > 60_000 {
		t.Errorf("%d bytes for one scenario", len(page))
	}
}
