package rundir_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"stampede/harness/childtest"
	"stampede/harness/rundir"
)

func TestCreateNamesAndLinks(t *testing.T) {
	root := t.TempDir()
	d := create(t, root, "shop-rush")
	rel, err := filepath.Rel(root, d.Path())
	if err != nil {
		t.Fatal(err)
	}
	if want := "shop-rush/20261121T120000Z-7-" + d.ID(); rel != want || len(d.ID()) != 8 {
		t.Errorf("the run is at %s, want %s", rel, want)
	}
	second := create(t, root, "shop-rush")
	link, err := os.Readlink(filepath.Join(root, "shop-rush", rundir.Latest))
	if err != nil || link != filepath.Base(second.Path()) {
		t.Errorf("latest is %q (%v), want %s", link, err, filepath.Base(second.Path()))
	}
}

func TestCreateRefusesBadNames(t *testing.T) {
	for _, name := range []string{"", ".", "..", "a/b", "A", "a b", "-a", "latest/..",
		rundir.SearchFolder} {
		if _, err := rundir.Create(t.TempDir(), name, 1, noon); err == nil ||
			!strings.Contains(err.Error(), "cannot name a run directory") {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// A search has a folder for its runs, and is itself no run.
func TestCreateSearch(t *testing.T) {
	root := t.TempDir()
	d, err := rundir.CreateSearch(root, "shop-rush", 7, noon)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	want := filepath.Join(root, "knee", "shop-rush", "20261121T120000Z-7-"+d.ID())
	if d.Path() != want {
		t.Errorf("the search is at %s, want %s", d.Path(), want)
	}
	window, err := rundir.Create(d.File(rundir.WindowsFolder), "shop-rush", 7, noon)
	if err != nil {
		t.Fatal(err)
	}
	defer window.Close()
	if latest, err := filepath.EvalSymlinks(filepath.Join(root, "knee", "shop-rush",
		rundir.Latest)); err != nil || filepath.Base(latest) != filepath.Base(d.Path()) {
		t.Errorf("latest is %s (%v)", latest, err)
	}
	if runs, err := rundir.List(root); err != nil || len(runs) != 0 {
		t.Errorf("runs: %+v, %v", runs, err)
	}
}

func TestCreateReportsAnUnusableRoot(t *testing.T) {
	file := filepath.Join(t.TempDir(), "runs")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := rundir.Create(file, "a", 1, noon); err == nil ||
		!strings.Contains(err.Error(), "create run directory") {
		t.Errorf("a file as root gives %v", err)
	}
}

// TestTwoRunsNeverShareAFolder lets many runs with one time, one seed and one
// id race: exactly one gets the folder.
func TestTwoRunsNeverShareAFolder(t *testing.T) {
	root := t.TempDir()
	var mu sync.Mutex
	var won []*rundir.Dir
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			d, err := rundir.CreateWith(root, "a", 1, noon, bytes.NewReader(make([]byte, 4)))
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				won = append(won, d)
			case !errors.Is(err, fs.ErrExist):
				t.Errorf("a loser gets %v, want that the folder exists", err)
			}
		})
	}
	wg.Wait()
	for _, d := range won {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
	if len(won) != 1 {
		t.Errorf("%d runs share one folder", len(won))
	}
}

func TestRunsInOneSecondGetFoldersOfTheirOwn(t *testing.T) {
	root := t.TempDir()
	seen := make(map[string]bool)
	for range 20 {
		seen[create(t, root, "a").Path()] = true
	}
	if len(seen) != 20 {
		t.Errorf("20 runs have %d folders", len(seen))
	}
}

func TestLockIsExclusive(t *testing.T) {
	d := create(t, t.TempDir(), "a")
	_, err := rundir.Lock(d.Path())
	var busy *rundir.BusyError
	if !errors.As(err, &busy) || busy.PID != os.Getpid() {
		t.Fatalf("locking twice gives %v, want the writer's process id", err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := rundir.Lock(d.Path())
	if err != nil {
		t.Fatal(err)
	}
	if again.ID() != d.ID() {
		t.Errorf("id %s after locking again, want %s", again.ID(), d.ID())
	}
	if err := errors.Join(again.Close(), again.Close()); err != nil {
		t.Error(err)
	}
}

// holdEnv makes the test binary lock a directory and wait to be killed.
const holdEnv = "RUNDIR_TEST_HOLD"

func TestMain(m *testing.M) {
	path := os.Getenv(holdEnv)
	if path == "" {
		os.Exit(m.Run())
	}
	dir, err := rundir.Lock(path)
	if err != nil {
		os.Exit(1)
	}
	os.Stdout.WriteString("locked\n")
	io.Copy(io.Discard, os.Stdin) // until the parent ends or kills us
	runtime.KeepAlive(dir)        // a collected file is closed, which ends the lock
}

// TestLockOfADeadProcessIsFree kills a writer with SIGKILL, which can clean
// nothing up, and locks its directory.
func TestLockOfADeadProcessIsFree(t *testing.T) {
	d := create(t, t.TempDir(), "a")
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	holder, printed := childtest.Start(t, holdEnv, d.Path())
	if _, err := io.ReadFull(printed, make([]byte, len("locked\n"))); err != nil {
		t.Fatal(err)
	}
	var busy *rundir.BusyError
	if _, err := rundir.Lock(d.Path()); !errors.As(err, &busy) || busy.PID != holder.Process.Pid {
		t.Errorf("while process %d holds it: %v", holder.Process.Pid, err)
	}
	if err := holder.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	holder.Wait() // it was killed: the error says so
	again, err := rundir.Lock(d.Path())
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}

// TestFailedWriteLeavesTheOldFile writes halfway and fails.
func TestFailedWriteLeavesTheOldFile(t *testing.T) {
	d := create(t, t.TempDir(), "a")
	write := func(text string, err error) error {
		return d.WriteFile("summary.md", func(w io.Writer) error {
			if _, werr := io.WriteString(w, text); werr != nil {
				return werr
			}
			return err
		})
	}
	if err := write("whole", nil); err != nil {
		t.Fatal(err)
	}
	cause := errors.New("no more to say")
	if err := write(strings.Repeat("half", 1<<16), cause); !errors.Is(err, cause) {
		t.Errorf("the error is %v, want the cause in it", err)
	}
	data, err := os.ReadFile(d.File("summary.md"))
	if err != nil || string(data) != "whole" {
		t.Errorf("the file holds %.20q (%v), want what was there before", data, err)
	}
	mustHaveNoTemporaries(t, d.Path())
}

func mustHaveNoTemporaries(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if strings.Contains(path, ".tmp-") {
			t.Errorf("%s is left over", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestWritesRefuseWhatCannotBeRead(t *testing.T) {
	d := create(t, t.TempDir(), "a")
	contradiction := summary(d.ID())
	contradiction.Variants[0].Load.Dropped++
	nan := summary(d.ID())
	nan.Variants[0].ThroughputPerS = math.NaN()
	for what, err := range map[string]error{
		"scheduled 10 is not": d.WriteSummary(contradiction),
		"NaN":                 d.WriteSummary(nan),
		"not a path in":       d.WriteFile("../x", func(io.Writer) error { return nil }),
		"not valid JSON":      second(d.WriteAudit("naive", 0, []byte("{"))),
	} {
		if err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("got %v, want %q in it", err, what)
		}
	}
	if _, err := os.Stat(d.File(rundir.SummaryFile)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a summary was written all the same: %v", err)
	}
	mustHaveNoTemporaries(t, d.Path())
}

func second(_ string, err error) error { return err }

// TestNamesDoNotCollide: names are one element of a path each, and two
// variants or kinds never share a file.
func TestNamesDoNotCollide(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.String().Draw(t, "a"), rapid.String().Draw(t, "b")
		if strings.ContainsAny(rundir.Escape(a), "/.\x00") {
			t.Errorf("%q becomes %q", a, rundir.Escape(a))
		}
		if a != b && rundir.Escape(a) == rundir.Escape(b) {
			t.Errorf("%q and %q both become %q", a, b, rundir.Escape(a))
		}
	})
}

// TestNamesBesideDiscard: a scenario's folder may go while the runs are listed.
func TestNamesBesideDiscard(t *testing.T) {
	root := t.TempDir()
	done := make(chan error, 1)
	go func() {
		var err error
		for i := range 300 {
			d, createErr := rundir.Create(root, "flash-sale", uint64(i), time.Unix(1, 0))
			if err = createErr; err == nil {
				err = d.Discard()
			}
			if err != nil {
				break
			}
		}
		done <- err
	}()
	for {
		if _, err := rundir.Names(root); err != nil {
			t.Error(err)
		}
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			return
		default:
		}
	}
}

func TestDiscardLeavesNothing(t *testing.T) {
	root := t.TempDir()
	first, err := rundir.Create(root, "flash-sale", 1, time.Unix(1, 0))
	if err != nil {
		t.Fatal(err)
	}
	second, err := rundir.Create(root, "flash-sale", 2, time.Unix(2, 0))
	if err != nil {
		t.Fatal(err)
	}
	latest := filepath.Join(root, "flash-sale", rundir.Latest)
	for _, step := range []struct {
		discard *rundir.Dir
		want    string
	}{{second, filepath.Base(first.Path())}, {first, ""}} {
		if err := step.discard.Discard(); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(step.discard.Path()); !os.IsNotExist(err) {
			t.Errorf("the directory is still there: %v", err)
		}
		if got, _ := os.Readlink(latest); got != step.want {
			t.Errorf("latest is %q, want %q", got, step.want)
		}
	}
}
