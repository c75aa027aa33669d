package rundir_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/rundir"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// create makes a run directory that is closed when the test ends.
func create(t *testing.T, root, scenario string) *rundir.Dir {
	t.Helper()
	d, err := rundir.Create(root, scenario, 7, noon)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func manifest(id string) rundir.Manifest {
	return rundir.Manifest{
		Tool: rundir.Tool{Name: "stampede", Version: "1.2.3"},
		Run: rundir.RunInfo{
			ID: id, Scenario: "shop-rush", System: "shop", Profile: "smoke", Seed: 7, Started: noon,
		},
		Slots: rundir.Interleave([]string{"naive", "locked"}, 2),
	}
}

// finished makes a whole run under root and returns its path.
func finished(t *testing.T, root string) string {
	t.Helper()
	d := create(t, root, "shop-rush")
	if err := d.WriteManifest(manifest(d.ID())); err != nil {
		t.Fatal(err)
	}
	if err := d.WriteSummary(summary(d.ID())); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	return d.Path()
}

// summary has a value in every field that can be left out, and nothing in
// some lists that cannot.
func summary(id string) rundir.Summary {
	exact := 0.0079
	load := rundir.Load{Scheduled: 10, Started: 9, Dropped: 1, OK: 5, Refused: 3, Unknown: 1}
	times := rundir.Percentiles{
		Count: 10, P50: 1000, P90: 2000, P99: 3000, P999: 4000, Max: rundir.Infinite,
	}
	latency := rundir.Latencies{Response: times, Service: times, Lag: times}
	operation := rundir.Operation{
		Kind: "buy", Load: load, Latency: latency, ThroughputPerS: 5, HDR: "SElTVA==",
		Errors: []rundir.ErrorClass{{Outcome: "refused", Class: "sold out", Count: 3, Sample: "x"}},
		Phases: []rundir.Phase{{Name: "steady", EndNS: 9, Load: load, Response: times}},
		Successful: &rundir.Percentiles{
			Count: 5, P50: 2000, P90: 2000, P99: 2000, P999: 2000, Max: 2000},
		SuccessfulHDR: "SElTVA==",
	}
	broken := check.Verdict{
		Invariant: "no-oversell", Status: check.Broken, Checked: 9, Count: 1, Witness: []uint64{3, 4},
		Violations: []check.Violation{{Text: "unit 3 has two owners", Ops: []uint64{3, 4}}},
		Accepted:   []check.AcceptedLoss{{What: "holds", Why: "declared", Count: 1, Bound: 2}},
	}
	objective := check.SLOVerdict{Name: "fast", Objective: "p99(response) <= 1s", Limit: "1s"}
	repeat := rundir.Repeat{
		Verdict: rundir.Pass, Timing: rundir.Clean, Used: true,
		Validity:   []rundir.Validity{{Name: "lag", Class: rundir.Times, OK: true, Detail: "1 ms"}},
		Races:      &rundir.Races{Kinds: []string{"buy"}, Successful: 5, Raced: 4, Peak: 3, Least: 1},
		Quiet:      &rundir.QuietTimes{TakenNS: 1, SpanNS: 9, Response: times},
		Invariants: []check.Verdict{broken}, Load: load, Latency: latency,
		Faults: []history.Window{{
			Kind: history.FaultWindow, Name: "stall", Start: 1, End: 2,
			Evidence: []string{"stopped 12"}, Effects: json.RawMessage(`{"pid":12}`),
		}},
		Operations: []rundir.Operation{operation},
		History:    rundir.HistoryName("naive", 0), Audit: rundir.AuditName("naive", 0),
		Timeline: rundir.TimelineName("naive", 0),
	}
	return rundir.Summary{
		Tool: rundir.Tool{Name: "stampede", Version: "1.2.3"},
		Run: rundir.RunInfo{
			ID: id, Scenario: "shop-rush", System: "shop", Profile: "smoke", Seed: 7, Repeats: 1,
			Started: noon, Finished: noon.Add(time.Minute), Argv: []string{"stampede", "run"},
		},
		Environment: rundir.Environment{
			Backend:    "processes",
			Components: map[string]rundir.Component{"redis": {Kind: "redis", Version: "7.0"}},
		},
		Verdict: rundir.Verdict{
			Overall: rundir.Pass, Correctness: rundir.Pass,
			Objectives: rundir.Inconclusive, Timing: rundir.Clean,
		},
		Variants: []rundir.Variant{{
			Name: "naive", Verdict: rundir.Pass, Correctness: rundir.Caught,
			Objectives: rundir.Pass, Timing: rundir.Clean, ExpectedBroken: []string{"no-oversell"},
			Invariants: []check.Verdict{broken}, SLOs: []check.SLOVerdict{objective},
			Repeats: []rundir.Repeat{repeat}, Load: load, Latency: latency,
			Operations: []rundir.Operation{operation},
		}, {Name: "locked", Verdict: rundir.Invalid, Correctness: rundir.Undecided,
			Objectives: rundir.NotJudged, Timing: rundir.NoTimes}},
		Statements: map[string]string{"no-oversell": "no more units are sold than there are"},
		Comparisons: []rundir.Comparison{{
			Metric: "p99", CI95: &[2]float64{0.9, 1.1}, PExact: &exact, PHolm: &exact, N: 6,
		}},
		Warnings: []string{"few samples"},
	}
}

// spoil rewrites a file of a run directory.
func spoil(t *testing.T, dir, name string, change func(string) string) {
	t.Helper()
	path := filepath.Join(dir, name)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(change(string(data))), 0o644); err != nil {
		t.Fatal(err)
	}
}
