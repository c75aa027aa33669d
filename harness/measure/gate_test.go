package measure_test

import (
	"strings"
	"testing"

	"stampede/harness/measure"
	"stampede/harness/rundir"
)

// sound is the facts of a run that nothing is wrong with.
func sound() measure.Facts {
	n := rundir.Load{Scheduled: 1000, Started: 900, Dropped: 100, OK: 800, Refused: 90, Unknown: 10}
	return measure.Facts{
		Generator: rundir.Generator{
			CPUCores: 1, GCPauseP99NS: 4e5, SchedP99NS: 9e5,
			LagP50NS: 3e4, LagP90NS: 2e5, LagP99NS: 9e5,
		},
		Counted: n, Recorded: n, Cores: 2,
		Response: rundir.Percentiles{Count: 1000, P50: 2e6, P90: 4e6, P99: 9e6},
		Service:  rundir.Percentiles{Count: 900, P50: 1e6, P90: 2e6, P99: 5e6},
	}
}

// quiet is what was due without interference in half of a run's time.
func quiet(count, p99 int64) *rundir.QuietTimes {
	return &rundir.QuietTimes{TakenNS: 5e9, SpanNS: 10e9,
		Response: rundir.Percentiles{Count: count, P50: 1, P90: 2, P99: p99}}
}

// TestTiming: late at the median is no time at all, late at p99 is noise, and so is
// whatever else fails but the evidence.
func TestTiming(t *testing.T) {
	for name, test := range map[string]struct {
		spoil func(*measure.Facts)
		want  string
	}{
		"sound":       {func(*measure.Facts) {}, rundir.Clean},
		"late at p99": {func(f *measure.Facts) { f.Generator.LagP99NS = 2e6 }, rundir.Noisy},
		"late at p90": {func(f *measure.Facts) { f.Generator.LagP90NS = 2e6 }, rundir.Noisy},
		"late at p50": {func(f *measure.Facts) { f.Generator.LagP50NS = 2e6 }, rundir.NoTimes},
		"late, but slower": {func(f *measure.Facts) {
			f.Generator.LagP50NS, f.Response.P50 = 2e6, 4e7
		}, rundir.Clean},
		"stolen":        {func(f *measure.Facts) { f.Generator.StealShare = 0.5 }, rundir.Noisy},
		"a collector":   {func(f *measure.Facts) { f.Generator.GCPauseP99NS = 1e6 }, rundir.Noisy},
		"cut":           {func(f *measure.Facts) { f.Cut = 11 }, rundir.NoTimes},
		"nothing":       {func(f *measure.Facts) { f.Counted = rundir.Load{} }, rundir.NoTimes},
		"a lost record": {func(f *measure.Facts) { f.Recorded.Scheduled++ }, rundir.Clean},
	} {
		facts := sound()
		test.spoil(&facts)
		if got := facts.Timing(); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

func TestGate(t *testing.T) {
	tests := []struct {
		name  string
		spoil func(*measure.Facts)
		// fails is the check that is not OK, or empty; detail is in it.
		fails, detail string
	}{
		{"a late pacer for a system so slow that operations were dropped", func(f *measure.Facts) {
			f.Generator.LagP99NS, f.Generator.SchedP99NS, f.Inside = 4_900_000, 9_900_000, true
			f.Response.P90, f.Response.P99 = 100e6, rundir.Infinite
		}, "", ""},
		{"sound", func(*measure.Facts) {}, "", ""},
		{"a lost record", func(f *measure.Facts) {
			f.Recorded.Scheduled--
			f.Recorded.Dropped--
		}, "accounting", "Scheduled:999"},
		{"a broken sum", func(f *measure.Facts) {
			f.Counted.OK, f.Recorded.OK = 801, 801
		}, "accounting", "ok 801"},
		{"an interrupted schedule", func(f *measure.Facts) {
			f.Cut = 11
		}, "schedule", "1000 of 1011"},
		{"a schedule cut a little", func(f *measure.Facts) { f.Cut = 10 }, "", ""},
		{"nothing offered", func(f *measure.Facts) {
			f.Counted, f.Recorded = rundir.Load{}, rundir.Load{}
		}, "schedule", "0 of 0"},
		{"a late pacer", func(f *measure.Facts) {
			f.Generator.LagP99NS = 1_100_000
		}, "pacer-lag", "1.100 ms"},
		{"a late pacer for a slow tail", func(f *measure.Facts) {
			f.Generator.LagP99NS, f.Response.P99 = 4_900_000, 100e6
		}, "", ""},
		{"a pacer that is late more often than the tail is slow", func(f *measure.Facts) {
			f.Generator.LagP90NS, f.Generator.LagP99NS, f.Response.P99 = 1_100_000, 4_900_000, 100e6
		}, "pacer-lag", "1.100 ms"},
		{"a pacer that is always late", func(f *measure.Facts) {
			f.Generator.LagP50NS = 1_100_000
		}, "pacer-lag", "1.100 ms"},
		{"a late pacer, and only service times", func(f *measure.Facts) {
			f.Generator.LagP99NS, f.Response, f.Service.P99 = 1_100_000, rundir.Percentiles{}, 21e6
		}, "pacer-lag", "1.050 ms: 5 %"},
		{"a late pacer, and nothing returned", func(f *measure.Facts) {
			f.Generator.LagP99NS, f.Response.P99 = 1_100_000, rundir.Infinite
			f.Service.P99 = rundir.Infinite
		}, "pacer-lag", "1.000 ms: 5 %"},
		{"a busy generator", func(f *measure.Facts) {
			f.Generator.CPUCores = 1.6
		}, "generator-cpu", "80 %"},
		{"a busy process that the system is part of", func(f *measure.Facts) {
			f.Inside, f.Generator.CPUCores = true, 1.9
		}, "", ""},
		{"no core for the process that the system is part of", func(f *measure.Facts) {
			f.Inside, f.Generator.SchedP99NS = true, 1_100_000
		}, "core-wait", "1.100 ms"},
		{"no core for the generator of a system elsewhere", func(f *measure.Facts) {
			f.Generator.SchedP99NS = 1_100_000
		}, "core-wait", "1.100 ms"},
		{"no core, for operations that wait much longer", func(f *measure.Facts) {
			f.Inside, f.Generator.SchedP99NS, f.Response.P99 = true, 1_900_000, 20e6
		}, "", ""},
		{"long pauses", func(f *measure.Facts) {
			f.Generator.GCPauseP99NS = 1e6
		}, "gc-pause", "1.000 ms"},
		{"a greedy neighbour", func(f *measure.Facts) {
			f.Generator.StealShare = 0.06
		}, "interference", "6.0 %"},
		{"other programs", func(f *measure.Facts) {
			f.Machine = &rundir.Machine{SpanNS: 10e9, Cores: 4, OthersNS: 11e9}
		}, "interference", "other programs 27.5 %"},
		{"a neighbour who is greedy for a moment", func(f *measure.Facts) {
			f.Sampled, f.Quiet = true, quiet(900, 8_900_000)
		}, "", ""},
		{"a neighbour who makes operations late", func(f *measure.Facts) {
			f.Sampled, f.Quiet = true, quiet(900, 8_000_000)
		}, "interference", "p99 is 9.000 ms, and 8.000 ms without"},
		{"a neighbour who is always there", func(f *measure.Facts) {
			f.Sampled, f.Quiet = true, quiet(199, 9_000_000)
		}, "interference", "it was above that for 50 % of the time"},
		{"other programs that are always there", func(f *measure.Facts) {
			f.Machine = &rundir.Machine{SpanNS: 10e9, Cores: 4, OthersNS: 11e9}
			f.Sampled, f.Quiet = true, quiet(199, 9_000_000)
		}, "interference", "one of them was above that for 50 %"},
		{"a greedy neighbour on average, and in no second", func(f *measure.Facts) {
			f.Generator.StealShare, f.Sampled = 0.06, true
		}, "interference", "6.0 %"},
		{"others on average, and in no second", func(f *measure.Facts) {
			f.Machine, f.Sampled = &rundir.Machine{SpanNS: 10e9, Cores: 4, OthersNS: 11e9}, true
		}, "interference", "other programs 27.5 %"},
		{"a store that did not say what it used", func(f *measure.Facts) {
			f.Machine = &rundir.Machine{SpanNS: 10e9, Cores: 4, OthersNS: 1e9, UnknownNS: 10e9}
			f.Sampled = true
		}, "interference", "between 2.5 % and 27.5 %"},
		{"a store that was not asked for a moment", func(f *measure.Facts) {
			f.Machine = &rundir.Machine{SpanNS: 10e9, Cores: 4, OthersNS: 1e9, UnknownNS: 8e9}
		}, "", ""},
		// How many were dropped in the seconds that were taken cannot be told by a p99.
		{"operations that were dropped in every second", func(f *measure.Facts) {
			f.Sampled, f.Quiet, f.Response.P99 = true, quiet(900, rundir.Infinite), rundir.Infinite
		}, "interference", "p99 is ∞, and ∞ without"},
		{"few other programs", func(f *measure.Facts) {
			f.Machine = &rundir.Machine{SpanNS: 10e9, Cores: 4, OthersNS: 9e9}
		}, "", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			facts := sound()
			test.spoil(&facts)
			for _, v := range measure.Gate(facts) {
				if v.OK != (v.Name != test.fails) {
					t.Errorf("%s: ok is %v: %s", v.Name, v.OK, v.Detail)
				}
				if v.Name == test.fails && !strings.Contains(v.Detail, test.detail) {
					t.Errorf("%s: %q does not say %q", v.Name, v.Detail, test.detail)
				}
			}
		})
	}
}
