// Package durable has what a program needs that keeps its own files: a lock between processes, a
// flush of names, and the frames of a log.
package durable

import (
	"errors"
	"os"
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
