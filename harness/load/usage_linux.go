package load

import (
	"bytes"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

func readUsage() usage {
	var u usage
	var r unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &r) == nil {
		u.cpu = time.Duration(r.Utime.Nano() + r.Stime.Nano())
	}
	if stat, err := os.ReadFile("/proc/stat"); err == nil {
		u.ticks, u.stolen = parseStat(stat)
	}
	return u
}

// parseStat reads the first line of /proc/stat: "cpu" and the ticks spent in
// user, nice, system, idle, iowait, irq, softirq, steal, guest and guest_nice
// (proc_stat(5)); the last two are part of user and nice.
func parseStat(stat []byte) (ticks, stolen uint64) {
	const steal, fields = 7, 8
	line, _, _ := bytes.Cut(stat, []byte("\n"))
	words := bytes.Fields(line)
	if len(words) <= fields || string(words[0]) != "cpu" {
		return 0, 0
	}
	for i, word := range words[1 : fields+1] {
		n, err := strconv.ParseUint(string(word), 10, 64)
		if err != nil {
			return 0, 0
		}
		ticks += n
		if i == steal {
			stolen = n
		}
	}
	return ticks, stolen
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
