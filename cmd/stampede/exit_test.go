package main

import (
	"testing"

	"stampede/harness/rundir"
)

// TestExitOf: what was not decided is no success, whatever counts besides.
func TestExitOf(t *testing.T) {
	verdict := func(correctness, sla, measurement string) rundir.Summary {
		return rundir.Summary{Verdict: rundir.Verdict{
			Correctness: correctness, SLA: sla, Measurement: measurement}}
	}
	interrupted := verdict(rundir.Pass, rundir.Pass, rundir.Pass)
	interrupted.Run.Interrupted = true
	all := []string{"invariant", "sla", "inconclusive"}
	only := func(reason string) []string { return []string{reason} }
	for name, c := range map[string]struct {
		summary rundir.Summary
		failOn  []string
		want    int
	}{
		"all passed":               {verdict("PASS", "PASS", "PASS"), all, exitOK},
		"broken":                   {verdict("FAIL", "PASS", "PASS"), all, exitInvariant},
		"broken, and a missed SLO": {verdict("FAIL", "FAIL", "INVALID"), all, exitInvariant},
		"broken, not asked":        {verdict("FAIL", "PASS", "PASS"), only("sla"), exitOK},
		"undecided":                {verdict("INCONCLUSIVE", "PASS", "PASS"), all, exitUndecided},
		"undecided, invariants only": {verdict("INCONCLUSIVE", "PASS", "PASS"), only("invariant"),
			exitUndecided},
		"interrupted, invariants only": {interrupted, only("invariant"), exitUndecided},
		"missed SLO":                   {verdict("PASS", "FAIL", "PASS"), all, exitSLA},
		"missed SLO, not asked":        {verdict("PASS", "FAIL", "PASS"), only("invariant"), exitOK},
		"invalid":                      {verdict("PASS", "PASS", "INVALID"), all, exitUndecided},
		"invalid, invariants only":     {verdict("PASS", "PASS", "INVALID"), only("invariant"), exitOK},
		"nothing asked":                {verdict("FAIL", "FAIL", "INVALID"), only("none"), exitOK},
	} {
		if got := exitOf(c.summary, c.failOn); got != c.want {
			t.Errorf("%s: exit code %d, want %d", name, got, c.want)
		}
	}
}

// TestWorstExit: what is broken is told whatever else went wrong, and no failure is lost.
func TestWorstExit(t *testing.T) {
	for _, c := range []struct {
		codes []int
		want  int
	}{
		{nil, exitOK},
		{[]int{exitOK, exitOK}, exitOK},
		{[]int{exitOK, exitRegression}, exitRegression},
		{[]int{exitRegression, exitSLA}, exitSLA},
		{[]int{exitSLA, exitUndecided}, exitUndecided},
		{[]int{exitUndecided, exitEnvironment}, exitEnvironment},
		{[]int{exitEnvironment, exitInternal}, exitInternal},
		{[]int{exitInternal, exitInvariant}, exitInvariant},
		{[]int{exitInvariant, exitEnvironment, exitOK}, exitInvariant},
		{[]int{exitOK, exitUsage}, exitUsage},
		{[]int{exitUsage, exitRegression}, exitRegression},
	} {
		if got := worstExit(c.codes); got != c.want {
			t.Errorf("of %v the worst is %d, want %d", c.codes, got, c.want)
		}
	}
}
