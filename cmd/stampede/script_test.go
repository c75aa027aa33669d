package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"stampede/harness/env"
	"stampede/harness/env/containers"
	"stampede/harness/sut"
)

// patience bounds what a script waits for.
const patience = time.Minute

// condition is what scripts can ask for in brackets: "engine", that stores can
// run in containers or must, "image", that roles can or must, "mount", that file
// systems can be mounted, "swarm" and "kubernetes", that such a cluster is up, and "ci", that
// nothing may be skipped.
func condition(name string) (bool, error) {
	ci := os.Getenv("CI") != ""
	switch name {
	case "ci":
		return ci, nil
	case "swarm":
		return os.Getenv(swarmVariable) != "", nil
	case "kubernetes":
		return os.Getenv(kubernetesVariable) != "", nil
	case "mount":
		return canMount(), nil
	case "image":
		if os.Getenv("STAMPEDE_REQUIRE_IMAGE") != "" {
			return true, nil
		}
		launcher := &containers.Launcher{}
		ok := launcher.Available(context.Background()) == nil
		return ok, launcher.Close()
	case "engine":
		if ci || os.Getenv("STAMPEDE_REQUIRE_ENGINE") != "" {
			return true, nil
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		spec := env.Spec{Services: []sut.Service{sut.Postgres, sut.Redis}}
		ok, _ := containers.New().Available(ctx, spec)
		return ok, nil
	default:
		return false, fmt.Errorf("unknown condition %q", name)
	}
}

// exits is the command "exits CODE[,CODE...] ARGS...": stampede with these
// arguments must end with one of these exit codes.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE[,CODE...] ARGS...")
	}
	code, err := exitStatus(ts.Exec("stampede", args[1:]...))
	ts.Check(err)
	if !slices.Contains(strings.Split(args[0], ","), strconv.Itoa(code)) {
		ts.Fatalf("stampede exited with %d, want %s", code, args[0])
	}
}

// exitStatus is the exit code in what running a program returned, -1 if a
// signal ended it.
func exitStatus(err error) (int, error) {
	if err == nil {
		return 0, nil
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode(), nil
	}
	return 0, fmt.Errorf("running stampede: %w", err)
}

// damage is the command "damage RUN": it flips a byte in the middle of every
// history of a run directory.
func damage(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: damage RUN")
	}
	files, err := filepath.Glob(filepath.Join(ts.MkAbs(args[0]), "history", "*.history"))
	ts.Check(err)
	if len(files) == 0 {
		ts.Fatalf("%s has no histories", args[0])
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		ts.Check(err)
		data[len(data)/2] ^= 0xff
		ts.Check(os.WriteFile(file, data, 0o644))
	}
}

// interrupt is the command "interrupt SIGNAL CODE TIMES ARGS...": stampede
// with these arguments gets the signal so often once it has recorded
// something, must end with that exit code (-1: by the signal), and must leave
// no process, and no container or volume if it uses some. Its standard output
// goes to the file "out".
func interrupt(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 4 {
		ts.Fatalf("usage: interrupt SIGNAL CODE TIMES ARGS...")
	}
	signal := map[string]syscall.Signal{"INT": syscall.SIGINT, "TERM": syscall.SIGTERM,
		"KILL": syscall.SIGKILL}[args[0]]
	times, err := strconv.Atoi(args[2])
	ts.Check(err)
	before := runsOf(ts)
	cmd, done := launch(ts, args[3:])
	run := awaitRun(ts, before, done, recorded)
	id := run[strings.LastIndexByte(run, '-')+1:]
	inContainers := strings.Contains(strings.Join(args, " "), env.Containers)
	if inContainers && len(containersOf(ts, id)) == 0 {
		ts.Fatalf("the run %s has no container that could stay", id)
	}
	for range times {
		ts.Check(cmd.Process.Signal(signal))
	}
	code, err := exitStatus(await(ts, cmd, done))
	ts.Check(err)
	if strconv.Itoa(code) != args[1] {
		ts.Fatalf("stampede exited with %d, want %s\n%s%s", code, args[1],
			ts.ReadFile("out"), ts.ReadFile("err"))
	}
	awaitNone(ts, func() []string { return processesOf(id) })
	if inContainers {
		awaitNone(ts, func() []string { return containersOf(ts, id) })
	}
}

// launch starts stampede in the background.
func launch(ts *testscript.TestScript, args []string) (*exec.Cmd, chan error) {
	out, err := os.Create(ts.MkAbs("out"))
	ts.Check(err)
	defer out.Close()
	errs, err := os.Create(ts.MkAbs("err"))
	ts.Check(err)
	defer errs.Close()
	// The script's command, which children of stampede are as well.
	self := filepath.Join(strings.Split(ts.Getenv("PATH"), ":")[0], "stampede")
	cmd := exec.Command(self, args...)
	// The test binary acts as the command that its name says.
	cmd.Args[0] = "stampede"
	cmd.Dir, cmd.Stdout, cmd.Stderr = ts.MkAbs("."), out, errs
	cmd.Env = append(os.Environ(), "STAMPEDE_TEST_AS_COMMAND=1")
	ts.Check(cmd.Start())
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	return cmd, done
}

func await(ts *testscript.TestScript, cmd *exec.Cmd, done chan error) error {
	select {
	case err := <-done:
		return err
	case <-time.After(patience):
		ts.Check(cmd.Process.Kill())
		<-done
		ts.Fatalf("stampede did not end within %s\n%s", patience, ts.ReadFile("err"))
		return nil
	}
}

// runsOf lists the run directories that there are.
func runsOf(ts *testscript.TestScript) map[string]bool {
	runs := map[string]bool{}
	found, err := filepath.Glob(filepath.Join(ts.MkAbs("runs"), "*", "*-*"))
	ts.Check(err)
	for _, run := range found {
		runs[run] = true
	}
	return runs
}

// awaitRun waits until there is a new run that has come so far, and returns its path.
func awaitRun(
	ts *testscript.TestScript, before map[string]bool, done chan error, far func(run string) bool,
) string {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		for run := range runsOf(ts) {
			if !before[run] && far(run) {
				return run
			}
		}
		select {
		case err := <-done:
			ts.Fatalf("stampede ended early: %v\n%s", err, ts.ReadFile("err"))
		case <-time.After(20 * time.Millisecond):
		}
	}
	ts.Fatalf("no run came so far within %s\n%s", patience, ts.ReadFile("err"))
	return ""
}

// recorded says whether a run has a history with records in it.
func recorded(run string) bool {
	files, _ := filepath.Glob(filepath.Join(run, "history", "*.history")) // the pattern is right
	return slices.ContainsFunc(files, func(file string) bool {
		info, err := os.Stat(file)
		return err == nil && info.Size() > 2000
	})
}

// awaitNone waits until nothing is left.
func awaitNone(ts *testscript.TestScript, list func() []string) {
	var left []string
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		if left = list(); len(left) == 0 {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	ts.Fatalf("still there: %v", left)
}

// containersOf lists the containers and volumes that are labelled with a run's
// id.
func containersOf(ts *testscript.TestScript, id string) []string {
	var found []string
	for _, list := range []string{"ps -aq", "volume ls -q"} {
		args := append(strings.Fields(list), "--filter", "label=stampede.run="+id)
		out, err := exec.Command("docker", args...).Output()
		ts.Check(err)
		found = append(found, strings.Fields(string(out))...)
	}
	return found
}

// processesOf lists the processes that have a run's id in their command line
// or their working directory.
func processesOf(id string) []string {
	var found []string
	procs, _ := filepath.Glob("/proc/[0-9]*")
	for _, proc := range procs {
		// A process that ended meanwhile has neither.
		cmdline, _ := os.ReadFile(filepath.Join(proc, "cmdline"))
		cwd, _ := os.Readlink(filepath.Join(proc, "cwd"))
		if strings.Contains(string(cmdline)+cwd, id) {
			found = append(found, filepath.Base(proc)+" "+
				strings.ReplaceAll(string(cmdline), "\x00", " "))
		}
	}
	return found
}
