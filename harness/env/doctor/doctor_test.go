package doctor_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
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
		"open files", "cores", "memory", "clock", "compiler",
		"python", "curl", "docker client", "browser", "debootstrap"} {
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
}

func TestEachLevelWantsMore(t *testing.T) {
	stores := []string{"postgres", "redis"}
	tests := []string{"compiler", "python", "curl"}
	engine := []string{"engine", "docker client", "browser", "debootstrap"}
	for opts, wanted := range map[doctor.Options][]string{
		{}:             nil,
		{Tests: true}:  slices.Concat(stores, tests),
		{Engine: true}: slices.Concat(stores, tests, engine),
	} {
		checks := doctor.Examine(t.Context(), opts)
		for _, name := range slices.Concat(tests, engine) {
			if c := find(t, checks, name); c.Optional == slices.Contains(wanted, name) {
				t.Errorf("%+v: %s is optional: %v", opts, name, c.Optional)
			}
		}
		for _, name := range stores {
			if c := find(t, checks, name); len(wanted) > 0 && c.Optional {
				t.Errorf("%+v: %s is optional", opts, name)
			}
		}
	}
}

// fakeCompiler puts a gcc on the PATH that ends with an exit code.
func fakeCompiler(t *testing.T, code string) {
	t.Helper()
	dir := t.TempDir()
	script := []byte("#!/bin/sh\nexit " + code + "\n")
	if err := os.WriteFile(filepath.Join(dir, "gcc"), script, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("CC", "")
	t.Setenv("PATH", dir)
}

func TestACompilerWithoutALibraryIsNone(t *testing.T) {
	fakeCompiler(t, "0")
	if c := find(t, doctor.Examine(t.Context(), doctor.Options{}), "compiler"); !c.OK {
		t.Errorf("a compiler that works is missing: %+v", c)
	}
	fakeCompiler(t, "1")
	c := find(t, doctor.Examine(t.Context(), doctor.Options{}), "compiler")
	if c.OK || !strings.Contains(c.Detail, "C library") || !strings.Contains(c.Fix, "--tests") {
		t.Errorf("got %+v", c)
	}
}

func TestNothingIsMissedOnAnEmptyPath(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("CC", "")
	t.Setenv("DOCKER_HOST", "tcp://127.0.0.1:9")
	checks := doctor.Examine(t.Context(), doctor.Options{})
	for _, name := range []string{"redis", "browser", "engine", "docker client", "compiler", "curl"} {
		if c := find(t, checks, name); c.OK {
			t.Errorf("%s was found on an empty path: %+v", name, c)
		}
	}
	var out bytes.Buffer
	err := doctor.Fix(t.Context(), doctor.Options{}, &out, nil, nil)
	if err == nil || !strings.Contains(err.Error(), "missing: ") || out.Len() > 0 {
		t.Errorf("without a package manager: %v, %q", err, out.String())
	}
}

func TestFixDoesNothingWhereNothingIsMissing(t *testing.T) {
	// make test installs the local stores first, so that they are here.
	for _, c := range doctor.Examine(t.Context(), doctor.Options{}) {
		if c.OK || c.Optional {
			continue
		}
		if os.Getenv("CI") != "" {
			t.Fatalf("%s is missing, which CI must have: %s", c.Name, c.Detail)
		}
		t.Skipf("%s is missing: %s", c.Name, c.Detail)
	}
	var out bytes.Buffer
	if err := doctor.Fix(t.Context(), doctor.Options{}, &out, nil, nil); err != nil || out.Len() > 0 {
		t.Errorf("got %v, %q", err, out.String())
	}
}
