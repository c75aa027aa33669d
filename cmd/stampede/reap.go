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
// gone, however it ended, and its generators from a namespace of a Kubernetes, unless that is "".
// The guard waits for the end of a pipe that only this process holds. Local processes need no
// guard, the kernel ends them with their parent. The returned function ends the guard, which
// removes what is left unless that is to be kept.
func (a *app) guard(needed bool, runID, namespace string) (func(keep bool) error, error) {
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
	cmd := exec.Command(self, "reap", "--run", runID, "--namespace", namespace)
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
		if wait := cmd.Wait(); wait != nil {
			err = errors.Join(err, fmt.Errorf("%w: %s", wait, plain.Line(strings.TrimSpace(said.String()))))
		}
		return err
	}, nil
}

// keepWord, written to the guard, tells it to remove nothing.
const keepWord = "keep"

// newReap is the guard's side.
func newReap() *cobra.Command {
	var runID, namespace string
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
			if namespace != "" {
				err = kubernetes.RemoveRun(context.Background(), namespace, runID)
			}
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			return errors.Join(err, containers.RemoveRun(ctx, runID))
		},
	}
	cmd.Flags().StringVar(&runID, "run", "", "the run's id")
	cmd.Flags().StringVar(&namespace, "namespace", "", "where its generators are on a Kubernetes")
	return cmd
}
