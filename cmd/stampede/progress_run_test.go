package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"stampede/harness/events"
	"stampede/harness/rundir"
	"stampede/harness/schema/schematest"
)

// smallSale is a whole run on a local Postgres, in a few seconds. What a machine with
// much else to do makes of its verdicts is of no matter.
const smallSale = `
name: flash-sale-small
question: Can it be followed?
system: flashsale
variants: [units_skip_locked, conditional_update]
baseline: units_skip_locked
params: {items: 1, units: 10, cart_ttl: 300ms, reclaim_every: 30ms, pay_delay: 20ms, pay_spread: 50ms, late_spread: 50ms}
load:
  arrival: {process: constant, rate: 800, over: 2500ms}
  max_in_flight: 64
  timeout: 5s
  drain: 20s
provokes: [load]
`

// command is this binary as stampede, in a folder of its own with the scenario
// small.yaml, and with variables beside those of a user at a terminal.
func command(t *testing.T, variables []string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "small.yaml"), []byte(smallSale), 0o644); err != nil {
		t.Fatal(err)
	}
	//nolint:usetesting // Postgres runs as another user, who may not enter t.TempDir
	data, err := os.MkdirTemp("/var/tmp", "stampede-test-*")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(data) })
	if err := os.Chmod(data, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Args[0] = "stampede"
	cmd.Dir = dir
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains([]string{"CI", "GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY", "NO_COLOR",
			"FORCE_COLOR", "CLICOLOR_FORCE"}, name) || strings.HasPrefix(name, "STAMPEDE_")
	})
	cmd.Env = append(cmd.Env, "STAMPEDE_TEST_AS_COMMAND=1", "TERM=xterm", "STAMPEDE_DATA_DIR="+data)
	cmd.Env = append(cmd.Env, variables...)
	return cmd
}

// onTerminal runs a command on a pseudo-terminal of 100 columns and gives every
// piece of its output, as it comes, to see, which returns what is then typed.
func onTerminal(t *testing.T, cmd *exec.Cmd, see func(all string) string) (out string, code int) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	control := int(master.Fd())
	number, err := unix.IoctlGetInt(control, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(control, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(control, unix.TIOCSWINSZ, &unix.Winsize{Row: 30, Col: 100})
	}
	if err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	err = cmd.Start()
	_ = slave.Close()
	if err != nil {
		t.Fatal(err)
	}
	all, buffer := &strings.Builder{}, make([]byte, 4096)
	for {
		n, err := master.Read(buffer)
		all.Write(buffer[:n])
		if typed := see(all.String()); typed != "" {
			if _, err := io.WriteString(master, typed); err != nil {
				t.Error(err)
			}
		}
		if err != nil { // EIO: the other side is closed
			break
		}
	}
	code, err = exitStatus(cmd.Wait())
	if err != nil {
		t.Fatal(err)
	}
	return all.String(), code
}

// screenOf is what a terminal shows in the end, and whether its cursor is hidden.
func screenOf(t *testing.T, out string) (shown string, hidden bool) {
	t.Helper()
	v := newTerminal(t, 100, 30)
	_, _ = io.WriteString(v, out)
	return v.all(), v.hidden
}

func nothing(string) string { return "" }

func small(args ...string) []string {
	return append([]string{"run", "small.yaml", "--backend", "processes", "--seed", "7", "--fail-on",
		"invariant", "--noise-floor=false", "--again", "0"}, args...)
}

// TestRunOnATerminal: a block while it runs, nothing of it afterwards.
func TestRunOnATerminal(t *testing.T) {
	t.Parallel()
	out, code := onTerminal(t, command(t, nil, small()...), nothing)
	if code != exitOK && code != exitUndecided {
		t.Errorf("exit code %d", code)
	}
	for _, want := range []string{regexp.QuoteMeta(hideCursor), "▶", " units_skip_locked   ",
		"steady", "/2\\.5s", "/s due, ", "\x1b\\[2m· conditional_update  waiting", "at least", "about ",
		"\x1b\\[3[123]m(holds|VIOLATED|NOT EXERCISED|undecided|FAIL|INVALID)\x1b"} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("no %q in\n%q", want, out)
		}
	}
	shown, hidden := screenOf(t, out)
	if hidden || strings.Contains(shown, "▶") || strings.Contains(shown, "waiting") ||
		strings.Contains(shown, "backend: processes") ||
		!strings.Contains(shown, "\nthis takes about ") ||
		!strings.Contains(shown, "\nOpen the report: stampede open flash-sale-small") ||
		!strings.Contains(shown, "\nRESULT flash-sale-small") {
		t.Errorf("hidden %v; the terminal shows\n%s", hidden, shown)
	}
}

// TestInterruptOnATerminal: the cursor is back after one Ctrl-C and after two.
func TestInterruptOnATerminal(t *testing.T) {
	t.Parallel()
	for _, times := range []int{1, 2} {
		typed := 0
		// What is in a cart keeps the second run from settling.
		ttl := []string{"300ms", "60s"}[times-1]
		out, code := onTerminal(t, command(t, nil, small("--set", "load.arrival.over=10m", "--set",
			"params.cart_ttl="+ttl, "--set", "params.pay_delay="+ttl)...),
			func(all string) string {
				if typed == times || !strings.Contains(all, "p99") ||
					typed == 1 && !strings.Contains(all, "stopping") {
					return ""
				}
				typed++
				return "\x03"
			})
		shown, hidden := screenOf(t, out)
		if code != exitInterrupted || hidden || typed != times {
			t.Errorf("%d times: exit code %d, cursor hidden %v\n%s", typed, code, hidden, shown)
		}
		if judged := strings.Contains(shown, "INTERRUPTED"); judged != (times == 1) {
			t.Errorf("%d times: judged %v\n%s", times, judged, shown)
		}
	}
}

// TestQuitOnATerminal: the cursor is back after Ctrl-\ and before what Go says then, and
// after Ctrl-Z, which without a shell stops nothing.
func TestQuitOnATerminal(t *testing.T) {
	t.Parallel()
	typed := ""
	out, _ := onTerminal(t, command(t, nil, small("--set", "load.arrival.over=10m")...),
		func(all string) string {
			next := ""
			switch {
			case typed == "" && strings.Contains(all, "steady"):
				next = "\x1a"
			case typed == "\x1a" && strings.Contains(all, showCursor) &&
				strings.LastIndex(all, hideCursor) > strings.Index(all, showCursor):
				next = "\x1c"
			}
			typed += next
			return next
		})
	shown := strings.LastIndex(out, showCursor)
	if typed != "\x1a\x1c" || shown < strings.LastIndex(out, hideCursor) ||
		shown > strings.Index(out, "SIGQUIT") {
		t.Errorf("typed %q, then\n%q", typed, out)
	}
}

// TestNoEscapes where they would only be in the way.
func TestNoEscapes(t *testing.T) {
	t.Parallel()
	for _, variables := range [][]string{{"TERM=dumb"}, {"TERM="}, {"CI=true", "NO_COLOR=1"}} {
		out, code := onTerminal(t, command(t, variables, small("--design", "units_skip_locked")...),
			nothing)
		if strings.Contains(out, "\x1b") || !strings.Contains(out, "[1/1] units_skip_locked  ") ||
			strings.Contains(out, ": steady") {
			t.Errorf("%q: exit code %d\n%q", variables, code, out)
		}
	}
	cmd := command(t, nil, small("--design", "units_skip_locked")...)
	out, err := cmd.CombinedOutput()
	if code, _ := exitStatus(err); code != exitOK && code != exitUndecided ||
		bytes.Contains(out, []byte("\x1b")) {
		t.Errorf("into a pipe: %v\n%q", err, out)
	}
}

// TestStreamOfARun: what --format json prints, and what the run's folder keeps, is
// taken by the strict decoder and by the schema, and adds up to the run.
func TestStreamOfARun(t *testing.T) {
	t.Parallel()
	cmd := command(t, nil, small("--format", "json")...)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if code, _ := exitStatus(err); code != exitOK && code != exitUndecided || errs.Len() > 0 {
		t.Fatalf("%v\n%s", err, errs.String())
	}
	told := decoded(t, out)
	last := told[len(told)-1]
	if last.Type != events.Result || last.Result.Summary.Run.ID != last.RunID ||
		last.Result.Exit != cmd.ProcessState.ExitCode() {
		t.Errorf("the last event is %+v", last)
	}
	kept, err := os.ReadFile(filepath.Join(cmd.Dir, last.Result.Directory, events.FileName))
	if err != nil {
		t.Fatal(err)
	}
	var progress events.Progress
	for _, e := range decoded(t, kept) {
		if e.RunID != last.RunID || e.Result != nil {
			t.Errorf("kept: %+v", e)
		}
		progress.Add(e)
	}
	if len(progress.Lines) != 2 || progress.Done() != 2 || progress.Judged == nil ||
		progress.Judged.Verdict.Overall != last.Result.Summary.Verdict.Overall ||
		filepath.Base(progress.Report) != rundir.ReportFile {
		t.Errorf("the events add up to %+v", progress)
	}
	for _, v := range last.Result.Summary.Variants {
		i := slices.IndexFunc(progress.Lines, func(l events.VariantLine) bool {
			return l.Variant == v.Name
		})
		if i < 0 || progress.Lines[i].Tick.Load != v.Load || len(progress.Lines[i].Trace) < 2 {
			t.Errorf("%s: %+v of %+v", v.Name, v.Load, progress.Lines)
		}
	}
	if text, err := os.ReadFile(filepath.Join(cmd.Dir, progress.Report)); err != nil ||
		!bytes.Contains(text, []byte("<!doctype html>")) {
		t.Errorf("the report: %v", err)
	}
	types := []events.Type{}
	for _, e := range told {
		if e.Type != events.Load && !slices.Contains(types, e.Type) {
			types = append(types, e.Type)
		}
	}
	if !slices.Equal(types, []events.Type{events.Log, events.RunStarted, events.Environment,
		events.RepeatStarted, events.PhaseBegun, events.RepeatDone, events.RunDone,
		events.ReportWritten, events.Result}) {
		t.Errorf("the types come as %q", types)
	}
}

// TestStreamWithoutAReader: when whoever reads has gone, the run is judged and reported,
// as after Ctrl-C.
func TestStreamWithoutAReader(t *testing.T) {
	t.Parallel()
	cmd := command(t, nil, small("--format", "json", "--set", "load.arrival.over=10m")...)
	errs := &strings.Builder{}
	cmd.Stderr = errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if strings.Contains(lines.Text(), `"type":"load"`) {
			break
		}
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	code, err := exitStatus(cmd.Wait())
	if err != nil || code != exitInterrupted || !strings.Contains(errs.String(), "closed its pipe") {
		t.Errorf("exit code %d, %v\n%s", code, err, errs)
	}
	if _, err := os.Stat(filepath.Join(cmd.Dir, "runs", "flash-sale-small", rundir.Latest,
		rundir.ReportFile)); err != nil {
		t.Error(err)
	}
}

// TestStreamOfAFailure: it ends with why there is no result.
func TestStreamOfAFailure(t *testing.T) {
	t.Parallel()
	cmd := command(t, []string{"PATH=/nowhere"}, small("--format", "json", "--backend", "external",
		"--postgres-url", "postgres://u:p@127.0.0.1:1/x")...)
	out, err := cmd.Output()
	told := decoded(t, out)
	if code, _ := exitStatus(err); code != exitEnvironment || len(told) < 2 ||
		told[len(told)-1].RunFailed == nil {
		t.Errorf("%v\n%s", err, out)
	}
	failures := 0
	for _, e := range told {
		if e.RunFailed != nil {
			failures++
		}
	}
	if failures != 1 {
		t.Errorf("%d failures were told\n%s", failures, out)
	}
}

// decoded reads events and holds each against the schema.
func decoded(t *testing.T, lines []byte) (found []events.Event) {
	t.Helper()
	s := schematest.Compile(t, events.Schema())
	for line := range bytes.Lines(lines) {
		e, err := events.Decode(line)
		if err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if err := s.JSON(line); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		found = append(found, e)
	}
	return found
}
