package doctor

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPlan(t *testing.T) {
	root := machine{root: true, apt: true}
	with := func(m machine, missing ...string) machine { m.missing = missing; return m }
	equipped := root
	equipped.java, equipped.maven = true, true
	started := root
	started.dockerd = true
	cases := map[string]struct {
		machine machine
		steps   []string // what each step's command or words hold
		fails   string
	}{
		"nothing missing": {machine: root},
		"stores": {machine: with(root, "postgres", "redis"),
			steps: []string{"update", "install -y --no-install-recommends postgresql redis-server"}},
		"engine": {machine: with(root, "engine"),
			steps: []string{"update", "docker.io", "start a container engine"}},
		"engine is down":      {machine: with(started, "engine"), steps: []string{"start a container"}},
		"unknown to packages": {machine: with(root, "clock")},
		"not root": {machine: with(machine{apt: true}, "redis"),
			fails: "sudo apt-get install"},
		"not root, engine off": {machine: with(machine{apt: true, dockerd: true}, "engine"),
			fails: "sudo systemctl"},
		"not Debian": {machine: with(machine{root: true}, "redis"), fails: "neither Debian nor Ubuntu"},
		"everything": {machine: with(root, "engine", "docker client", "browser", "python", "debootstrap"),
			steps: []string{"update", "docker.io chromium", "install docker-cli", "start a container"}},
		"tests": {machine: with(root, "compiler", "curl"),
			steps: []string{"update", "gcc libc6-dev curl"}},
		"client": {machine: with(started, "docker client"),
			steps: []string{"update", "install docker-cli"}},
		"client, not root": {machine: with(machine{apt: true, dockerd: true}, "docker client"),
			fails: "sudo apt-get install -y --no-install-recommends docker-cli"},
		"not Debian, complete": {machine: machine{}},
		"kafka": {machine: with(root, "kafka"),
			steps: []string{"update", "install openjdk-17", "install -y --no-install-recommends maven",
				"Maven fetch the jars"}},
		"kafka, with Java": {machine: with(equipped, "kafka"), steps: []string{"Maven fetch the jars"}},
		"kafka, not root, with Java": {machine: with(machine{java: true, maven: true}, "kafka"),
			steps: []string{"Maven fetch the jars"}},
		"kafka, not root": {machine: with(machine{apt: true}, "kafka"),
			fails: "sudo apt-get install -y --no-install-recommends maven openjdk-17-jre-headless"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			steps, err := plan(c.machine)
			if (err != nil) != (c.fails != "") || err != nil && !strings.Contains(err.Error(), c.fails) {
				t.Fatalf("got %v, want %q", err, c.fails)
			}
			if len(steps) != len(c.steps) {
				t.Fatalf("got %d steps %v, want %d", len(steps), steps, len(c.steps))
			}
			for i, want := range c.steps {
				got := steps[i].say + " | " + strings.Join(steps[i].command, " ")
				if !strings.Contains(got, want) {
					t.Errorf("step %d is %q, want %q", i, got, want)
				}
			}
		})
	}
}

func TestLookAtInstallsWhatMatters(t *testing.T) {
	got := lookAt(t.Context(), []Check{
		{Name: "clock"}, {Name: "memory", Optional: true}, {Name: "redis", OK: true},
		{Name: "images", Optional: true}, {Name: "engine", Optional: true},
	})
	if len(got.missing) != 1 || got.missing[0] != "clock" {
		t.Errorf("missing %v, want only the clock", got.missing)
	}
}

func TestAvailableMemory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "meminfo")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("MemTotal: 9 kB\nMemAvailable:    2048 kB\n")
	if got, err := availableMemory(path); err != nil || got != 2<<20 {
		t.Errorf("got %d, %v", got, err)
	}
	for _, bad := range []string{"", "MemAvailable: lots kB\n", "MemAvailable:\n"} {
		write(bad)
		if _, err := availableMemory(path); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

// TestInstallAsks: where somebody can be asked, nothing is installed without a yes.
func TestInstallAsks(t *testing.T) {
	yes, no := func() bool { return true }, func() bool { return false }
	for name, c := range map[string]struct {
		agree func() bool
		done  int
		told  string
	}{
		"nobody to ask": {nil, 1, "1. mend it\n"},
		"yes":           {yes, 1, "1. mend it\n"},
		"no":            {no, 0, "1. mend it\nnothing was installed\n"},
	} {
		done := 0
		steps := []step{{say: "mend it", act: func(context.Context, machine, io.Writer) error {
			done++
			return nil
		}}}
		var out strings.Builder
		err := machine{}.install(t.Context(), steps, &out, c.agree)
		if err != nil || done != c.done || !strings.HasSuffix(out.String(), c.told) {
			t.Errorf("%s: done %d times, %v, told %q", name, done, err, out.String())
		}
	}
	never := func() bool { t.Error("asked, with nothing to install"); return true }
	if err := (machine{}).install(t.Context(), nil, io.Discard, never); err != nil {
		t.Error(err)
	}
}
