package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	// installTimeout bounds apt-get, startTimeout a docker engine's start.
	installTimeout = 15 * time.Minute
	startTimeout   = time.Minute
	// policyFile, while it exists and exits with 101, keeps packages from
	// starting their services: stampede starts stores of its own.
	policyFile = "/usr/sbin/policy-rc.d"
	engineLog  = "stampede-dockerd.log"
)

// Fix installs what Examine finds missing and not optional: it says on out
// what it is going to do, and does it. It needs Debian or Ubuntu and root;
// elsewhere it is an error that says what to install by hand.
func Fix(ctx context.Context, opts Options, out io.Writer) error {
	packages, start := wanted(Examine(ctx, opts))
	if len(packages) > 0 {
		if err := install(ctx, packages, out); err != nil {
			return err
		}
		// A package may bring an engine that is not running yet.
		if _, start = wanted(Examine(ctx, opts)); !start {
			return nil
		}
	}
	if start {
		return startEngine(ctx, out)
	}
	return nil
}

// wanted reads the packages and the need of an engine from the checks.
func wanted(checks []Check) (packages []string, startEngine bool) {
	for _, c := range checks {
		if c.OK || c.Optional {
			continue
		}
		if pkg, ok := strings.CutPrefix(c.Fix, "apt-get install "); ok {
			packages = append(packages, strings.Fields(pkg)...)
		}
		startEngine = startEngine || c.Fix == "dockerd"
	}
	slices.Sort(packages)
	return slices.Compact(packages), startEngine
}

// install installs packages with apt, keeping their services from starting.
func install(ctx context.Context, packages []string, out io.Writer) (err error) {
	command := append([]string{"install", "-y", "--no-install-recommends"}, packages...)
	switch {
	case !onPath("apt-get"):
		return fmt.Errorf("this is neither Debian nor Ubuntu: install %s by hand, or a docker "+
			"engine", strings.Join(packages, ", "))
	case os.Geteuid() != 0:
		return fmt.Errorf("installing needs root: sudo apt-get %s", strings.Join(command, " "))
	}
	fmt.Fprintf(out, "doctor: installing %s (apt-get update, apt-get %s); their services are "+
		"not started\n", strings.Join(packages, ", "), strings.Join(command, " "))
	restore, err := holdServices()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, restore()) }()
	if err := apt(ctx, "update"); err != nil {
		return err
	}
	return apt(ctx, command...)
}

// apt runs apt-get; what it printed is told only if it fails.
func apt(ctx context.Context, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, installTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, locate("apt-get"), args...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	text, err := cmd.CombinedOutput()
	if err != nil {
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		return fmt.Errorf("apt-get %s: %w\n%s", args[0], err,
			strings.Join(lines[max(0, len(lines)-15):], "\n"))
	}
	return nil
}

// holdServices keeps packages from starting services until restore is
// called. A policy that is there already stays in force.
func holdServices() (restore func() error, err error) {
	file, err := os.OpenFile(policyFile, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if errors.Is(err, os.ErrExist) {
		return func() error { return nil }, nil
	}
	if err != nil {
		return nil, fmt.Errorf("keeping services from starting: %w", err)
	}
	_, err = file.WriteString("#!/bin/sh\nexit 101\n")
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, errors.Join(fmt.Errorf("keeping services from starting: %w", err),
			os.Remove(policyFile))
	}
	return func() error { return os.Remove(policyFile) }, nil
}

// startEngine starts a docker engine that goes on when stampede has ended,
// and waits until it answers.
func startEngine(ctx context.Context, out io.Writer) error {
	if os.Geteuid() != 0 {
		return errors.New("starting a docker engine needs root: sudo dockerd")
	}
	path := filepath.Join(os.TempDir(), engineLog)
	log, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("opening the engine's log: %w", err)
	}
	defer log.Close() // the engine has a copy
	fmt.Fprintf(out, "doctor: starting dockerd, its log is %s\n", path)
	cmd := exec.Command(locate("dockerd"))
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting dockerd: %w", err)
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	return awaitEngine(ctx, exited, path)
}

func awaitEngine(ctx context.Context, exited <-chan error, log string) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for {
		if examineEngine(ctx).OK {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("dockerd did not answer within %s; see %s", startTimeout, log)
		case err := <-exited:
			return fmt.Errorf("dockerd ended (%v); see %s", err, log)
		case <-tick.C:
		}
	}
}
