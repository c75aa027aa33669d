// Package doctor says what stampede would stand on here, what is missing, and
// installs it if asked to.
package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"stampede/harness/env"
	"stampede/harness/env/containers"
	"stampede/harness/env/processes"
	"stampede/harness/sut"
)

// Options say what is wanted beyond one working backend.
type Options struct {
	// Tests wants what the tests need beyond what a scenario does: local
	// stores, a C compiler for the race detector, Python and curl.
	Tests bool
	// Engine wants what CI needs: all that Tests does, a container engine with
	// its client, a browser, and debootstrap for images.
	Engine bool
}

// tests says whether what tests need is wanted.
func (o Options) tests() bool { return o.Tests || o.Engine }

// Check is one thing that was looked at.
type Check struct {
	Name string `json:"name"`
	OK   bool   `json:"ok"`
	// Optional: stampede works without it.
	Optional bool `json:"optional"`
	// Detail is what was found, Fix what to do about it if it is not OK.
	Detail string `json:"detail"`
	Fix    string `json:"fix,omitempty"`
}

// services are what most runs need. Kafka, which few do, has a check of its own.
var services = []sut.Service{sut.Postgres, sut.Redis}

// What a run at the default profile needs.
const (
	wantFiles  = 8192
	wantCores  = 2
	wantMemory = 2 << 30
	wantDisk   = 2 << 30
)

const (
	fixLine    = "stampede doctor --fix"
	testsFlag  = " --tests"
	engineFlag = " --engine"
)

// Examine looks at this machine. It changes nothing and takes a few seconds.
// Local stores are needed only if containers could not provide them, unless
// everything is wanted.
func Examine(ctx context.Context, opts Options) []Check {
	engine, images := engineCheck(ctx), imagesCheck(ctx, "images", services...)
	engine.Optional = !opts.Engine
	var checks []Check
	for _, service := range services {
		c := programCheck(ctx, service)
		c.Optional = images.OK && !opts.tests()
		checks = append(checks, c)
	}
	kafka := programCheck(ctx, sut.Kafka)
	kafka.Optional = !opts.tests()
	checks = append(checks, kafka, engine, images, imagesCheck(ctx, "kafka image", sut.Kafka),
		rolesImageCheck(ctx), backendCheck(ctx, opts))
	compiler := compilerCheck(ctx)
	compiler.Optional = !opts.tests()
	checks = append(checks, compiler)
	for _, t := range tools {
		c := t.check()
		c.Optional = !opts.Engine && (t.flag == engineFlag || !opts.Tests)
		checks = append(checks, c)
	}
	return append(checks, dataCheck(), filesCheck(), coresCheck(), memoryCheck(), clockCheck())
}

// found is a check of something of which an error says why it is not there.
func found(c Check, detail string, err error) Check {
	if c.OK, c.Detail = err == nil, detail; err != nil {
		c.Detail = err.Error()
	}
	return c
}

func programCheck(ctx context.Context, service sut.Service) Check {
	program, err := processes.Find(ctx, service)
	return found(Check{Name: string(service), Fix: fixLine}, program.String(), err)
}

// engineCheck asks whether a container engine answers.
func engineCheck(ctx context.Context) Check {
	version, err := containers.EngineVersion(ctx)
	return found(Check{Name: "engine", Fix: fixLine + engineFlag}, "version "+version, err)
}

// imagesCheck asks whether services could run in containers now.
func imagesCheck(ctx context.Context, name string, services ...sut.Service) Check {
	c := Check{Name: name, Optional: true, Fix: "make images"}
	c.OK, c.Detail = containers.New().Available(ctx, env.Spec{Services: services})
	return c
}

// rolesImageCheck asks whether roles could run in containers now.
func rolesImageCheck(ctx context.Context) Check {
	var launcher containers.Launcher
	return found(Check{Name: "roles image", Optional: true,
		Fix: "make build && docker/images.sh stampede"}, containers.StampedeImage,
		errors.Join(launcher.Available(ctx), launcher.Close()))
}

// backendCheck says what --backend auto would take. While an engine is still
// to be given its images, a backend that is missing is not the engine's fault.
func backendCheck(ctx context.Context, opts Options) Check {
	_, reason, err := env.Choose(ctx, env.Auto, env.Spec{Services: services},
		containers.New(), processes.New())
	return found(Check{Name: "backend", Fix: fixLine, Optional: opts.Engine}, reason, err)
}

// dataCheck looks at where the data of local processes would lie.
func dataCheck() Check {
	c := Check{Name: "data", Optional: true, Fix: "set STAMPEDE_DATA_DIR to a folder on a disk"}
	dir, system, err := processes.DataFolder()
	if err != nil {
		c.Detail = err.Error()
		return c
	}
	var stat unix.Statfs_t
	if err := unix.Statfs(dir, &stat); err != nil {
		c.Detail = fmt.Sprintf("%s: %v", dir, err)
		return c
	}
	free := stat.Bavail * uint64(stat.Bsize)
	c.OK = free >= wantDisk && !strings.HasPrefix(system, "tmpfs")
	c.Detail = fmt.Sprintf("%s on %s, %s free, %s wanted", dir, system, gib(free), gib(wantDisk))
	return c
}

// filesCheck looks at the hard limit: Go programs raise the soft one to it.
func filesCheck() Check {
	c := Check{Name: "open files", Optional: true, Fix: "raise the limit: ulimit -Hn, or LimitNOFILE"}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		c.Detail = err.Error()
		return c
	}
	c.OK = limit.Max >= wantFiles
	c.Detail = fmt.Sprintf("at most %d, %d wanted", limit.Max, wantFiles)
	return c
}

func coresCheck() Check {
	n := runtime.NumCPU()
	return Check{Name: "cores", OK: n >= wantCores, Optional: true,
		Detail: fmt.Sprintf("%d, %d wanted", n, wantCores),
		Fix:    "on one CPU the generator and the stores take turns; read latencies with care"}
}

func memoryCheck() Check {
	c := Check{Name: "memory", Optional: true, Fix: "close what is not needed during a run"}
	free, err := availableMemory("/proc/meminfo")
	if err != nil {
		c.Detail = err.Error()
		return c
	}
	c.OK = free >= wantMemory
	c.Detail = fmt.Sprintf("%s available, %s wanted", gib(free), gib(wantMemory))
	return c
}

// availableMemory reads MemAvailable, in bytes.
func availableMemory(path string) (uint64, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if len(fields) >= 2 && fields[0] == "MemAvailable:" {
			kib, err := strconv.ParseUint(fields[1], 10, 54)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("%s does not say how much memory is available", path)
}

func gib(bytes uint64) string { return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30)) }

// clockCheck looks at what every timestamp of a run costs: some sources take
// a system call and a microsecond.
func clockCheck() Check {
	c := Check{Name: "clock", Optional: true,
		Fix: "timestamps are slow; a kernel with the tsc or kvm-clock source has fast ones"}
	const path = "/sys/devices/system/clocksource/clocksource0/current_clocksource"
	data, err := os.ReadFile(path)
	if err != nil {
		c.Detail = err.Error()
		return c
	}
	c.Detail = strings.TrimSpace(string(data))
	switch c.Detail {
	case "hpet", "acpi_pm", "jiffies", "pit":
	default:
		c.OK = true
	}
	return c
}

// compilerBound is how long a compiler may take for a program of two lines.
const compilerBound = 20 * time.Second

// compilerCheck has the compiler that Go would take read a C header: a compiler
// without a C library's headers is of no use to the race detector, which needs
// cgo. https://go.dev/doc/articles/race_detector#Requirements
func compilerCheck(ctx context.Context) Check {
	c := Check{Name: "compiler", Fix: fixLine + testsFlag}
	argv := strings.Fields(cmp.Or(strings.TrimSpace(os.Getenv("CC")), "gcc"))
	path := locate(argv[0])
	if path == "" {
		c.Detail = fmt.Sprintf("no %s; the tests' race detector needs a C compiler", argv[0])
		return c
	}
	ctx, cancel := context.WithTimeout(ctx, compilerBound)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, append(argv[1:], "-x", "c", "-fsyntax-only", "-")...)
	cmd.Stdin = strings.NewReader("#include <stdlib.h>\n#include <pthread.h>\n")
	if err := cmd.Run(); err != nil {
		c.Detail = fmt.Sprintf("%s cannot compile against a C library: %v", path, err)
		return c
	}
	c.OK, c.Detail = true, path
	return c
}

// tool is a program that the tests or the images need, and the flag that wants
// it.
type tool struct {
	name, flag, purpose string
	programs            []string
}

var tools = []tool{
	{"python", testsFlag, "runs the foreign shop in tests", []string{"python3"}},
	{"curl", testsFlag, "types the README's requests in tests", []string{"curl"}},
	{"docker client", engineFlag, "builds the images", []string{"docker"}},
	{"browser", engineFlag, "opens reports in tests",
		[]string{"chromium", "chromium-browser", "google-chrome"}},
	{"debootstrap", engineFlag, "makes a base image where no registry answers",
		[]string{"debootstrap"}},
}

// check looks for the first of the tool's programs.
func (t tool) check() Check {
	c := Check{Name: t.name, Fix: fixLine + t.flag,
		Detail: fmt.Sprintf("no %s; it %s", strings.Join(t.programs, ", "), t.purpose)}
	for _, program := range t.programs {
		if path := locate(program); path != "" {
			c.OK, c.Detail = true, path
			return c
		}
	}
	return c
}

// locate finds a program. The folders for administrators are searched too,
// which a user's PATH often leaves out.
func locate(name string) string {
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	for _, folder := range []string{"/usr/local/sbin", "/usr/sbin", "/sbin"} {
		path := filepath.Join(folder, name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path
		}
	}
	return ""
}
