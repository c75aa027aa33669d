package main

import (
	"context"
	"io"
	"slices"
	"strings"
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
	checks[1].OK = true
	checks = append(checks, doctor.Check{Name: "kafka image", Optional: true, Detail: "no engine"},
		doctor.Check{Name: "roles image", Optional: true, Detail: "no engine"})
	rows, _ = doctorRows(checks)
	images := []string{"optional", "images", "no containers: images are missing (make images)"}
	if len(rows) != 4 || !slices.Equal(rows[2], images) {
		t.Errorf("with an engine, without images: %q", rows)
	}
	checks[2].OK = true
	if rows, _ = doctorRows(checks); len(rows) != 6 ||
		rows[4][2] != "no brokers in containers: their image is missing" {
		t.Errorf("without the image of the brokers: %q", rows)
	}
}

// TestAgreed: an empty line installs what was listed, and so does y; anything else does not.
func TestAgreed(t *testing.T) {
	for typed, want := range map[string]bool{"\n": true, "y\n": true, "Yes\n": true, "n\n": false,
		"no\n": false, "what\n": false, "": false, "y": false} {
		var out strings.Builder
		if got := agreed(t.Context(), strings.NewReader(typed), &out); got != want ||
			out.String() != "Install this? [Y/n] " {
			t.Errorf("%q: %v after %q", typed, got, out.String())
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	silent, typing := io.Pipe()
	defer typing.Close()
	if agreed(ctx, silent, io.Discard) {
		t.Error("an interrupt is taken for a yes")
	}
}
