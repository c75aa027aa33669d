package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"stampede/harness/env"
	"stampede/harness/judge"
	"stampede/harness/run"
	"stampede/harness/rundir"
)

func newCheck(a *app) *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:     "check <run>",
		Aliases: []string{"judge"},
		Short:   "Judge a stored run again, from its histories and audits",
		Long: `Judges a run directory with the checkers of this build and writes its summary and
reports anew. It needs no store. A run that was killed is judged up to its last
flushed second.

<run> is a directory, a scenario's name for its latest run, or latest.`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := f.checkOutput(); err != nil {
				return usage(err)
			}
			return a.check(args[0], f)
		},
	}
	f.defineOutput(cmd)
	cmd.Flags().Lookup("format").Usage = "pretty, plain, quiet or json: the run's summary; by " +
		"default pretty on a terminal, else plain"
	return cmd
}

func (a *app) check(which string, f runFlags) error {
	stored, err := openRun(f.out, which)
	if err != nil {
		return usage(err)
	}
	system, ok := findSystem(stored.Manifest.Run.System)
	if !ok {
		return usage(fmt.Errorf("%s is a run of the system %q, which this build does not have",
			stored.Path, stored.Manifest.Run.System))
	}
	how, err := judgingOf(stored)
	if err != nil {
		return usage(err)
	}
	dir, err := rundir.Lock(stored.Path)
	if err != nil {
		return withCode(exitEnvironment, err)
	}
	defer dir.Close()
	summary, err := judge.Directory(a.interrupts.hard, dir, system, how)
	if err != nil {
		err = fmt.Errorf("judging %s: %w", stored.Path, err)
		if run.DiskFailed(err) {
			return withCode(exitEnvironment, err)
		}
		return usage(err)
	}
	if err := dir.Close(); err != nil {
		return err
	}
	told, err := a.tell(stored.Path, summary, f)
	if err == nil && f.format == "json" {
		err = writeJSON(a.stdout, told.data.Summary)
	}
	if err != nil {
		return withCode(worstExit([]int{told.code, exitCode(err)}), err)
	}
	code := told.code
	if code != exitOK {
		return &exitError{code: code}
	}
	return nil
}

// judgingOf keeps what an earlier summary knew of the run's end. A run
// without one was killed.
func judgingOf(stored *rundir.Run) (judge.End, error) {
	finished, interrupted, err := stored.Ended()
	if errors.Is(err, rundir.ErrUnfinished) {
		return judge.End{Finished: stored.Manifest.Run.Started, Interrupted: true}, nil
	}
	return judge.End{Finished: finished, Interrupted: interrupted}, err
}

// defineOutput defines the flags that say where the results go.
func (f *runFlags) defineOutput(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.out, "out", "runs", "the folder of the runs")
	fl.StringSliceVar(&f.failOn, "fail-on", []string{"invariant", "objective", "inconclusive"},
		"reasons for a non-zero exit code: invariant, objective, inconclusive, timing, regression or "+
			"none; INVALID always is one")
	fl.StringVar(&f.against, "against", "", "compare with this stored run; with --fail-on "+
		"regression, becoming worse is exit code 6")
	fl.BoolVar(&f.acrossMachines, "across-machines", false, "let --against judge runs of "+
		"different machines or stores")
	fl.StringVar(&f.format, "format", "", "pretty, plain, quiet or json: a run's events, the last "+
		"one with its result; by default pretty on a terminal, else plain")
	fl.StringVar(&f.colour, "color", "auto", "auto, always or never")
	fl.StringVar(&f.junit, "junit", "", "copy the JUnit file here")
	fl.StringVar(&f.json, "json", "", "copy summary.json here")
	fl.StringVar(&f.md, "md", "", "copy the Markdown summary here")
	fl.StringVar(&f.metrics, "metrics", "", "copy the OpenMetrics file here")
	fl.StringVar(&f.html, "html", "", "copy the report here")
}

// checkOutput refuses flags of defineOutput that make no sense.
func (f *runFlags) checkOutput() error {
	problems := []error{f.checkShown()}
	for _, reason := range f.failOn {
		problems = append(problems,
			oneOf("fail-on", reason, "invariant", "objective", "inconclusive", "timing", regression,
				"none"))
	}
	if slices.Contains(f.failOn, regression) && f.against == "" {
		problems = append(problems, errors.New("--fail-on regression needs a stored run to "+
			"compare with: --against RUN"))
	}
	return errors.Join(problems...)
}

// checkShown refuses ways of showing progress and results that there are not.
func (f *runFlags) checkShown() error {
	return errors.Join(oneOf("format", f.format, "", "pretty", "plain", "json", "quiet"),
		oneOf("color", f.colour, "auto", "always", "never"))
}

// checkBackend refuses a backend that there is not, and says which one was meant.
func checkBackend(name string) error {
	err := oneOf("backend", name, "auto", env.Containers, env.Processes, env.External)
	meant := map[string]string{"docker": env.Containers, "podman": env.Containers,
		"compose": env.Containers, "local": env.Processes, "native": env.Processes,
		"host": env.Processes, "remote": env.External}[strings.ToLower(name)]
	if err != nil && meant != "" {
		return fmt.Errorf("%w; did you mean %q?", err, meant)
	}
	return err
}

// oneOf refuses a flag's value that is not allowed.
func oneOf(name, value string, allowed ...string) error {
	if slices.Contains(allowed, value) {
		return nil
	}
	allowed = slices.DeleteFunc(allowed, func(s string) bool { return s == "" })
	return fmt.Errorf("--%s is %q; expected one of %s%s", name, value, strings.Join(allowed, ", "),
		didYouMean(value, allowed))
}
