package doctor_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"stampede/harness/env/doctor"
)

func find(t *testing.T, checks []doctor.Check, name string) doctor.Check {
	t.Helper()
	for _, c := range checks {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("there is no check %q", name)
	return doctor.Check{}
}

func TestExamineIsComplete(t *testing.T) {
	checks := doctor.Examine(t.Context(), doctor.Options{})
	for _, name := range []string{"postgres", "redis", "engine", "images", "backend", "data",
		"open files", "cores", "memory", "clock", "browser", "python", "debootstrap"} {
		c := find(t, checks, name)
		t.Logf("%+v", c)
		if c.Detail == "" || strings.Contains(c.Detail, "\n") {
			t.Errorf("%s: the detail is not one line: %q", name, c.Detail)
		}
		if !c.OK && c.Fix == "" {
			t.Errorf("%s is missing, and nothing says what to do", name)
		}
	}
	if _, err := json.Marshal(checks); err != nil {
		t.Error(err)
	}
}

func TestOneLocalBackendIsEnough(t *testing.T) {
	t.Setenv("DOCKER_HOST", "tcp://127.0.0.1:9")
	checks := doctor.Examine(t.Context(), doctor.Options{})
	if c := find(t, checks, "engine"); c.OK || !c.Optional {
		t.Errorf("%+v", c)
	}
	if c := find(t, checks, "postgres"); c.Optional {
		t.Errorf("without an engine postgres is not optional: %+v", c)
	}
	wanted := doctor.Examine(t.Context(), doctor.Options{Engine: true})
	for _, name := range []string{"postgres", "redis", "engine", "browser"} {
		if c := find(t, wanted, name); c.Optional {
			t.Errorf("with both backends wanted, %s is not optional", name)
		}
	}
}

func TestNothingIsMissedOnAnEmptyPath(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("DOCKER_HOST", "tcp://127.0.0.1:9")
	checks := doctor.Examine(t.Context(), doctor.Options{})
	for _, name := range []string{"redis", "browser", "engine"} {
		if c := find(t, checks, name); c.OK {
			t.Errorf("%s was found on an empty path: %+v", name, c)
		}
	}
	var out bytes.Buffer
	err := doctor.Fix(t.Context(), doctor.Options{}, &out)
	if err == nil || !strings.Contains(err.Error(), "missing: ") || out.Len() > 0 {
		t.Errorf("without a package manager: %v, %q", err, out.String())
	}
}

func TestFixDoesNothingWhereNothingIsMissing(t *testing.T) {
	// make test installs the local stores first, so that they are here.
	for _, c := range doctor.Examine(t.Context(), doctor.Options{}) {
		if !c.OK && !c.Optional {
			t.Skipf("%s is missing: %s", c.Name, c.Detail)
		}
	}
	var out bytes.Buffer
	if err := doctor.Fix(t.Context(), doctor.Options{}, &out); err != nil || out.Len() > 0 {
		t.Errorf("got %v, %q", err, out.String())
	}
}
