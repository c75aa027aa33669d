package processes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"stampede/harness/env"
	"stampede/harness/sut"
)

// pollEvery is how often a condition of the operating system is looked at.
const pollEvery = 2 * time.Millisecond

// stateBound is how long the kernel may take to stop or reap a process.
const stateBound = 30 * time.Second

// workingIn lists the processes whose working folder is dir or below it. A
// Postgres backend makes itself a session of its own, so no process group
// holds all of them, but every one of them works in the data folder.
func workingIn(dir string) ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var pids []int
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		cwd, err := os.Readlink(filepath.Join("/proc", entry.Name(), "cwd"))
		if err != nil {
			continue // it ended meanwhile, or is another user's
		}
		cwd = strings.TrimSuffix(cwd, " (deleted)")
		if cwd == dir || strings.HasPrefix(cwd, dir+"/") {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// signalAll sends a signal to every process; one that has ended is no error.
func signalAll(pids []int, sig syscall.Signal) error {
	for _, pid := range pids {
		if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("send %v to process %d: %w", sig, pid, err)
		}
	}
	return nil
}

// killAll ends first and then every process that works in dir with SIGKILL, until none is left, and
// returns them all. The parent goes first, so that it cannot fork another; its children may end
// because of that before a signal comes to them.
func killAll(ctx context.Context, first int, dir string) ([]int, error) {
	killed, err := workingIn(dir)
	if err == nil && first > 0 {
		err = signalAll([]int{first}, syscall.SIGKILL)
	}
	if err != nil {
		return nil, err
	}
	err = poll(ctx, stateBound, func() (bool, error) {
		pids, err := workingIn(dir)
		if err != nil {
			return false, err
		}
		for _, pid := range pids {
			if !slices.Contains(killed, pid) {
				killed = append(killed, pid)
			}
		}
		// A process that is ending has no folder any more, but is not over.
		over := len(pids) == 0 && !slices.ContainsFunc(killed, lives)
		return over, signalAll(pids, syscall.SIGKILL)
	})
	if err != nil {
		return killed, fmt.Errorf("kill the processes in %s: %w", dir, err)
	}
	if first > 0 && !slices.Contains(killed, first) {
		killed = append([]int{first}, killed...)
	}
	return killed, nil
}

// lives is false for a process that has ended, waited for or not.
func lives(pid int) bool {
	stat, err := env.StatOf(pid)
	return err == nil && !stat.Over()
}

// stopAll freezes every process that works in dir and returns them when all
// are in state T. The parent goes first, so that it cannot fork another.
func stopAll(ctx context.Context, first int, dir string) ([]int, error) {
	if err := syscall.Kill(first, syscall.SIGSTOP); err != nil {
		return nil, fmt.Errorf("stop process %d: %w", first, err)
	}
	var pids []int
	err := poll(ctx, stateBound, func() (bool, error) {
		var err error
		if pids, err = workingIn(dir); err != nil {
			return false, err
		}
		running := slices.DeleteFunc(slices.Clone(pids), stopped)
		return len(running) == 0 && len(pids) > 0, signalAll(running, syscall.SIGSTOP)
	})
	if err != nil {
		return pids, fmt.Errorf("stop the processes in %s: %w", dir, err)
	}
	return pids, nil
}

// stopped is true for a process in state T, and for one that has ended.
func stopped(pid int) bool {
	stat, err := env.StatOf(pid)
	return err != nil || stat.State == 'T' || stat.Over()
}

// continueAll thaws every process that works in dir.
func continueAll(dir string) error {
	pids, err := workingIn(dir)
	if err != nil {
		return err
	}
	return signalAll(pids, syscall.SIGCONT)
}

// poll asks until the answer is yes, an error, or the bound is over.
func poll(ctx context.Context, bound time.Duration, ask func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	for {
		done, err := ask()
		if done || err != nil {
			return err
		}
		if !sut.Pause(ctx, pollEvery) {
			return ctx.Err()
		}
	}
}

// CPU implements env.Metered: the time of every process that works in the data
// folder, and of those that have ended and were waited for. A process that has just ended
// is in neither sum until its parent has waited for it, so what was seen before counts
// until then: a smaller sum would look like a restart.
func (s *server) CPU(context.Context) (time.Duration, error) {
	if !s.mu.TryLock() { // it is being started or stopped
		return 0, fmt.Errorf("%s is being changed", s.service)
	}
	defer s.mu.Unlock()
	child, err := s.running()
	if err != nil {
		return 0, err
	}
	pids, err := workingIn(s.dir)
	if err != nil {
		return 0, err
	}
	used := time.Duration(0)
	for _, pid := range pids {
		if stat, err := env.StatOf(pid); err == nil { // else it has ended meanwhile
			used += stat.CPU + stat.Children
		}
	}
	child.used = max(child.used, used)
	return child.used, nil
}
