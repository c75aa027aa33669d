package run

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"stampede/harness/deploy"
	"stampede/harness/env"
	"stampede/harness/rundir"
	"stampede/harness/sut"
)

// describeHost returns what the machine is. What cannot be read stays empty.
func describeHost() rundir.Environment {
	e := rundir.Environment{
		OS:         osName(),
		CPU:        procValue("/proc/cpuinfo", "model name"),
		Cores:      runtime.NumCPU(),
		Components: map[string]rundir.Component{},
	}
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		e.Kernel = unix.ByteSliceToString(name.Release[:])
	}
	fields := strings.Fields(procValue("/proc/meminfo", "MemTotal"))
	if len(fields) > 0 {
		kib, _ := strconv.ParseInt(fields[0], 10, 64)
		e.MemoryBytes = kib << 10
	}
	e.Governor = firstLine("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
	if group, ok := controlGroup(); ok {
		e.CPULimitCores = coresOf(firstLine(group + "/cpu.max"))
		// "max", which is no number, is no limit.
		e.MemoryLimitBytes, _ = strconv.ParseInt(firstLine(group+"/memory.max"), 10, 64)
	}
	return e
}

// Memory is how many bytes this process may use, by the machine and by its control group; 0 if that
// is not known.
func Memory() int64 {
	e := describeHost()
	if e.MemoryLimitBytes > 0 {
		return min(e.MemoryBytes, e.MemoryLimitBytes)
	}
	return e.MemoryBytes
}

// usableCores is on how many cores this process may be busy, rounded up.
func usableCores() int {
	cores := runtime.NumCPU()
	if limit := describeHost().CPULimitCores; limit > 0 {
		cores = min(cores, int(math.Ceil(limit)))
	}
	return cores
}

// HostDigest identifies this machine, and HostOf that of a run: they are equal where figures may
// be compared, as far as those do not depend on the stores.
func HostDigest() string { return fingerprint(describeHost()) }

// HostOf is HostDigest of the machine of a run.
func HostOf(e rundir.Environment) string {
	return fingerprint(rundir.Environment{OS: e.OS, Kernel: e.Kernel, CPU: e.CPU, Cores: e.Cores,
		MemoryBytes: e.MemoryBytes, Governor: e.Governor, CPULimitCores: e.CPULimitCores,
		MemoryLimitBytes: e.MemoryLimitBytes})
}

// controlGroup is the folder of this process's control group (version 2).
func controlGroup() (string, bool) {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", false
	}
	for line := range strings.Lines(string(text)) {
		if path, ok := strings.CutPrefix(line, "0::"); ok {
			return "/sys/fs/cgroup" + strings.TrimSpace(path), true
		}
	}
	return "", false
}

// firstLine is the first line of a file, empty if it cannot be read.
func firstLine(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return strings.TrimSpace(line)
}

// coresOf reads "quota period" of a control group; 0 is no limit.
func coresOf(limit string) float64 {
	fields := strings.Fields(limit)
	if len(fields) != 2 {
		return 0
	}
	quota, err := strconv.ParseFloat(fields[0], 64)
	period, wrong := strconv.ParseFloat(fields[1], 64)
	if err != nil || wrong != nil || period <= 0 {
		return 0
	}
	return quota / period
}

func osName() string {
	text, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return runtime.GOOS
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "PRETTY_NAME="); ok {
			return strings.Trim(strings.TrimSpace(value), `"`)
		}
	}
	return runtime.GOOS
}

// procValue returns the first "key : value" of a file under /proc.
func procValue(path, key string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		name, value, ok := strings.Cut(s.Text(), ":")
		if ok && strings.TrimSpace(name) == key {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// describeComponents adds what the cluster really is.
func describeComponents(
	ctx context.Context, e *rundir.Environment, cluster env.Cluster, services []sut.Service,
) error {
	for _, service := range services {
		component := cluster.Component(service)
		if component == nil {
			return fmt.Errorf("the cluster has no %s", service)
		}
		info, err := component.Info(ctx)
		if err != nil {
			return fmt.Errorf("describing %s: %w", service, err)
		}
		e.Components[string(service)] = rundir.Component{
			Kind: info.Kind, Version: info.Version, Source: info.Source,
			Settings: info.Settings, FlushNS: info.Flush.Nanoseconds(),
		}
	}
	return nil
}

// fingerprint digests what must be equal for numbers to be comparable: the
// machine, the backend and the components with their settings.
func fingerprint(e rundir.Environment) string {
	h := sha256.New()
	fmt.Fprintln(h, e.Backend, e.OS, e.Kernel, e.CPU, e.Cores, e.MemoryBytes>>30, e.Proxied)
	if e.Governor != "" || e.CPULimitCores > 0 || e.MemoryLimitBytes > 0 {
		fmt.Fprintln(h, e.Governor, e.CPULimitCores, e.MemoryLimitBytes>>20)
	}
	if e.Deploy != "" && e.Deploy != deploy.InProcess {
		fmt.Fprintln(h, e.Deploy)
	}
	if e.Generators != "" {
		fmt.Fprintln(h, e.Generators)
	}
	for _, name := range slices.Sorted(maps.Keys(e.Components)) {
		c := e.Components[name]
		fmt.Fprintln(h, name, c.Kind, c.Version)
		for _, key := range slices.Sorted(maps.Keys(c.Settings)) {
			fmt.Fprintln(h, key, c.Settings[key])
		}
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}
