package env

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Owner names the process that made something outside itself, so that a later stampede can
// tell whether its run is still alive. A pid alone would not do: the
// system gives it again.
type Owner struct {
	PID int `json:"pid"`
	// Started is the process's start time in clock ticks since boot.
	Started uint64 `json:"started_ticks"`
	// Host is the machine's name, and Pids where a pid means something, since containers and copies of
	// a machine may have its name: the pid namespace and, where there is one, the machine's id.
	Host  string `json:"host"`
	Pids  string `json:"pids"`
	RunID string `json:"run_id"`
}

// The labels of what is made in an engine: whose it is, and what of it belongs together.
const (
	RunLabel     = "stampede.run"
	ClusterLabel = "stampede.cluster"
	pidLabel     = "stampede.pid"
	startedLabel = "stampede.started_ticks"
	hostLabel    = "stampede.host"
	pidsLabel    = "stampede.pids"
)

// Labels are the owner as labels.
func (o Owner) Labels() map[string]string {
	return map[string]string{RunLabel: o.RunID, hostLabel: o.Host, pidsLabel: o.Pids,
		pidLabel: strconv.Itoa(o.PID), startedLabel: strconv.FormatUint(o.Started, 10)}
}

// OwnerIn reads an owner from labels. What is not signed has no owner, which
// is never dead.
func OwnerIn(labels map[string]string) Owner {
	pid, err := strconv.Atoi(labels[pidLabel])
	started, ticks := strconv.ParseUint(labels[startedLabel], 10, 64)
	if err != nil || ticks != nil {
		return Owner{}
	}
	return Owner{PID: pid, Started: started, Host: labels[hostLabel], Pids: labels[pidsLabel],
		RunID: labels[RunLabel]}
}

// OwnerOf is this process as the owner of a run.
func OwnerOf(runID string) (Owner, error) {
	stat, err := StatOf(os.Getpid())
	if err != nil {
		return Owner{}, fmt.Errorf("read our own start time: %w", err)
	}
	host, pids, err := here()
	if err != nil {
		return Owner{}, err
	}
	return Owner{PID: os.Getpid(), Started: stat.Started, Host: host, Pids: pids, RunID: runID}, nil
}

// here is this process's Host and Pids.
func here() (host, pids string, err error) {
	if host, err = os.Hostname(); err != nil {
		return "", "", fmt.Errorf("read our own host name: %w", err)
	}
	if pids, err = os.Readlink("/proc/self/ns/pid"); err != nil {
		return "", "", fmt.Errorf("read our own pid namespace: %w", err)
	}
	machine, err := os.ReadFile("/etc/machine-id")
	if err == nil { // few images of containers have it
		pids += " " + strings.TrimSpace(string(machine))
	}
	return host, pids, nil
}

// Dead says whether the owner was a process of this host and is over. Of others nothing is known.
func (o Owner) Dead() bool { return o.Kept() == "" }

// Kept says why what the owner made is not to be removed; it is "" if the owner is dead.
func (o Owner) Kept() string {
	if o.PID <= 0 {
		return "it does not say which process made it"
	}
	host, pids, err := here()
	if err != nil || o.Host != host || o.Pids != pids {
		return fmt.Sprintf("process %d of another host or container, %s, made it", o.PID, o.Host)
	}
	stat, err := StatOf(o.PID)
	if err != nil || stat.Started != o.Started || stat.Over() {
		return ""
	}
	return fmt.Sprintf("process %d, which made it, is alive", o.PID)
}

// Stat is what is read from /proc/<pid>/stat.
type Stat struct {
	// State is R, S, D, T (stopped), Z (ended, not yet waited for), …
	State byte
	// Started is the start time in clock ticks since boot.
	Started uint64
	// CPU is the processor time that the process has used, Children that of its
	// children that have ended and were waited for.
	CPU, Children time.Duration
}

// ClockTick is the unit of processor times in proc(5): USER_HZ, which is 100 a second on
// every architecture that Go runs on.
const ClockTick = 10 * time.Millisecond

// Over says whether the process has ended and only its entry is left.
func (s Stat) Over() bool { return s.State == 'Z' || s.State == 'X' }

// StatOf reads a process's state; an error means that there is none.
func StatOf(pid int) (Stat, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Stat{}, err
	}
	return ParseStat(data)
}

// ParseStat parses a line of proc(5) stat. The second field is the program's
// name in parentheses and may itself hold any character.
func ParseStat(data []byte) (Stat, error) {
	_, rest, ok := bytes.Cut(data[max(0, bytes.LastIndexByte(data, ')')):], []byte(") "))
	fields := bytes.Fields(rest)
	const state, started = 0, 19 // fields 3 and 22, counted after the name
	if !ok || len(fields) <= started || len(fields[state]) != 1 {
		return Stat{}, fmt.Errorf("unreadable process state %q", data)
	}
	var ticks [5]uint64 // user, system, the children's, start
	for i, field := range []int{11, 12, 13, 14, started} {
		n, err := strconv.ParseUint(string(fields[field]), 10, 63)
		if err != nil {
			return Stat{}, fmt.Errorf("unreadable process state %q: %w", fields[field], err)
		}
		ticks[i] = n
	}
	return Stat{State: fields[state][0], Started: ticks[4],
		CPU:      time.Duration(ticks[0]+ticks[1]) * ClockTick,
		Children: time.Duration(ticks[2]+ticks[3]) * ClockTick}, nil
}
