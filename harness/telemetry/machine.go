package telemetry

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"stampede/harness/env/owner"
)

// machine is what the programs of the whole machine have used: all of them, and those of
// container engines, which move the bytes of stores in containers and are no part of them.
type machine struct {
	busy, engines time.Duration
	cores         int
}

// ticksBits is how long a count of ticks may be: 300 years of a thousand cores, and three
// of them are no more than a time.Duration holds.
const ticksBits = 39

// engines are the programs that container engines run beside containers.
var engines = []string{"dockerd", "docker-proxy", "containerd", "containerd-shim", "conmon",
	"podman", "rootlessport", "slirp4netns", "pasta"}

// readMachine reads it from a proc file system; an error means that there is none.
func readMachine(proc string) (machine, error) {
	stat, err := os.ReadFile(filepath.Join(proc, "stat"))
	if err != nil {
		return machine{}, err
	}
	m, err := parseMachine(stat)
	if err != nil {
		return machine{}, err
	}
	entries, err := os.ReadDir(proc)
	for _, e := range entries {
		if _, number := strconv.Atoi(e.Name()); number != nil {
			continue
		}
		line, err := os.ReadFile(filepath.Join(proc, e.Name(), "stat"))
		if err != nil || !slices.Contains(engines, programOf(line)) {
			continue
		}
		if stat, err := owner.ParseStat(line); err == nil {
			m.engines += stat.CPU + stat.Children
		}
	}
	return m, err
}

// parseMachine reads the first line of /proc/stat, of which user, nice and system are
// work, and counts the lines of single processors. Interrupts are nobody's.
func parseMachine(stat []byte) (m machine, err error) {
	first, _, _ := bytes.Cut(stat, []byte("\n"))
	words := strings.Fields(string(first))
	const works = 3
	if len(words) <= works || words[0] != "cpu" {
		return machine{}, fmt.Errorf("unreadable processor times %.40q", first)
	}
	for _, word := range words[1 : works+1] {
		n, err := strconv.ParseUint(word, 10, ticksBits)
		if err != nil {
			return machine{}, fmt.Errorf("unreadable processor times %.40q: %w", first, err)
		}
		m.busy += time.Duration(n) * owner.Tick
	}
	m.cores = bytes.Count(stat, []byte("\ncpu"))
	return m, nil
}

// programOf is the name that stands in parentheses in a process's stat, of which the
// kernel keeps fifteen bytes: enough for each of the engines'.
func programOf(stat []byte) string {
	from, to := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
	if from < 0 || to < from {
		return ""
	}
	return string(stat[from+1 : to])
}
