package doctor

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPolicyIsRemovedByWhoHoldsIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy-rc.d")
	restore, err := keepServicesDown(path)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("the policy is %v, %v", info, err)
	}
	other, err := keepServicesDown(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(other(), dropLeftPolicy(path, io.Discard)); err != nil {
		t.Error(err)
	}
	expectFile(t, path, policy) // the first is still at work
	if err := errors.Join(restore(), restore()); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 0 {
		t.Errorf("%v are left, %v", left, err)
	}
}

// TestPolicyOfTheDeadIsOurs finds what a doctor who was killed has left.
func TestPolicyOfTheDeadIsOurs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy-rc.d")
	for name, end := range map[string]func() error{
		"next installation": func() error {
			restore, err := keepServicesDown(path)
			if err != nil {
				return err
			}
			expectFile(t, path, policy)
			return restore()
		},
		"nothing to install": func() error { return dropLeftPolicy(path, io.Discard) },
	} {
		if err := os.WriteFile(path, []byte(policy), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := end(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: the policy is still there: %v", name, err)
		}
	}
}

func TestPolicyOfTheAdministratorStays(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy-rc.d")
	for _, theirs := range []string{"#!/bin/sh\nexit 0\n", policy + "# mine\n", ""} {
		if err := os.WriteFile(path, []byte(theirs), 0o755); err != nil {
			t.Fatal(err)
		}
		restore, err := keepServicesDown(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(restore(), dropLeftPolicy(path, io.Discard)); err != nil {
			t.Error(err)
		}
		expectFile(t, path, theirs)
	}
	if _, err := keepServicesDown(filepath.Join(path, "below a file")); err == nil {
		t.Error("where no policy can be made services could start, and nobody is told")
	}
}

func expectFile(t *testing.T, path, want string) {
	t.Helper()
	if got, err := os.ReadFile(path); err != nil || string(got) != want {
		t.Errorf("%s has %q, %v, want %q", path, got, err, want)
	}
}

// TestCommandMayFinish interrupts a program that, as apt-get does, finishes
// what it is at before it ends.
func TestCommandMayFinish(t *testing.T) {
	dir := t.TempDir()
	started, finished := filepath.Join(dir, "started"), filepath.Join(dir, "finished")
	over := errors.New("it is over")
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- command(ctx, io.Discard, "sh", "-c",
			`trap 'echo done >`+finished+`; exit 0' INT
			: >`+started+`
			while :; do sleep 0.01; done`)
	}()
	for !exists(started) && len(ended) == 0 { // go test's own timeout bounds this
	}
	cancel(over)
	err := <-ended
	if !errors.Is(err, over) || !strings.HasPrefix(err.Error(), "sh: ") {
		t.Errorf("got %v", err)
	}
	expectFile(t, finished, "done\n")
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
