package containers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
)

// CPU implements env.Metered: what the kernel says of the container's control group, at
// once. Where the container is not of this kernel, as in a virtual machine, the engine is
// asked, whose answer takes a second, and more on a busy machine.
func (s *store) CPU(ctx context.Context) (time.Duration, error) {
	if file, ok := s.usage.Load().(usageFile); ok && file.id == s.container() {
		if used, err := file.read(); err == nil {
			return used, nil // else it has ended since, or was started again
		}
	}
	state, err := s.inspect(ctx)
	if err != nil {
		return 0, err
	}
	if !state.State.Running {
		return 0, fmt.Errorf("%s is not running", s.service)
	}
	file, err := findUsage("/", state.State.Pid, state.ID)
	if err != nil {
		return s.askCPU(ctx)
	}
	s.usage.Store(file)
	return file.read()
}

// askCPU asks the engine for the CPU time of the container.
func (s *store) askCPU(ctx context.Context) (time.Duration, error) {
	found, err := s.engine.ContainerStats(ctx, s.container(), client.ContainerStatsOptions{})
	if err != nil {
		return 0, fmt.Errorf("ask for the processor time of %s: %w", s.service, err)
	}
	defer found.Body.Close() // it was read
	var stats container.StatsResponse
	if err := json.NewDecoder(found.Body).Decode(&stats); err != nil {
		return 0, fmt.Errorf("ask for the processor time of %s: %w", s.service, err)
	}
	if stats.CPUStats.CPUUsage.TotalUsage == 0 {
		return 0, fmt.Errorf("%s is not running", s.service)
	}
	return time.Duration(stats.CPUStats.CPUUsage.TotalUsage), nil
}

// usageFile is where the kernel says what the control group of a container has used.
type usageFile struct {
	// id is the container.
	id, path string
	// key is the word before the number, "" in a file that has nothing else.
	key  string
	unit time.Duration
}

// findUsage finds it by the first process of a container. The process is of this kernel,
// and of this process's view of it, if its control group is named after the container. See
// cgroups(7); version 2 has "usage_usec" in cpu.stat, version 1 a controller for it.
func findUsage(root string, pid int, id string) (usageFile, error) {
	groups, err := os.ReadFile(filepath.Join(root, "proc", strconv.Itoa(pid), "cgroup"))
	if err != nil {
		return usageFile{}, fmt.Errorf("read the control groups of process %d: %w", pid, err)
	}
	mounted := filepath.Join(root, "sys/fs/cgroup")
	for line := range strings.Lines(string(groups)) {
		_, line, _ = strings.Cut(strings.TrimSpace(line), ":")
		controllers, group, _ := strings.Cut(line, ":")
		if id == "" || !strings.Contains(group, id) {
			continue
		}
		file := usageFile{id: id, path: filepath.Join(mounted, group, "cpu.stat"),
			key: "usage_usec ", unit: time.Microsecond}
		if strings.Contains(controllers, "cpuacct") {
			file = usageFile{id: id, unit: time.Nanosecond,
				path: filepath.Join(mounted, controllers, group, "cpuacct.usage")}
		}
		if _, err := file.read(); err == nil {
			return file, nil
		}
	}
	return usageFile{}, fmt.Errorf("process %d is in no control group of container %s", pid, id)
}

// read returns what has been used since the container was started.
func (f usageFile) read() (time.Duration, error) {
	text, err := os.ReadFile(f.path)
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(text) {
		number, found := strings.CutPrefix(strings.TrimSpace(string(line)), f.key)
		if !found {
			continue
		}
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read %s: %w", f.path, err)
		}
		return time.Duration(n) * f.unit, nil
	}
	return 0, errors.New("read " + f.path + ": it has no CPU time")
}
