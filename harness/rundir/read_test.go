package rundir_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"stampede/harness/rundir"
)

func TestOpenFindsRuns(t *testing.T) {
	root := t.TempDir()
	older := finished(t, root)
	newer := finished(t, root)
	for which, want := range map[string][]string{
		older:                                   {older},
		older + "/":                             {older},
		newer:                                   {newer},
		"shop-rush":                             {newer},
		filepath.Join(root, "shop-rush/latest"): {newer},
		// Both began in one second: either is the latest.
		"latest": {older, newer},
	} {
		r, err := rundir.Open(root, which)
		if err != nil {
			t.Errorf("%s: %v", which, err)
			continue
		}
		if got := r.Path; got != want[0] && got != want[len(want)-1] {
			t.Errorf("%s opens %s, want %s", which, got, want)
		}
	}
}

func TestSummaryRoundTrip(t *testing.T) {
	r, err := rundir.Open("", finished(t, t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	got, err := r.Summary()
	if err != nil {
		t.Fatal(err)
	}
	want := summary(r.Manifest.Run.ID)
	want.SchemaVersion = rundir.SchemaVersion
	if g, w := asJSON(t, got), asJSON(t, want); g != w {
		t.Errorf("read back\n%s\nwant\n%s", g, w)
	}
}

// asJSON compares nil and empty lists as equal.
func asJSON(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(data), "null", "[]")
}

// TestAComplaintObeysNobody: names in a file that somebody sent are told in one line.
func TestAComplaintObeysNobody(t *testing.T) {
	const name = "a\x1b[2J\n::error::x"
	v := rundir.Variant{Name: name, Verdict: "FINE", Load: rundir.Load{Scheduled: 1},
		Operations: []rundir.Operation{{Kind: name, Load: rundir.Load{Scheduled: 1},
			Phases: []rundir.Phase{{Name: name, Load: rundir.Load{Scheduled: 1}}}}},
		Repeats: []rundir.Repeat{{Verdict: "FINE"}}}
	err := rundir.Summary{Variants: []rundir.Variant{v, v}}.Validate()
	if n := strings.Count(err.Error(), "a\uFFFD[2J ::error::x"); n != 3 {
		t.Errorf("%d names in %q", n, err)
	}
	if strings.ContainsAny(err.Error(), "\x1b") || strings.Contains(err.Error(), "\n:") {
		t.Errorf("it is an order: %q", err)
	}
}

func TestSummaryHasNoNulls(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(finished(t, t.TempDir()), rundir.SummaryFile))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(data), "null") {
		t.Errorf("the summary has a null:\n%s", data)
	}
}

func TestFilesOfARepeat(t *testing.T) {
	root := t.TempDir()
	path := finished(t, root)
	d, err := rundir.Lock(path)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	timeline := rundir.Timeline{BucketNS: 5, Kinds: []rundir.KindTimeline{{Kind: "buy"}}}
	timelineName, err := d.WriteTimeline("naive", 1, timeline)
	if err != nil {
		t.Fatal(err)
	}
	auditName, err := d.WriteAudit("naive", 1, json.RawMessage(`{"sold": 3}`))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(d.WriteScenario([]byte("name: x\n")),
		d.WriteEnvironment(rundir.Environment{Backend: "external",
			Components: map[string]rundir.Component{"redis": {Kind: "valkey"}}})); err != nil {
		t.Fatal(err)
	}
	r, err := rundir.Open(root, path)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := r.Timeline(timelineName); err != nil || got.BucketNS != 5 {
		t.Errorf("timeline %+v, %v", got, err)
	}
	if got, err := r.Audit(auditName); err != nil || string(got) != `{"sold": 3}` {
		t.Errorf("audit %s, %v", got, err)
	}
	if got, err := r.Scenario(); err != nil || string(got) != "name: x\n" {
		t.Errorf("scenario %q, %v", got, err)
	}
	if got, err := r.Environment(); err != nil || got.Components["redis"].Kind != "valkey" {
		t.Errorf("environment %+v, %v", got, err)
	}
	if _, err := r.File("../../x"); err == nil {
		t.Error("a path out of the directory is served")
	}
}

// TestEnvironmentIsComplete refuses a run that does not say what it stood on.
// Only that of a target has no stores.
func TestEnvironmentIsComplete(t *testing.T) {
	root := t.TempDir()
	path := finished(t, root)
	for target, want := range map[string]map[string]string{
		"":                      {"{}": "names no backend", `{"backend": "processes"}`: "names no components"},
		"http://127.0.0.1:8080": {"{}": "names no backend", `{"backend": "target"}`: ""},
	} {
		for text, problem := range want {
			file := filepath.Join(path, rundir.EnvironmentFile)
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			r, err := rundir.Open(root, path)
			if err != nil {
				t.Fatal(err)
			}
			r.Manifest.Run.Target = target
			_, err = r.Environment()
			if (err != nil) != (problem != "") || err != nil &&
				!strings.Contains(err.Error(), "env.json "+problem) {
				t.Errorf("%q, %s: %v", target, text, err)
			}
		}
	}
}

func TestStates(t *testing.T) {
	root := t.TempDir()
	d := create(t, root, "shop-rush")
	if err := d.WriteManifest(manifest(d.ID())); err != nil {
		t.Fatal(err)
	}
	r, err := rundir.Open(root, "shop-rush")
	if err != nil {
		t.Fatal(err)
	}
	if got := r.State(); got != rundir.Running {
		t.Errorf("%s while it is being written", got)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if got := r.State(); got != rundir.Unfinished {
		t.Errorf("%s after its writer went without a summary", got)
	}
	if _, err := r.Summary(); !errors.Is(err, rundir.ErrUnfinished) {
		t.Errorf("its summary gives %v", err)
	}
	if r.Manifest.Slots[3].History != "history/locked.1.history" {
		t.Errorf("what is left to judge: %+v", r.Manifest.Slots)
	}
	whole, err := rundir.Open(root, finished(t, root))
	if err != nil || whole.State() != rundir.Finished {
		t.Errorf("a whole run is %s, %v", whole.State(), err)
	}
}

// TestUnreadable spoils a whole run in one way each and expects one error
// that says so.
func TestUnreadable(t *testing.T) {
	replace := func(old, with string) func(string) string {
		return func(s string) string { return strings.Replace(s, old, with, 1) }
	}
	for _, c := range []struct {
		name, file, want string
		change           func(string) string
	}{
		{"manifest truncated", "run.json", "run.json is truncated: it ends after 100 bytes",
			func(s string) string { return s[:100] }},
		{"manifest empty", "run.json", "run.json is truncated: it ends after 0 bytes",
			func(string) string { return "" }},
		{"manifest of nothing", "run.json", `schema version "" is not like 1.0.0`,
			func(string) string { return "{}" }},
		{"manifest leads out", "run.json", `"../../passwd" is not a path in the run directory`,
			replace("history/naive.0.history", "../../passwd")},
		{"summary truncated", "summary.json", "summary.json is truncated",
			func(s string) string { return s[:len(s)/2] }},
		{"unknown field", "summary.json", `unknown field "seeed"`, replace(`"seed"`, `"seeed"`)},
		{"wrong type", "summary.json", "summary.json, line 16: json: cannot unmarshal string",
			replace(`"seed": 7`, `"seed": "seven"`)},
		{"newer major", "summary.json", "schema version 3.0.0 is newer than " + rundir.SchemaVersion +
			": read it with a newer stampede", replace(rundir.SchemaVersion, "3.0.0")},
		{"older major", "summary.json", "schema version 1.2.0 is older than " +
			rundir.SchemaVersion + ": an older stampede wrote it: `stampede check ",
			replace(rundir.SchemaVersion, "1.2.0")},
		{"manifest much older", "run.json", "schema version 0.9.0 is older",
			replace(rundir.SchemaVersion, "0.9.0")},
		{"version not one", "summary.json", `schema version "one" is not like 1.0.0`,
			replace(rundir.SchemaVersion, "one")},
		{"two values", "summary.json", "something after its end",
			func(s string) string { return s + "{}" }},
		{"unknown verdict", "summary.json", `INCONCLUSIVE or INVALID, got "FINE"`,
			replace(`"overall": "PASS"`, `"overall": "FINE"`)},
		{"counts", "summary.json", "scheduled 11 is not started 9 + dropped 1",
			replace(`"scheduled": 10`, `"scheduled": 11`)},
		{"percentiles", "summary.json", "are not in order", replace(`"p50": 1000`, `"p50": 99999`)},
		{"status", "summary.json", `unknown status "bent"`, replace(`"broken"`, `"bent"`)},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := t.TempDir()
			path := finished(t, root)
			spoil(t, path, c.file, c.change)
			r, err := rundir.Open(root, path)
			if err == nil {
				_, err = r.Summary()
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q in it", err, c.want)
			}
			if err != nil && strings.Count(err.Error(), "\n") > 0 {
				t.Errorf("the error has several lines:\n%v", err)
			}
		})
	}
}

func TestNewerMinorVersionIsReadable(t *testing.T) {
	root := t.TempDir()
	path := finished(t, root)
	spoil(t, path, rundir.SummaryFile, func(s string) string {
		return strings.Replace(s, rundir.SchemaVersion+`",`, `2.99.0", "news": 1,`, 1)
	})
	r, err := rundir.Open(root, path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Summary(); err != nil {
		t.Errorf("a newer minor version with a new field: %v", err)
	}
}

func TestNoRun(t *testing.T) {
	root := t.TempDir()
	file := filepath.Join(root, "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for which, want := range map[string]string{
		"nothing":                      `there is no run "nothing"`,
		filepath.Join(root, "nowhere"): "there is no run",
		"latest":                       "there are no runs under",
		file:                           "is a file, expected a run directory",
		root:                           "is not a run directory: run.json is missing",
	} {
		if _, err := rundir.Open(root, which); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q in it", which, err, want)
		}
	}
}

func TestList(t *testing.T) {
	root := t.TempDir()
	if entries, err := rundir.List(filepath.Join(root, "none")); err != nil || len(entries) != 0 {
		t.Errorf("no folder lists %v, %v", entries, err)
	}
	whole, bad := finished(t, root), finished(t, root)
	spoil(t, bad, rundir.SummaryFile, func(string) string { return "{" })
	running := create(t, root, "other")
	if err := running.WriteManifest(manifest(running.ID())); err != nil {
		t.Fatal(err)
	}
	entries, err := rundir.List(root)
	if err != nil || len(entries) != 3 {
		t.Fatalf("%d entries, %v", len(entries), err)
	}
	for _, e := range entries {
		switch e.Path {
		case whole:
			if e.State != rundir.Finished || e.Verdict != rundir.Pass || e.Seed != 7 ||
				!e.Started.Equal(noon) || e.Profile != "smoke" || e.Scenario != "shop-rush" {
				t.Errorf("the whole run is listed as %+v", e)
			}
		case bad:
			if !strings.Contains(e.Problem, "truncated") {
				t.Errorf("the spoilt run is listed as %+v", e)
			}
		default:
			if e.State != rundir.Running || e.ID != running.ID() {
				t.Errorf("the run in progress is listed as %+v", e)
			}
		}
	}
}

// FuzzSummary: whatever the file holds, reading it gives an error, or a
// summary that reads back.
func FuzzSummary(f *testing.F) {
	whole, err := json.Marshal(summary("1a2b3c4d"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add([]byte(`{"schema_version": "1.0.0"}`))
	f.Add([]byte(`{"schema_version": "1.0.0", "variants": [{}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := rundir.DecodeSummary(data)
		if err != nil {
			return
		}
		again, err := json.Marshal(s)
		if err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		if _, err := rundir.DecodeSummary(again); err != nil {
			t.Errorf("what was written cannot be read: %v", err)
		}
	})
}

// TestWindowsAreRead: as they were written, and no file that could not be drawn.
func TestWindowsAreRead(t *testing.T) {
	root := t.TempDir()
	d := create(t, root, "shop-rush")
	if err := d.WriteManifest(manifest(d.ID())); err != nil {
		t.Fatal(err)
	}
	w := rundir.Windows{WidthNS: 1e6, Kinds: []rundir.KindWindows{{Kind: "buy",
		Windows: []rundir.Window{{FirstRow: 3, Counts: []int64{1, 0, 2}, Infinite: 4}},
		Errors:  []rundir.ErrorLine{{Outcome: "unknown", Class: "x", At: []int{0}, Counts: []int64{4}}}}}}
	name, err := d.WriteWindows("na/ive", 1, w)
	if err != nil {
		t.Fatal(err)
	}
	run, err := rundir.Open(root, d.Path())
	if err != nil {
		t.Fatal(err)
	}
	w.SchemaVersion = rundir.SchemaVersion
	if got, err := run.Windows(name); err != nil || !reflect.DeepEqual(got, w) {
		t.Errorf("got %+v, %v", got, err)
	}
	for bad, change := range map[string][2]string{
		"0 ns wide":   {`"width_ns": 1000000`, `"width_ns": 0`},
		"rows -1 to":  {`"first_row": 3`, `"first_row": -1`},
		"rows 900 to": {`"first_row": 3`, `"first_row": 900`},
		"window 7":    {"\"at\": [\n            0", "\"at\": [\n            7"},
		"2 windows":   {"\"at\": [\n            0", "\"at\": [\n            0, 0"},
		"unknown":     {`"width_ns"`, `"width"`},
		"version":     {`"` + rundir.SchemaVersion, `"9.0.0`},
	} {
		whole, err := os.ReadFile(filepath.Join(d.Path(), name))
		if err != nil {
			t.Fatal(err)
		}
		spoil(t, d.Path(), name, func(s string) string {
			return strings.Replace(s, change[0], change[1], 1)
		})
		if _, err := run.Windows(name); err == nil || !strings.Contains(err.Error(), bad) {
			t.Errorf("%s: got %v", bad, err)
		}
		spoil(t, d.Path(), name, func(string) string { return string(whole) })
	}
	if _, err := run.Windows("../elsewhere.json"); err == nil {
		t.Error("a file outside the run was read")
	}
}
