package load

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime is the time this process has been executing on all cores, or is 0 if it cannot
// be told.
func cpuTime() time.Duration {
	var r unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// openFiles counts this process's file descriptors, or is 0 if it cannot.
func openFiles() int {
	dir, err := os.Open("/proc/self/fd")
	if err != nil {
		return 0
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return 0
	}
	return len(names) - 1 // one is dir itself
}
