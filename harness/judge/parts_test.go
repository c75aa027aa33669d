package judge

import (
	"slices"
	"strings"
	"testing"
	"time"

	"stampede/harness/check"
	"stampede/harness/measure"
	"stampede/harness/rundir"
)

// partsOff are two generators whose clocks are off by so much.
func partsOff(one, other time.Duration) Trial {
	return Trial{Generators: []Part{{Host: "a", Cores: 2, ClockErrorNS: one.Nanoseconds()},
		{Host: "b", Cores: 2, ClockErrorNS: other.Nanoseconds()}}}
}

// TestOneClock: where the clocks of generators are too far apart nothing holds, and what was
// violated stays so.
func TestOneClock(t *testing.T) {
	near := partsOff(time.Millisecond, clockErrorMost)
	far := partsOff(0, clockErrorMost+1)
	const says = "2 generators are right to 5.000 ms"
	if v := oneClock(near); !v.OK || !strings.Contains(v.Detail, says) {
		t.Errorf("%+v", v)
	}
	if v := oneClock(far); v.OK || !rundir.Exercise(v.Name) {
		t.Errorf("%+v", v)
	}
	held, broken := check.Verdict{Status: check.Held}, check.Verdict{Status: check.Broken}
	if v := near.orderedBy(held); v.Status != check.Held {
		t.Errorf("near: %+v", v)
	}
	if v := far.orderedBy(held); v.Status != check.Undecided || !v.NotExercised || v.Reason == "" {
		t.Errorf("far: %+v", v)
	}
	if v := far.orderedBy(broken); v.Status != check.Broken {
		t.Errorf("broken: %+v", v)
	}
	if off := (Trial{}).clockError(); off != 0 {
		t.Errorf("one process is off by %s", off)
	}
}

// TestTimesAreByGenerator: one generator that is late spoils the times, and is named.
func TestTimesAreByGenerator(t *testing.T) {
	n := rundir.Load{Scheduled: 100, Started: 100, OK: 100}
	facts := measure.Facts{Counted: n, Recorded: n, Cores: 2,
		Response: rundir.Percentiles{Count: 100, P50: 2e6, P90: 3e6, P99: 4e6}, Sampled: true,
		Quiet: &rundir.QuietTimes{TakenNS: 1, SpanNS: 9, Response: rundir.Percentiles{Count: 1000,
			P50: 2e6, P90: 3e6, P99: 4e6}}}
	for _, c := range []struct {
		late   rundir.Generator
		timing string
	}{
		{rundir.Generator{}, rundir.Clean},
		{rundir.Generator{LagP99NS: 9e6}, rundir.Noisy},
		{rundir.Generator{StealShare: 2 * measure.StealMost}, rundir.Noisy},
		{rundir.Generator{LagP50NS: 9e6, LagP90NS: 9e6, LagP99NS: 9e6}, rundir.NoTimes},
	} {
		trial := partsOff(0, 0)
		trial.Generators[1].Generator = c.late
		list, timing := gate(facts, trial.Generators)
		if timing != c.timing {
			t.Errorf("%+v is %s, want %s", c.late, timing, c.timing)
		}
		for _, v := range list {
			if !v.OK && !strings.HasPrefix(v.Detail, "generator 2 of 2 on b: ") {
				t.Errorf("%+v", v)
			}
		}
		if whole := measure.Gate(facts); len(list) != len(whole) {
			t.Errorf("%d assumptions of two generators, %d of one", len(list), len(whole))
		}
	}
}

// TestGeneratorsOfOneMachine share its processors.
func TestGeneratorsOfOneMachine(t *testing.T) {
	n := rundir.Load{Scheduled: 100, Started: 100, OK: 100}
	facts := measure.Facts{Counted: n, Recorded: n, Cores: 2}
	for other, want := range map[string]bool{"a": false, "b": true} {
		trial := partsOff(0, 0)
		for i := range trial.Generators {
			trial.Generators[i].Generator.CPUCores = 0.9
		}
		trial.Generators[1].Host = other
		list, _ := gate(facts, trial.Generators)
		i := slices.IndexFunc(list, func(v rundir.Validity) bool {
			return v.Name == measure.GeneratorCPUName
		})
		if list[i].OK != want {
			t.Errorf("on a and %s: %+v", other, list[i])
		}
	}
}
