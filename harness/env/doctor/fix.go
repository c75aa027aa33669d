package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"stampede/harness/env/processes"
)

// installBound is how long installing everything may take.
const installBound = 20 * time.Minute

// machine is what decides how things are installed.
type machine struct {
	root, apt, systemd bool
	// missing are the names of the checks that failed and that matter.
	missing []string
	// dockerd says whether an engine's program is there, running or not.
	dockerd bool
	// atExit is told what is left to do if this process is to end at once.
	atExit func(undo func())
	// java and maven say whether what Kafka needs beside its jars is there.
	java, maven bool
}

// step is one thing that Fix will do: a command, or what act does.
type step struct {
	say     string
	command []string
	act     func(ctx context.Context, m machine, out io.Writer) error
}

// Fix installs what is missing, after saying what it is going to do. It knows
// Debian and Ubuntu, as root; elsewhere its error says what to do. Nothing
// missing means nothing done, but for what a Fix that was killed has left. If
// agree is not nil, it is asked after the list was shown, and nothing is installed
// if it says no.
//
// When ctx is over, the package manager finishes the package that it is at.
// atExit is given what undoes a change of the machine that is meant for the
// time of an installation: to be called if this process is to end at once.
func Fix(
	ctx context.Context, opts Options, out io.Writer, agree func() bool, atExit func(undo func()),
) error {
	ctx, cancel := context.WithTimeout(ctx, installBound)
	defer cancel()
	checks := Examine(ctx, opts)
	m := lookAt(ctx, checks)
	m.atExit = atExit
	if m.root {
		if err := dropLeftPolicy(policyFile, out); err != nil {
			return err
		}
	}
	steps, err := plan(m)
	if err != nil {
		return err
	}
	return m.install(ctx, steps, out, agree)
}

// install says what the steps are and takes them.
func (m machine) install(
	ctx context.Context, steps []step, out io.Writer, agree func() bool,
) error {
	if len(steps) == 0 {
		return nil
	}
	fmt.Fprintln(out, "stampede doctor is going to:")
	for i, s := range steps {
		fmt.Fprintf(out, "  %d. %s\n", i+1, s.say)
	}
	if agree != nil && !agree() {
		fmt.Fprintln(out, "nothing was installed")
		return nil
	}
	for _, s := range steps {
		if err := s.run(ctx, m, out); err != nil {
			return fmt.Errorf("%s: %w", s.say, err)
		}
	}
	return nil
}

// lookAt finds out how things are installed here. Local stores are worth
// installing also where containers would do, if that is possible.
func lookAt(ctx context.Context, checks []Check) machine {
	m := machine{root: os.Geteuid() == 0}
	m.apt = locate("apt-get") != ""
	m.dockerd = locate("dockerd") != ""
	m.maven = locate("mvn") != ""
	_, err := processes.FindJava(ctx)
	m.java = err == nil
	_, err = os.Stat("/run/systemd/system")
	m.systemd = err == nil
	for _, c := range checks {
		store := c.Name == "postgres" || c.Name == "redis" || c.Name == "kafka"
		if !c.OK && (!c.Optional || store && m.root && m.apt) {
			m.missing = append(m.missing, c.Name)
		}
	}
	return m
}

// packages are what each check is installed with.
var packages = map[string][]string{
	"postgres":    {"postgresql"},
	"redis":       {"redis-server"},
	"engine":      {"docker.io"},
	"browser":     {"chromium", "fonts-dejavu-core"},
	"python":      {"python3"},
	"debootstrap": {"debootstrap"},
	"compiler":    {"gcc", "libc6-dev"},
	"curl":        {"curl", "ca-certificates"},
}

// aptInstall is how packages are installed.
var aptInstall = []string{"apt-get", "install", "-y", "--no-install-recommends"}

// wants is what a machine is to be given.
type wants struct {
	packages                    []string
	engine, client, java, kafka bool
}

// wantsOf is what the missing checks come to.
func wantsOf(m machine) wants {
	var w wants
	for _, name := range m.missing {
		if name == "engine" && m.dockerd {
			continue // it is there and only has to be started
		}
		w.packages = append(w.packages, packages[name]...)
	}
	w.engine = slices.Contains(m.missing, "engine")
	w.client = slices.Contains(m.missing, "docker client")
	w.kafka = slices.Contains(m.missing, "kafka")
	if w.kafka && !m.maven {
		w.packages = append(w.packages, "maven")
	}
	w.java = w.kafka && !m.java
	return w
}

// plan is the steps that would bring a machine what it misses.
func plan(m machine) ([]step, error) {
	w := wantsOf(m)
	system := len(w.packages) > 0 || w.engine || w.client || w.java
	if system && (!m.root || !m.apt) {
		if w.client && m.dockerd {
			w.packages = append(w.packages, clientPackage)
		}
		if w.java {
			w.packages = append(w.packages, javaPackage)
		}
		return nil, byHand(m, w.packages)
	}
	return w.steps(), nil
}

// steps is how it is given.
func (w wants) steps() []step {
	var steps []step
	if len(w.packages) > 0 || w.client || w.java {
		steps = append(steps, step{say: "update the list of packages (apt-get update)",
			command: []string{"apt-get", "-q", "update"}})
	}
	if w.java {
		steps = append(steps, step{act: installJava,
			say: "install " + javaPackage + ", or a later Java where there is no such package"})
	}
	if len(w.packages) > 0 {
		steps = append(steps, step{command: slices.Concat(aptInstall, w.packages),
			say: "install with apt, for the whole machine: " + strings.Join(w.packages, " ") +
				", without starting their services"})
	}
	if w.kafka {
		steps = append(steps, step{act: resolveKafka,
			say: "let Maven fetch the jars of Kafka into its own folder (docker/kafka/pom.xml)"})
	}
	if w.client {
		steps = append(steps, step{act: installClient,
			say: "install " + clientPackage + ", where docker.io does not bring the client"})
	}
	if w.engine {
		steps = append(steps, step{act: startEngine, say: "start a container engine (dockerd)"})
	}
	return steps
}

// javaPackage is the oldest Java that the broker runs on; releases that have
// left it behind have a later one under another name.
const javaPackage = "openjdk-17-jre-headless"

func installJava(ctx context.Context, m machine, out io.Writer) error {
	name := javaPackage
	if err := command(ctx, io.Discard, "apt-cache", "show", name); err != nil {
		name = "default-jre-headless"
	}
	return packaging(ctx, m, out, slices.Concat(aptInstall, []string{name})...)
}

func resolveKafka(ctx context.Context, _ machine, out io.Writer) error {
	return processes.ResolveKafka(ctx, out)
}

// byHand says what the user has to do where we cannot.
func byHand(m machine, wanted []string) error {
	if m.apt && len(wanted) > 0 {
		return fmt.Errorf("missing: %s; installing it needs root: sudo apt-get install -y "+
			"--no-install-recommends %s", strings.Join(m.missing, ", "), strings.Join(wanted, " "))
	}
	if m.apt {
		return errors.New("the container engine is not running, and starting it needs root: " +
			"sudo systemctl start docker")
	}
	return fmt.Errorf("missing: %s; this is neither Debian nor Ubuntu: install PostgreSQL %d or "+
		"later and Redis 7 or later with your package manager (for Kafka, Java 17 or later and "+
		"Maven), or start a container engine",
		strings.Join(m.missing, ", "), processes.OldestPostgres)
}

func (s step) run(ctx context.Context, m machine, out io.Writer) error {
	if s.act != nil {
		return s.act(ctx, m, out)
	}
	return packaging(ctx, m, out, s.command...)
}

// packaging runs a command of the package manager.
func packaging(ctx context.Context, m machine, out io.Writer, argv ...string) error {
	restore, err := keepServicesDown(policyFile)
	if err != nil {
		return err
	}
	m.atExit(func() { _ = restore() }) // nobody is left to tell
	return errors.Join(command(ctx, out, argv...), restore())
}

// clientPackage has the program docker since Debian 13; before, docker.io has
// it. https://packages.debian.org/trixie/docker-cli
const clientPackage = "docker-cli"

// installClient installs the program docker if it is still missing. Nothing is
// removed for it: an engine of another vendor stays.
func installClient(ctx context.Context, m machine, out io.Writer) error {
	if locate("docker") != "" {
		return nil
	}
	name := clientPackage
	if err := command(ctx, io.Discard, "apt-cache", "show", name); err != nil {
		name = "docker.io" // this release knows no such package
	}
	return packaging(ctx, m, out, slices.Concat(aptInstall, []string{"--no-remove", name})...)
}

// endBound is how long a program may take to end when it is interrupted: dpkg
// is not to be torn from the configuration of a package.
const endBound = 2 * time.Minute

// command runs a program; what it prints is told only if it fails. When ctx is
// over, the program alone is interrupted, and not what it runs: on SIGINT
// apt-get lets dpkg finish what it is at, and ends.
func command(ctx context.Context, out io.Writer, argv ...string) error {
	fmt.Fprintf(out, "+ %s\n", strings.Join(argv, " "))
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = endBound
	// Ctrl-C on the terminal goes to a whole group. The signal of our death is
	// that of the thread's which started the program.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGINT}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if path := locate(argv[0]); path != "" {
		cmd.Path = path
	}
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	text, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", argv[0], context.Cause(ctx))
	}
	if err != nil {
		return fmt.Errorf("%w\n%s", err, lastLines(text, 15))
	}
	return nil
}

func lastLines(text []byte, n int) string {
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
