package doctor

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"
)

// policyFile is what Debian's packages ask whether they may start a service.
const policyFile = "/usr/sbin/policy-rc.d"

// policy is ours, which says no.
const policy = "#!/bin/sh\n# Made by stampede doctor, for the time of an installation.\nexit 101\n"

// keepServicesDown keeps packages from starting a Postgres and a Redis of
// their own on the usual ports: stampede starts its own, on ports of their
// own, and only for a run. A policy of the machine's administrator stays, and
// so does that of another doctor who is at work; one that a dead doctor has
// left is ours. restore may be called more than once.
func keepServicesDown(path string) (restore func() error, err error) {
	held, err := writePolicy(path)
	if err != nil {
		return nil, fmt.Errorf("keep services from starting: %w", err)
	}
	if held == nil {
		return func() error { return nil }, nil
	}
	return sync.OnceValue(func() error { return drop(held) }), nil
}

// writePolicy makes the policy, whole or not at all, and holds it.
func writePolicy(path string) (*os.File, error) {
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.Remove(file.Name()) }() // it has its other name by then
	_, err = file.WriteString(policy)
	err = errors.Join(err, file.Chmod(0o755), file.Close())
	if err == nil {
		err = os.Link(file.Name(), path)
	}
	if err != nil && !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	return holdPolicy(path)
}

// holdPolicy opens and locks a policy that a doctor has made. It is nil if
// there is none, if it is somebody else's, or if another doctor holds it; the
// death of who held it frees it.
func holdPolicy(path string) (*os.File, error) {
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(file, int64(len(policy))+1))
	if err == nil && string(text) == policy &&
		syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
		return file, nil
	}
	return nil, errors.Join(err, file.Close())
}

// drop removes a policy that is held.
func drop(held *os.File) error { return errors.Join(os.Remove(held.Name()), held.Close()) }

// dropLeftPolicy removes the policy of a doctor who was killed.
func dropLeftPolicy(path string, out io.Writer) error {
	held, err := holdPolicy(path)
	if err == nil && held != nil {
		fmt.Fprintf(out, "stampede doctor removes %s, which an earlier one left when it was killed\n",
			path)
		err = drop(held)
	}
	if err != nil {
		return fmt.Errorf("remove what an earlier installation left: %w", err)
	}
	return nil
}
