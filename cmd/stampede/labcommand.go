package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// commandGrace is how long a command may take to end after SIGTERM where the process that
// started the lab has ended.
const commandGrace = 10 * time.Second

// labCommand runs a command with the addresses of stores in its environment. Its exit code is
// that of this program.
func (a *app) labCommand(f labFlags, command []string) error {
	path, err := exec.LookPath(command[0])
	if err != nil {
		return usage(fmt.Errorf("the command of the lab: %w", err))
	}
	stores, err := a.startLab(f)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(a.interrupts.soft, path, command[1:]...)
	cmd.Args[0] = command[0]
	cmd.Env = append(os.Environ(), stores.environ...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, a.stdout, a.stderr
	code, err := a.interrupts.runCommand(cmd)
	err = errors.Join(err, stores.close())
	switch {
	case code != exitOK:
		return &exitError{code: code, err: err}
	case err != nil:
		return a.failed(exitEnvironment, err)
	}
	return nil
}

// runCommand runs a command, which gets the signals in the place of this process, and returns
// its exit code, as a shell has it. An error says that it could not be started.
func (i *interrupts) runCommand(cmd *exec.Cmd) (code int, err error) {
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = commandGrace
	// The kernel kills the command when the thread that started it ends, which is with this
	// process: goroutine and thread stay together until then.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM,
		syscall.SIGUSR1, syscall.SIGUSR2)
	signal.Stop(i.signals)
	defer func() {
		signal.Notify(i.signals, os.Interrupt, syscall.SIGTERM)
		signal.Stop(signals)
		close(signals)
	}()
	if err := cmd.Start(); err != nil {
		return exitOK, err
	}
	go func() {
		for sig := range signals {
			if !fromKeyboard(sig) {
				_ = cmd.Process.Signal(sig) // an error says that it has ended
			}
		}
	}()
	err = cmd.Wait()
	if cmd.ProcessState == nil {
		return exitOK, err
	}
	status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if ok && status.Signaled() {
		return 128 + int(status.Signal()), nil
	}
	return cmd.ProcessState.ExitCode(), nil
}

// fromKeyboard says whether a signal is taken for one of the terminal, which sends Ctrl-C to each
// process of its foreground: a command that got it again would take it for a second one.
func fromKeyboard(sig os.Signal) bool {
	if sig != syscall.SIGINT && sig != syscall.SIGQUIT {
		return false
	}
	tty, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	defer tty.Close()
	group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}
