package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"stampede/harness/plain"
	"stampede/harness/rundir"
)

func newOpen(a *app) *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "open [run]",
		Short: "Open the report of a stored run in the browser",
		Long: `Opens report.html. <run> is a directory, a scenario's name for its latest run, or
latest, which is the default. In CI, without a terminal or without a desktop
nothing is opened.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			stored, err := openRun(out, append(args, rundir.Latest)[0])
			if err != nil {
				return usage(err)
			}
			path := filepath.Join(stored.Path, rundir.ReportFile)
			if _, err := os.Stat(path); err != nil {
				return usage(fmt.Errorf("%s has no report; `stampede report` makes one: %w",
					stored.Path, err))
			}
			return withCode(exitEnvironment, a.openPage(path))
		},
	}
	cmd.Flags().StringVar(&out, "out", "runs", "the folder of the runs")
	return cmd
}

// tellOpen says how a run's report is opened, where somebody may want to.
func (a *app) tellOpen(out, scenario string) {
	if !isTerminal(a.stdout) || os.Getenv("CI") != "" {
		return
	}
	a.logf("%s", openHint(program(), out, scenario))
}

// openHint is the command line that opens the latest report of a scenario.
func openHint(program, out, scenario string) string {
	hint := "Open the report: " + program + " open " + plain.Word(scenario)
	if out != "runs" {
		hint += " --out " + plain.Word(out)
	}
	return hint
}

// tryToOpen opens a run's report if it can, which changes no exit code.
func (a *app) tryToOpen(path string) {
	if err := a.openPage(filepath.Join(path, rundir.ReportFile)); err != nil {
		a.logf("stampede: %v", err)
	}
}

func (a *app) openPage(path string) error {
	d := desktop{variable: os.Getenv, look: exec.LookPath,
		terminal: isTerminal(a.stdout) || isTerminal(a.stderr)}
	program, err := d.opener()
	if err != nil {
		return fmt.Errorf("%s is not opened: %w", path, err)
	}
	_, err = show(program, path)
	return err
}

// desktop is where a page could be opened.
type desktop struct {
	variable func(name string) string
	terminal bool
	look     func(program string) (string, error)
}

// opener finds the program that opens a page in the browser. An error says
// why there is none.
func (d desktop) opener() (string, error) {
	switch {
	case d.variable("CI") != "":
		return "", errors.New("this is CI (the variable CI is set)")
	case !d.terminal:
		return "", errors.New("there is no terminal")
	case d.variable("DISPLAY") == "" && d.variable("WAYLAND_DISPLAY") == "":
		return "", errors.New("there is no desktop (neither DISPLAY nor WAYLAND_DISPLAY is set)")
	}
	return d.look("xdg-open")
}

// show starts a program with a page, a file or an address, and does not wait for it: it may be the
// browser itself.
func show(program, path string) (*exec.Cmd, error) {
	if !strings.HasPrefix(path, "http://") {
		var err error
		if path, err = filepath.Abs(path); err != nil {
			return nil, fmt.Errorf("opening the report: %w", err)
		}
	}
	cmd := exec.Command(program, path)
	// Ctrl-C on this terminal is not meant for the browser.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("opening %s: %w", path, err)
	}
	return cmd, nil
}
