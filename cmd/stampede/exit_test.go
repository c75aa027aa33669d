package main

import (
	"slices"
	"testing"

	"stampede/harness/rundir"
)

// TestExitOf: what was not decided is no success, and noise is no failure unless clean
// times are asked for.
func TestExitOf(t *testing.T) {
	verdict := func(correctness, objectives, timing string) rundir.Summary {
		return rundir.Summary{Verdict: rundir.Verdict{
			Correctness: correctness, Objectives: objectives, Timing: timing}}
	}
	interrupted := verdict(rundir.Pass, rundir.Pass, rundir.Clean)
	interrupted.Run.Interrupted = true
	all := []string{"invariant", "objective", "inconclusive"}
	clean := append(slices.Clone(all), "timing")
	only := func(reason string) []string { return []string{reason} }
	for name, c := range map[string]struct {
		summary rundir.Summary
		failOn  []string
		want    int
	}{
		"all passed":               {verdict("PASS", "PASS", "clean"), all, exitOK},
		"noisy times":              {verdict("PASS", "PASS", "noisy"), all, exitOK},
		"no times":                 {verdict("PASS", "NOT JUDGED", "none"), all, exitOK},
		"noisy times, asked":       {verdict("PASS", "NOT JUDGED", "noisy"), clean, exitTiming},
		"clean times, asked":       {verdict("PASS", "PASS", "clean"), clean, exitOK},
		"noisy and missed":         {verdict("PASS", "FAIL", "noisy"), clean, exitObjective},
		"violated":                 {verdict("FAIL", "PASS", "clean"), all, exitInvariant},
		"violated, and one missed": {verdict("FAIL", "FAIL", "none"), all, exitInvariant},
		"violated, not asked":      {verdict("FAIL", "PASS", "clean"), only("objective"), exitOK},
		"undecided":                {verdict("INCONCLUSIVE", "PASS", "clean"), all, exitUndecided},
		"undecided, invariants only": {verdict("INCONCLUSIVE", "PASS", "clean"), only("invariant"),
			exitUndecided},
		"interrupted, invariants only": {interrupted, only("invariant"), exitUndecided},
		"missed":                       {verdict("PASS", "FAIL", "clean"), all, exitObjective},
		"missed, not asked":            {verdict("PASS", "FAIL", "clean"), only("invariant"), exitOK},
		"no samples for an objective":  {verdict("PASS", "INCONCLUSIVE", "clean"), all, exitUndecided},
		"invalid":                      {verdict("INVALID", "PASS", "none"), all, exitUndecided},
		"invalid, objectives only": {verdict("INVALID", "PASS", "clean"), only("objective"),
			exitUndecided},
		"invalid, timing only": {verdict("INVALID", "PASS", "none"), only("timing"), exitUndecided},
		"invalid, regression only": {verdict("INVALID", "FAIL", "clean"), only("regression"),
			exitUndecided},
		"invalid, nothing asked": {verdict("INVALID", "FAIL", "none"), only("none"), exitUndecided},
		"nothing asked":          {verdict("FAIL", "FAIL", "none"), only("none"), exitOK},
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
		{[]int{exitOK, exitTiming}, exitTiming},
		{[]int{exitTiming, exitRegression}, exitRegression},
		{[]int{exitRegression, exitObjective}, exitObjective},
		{[]int{exitObjective, exitUndecided}, exitUndecided},
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
