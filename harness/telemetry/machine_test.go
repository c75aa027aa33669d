package telemetry

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"stampede/harness/rundir"
)

// stat is a line of /proc/<pid>/stat of a program that has worked for some ticks, half of
// them its children.
func stat(program string, ticks int) string {
	return fmt.Sprintf("7 (%s) S 1 7 7 0 -1 4194560 0 0 0 0 %d 0 %d 0 20 0 1 0 100 0 0", program,
		ticks/2, ticks/2)
}

func proc(t *testing.T, machine string, programs ...string) string {
	t.Helper()
	dir := t.TempDir()
	files := map[string]string{"stat": machine, "sys/stat": stat("dockerd", 1000)}
	for i, program := range programs {
		files[fmt.Sprintf("%d/stat", i+1)] = program
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestReadMachine: work is what users and the kernel do, and container engines' is told
// apart.
func TestReadMachine(t *testing.T) {
	const two = "cpu  500 100 400 9000 50 60 70 80 9 9\ncpu0 1 1\ncpu1 1 1\nintr 5\n"
	got, err := readMachine(proc(t, two, stat("dockerd", 20), stat("postgres", 40),
		stat("docker-proxy", 6), stat("a) (dockerd", 10), "unreadable"))
	want := machine{busy: 10 * time.Second, engines: 260 * time.Millisecond, cores: 2}
	if err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	for _, bad := range []string{"", "cpu", "cpu 1 2", "cpu 1 x 3 4", "cpu 1 2 9999999999999 4",
		"intr 1 2 3 4"} {
		if got, err := readMachine(proc(t, bad)); err == nil {
			t.Errorf("%q is %+v", bad, got)
		}
	}
	if _, err := readMachine(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a machine without /proc was read")
	}
}

// TestOthers: what is neither ours nor an engine's is others', and never less than nothing.
func TestOthers(t *testing.T) {
	p := &Processor{machine: machine{busy: 100 * time.Second, engines: 10 * time.Second, cores: 2}}
	now := machine{busy: 120 * time.Second, engines: 13 * time.Second, cores: 2}
	ours := []rundir.ProcessorPart{{Name: "generator", NS: 4e9}, {Name: "redis", NS: 5e9}}
	got := p.others(now, 10*time.Second, ours)
	if *got != (rundir.Machine{SpanNS: 10e9, Cores: 2, OthersNS: 8e9}) || got.OthersShare() != 0.4 {
		t.Errorf("got %+v, a share of %v", got, got.OthersShare())
	}
	if got := p.others(now, time.Second, append(ours, ours...)); got.OthersNS != 0 {
		t.Errorf("others gave us %+v", got)
	}
	if share := (*rundir.Machine)(nil).OthersShare(); share != 0 {
		t.Errorf("of an unknown machine others took %v", share)
	}
}

func FuzzParseMachine(f *testing.F) {
	f.Add([]byte("cpu  500 100 400 9000 50 60 70 80 9 9\ncpu0 1 1\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if m, err := parseMachine(text); err == nil && m.busy < 0 {
			t.Errorf("%q is %+v", text, m)
		}
	})
}
