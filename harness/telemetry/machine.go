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

	"stampede/harness/env"
)

// Machine is what the programs of the whole machine have used since it was started.
type Machine struct {
	// Busy is the CPU time of all programs, Engines that of container engines, which move the
	// bytes of stores in containers and are no part of them, Stolen what the hypervisor gave to
	// others.
	Busy, Engines, Stolen time.Duration
	Cores                 int
}

// ticksBits is how long a count of ticks may be: 300 years of a thousand cores, and three
// of them are no more than a time.Duration holds.
const ticksBits = 39

// engines are the programs that container engines run beside containers.
var engines = []string{"dockerd", "docker-proxy", "containerd", "containerd-shim", "conmon",
	"podman", "rootlessport", "slirp4netns", "pasta"}

// ReadMachine reads it, but for Engines; an error means that the operating system does not say.
func ReadMachine() (Machine, error) { return readStat(procFS) }

func readStat(proc string) (Machine, error) {
	stat, err := os.ReadFile(filepath.Join(proc, "stat"))
	if err != nil {
		return Machine{}, err
	}
	return parseMachine(stat)
}

// readMachine reads all of it from a proc file system.
func readMachine(proc string) (Machine, error) {
	m, err := readStat(proc)
	if err == nil {
		m.Engines, err = readEngines(proc)
	}
	return m, err
}

// readEngines reads what container engines have used.
func readEngines(proc string) (used time.Duration, err error) {
	entries, err := os.ReadDir(proc)
	for _, e := range entries {
		if _, number := strconv.Atoi(e.Name()); number != nil {
			continue
		}
		line, err := os.ReadFile(filepath.Join(proc, e.Name(), "stat"))
		if err != nil || !slices.Contains(engines, programOf(line)) {
			continue
		}
		if stat, err := env.ParseStat(line); err == nil {
			used += stat.CPU + stat.Children
		}
	}
	return used, err
}

// parseMachine reads the first line of /proc/stat, of which user, nice and system are
// work and the eighth number is stolen, and counts the lines of single CPUs. Interrupts
// are nobody's. An old kernel says nothing of what is stolen.
func parseMachine(stat []byte) (m Machine, err error) {
	first, _, _ := bytes.Cut(stat, []byte("\n"))
	words := strings.Fields(string(first))
	const works, steal = 3, 8
	if len(words) <= works || words[0] != "cpu" {
		return Machine{}, fmt.Errorf("unreadable processor times %.40q", first)
	}
	for i, word := range words[1:] {
		if i >= works && i != steal-1 {
			continue
		}
		n, err := strconv.ParseUint(word, 10, ticksBits)
		if err != nil {
			return Machine{}, fmt.Errorf("unreadable processor times %.40q: %w", first, err)
		}
		if i < works {
			m.Busy += time.Duration(n) * env.ClockTick
		} else {
			m.Stolen = time.Duration(n) * env.ClockTick
		}
	}
	m.Cores = bytes.Count(stat, []byte("\ncpu"))
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
