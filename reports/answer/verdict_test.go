package answer

import (
	"testing"

	"stampede/harness/rundir"
)

// TestOutcomeMark: the answer about correctness, unless the verdict has another reason.
func TestOutcomeMark(t *testing.T) {
	for _, c := range []struct{ verdict, correctness, want string }{
		{rundir.Pass, rundir.Holds, "✓ holds good"},
		{rundir.Pass, rundir.Caught, "⚑ caught wrong"},
		{rundir.Pass, rundir.NotProvoked, "○ not provoked na"},
		{rundir.Fail, rundir.Violated, "✗ VIOLATED bad"},
		{rundir.Fail, rundir.NotCaught, "✗ NOT CAUGHT bad"},
		{rundir.Inconclusive, rundir.NotExercised, "? NOT EXERCISED warn"},
		{rundir.Fail, rundir.Holds, "✗ FAIL bad"}, // an objective
		{rundir.Invalid, rundir.Holds, "! INVALID warn"},
		{rundir.Invalid, rundir.Undecided, "! INVALID warn"},
		{rundir.Pass, "", "✓ PASS good"}, // events of an old run
	} {
		m := OutcomeMark(c.verdict, c.correctness)
		if got := m.Icon + " " + m.Word + " " + m.Class; got != c.want {
			t.Errorf("%s, %s: %s, want %s", c.verdict, c.correctness, got, c.want)
		}
	}
}
