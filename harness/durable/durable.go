// Package durable has what a program needs that keeps its own files: a lock between processes, a
// flush of names, whole files, and the frames of a log.
package durable

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// Flock locks an open file, as flock(2) does with the flags in how; signals do not disturb it. With
// LOCK_NB the error is syscall.EWOULDBLOCK if another process has a lock that excludes this one.
func Flock(file *os.File, how int) error {
	for {
		err := syscall.Flock(int(file.Fd()), how)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// Sync flushes a file, or the names in a folder: a rename is durable only after that of its folder.
func Sync(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close())
}

// WriteFile writes a file that everybody may read: completely or not at all. It is not flushed.
func WriteFile(path string, write func(io.Writer) error) error {
	temporary, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	err = errors.Join(write(temporary), temporary.Chmod(0o644), temporary.Close())
	if err == nil {
		err = os.Rename(temporary.Name(), path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("writing %s: %w", path, err), os.Remove(temporary.Name()))
	}
	return nil
}
