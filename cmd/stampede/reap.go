package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"stampede/harness/env/containers"
	"stampede/harness/env/kubernetes"
	"stampede/harness/plain"
)

// newID labels what a command starts.
func newID() string {
	var b [4]byte
	if _, err := rand.Read(b[:]); err != nil {
		panic(fmt.Sprintf("the system's random source failed: %v", err))
	}
	return hex.EncodeToString(b[:])
}

// guard starts a process, if one is needed, that removes a run's containers when this process is
// gone, however it ended, and its generators from a Kubernetes, unless place is nil.
// The guard waits for the end of a pipe that only this process holds. Local processes need no
// guard, the kernel ends them with their parent. The returned function ends the guard, which
// removes what is left unless that is to be kept.
func (a *app) guard(
	needed bool, runID string, place *kubernetes.Place,
) (func(keep bool) error, error) {
	if !needed {
		return func(bool) error { return nil }, nil
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program: %w", err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("making a pipe: %w", err)
	}
	args := []string{"reap", "--run", runID}
	if place != nil {
		args = append(args, "--context", place.Context, "--namespace", place.Namespace)
	}
	cmd := exec.Command(self, args...)
	var said bytes.Buffer
	cmd.Stdin, cmd.Stderr = read, &said
	// A group of its own: Ctrl-C on the terminal must not end the guard.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		read.Close()
		write.Close()
		return nil, fmt.Errorf("starting the guard: %w", err)
	}
	read.Close()
	return func(keep bool) error {
		var err error
		if keep {
			_, err = io.WriteString(write, keepWord)
		}
		write.Close()
		if wait := cmd.Wait(); wait != nil { // what was measured is none the worse for it
			a.logf("cleaning up after %s: %v: %s; `stampede clean` removes what is left", runID, wait,
				plain.Line(strings.TrimSpace(said.String())))
		}
		return err
	}, nil
}

// keepWord, written to the guard, tells it to remove nothing.
const keepWord = "keep"

// newReap is the guard's side.
func newReap() *cobra.Command {
	var runID string
	var place kubernetes.Place
	cmd := &cobra.Command{
		Use:    "reap",
		Short:  "Remove a run's containers when standard input ends",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			// What matters is the end, which an error is as well.
			said, _ := io.ReadAll(io.LimitReader(os.Stdin, 1<<10))
			if string(said) == keepWord {
				return nil
			}
			var err error
			if place.Namespace != "" {
				err = place.RemoveRun(context.Background(), runID)
			}
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			return errors.Join(err, containers.RemoveRun(ctx, runID))
		},
	}
	cmd.Flags().StringVar(&runID, "run", "", "the run's id")
	cmd.Flags().StringVar(&place.Context, "context", "", "the Kubernetes that its generators are on")
	cmd.Flags().StringVar(&place.Namespace, "namespace", "", "the namespace that they are in")
	return cmd
}
