package reports_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/rundir"
	"stampede/reports/answer"
)

// stored writes a run of one repeat whose one violation names the records 3
// and 7 of a stored history of 1,000, and returns its path.
func stored(t *testing.T) *rundir.Dir {
	t.Helper()
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	dir, err := rundir.Create(t.TempDir(), "flash-sale-100k", 42, noon)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dir.Close() })
	d := fixture{designs: flashSale()[1:2], repeats: 1, ops: 1000}.build(t)
	s := &d.Summary
	s.Run.ID = dir.ID()
	v := &s.Variants[0]
	r := &v.Repeats[0]
	r.History, r.Timeline = rundir.HistoryName(v.Name, 0), rundir.TimelineName(v.Name, 0)
	r.Invariants[0] = check.Verdict{Invariant: "no-oversell", Status: check.Broken, Checked: 1000,
		Count: 1, Violations: []check.Violation{
			{Text: "unit 5 was sold twice", Ops: []uint64{3, 7, 5000}}}}
	v.Invariants = r.Invariants
	writeHistory(t, dir.File(r.History))
	timeline := d.Timelines[answer.RepeatRef{Variant: v.Name}]
	if _, err := dir.WriteTimeline(v.Name, 0, timeline); err != nil {
		t.Fatal(err)
	}
	manifest := rundir.Manifest{Tool: s.Tool, Run: s.Run,
		Slots: rundir.Interleave([]string{v.Name}, 1)}
	windows, err := dir.WriteWindows(v.Name, 0, d.Windows[answer.RepeatRef{Variant: v.Name}])
	r.Windows = windows
	if err := errors.Join(err, dir.WriteManifest(manifest), dir.WriteSummary(*s),
		dir.WriteScenario([]byte(d.Scenario))); err != nil {
		t.Fatal(err)
	}
	return dir
}

func writeHistory(t *testing.T, path string) {
	t.Helper()
	w, err := history.Create(path, history.Header{})
	if err != nil {
		t.Fatal(err)
	}
	shard := w.Shard()
	for seq := range uint64(1000) {
		r := record(seq, history.OK)
		shard.Append(&r)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestLoadResolvesViolations(t *testing.T) {
	d, err := answer.Load(stored(t).Path())
	if err != nil {
		t.Fatal(err)
	}
	ref := answer.RepeatRef{Variant: "naive_select"}
	got := d.Records[ref]
	if len(got) != 2 || got[3].Op.Client != "buyer-3" || got[7].Op.Client != "buyer-7" {
		t.Errorf("records %+v", got)
	}
	if deeds := d.Deeds[ref]; len(deeds) != 2 || deeds[0].Op.Client != "buyer-3" {
		t.Errorf("what the clients did: %+v", deeds)
	}
	if len(d.Timelines[ref].Kinds) == 0 || len(d.Windows[ref].Kinds) == 0 || d.Scenario == "" {
		t.Error("no timeline, no windows or no scenario")
	}
	text := outline(render(t, d))
	for _, want := range []string{"unit 5 was sold twice", "| 900007 | buy | item-1 | buyer-7",
		"1 operation not found in the stored history"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

// TestLoadFindsNeighbours: of an operation that proves a violation alone, those of its key
// that were sent nearest to it, and they are drawn.
func TestLoadFindsNeighbours(t *testing.T) {
	dir := stored(t)
	run, err := rundir.Open("", dir.Path())
	if err != nil {
		t.Fatal(err)
	}
	s, err := run.Summary()
	if err != nil {
		t.Fatal(err)
	}
	s.Variants[0].Repeats[0].Invariants[0].Violations[0] = check.Violation{
		Text: "order-500 was acknowledged and is lost", Ops: []uint64{500}}
	if err := dir.WriteSummary(s); err != nil {
		t.Fatal(err)
	}
	d, err := answer.Load(dir.Path())
	if err != nil {
		t.Fatal(err)
	}
	near := d.Neighbours[answer.RepeatRef{Variant: "naive_select"}][500]
	var seqs []int
	for _, r := range near {
		seqs = append(seqs, int(r.Seq))
	}
	slices.Sort(seqs)
	if len(seqs) != 11 || seqs[0] < 494 || seqs[10] > 506 || slices.Contains(seqs, 500) {
		t.Errorf("the neighbours are %v", seqs)
	}
	page := outline(render(t, d))
	for _, want := range []string{
		"Operation 900500 proves it alone; beside it the 11 operations of the same key or",
		"The operation that proves it, among its neighbours"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q", want)
		}
	}
}

// TestCommandsOfAStoredRun: the page names the run's own folder, from that of the runs on;
// a run that was given servers cannot be run again without them.
func TestCommandsOfAStoredRun(t *testing.T) {
	dir := stored(t)
	d, err := answer.Load(dir.Path())
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Dir(filepath.Dir(dir.Path()))
	place, err := filepath.Rel(filepath.Dir(root), dir.Path())
	if err != nil {
		t.Fatal(err)
	}
	place = filepath.ToSlash(place)
	for name, c := range map[string]struct {
		change func(*answer.Data)
		replay bool
	}{
		"its own stores": {func(*answer.Data) {}, true},
		"a target": {func(d *answer.Data) {
			d.Summary.Run.Target = "http://localhost:8080"
		}, true},
		"a target with a password": {func(d *answer.Data) {
			d.Summary.Run.Target = "http://me:xxxxx@localhost:8080"
		}, false},
		"a target with its own authority": {func(d *answer.Data) {
			d.Summary.Run.Reproduce += " --target-ca ca.pem"
		}, false},
		"given stores": {func(d *answer.Data) { d.Summary.Environment.Backend = "external" }, false},
	} {
		d := d
		c.change(&d)
		page := outline(render(t, d))
		if got := strings.Contains(page, "stampede replay "+place+"\n"); got != c.replay {
			t.Errorf("%s: the page tells how to run it again: %v", name, got)
		}
		if !strings.Contains(page, "stampede check "+place+"\n") {
			t.Errorf("%s: the page does not tell how to judge it again", name)
		}
	}
}

// A report with a gap is worth more than none.
func TestLoadTellsWhatIsMissing(t *testing.T) {
	dir := stored(t)
	for _, name := range []string{rundir.HistoryName("naive_select", 0),
		rundir.TimelineName("naive_select", 0), rundir.WindowsName("naive_select", 0),
		rundir.ScenarioFile} {
		if err := os.Remove(dir.File(name)); err != nil {
			t.Fatal(err)
		}
	}
	d, err := answer.Load(dir.Path())
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Gaps) != 4 {
		t.Errorf("gaps %q", d.Gaps)
	}
	if !strings.Contains(render(t, d), "operations that prove a violation of naive_select, repeat 1") {
		t.Error("the page does not tell the gap")
	}
}

func TestLoadRefuses(t *testing.T) {
	_, err := answer.Load(t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "not a run directory") {
		t.Errorf("an empty directory: %v", err)
	}
	dir := stored(t)
	if err := os.Remove(dir.File(rundir.SummaryFile)); err != nil {
		t.Fatal(err)
	}
	if _, err := answer.Load(dir.Path()); !errors.Is(err, rundir.ErrUnfinished) {
		t.Errorf("a run without summary: %v", err)
	}
	half := []byte(`{"schema_version": "1.0.0"`)
	if err := os.WriteFile(dir.File(rundir.SummaryFile), half, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := answer.Load(dir.Path()); err == nil || !strings.Contains(err.Error(), "truncated") {
		t.Errorf("a truncated summary: %v", err)
	}
}

func TestWriteArtifacts(t *testing.T) {
	dir := stored(t)
	d, err := answer.Load(dir.Path())
	if err != nil {
		t.Fatal(err)
	}
	if err := answer.WriteArtifacts(dir, d); err != nil {
		t.Fatal(err)
	}
	hgrm, err := os.ReadFile(dir.File(rundir.HGRMName("naive_select", "buy")))
	if err != nil || !bytes.Contains(hgrm, []byte("Total count    =         1000]")) {
		t.Errorf("%v\n%s", err, hgrm)
	}
	lines, err := os.ReadFile(dir.File(rundir.ViolationsName("naive_select", "no-oversell")))
	if err != nil {
		t.Fatal(err)
	}
	var line struct {
		Text string
		Seqs []uint64
		Ops  []json.RawMessage
	}
	if err := json.Unmarshal(bytes.TrimSpace(lines), &line); err != nil {
		t.Fatalf("%v: %s", err, lines)
	}
	if line.Text != "unit 5 was sold twice" || len(line.Seqs) != 3 || len(line.Ops) != 2 {
		t.Errorf("%s", lines)
	}
	again, err := answer.Load(dir.Path())
	if err != nil {
		t.Fatal(err)
	}
	page := render(t, again)
	for _, want := range []string{`href="./hdr/"`, `href="./violations/"`,
		`Those of every repeat are in <a href="./violations/naive_select.no-oversell.ndjson">`,
		fmt.Sprintf("the first %d violations of each invariant in each repeat", check.MaxViolations)} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
}
