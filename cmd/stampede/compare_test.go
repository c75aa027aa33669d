package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"stampede/harness/check"
	"stampede/harness/rundir"
)

// judgedRun stores a run of one repeat with one verdict, and returns its path.
func judgedRun(t *testing.T, root string, minute int, of check.Status) string {
	t.Helper()
	at := time.Date(2026, 11, 22, 9, minute, 0, 0, time.UTC)
	dir, err := rundir.Create(root, "sale", 7, at)
	if err != nil {
		t.Fatal(err)
	}
	verdicts := []check.Verdict{{Invariant: "no-oversell", Status: of, Checked: 9}}
	op := rundir.Operation{Kind: "buy", Latency: rundir.Latencies{
		Response: rundir.Percentiles{Count: 9, P50: 1e6, P90: 1e6, P99: 2e6,
			P999: 2e6, Max: 2e6}}}
	repeat := rundir.Repeat{Verdict: rundir.Pass, Timing: rundir.Clean, Used: true,
		Operations: []rundir.Operation{op}, Invariants: verdicts}
	s := rundir.Summary{Run: rundir.RunInfo{ID: dir.ID(), Scenario: "sale", System: "flashsale",
		Profile: "smoke", Seed: 7, Repeats: 1, Started: at, Finished: at.Add(time.Second)},
		Verdict: rundir.Verdict{Overall: rundir.Pass, Correctness: rundir.Pass,
			Objectives: rundir.Pass, Timing: rundir.Clean},
		Variants: []rundir.Variant{{Name: "redis_lua", Verdict: rundir.Pass,
			Correctness: rundir.Holds, Objectives: rundir.Pass, Timing: rundir.Clean,
			Invariants: verdicts, Operations: []rundir.Operation{op},
			Repeats: []rundir.Repeat{repeat}}}}
	err = errors.Join(dir.WriteManifest(rundir.Manifest{Run: s.Run,
		Slots: rundir.Interleave([]string{"redis_lua"}, 1)}), dir.WriteSummary(s), dir.Close())
	if err != nil {
		t.Fatal(err)
	}
	return dir.Path()
}

// said runs a part of the command line and returns what it printed, and its exit code.
func said(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	files := outputs(t)
	code = Main(args, files[0], files[1])
	return string(read(t, files[0].Name())), string(read(t, files[1].Name())), code
}

// outputs are files to be standard output and standard error.
func outputs(t *testing.T) (files [2]*os.File) {
	t.Helper()
	for i := range files {
		var err error
		if files[i], err = os.Create(filepath.Join(t.TempDir(), "out")); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { files[i].Close() })
	}
	return files
}

// makeNoisy has the times of a stored run be noisy.
func makeNoisy(t *testing.T, run string) {
	t.Helper()
	name := filepath.Join(run, rundir.SummaryFile)
	text := bytes.ReplaceAll(read(t, name), []byte(`"timing": "clean"`), []byte(`"timing": "noisy"`))
	if err := os.WriteFile(name, text, 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestAWorseVerdictIsARegression: what the page calls WORSE VERDICT the gate does not let
// pass, and it says why; a better one, and one that nobody asked about, pass.
func TestAWorseVerdictIsARegression(t *testing.T) {
	root := t.TempDir()
	held := judgedRun(t, root, 1, check.Held)
	broken, noisy := judgedRun(t, root, 2, check.Broken), judgedRun(t, root, 3, check.Held)
	makeNoisy(t, noisy)
	for _, c := range []struct {
		args []string
		code int
		say  string
	}{
		{[]string{held, broken, "--fail-on", "regression"}, exitRegression,
			": redis_lua: no-oversell was held, is broken\n"},
		{[]string{held, broken}, exitOK, ""},
		// One repeat a side shows nothing of times.
		{[]string{broken, held, "--fail-on", "regression"}, exitUndecided, "no answer whether"},
		{[]string{held, held, "--fail-on", "regression"}, exitUndecided, "both are the same run"},
		{[]string{held, noisy, "--fail-on", "regression"}, exitTiming, "clean times in both"},
	} {
		page := filepath.Join(t.TempDir(), "c.html")
		_, stderr, code := said(t, append([]string{"compare", "--html", page}, c.args...)...)
		if code != c.code || !strings.Contains(stderr, c.say) || c.say == "" && stderr != "" {
			t.Errorf("%q: exit %d, want %d\n%s", c.args, code, c.code, stderr)
		}
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		if got := bytes.Contains(text, []byte("<title>WORSE VERDICT")); got != (c.args[1] == broken) {
			t.Errorf("%q: the page has another word", c.args)
		}
	}
}

// TestComparedRunsHaveNames: the latest run has its own, and the same one twice has two.
func TestComparedRunsHaveNames(t *testing.T) {
	root := t.TempDir()
	a, b := judgedRun(t, root, 1, check.Held), judgedRun(t, root, 2, check.Held)
	latest := filepath.Join(root, "sale", rundir.Latest)
	for want, args := range map[string][]string{
		filepath.Base(b) + " against " + filepath.Base(a):        {a, latest},
		filepath.Base(b) + " (2) against " + filepath.Base(b):    {latest, "latest", "--out", root},
		filepath.Base(b) + " against " + filepath.Base(a) + "\n": {a, "sale", "--out", root},
		"x (2) against x": {"x=" + a, "x=" + b},
	} {
		stdout, stderr, code := said(t, append([]string{"compare"}, args...)...)
		if !strings.HasPrefix(stdout, want) || code != exitOK {
			t.Errorf("%q: exit %d, no %q in\n%s%s", args, code, want, stdout, stderr)
		}
	}
}

// TestReportAsJSON: the one format that is stored already is printed.
func TestReportAsJSON(t *testing.T) {
	run := judgedRun(t, t.TempDir(), 1, check.Held)
	stdout, stderr, code := said(t, "report", run, "--format", "json")
	var s rundir.Summary
	if err := json.Unmarshal([]byte(stdout), &s); err != nil || code != exitOK ||
		s.Run.Scenario != "sale" {
		t.Errorf("exit %d, %v\n%s%s", code, err, stdout, stderr)
	}
	if stdout, _, _ = said(t, "report", run, "--format", "md,json"); stdout !=
		filepath.Join(run, rundir.MarkdownFile)+"\n"+filepath.Join(run, rundir.SummaryFile)+"\n" {
		t.Errorf("two formats print %q", stdout)
	}
}
