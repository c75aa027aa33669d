package env

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"
)

// Owner names the process that made something outside itself, so that a later stampede can
// tell whether its run is still alive. A pid alone would not do: the
// system gives it again.
type Owner struct {
	PID int `json:"pid"`
	// Started is the process's start time in clock ticks since boot.
	Started uint64 `json:"started_ticks"`
	// Host is where the pid means something: an engine may be shared.
	Host  string `json:"host"`
	RunID string `json:"run_id"`
}

// The labels of what is made in an engine: whose it is, and what of it belongs together.
const (
	RunLabel     = "stampede.run"
	ClusterLabel = "stampede.cluster"
	pidLabel     = "stampede.pid"
	startedLabel = "stampede.started_ticks"
	hostLabel    = "stampede.host"
)

// Labels are the owner as labels.
func (o Owner) Labels() map[string]string {
	return map[string]string{RunLabel: o.RunID, hostLabel: o.Host, pidLabel: strconv.Itoa(o.PID),
		startedLabel: strconv.FormatUint(o.Started, 10)}
}

// OwnerIn reads an owner from labels. What is not signed has no owner, which
// is never dead.
func OwnerIn(labels map[string]string) Owner {
	pid, err := strconv.Atoi(labels[pidLabel])
	started, ticks := strconv.ParseUint(labels[startedLabel], 10, 64)
	if err != nil || ticks != nil {
		return Owner{}
	}
	return Owner{PID: pid, Started: started, Host: labels[hostLabel], RunID: labels[RunLabel]}
}

// OwnerOf is this process as the owner of a run.
func OwnerOf(runID string) (Owner, error) {
	stat, err := StatOf(os.Getpid())
	if err != nil {
		return Owner{}, fmt.Errorf("read our own start time: %w", err)
	}
	host, err := os.Hostname()
	if err != nil {
		return Owner{}, fmt.Errorf("read our own host name: %w", err)
	}
	return Owner{PID: os.Getpid(), Started: stat.Started, Host: host, RunID: runID}, nil
}

// Dead says whether the owner was a process of this host and is over. Of
// another host's processes nothing is known.
func (o Owner) Dead() bool {
	host, err := os.Hostname()
	if err != nil || o.Host != host || o.PID <= 0 {
		return false
	}
	stat, err := StatOf(o.PID)
	return err != nil || stat.Started != o.Started || stat.Over()
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
