// Package doctor says what stampede would stand on here, what is missing, and
// installs it.
package doctor

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"stampede/harness/env/processes"
	"stampede/harness/sut"
)

// Options say what the machine is wanted for.
type Options struct {
	// Engine wants a docker engine, a browser and Python as well: what the
	// whole test suite needs, beyond what a scenario does.
	Engine bool
}

// Check is one thing that was looked for.
type Check struct {
	Name string `json:"name"`
	OK   bool   `json:"ok"`
	// Optional: stampede works without it.
	Optional bool `json:"optional,omitempty"`
	// Detail is what was found, or what is wrong.
	Detail string `json:"detail"`
	// Fix is what to do about it, empty when there is nothing to do.
	Fix string `json:"fix,omitempty"`
}

// askTimeout bounds asking a program for its version.
const askTimeout = 10 * time.Second

// The least that a machine should have. They are advice, not conditions.
const (
	leastFiles  = 4096
	leastMemory = 2 << 30
	leastDisk   = 2 << 30
)

// Examine looks at the machine and changes nothing. A store is needed only
// if no docker engine answers that could provide it.
func Examine(ctx context.Context, opts Options) []Check {
	engine := examineEngine(ctx)
	engine.Optional = !opts.Engine
	checks := []Check{
		examineStore(ctx, sut.Postgres, "postgresql", engine.OK),
		examineStore(ctx, sut.Redis, "redis-server", engine.OK),
		engine,
	}
	for _, p := range testPrograms {
		checks = append(checks, examineProgram(p, opts))
	}
	return append(checks, examineFiles(), examineCores(), examineMemory(), examineDisk(),
		examineClock())
}

func examineStore(ctx context.Context, service sut.Service, pkg string, engine bool) Check {
	c := Check{Name: string(service), Optional: engine}
	program, err := processes.Find(ctx, service)
	if err != nil {
		c.Detail, c.Fix = err.Error(), "apt-get install "+pkg
		return c
	}
	c.OK, c.Detail = true, program.String()
	return c
}

func examineEngine(ctx context.Context) Check {
	c := Check{Name: "docker"}
	text, err := ask(ctx, "docker", "version", "--format", "{{.Server.Version}}")
	switch {
	case err == nil:
		c.OK, c.Detail = true, "engine "+text
	case !onPath("dockerd"):
		c.Detail, c.Fix = "no docker engine", "apt-get install docker.io"
	default:
		c.Detail, c.Fix = "the docker engine does not answer", "dockerd"
	}
	return c
}

// program is something that the test suite calls.
type program struct{ name, binary, pkg, why string }

var testPrograms = [...]program{
	{"chromium", "chromium", "chromium", "opens reports in tests"},
	{"python3", "python3", "python3-minimal", "runs the foreign shop in tests"},
	{"debootstrap", "debootstrap", "debootstrap", "makes a base image where no registry answers"},
}

func examineProgram(p program, opts Options) Check {
	c := Check{Name: p.name, Optional: !opts.Engine}
	path, err := exec.LookPath(p.binary)
	if err != nil {
		c.Detail, c.Fix = "not found; "+p.why, "apt-get install "+p.pkg
		return c
	}
	c.OK, c.Detail = true, path
	return c
}

func examineFiles() Check {
	c := Check{Name: "open files", Optional: true}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		c.Detail = err.Error()
		return c
	}
	c.OK, c.Detail = limit.Cur >= leastFiles, fmt.Sprintf("at most %d", limit.Cur)
	if !c.OK {
		c.Fix = fmt.Sprintf("ulimit -n %d", leastFiles)
	}
	return c
}

func examineCores() Check {
	n := runtime.NumCPU()
	c := Check{Name: "cores", OK: n >= 2, Optional: true, Detail: strconv.Itoa(n)}
	if !c.OK {
		c.Fix = "with one core the generator and the stores take turns: expect INVALID runs"
	}
	return c
}

func examineMemory() Check {
	c := Check{Name: "memory", Optional: true}
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		c.Detail = err.Error()
		return c
	}
	total := uint64(info.Totalram) * uint64(info.Unit)
	c.OK, c.Detail = total >= leastMemory, fmt.Sprintf("%.1f GiB", float64(total)/(1<<30))
	return c
}

func examineDisk() Check {
	c := Check{Name: "disk", Optional: true}
	var s unix.Statfs_t
	if err := unix.Statfs(os.TempDir(), &s); err != nil {
		c.Detail = err.Error()
		return c
	}
	free := s.Bavail * uint64(s.Bsize)
	c.OK = free >= leastDisk
	c.Detail = fmt.Sprintf("%.1f GiB free in %s", float64(free)/(1<<30), os.TempDir())
	return c
}

// examineClock looks at the kernel's clock source: one that needs a system
// call makes each reading, and so each operation, dearer.
func examineClock() Check {
	c := Check{Name: "clock", Optional: true}
	const file = "/sys/devices/system/clocksource/clocksource0/current_clocksource"
	text, err := os.ReadFile(file)
	if err != nil {
		c.OK, c.Detail = true, "not known"
		return c
	}
	c.Detail = strings.TrimSpace(string(text))
	switch c.Detail {
	case "tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page":
		c.OK = true
	default:
		c.Fix = "readings of this clock are slow"
	}
	return c
}

// ask runs a program and returns the first line of what it prints.
func ask(ctx context.Context, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, name, args...).Output()
	if err != nil {
		return "", fmt.Errorf("running %s: %w", name, err)
	}
	line, _, _ := strings.Cut(string(out), "\n")
	return strings.TrimSpace(line), nil
}

// onPath says whether a program is there; sbin folders are searched too,
// because a user's PATH often leaves them out.
func onPath(name string) bool { return locate(name) != "" }

func locate(name string) string {
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	for _, folder := range []string{"/usr/local/sbin", "/usr/sbin", "/sbin"} {
		path := filepath.Join(folder, name)
		if info, err := os.Stat(path); err == nil && !info.IsDir() {
			return path
		}
	}
	return ""
}
