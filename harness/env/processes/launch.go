package processes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"stampede/harness/env"
)

// Launcher executes a program of this machine again and again, each time as a
// child in a process group of its own that dies with us.
type Launcher struct {
	// Command is the program with its first arguments.
	Command []string
	// Environ is added to the environment of each child, as KEY=value.
	Environ []string
}

var _ env.Launcher = Launcher{}

// Available implements env.Launcher.
func (l Launcher) Available(context.Context) error {
	if len(l.Command) == 0 {
		return errors.New("processes: this program does not know where it is")
	}
	return nil
}

// Launch implements env.Launcher. The child works in the folder of its log.
func (l Launcher) Launch(ctx context.Context, p env.Program) (env.Process, error) {
	if err := l.Available(ctx); err != nil {
		return nil, err
	}
	log, err := filepath.Abs(p.Log)
	if err != nil {
		return nil, fmt.Errorf("launch %s: %w", p.Name, err)
	}
	file, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("launch %s: %w", p.Name, err)
	}
	defer file.Close() // the child keeps its own
	args := append(append([]string(nil), l.Command[1:]...), p.Args...)
	cmd := exec.Command(l.Command[0], args...)
	cmd.Dir, cmd.Env, cmd.Stderr = filepath.Dir(log), append(environment(), l.Environ...), file
	process, err := spawnPiped(cmd)
	if err != nil {
		return nil, fmt.Errorf("launch %s: %w", p.Name, err)
	}
	return process, nil
}

// Close implements env.Launcher: there is nothing to give back.
func (Launcher) Close() error { return nil }

// spawnPiped starts a command with pipes of ours as its input and output. They
// are not those of os/exec, which Wait closes before all is read.
func spawnPiped(cmd *exec.Cmd) (_ *launched, err error) {
	theirs, input, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	output, printed, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, input.Close())
	}
	defer printed.Close()
	cmd.Stdin, cmd.Stdout = theirs, printed
	c, err := spawn(cmd, nil, syscall.SIGKILL)
	if err != nil {
		return nil, errors.Join(err, input.Close(), output.Close())
	}
	return &launched{child: c, cmd: cmd, input: input, output: output}, nil
}

// launched is a child that talks to us.
type launched struct {
	*child
	cmd    *exec.Cmd
	input  io.WriteCloser
	output io.ReadCloser
}

func (l *launched) PID() int              { return l.pid }
func (l *launched) Input() io.WriteCloser { return l.input }
func (l *launched) Output() io.ReadCloser { return l.output }
func (l *launched) Done() <-chan struct{} { return l.done }

// signal sends a signal to the child's process group; one that has ended is no
// error.
func (l *launched) signal(sig syscall.Signal) error {
	if env.Ended(l.done) {
		return nil
	}
	if err := syscall.Kill(-l.pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("send %v to process %d: %w", sig, l.pid, err)
	}
	return nil
}

func (l *launched) Kill(context.Context) error {
	if err := l.signal(syscall.SIGKILL); err != nil {
		return err
	}
	select {
	case <-l.done:
		return nil
	case <-time.After(stateBound):
		return fmt.Errorf("process %d has not ended %v after SIGKILL", l.pid, stateBound)
	}
}

func (l *launched) Terminate(context.Context) error { return l.signal(syscall.SIGTERM) }

func (l *launched) Pause(ctx context.Context) error {
	if err := l.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	err := poll(ctx, stateBound, func() (bool, error) { return stopped(l.pid), nil })
	if err != nil {
		return fmt.Errorf("stop process %d: %w", l.pid, err)
	}
	return nil
}

func (l *launched) Resume(context.Context) error { return l.signal(syscall.SIGCONT) }

func (l *launched) How() env.End {
	<-l.done
	status, ok := l.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return env.End{Code: l.cmd.ProcessState.ExitCode(), Text: l.cmd.ProcessState.String(),
		Killed: ok && status.Signaled() && status.Signal() == syscall.SIGKILL}
}
