package telemetry

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
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
	want := Machine{Busy: 10 * time.Second, Engines: 260 * time.Millisecond,
		Stolen: 800 * time.Millisecond, Cores: 2}
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

// TestForeignCPU: what is neither ours nor an engine's is foreign, and never less than
// nothing. What was used while somebody was not counted is nobody's in particular.
func TestForeignCPU(t *testing.T) {
	cores := runtime.GOMAXPROCS(0)
	ours := func(ns ...int64) []spending {
		list := make([]spending, len(ns))
		for i := range list {
			list[i] = spending{answers: 2, answered: true, total: time.Duration(ns[i])}
		}
		return list
	}
	p := &Processor{machine: Machine{Busy: 100 * time.Second, Engines: 10 * time.Second, Cores: cores},
		processors: cores, spent: ours(4e9, 5e9)}
	now := Machine{Busy: 120 * time.Second, Engines: 13 * time.Second, Cores: cores}
	got := p.foreignCPU(now, 10*time.Second)
	if *got != (rundir.Machine{SpanNS: 10e9, Cores: cores, OthersNS: 8e9}) ||
		got.OthersShare() != 0.8/float64(cores) {
		t.Errorf("got %+v, a share of %v", got, got.OthersShare())
	}
	p.spent[1].unseen = time.Second
	unknown := min(8e9, 1e9*int64(cores))
	if got := p.foreignCPU(now, time.Second); got.OthersNS != 8e9-unknown || got.UnknownNS != unknown {
		t.Errorf("for a second nobody knows: %+v", got)
	}
	p.spent = ours(4e9, 5e9, 9e9)
	if got := p.foreignCPU(now, time.Second); got.OthersNS != 0 {
		t.Errorf("foreign CPU time is %+v", got)
	}
	p.spent = ours(4e9, 5e9)
	p.spent[1].answered = false
	p.began, p.spent[1].at = time.Unix(100, 0), time.Unix(109, 0)
	got = p.foreignCPU(now, 10*time.Second)
	if got.UnknownNS != unknown || got.OthersMost() != 0.8/float64(cores) {
		t.Errorf("somebody did not answer in the last second: %+v", got)
	}
	p.spent[1] = spending{}
	if got := p.foreignCPU(now, 10*time.Second); got.OthersNS != max(0, 13e9-10e9*int64(cores)) {
		t.Errorf("somebody never answered: %+v", got)
	}
	p.spent = ours(4e9)
	now.Cores++
	if got := p.foreignCPU(now, time.Second); got != nil {
		t.Errorf("of a machine that is not all ours: %+v", got)
	}
	nobody := (*rundir.Machine)(nil)
	if nobody.OthersShare() != 0 || nobody.OthersMost() != 0 {
		t.Error("of an unknown machine others took something")
	}
}

// TestTakenUnderLoad: what other programs take is told while load is offered, for which this
// process has one processor more than there are.
func TestTakenUnderLoad(t *testing.T) {
	m, err := readMachine(procFS)
	if err != nil {
		t.Skipf("this machine does not say: %v", err)
	}
	before := runtime.GOMAXPROCS(m.Cores)
	defer runtime.GOMAXPROCS(before)
	p := CPU(nil)
	p.Whole(nil)
	runtime.GOMAXPROCS(m.Cores + 1)
	var parts []string
	for range 2 {
		values, err := p.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		parts = nil
		for _, v := range values {
			if v.Quantity == rundir.Taken {
				parts = append(parts, v.Part)
			}
		}
	}
	if !slices.Equal(parts, []string{rundir.Hypervisor, rundir.OtherPrograms}) {
		t.Errorf("under load it tells what %q took", parts)
	}
}

// TestUnseen: who is seen late, or starts anew, may have worked uncounted.
func TestUnseen(t *testing.T) {
	began := time.Unix(100, 0)
	at := func(s int) time.Time { return began.Add(time.Duration(s) * time.Second) }
	var s spending
	s.note(began, at(3), 5*time.Second)
	s.note(began, at(4), 6*time.Second)
	s.note(began, at(7), 2*time.Second) // it began at nothing
	if s.unseen != 6*time.Second || s.total != 3*time.Second {
		t.Errorf("%v were not seen, and %v used", s.unseen, s.total)
	}
	s = spending{}
	s.note(time.Time{}, at(0), 5*time.Second) // the first question
	if s.note(began, at(1), 5*time.Second); s.unseen != 0 {
		t.Errorf("%v were not seen", s.unseen)
	}
}

func FuzzParseMachine(f *testing.F) {
	f.Add([]byte("cpu  500 100 400 9000 50 60 70 80 9 9\ncpu0 1 1\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if m, err := parseMachine(text); err == nil && m.Busy < 0 {
			t.Errorf("%q is %+v", text, m)
		}
	})
}
