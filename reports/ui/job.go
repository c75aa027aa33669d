package ui

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"stampede/harness/events"
)

// job is a run that was started here, as a process of its own.
type job struct {
	scenario string
	args     []string
	// done is closed when the process has ended, known when its run directory is
	// known or it has ended.
	done, known chan struct{}

	pid int

	mu         sync.Mutex
	directory  string
	said       []byte // the end of its standard error
	failed     string // why there is no result, as its events tell
	code       int    // its exit code
	interrupts int
	over       bool // nothing is left to be signalled
}

// kill is the interrupt that cannot be ignored: Ctrl-C, Ctrl-C again, kill.
const kill = 3

// tailBytes is how much of what a process said is kept.
const tailBytes = 8 << 10

// startJob starts stampede in a process group of its own: Ctrl-C on this terminal
// reaches it through us. When this process dies in whatever way, the run finds that
// nobody reads its events, and ends as after Ctrl-C. (The kernel's signal at the death
// of a parent comes once for each thread that dies, so that it counts as several.)
func startJob(cmd *exec.Cmd, scenario string) (*job, error) {
	j := &job{scenario: scenario, args: cmd.Args, done: make(chan struct{}),
		known: make(chan struct{})}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Stderr = (*tailWriter)(j)
	// Who outlives the process may hold its standard error.
	cmd.WaitDelay = politeness
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", scenario, err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", scenario, err)
	}
	j.pid = cmd.Process.Pid
	go func() {
		defer close(j.done)
		j.follow(out)
		j.await()
		j.noteEnd(cmd.Wait(), cmd)
	}()
	return j, nil
}

// follow reads the events that the process tells until it has ended.
func (j *job) follow(out io.Reader) {
	lines := bufio.NewReader(out)
	known := sync.OnceFunc(func() { close(j.known) })
	defer known()
	for {
		line, err := lines.ReadBytes('\n')
		if e, decodeErr := events.Decode(bytes.TrimSpace(line)); decodeErr == nil {
			j.mu.Lock()
			switch {
			case e.RunStarted != nil:
				j.directory = e.RunStarted.Directory
				known()
			case e.RunFailed != nil:
				j.failed = e.RunFailed.Error
			}
			j.mu.Unlock()
		}
		if err != nil {
			return
		}
	}
}

// await waits until the process has ended, and lets nobody signal it any more: its
// number may be another's as soon as somebody has asked how it ended.
func (j *job) await() {
	for {
		err := unix.Waitid(unix.P_PID, j.pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.over = true
}

// noteEnd keeps how the process ended.
func (j *job) noteEnd(err error, cmd *exec.Cmd) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.code = cmd.ProcessState.ExitCode()
	_, exited := errors.AsType[*exec.ExitError](err)
	if err != nil && !exited && !errors.Is(err, exec.ErrWaitDelay) {
		j.failed = err.Error()
	}
}

// ended says whether the process is over.
func (j *job) ended() bool {
	select {
	case <-j.done:
		return true
	default:
		return false
	}
}

// interrupt is Ctrl-C: the first time what happened is judged, the second time the
// process leaves at once, and the third time it and its group are killed. It is only
// sent if there were so many before; otherwise whoever asks does not know what has
// happened. It returns how many there are now, and whether it was sent.
func (j *job) interrupt(before int) (times int, sent bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.over || j.interrupts != before {
		return j.interrupts, false
	}
	j.interrupts++
	if j.interrupts < kill {
		_ = syscall.Kill(j.pid, syscall.SIGINT) // it may just have ended
	} else {
		_ = syscall.Kill(-j.pid, syscall.SIGKILL)
	}
	return j.interrupts, true
}

// waitKnown waits a little for the run directory.
func (j *job) waitKnown(patience time.Duration) {
	select {
	case <-j.known:
	case <-time.After(patience):
	}
}

// jobState is a job at one moment.
type jobState struct {
	Scenario, Command string
	// Told is its directory as it has told it, the scenario's folder and its own name;
	// Directory is the same while that is there. Both are "" before.
	Told, Directory  string
	Ended            bool
	Code, Interrupts int
	// Gone says that it told why there is no result; Failed is that, or else what it
	// said last.
	Gone   bool
	Failed string
}

// NotRun says that it came to nothing and has left nothing.
func (s jobState) NotRun() bool {
	return s.Ended && s.Directory == "" && (s.Told == "" || s.Gone)
}

func (j *job) state() jobState {
	ended := j.ended()
	j.mu.Lock()
	defer j.mu.Unlock()
	s := jobState{Scenario: j.scenario, Command: strings.Join(j.args[1:], " "), Ended: ended,
		Code: j.code, Interrupts: j.interrupts, Failed: j.failed,
		Gone: j.failed != ""}
	if j.directory != "" {
		parent, name := filepath.Split(j.directory)
		s.Told = filepath.Base(parent) + "/" + name
	}
	if s.Failed == "" {
		s.Failed = strings.TrimSpace(string(j.said))
	}
	return s
}

// tailWriter keeps the end of what is written.
type tailWriter job

// Write keeps the end of p, and of what was before.
func (w *tailWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.said = append(w.said, p...)
	w.said = bytes.Clone(w.said[max(0, len(w.said)-tailBytes):])
	return len(p), nil
}
