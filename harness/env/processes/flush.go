package processes

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// What is flushed: as many bytes as a Postgres page, as often as gives a
// steady median within half a second on a slow disk.
const (
	flushBytes  = 8192
	flushTimes  = 200
	flushBudget = 2 * time.Second
)

// FlushTime is the median time of one write and fdatasync in dir, measured as
// pg_test_fsync does: the same page of one file is written again and again.
func FlushTime(dir string) (median time.Duration, err error) {
	file, err := os.CreateTemp(dir, "flush-*")
	if err != nil {
		return 0, fmt.Errorf("measure a flush: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close(), os.Remove(file.Name())) }()
	page := make([]byte, flushBytes)
	var times []time.Duration
	for begin := time.Now(); len(times) < flushTimes && time.Since(begin) < flushBudget; {
		start := time.Now()
		if _, err := file.WriteAt(page, 0); err != nil {
			return 0, fmt.Errorf("measure a flush: %w", err)
		}
		if err := unix.Fdatasync(int(file.Fd())); err != nil {
			return 0, fmt.Errorf("measure a flush: %w", err)
		}
		times = append(times, time.Since(start))
	}
	slices.Sort(times)
	return times[len(times)/2], nil
}
