package main

import (
	"slices"
	"testing"

	"stampede/harness/env/doctor"
)

// TestDoctorRows: without an engine containers are one line, and what is missing is told
// apart from what is optional.
func TestDoctorRows(t *testing.T) {
	checks := []doctor.Check{
		{Name: "postgres", Detail: "no postgres", Fix: "install it"},
		{Name: "engine", Optional: true, Detail: "nothing answers", Fix: "doctor --fix --engine"},
		{Name: "images", Optional: true, Detail: "no engine", Fix: "make images"},
		{Name: "backend", OK: true, Detail: "processes: redis at /usr/bin/redis-server"},
		{Name: "clock", OK: true, Detail: "tsc"},
	}
	rows, missing := doctorRows(checks)
	want := [][]string{{"missing", "postgres", "no postgres (install it)"},
		{"optional", "engine", "no containers: no engine answers (doctor --fix --engine)"},
		{"ok", "clock", "tsc"}}
	if !slices.EqualFunc(rows, want, slices.Equal[[]string]) ||
		!slices.Equal(missing, []string{"postgres"}) {
		t.Errorf("%q, missing %q", rows, missing)
	}
	if got := ready(checks); got != "processes" {
		t.Errorf("ready: %s", got)
	}
	checks[1].OK, checks[2].OK = true, false
	if rows, _ := doctorRows(checks); len(rows) != 4 {
		t.Errorf("with an engine: %q", rows)
	}
}
