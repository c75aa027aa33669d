package main

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"stampede/harness/durable"
	"stampede/harness/run"
	"stampede/harness/rundir"
	"stampede/harness/stats"
	"stampede/reports/answer"
	"stampede/reports/compare"
)

// regression is the word of --fail-on for exit code 6.
const regression = "regression"

func newCompare(a *app) *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "compare <base> <candidate>...",
		Short: "Compare stored runs, design by design",
		Long: `Compares stored runs with the first one. Each is a directory, a scenario's name for
its latest run, or label=directory.

Runs on different machines or stores, or of different scenarios, seeds or profiles, are
still shown, marked, with their differences. A design whose times are noisy in a run is
marked with ≈ and does not affect the others.

With --fail-on regression the exit code is 6 if a design became worse. That is an
invariant that is broken now, in runs of one scenario and profile, unless both
runs expect it; an objective that is missed now; and, with clean times in both runs, p50,
p99 or throughput by 5 % or more, significantly by an exact test over the repeats after
Holm's correction; that takes five repeats a side, and one repeat can never show it. Runs
whose times must not be compared are exit code 4, as are two copies of one run, and what
held and is not decided now; --across-machines allows those that differ in machine or
stores only. The exit code is 7 if no design has clean times in both runs.`,
		Args: cobra.MinimumNArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			for _, reason := range f.failOn {
				if err := oneOf("fail-on", reason, regression, "none"); err != nil {
					return usage(err)
				}
			}
			if err := oneOf("format", f.format, "text", "md", "json"); err != nil {
				return usage(err)
			}
			return a.compare(args, f)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.out, "out", "runs", "the folder of the runs")
	fl.StringSliceVar(&f.failOn, "fail-on", []string{"none"},
		"reasons for a non-zero exit code: regression or none")
	fl.BoolVar(&f.acrossMachines, "across-machines", false,
		"let --fail-on judge runs of different machines or stores")
	fl.StringVar(&f.format, "format", "text", "text, md or json")
	fl.StringVar(&f.html, "html", "", "write the comparison here as a page")
	return cmd
}

func (a *app) compare(args []string, f runFlags) error {
	loaded := make([]compare.Labelled, len(args))
	taken := map[string]int{}
	for i, arg := range args {
		var err error
		if loaded[i], err = loadLabelled(f.out, arg); err != nil {
			return usage(err)
		}
		if n := taken[loaded[i].Label]; n > 0 {
			taken[loaded[i].Label]++
			loaded[i].Label += fmt.Sprintf(" (%d)", n+1)
		}
		taken[loaded[i].Label]++
	}
	comparisons := []compare.Comparison{}
	for _, candidate := range loaded[1:] {
		comparisons = append(comparisons, compare.Runs(loaded[0], candidate))
	}
	if err := a.tellComparisons(comparisons, f); err != nil {
		return err
	}
	codes := []int{}
	for i := range comparisons {
		codes = append(codes, a.regressionExit(&comparisons[i], f))
	}
	if code := worstExit(codes); code != exitOK {
		return &exitError{code: code}
	}
	return nil
}

// tellComparisons writes comparisons in the format that was asked for, and as a page.
func (a *app) tellComparisons(comparisons []compare.Comparison, f runFlags) error {
	write := map[string]func(io.Writer, bool, ...compare.Comparison) error{
		"text": compare.Text, "md": compare.Markdown, "json": compare.JSON}[f.format]
	if err := write(a.stdout, f.acrossMachines, comparisons...); err != nil || f.html == "" {
		return err
	}
	return withCode(exitEnvironment, durable.WriteFile(f.html, func(w io.Writer) error {
		return compare.HTML(w, f.acrossMachines, comparisons...)
	}))
}

// loadLabelled reads a stored run that is given as [label=]run. Without a label it is
// called by its folder's name: what is the latest run today is another one tomorrow.
func loadLabelled(out, arg string) (compare.Labelled, error) {
	label, which, ok := strings.Cut(arg, "=")
	if !ok {
		which = arg
	}
	stored, err := openRun(out, which)
	if err != nil {
		return compare.Labelled{}, err
	}
	if !ok {
		label = filepath.Base(stored.Path)
	}
	data, err := answer.Load(stored.Path)
	return compare.Labelled{Label: label, Data: data}, err
}

// compare compares a judged run with that of --against; nil without one.
func (f *runFlags) compare(path string, data answer.Data) (*compare.Comparison, error) {
	if f.against == "" {
		return nil, nil
	}
	base, err := loadLabelled(f.out, f.against)
	if err != nil {
		return nil, usage(fmt.Errorf("--against: %w", err))
	}
	c := compare.Runs(base, compare.Labelled{Label: filepath.Base(path), Data: data})
	return &c, nil
}

// regressionExit is the exit code of a comparison if --fail-on asks for one,
// and says why it is not 0.
func (a *app) regressionExit(c *compare.Comparison, f runFlags) int {
	if c == nil || !slices.Contains(f.failOn, regression) {
		return exitOK
	}
	worse := c.Worsened(f.acrossMachines)
	for _, change := range worse {
		a.logf("stampede: worse than %s: %s", c.Base, change)
	}
	if len(worse) > 0 {
		return exitRegression
	}
	if c.Untimed() && len(c.Undecided(f.acrossMachines)) == 0 {
		a.logf("stampede: no answer whether %s is worse than %s: no design has clean times in both",
			c.Candidate, c.Base)
		return exitTiming
	}
	if why := c.Undecided(f.acrossMachines); len(why) > 0 {
		for _, reason := range why {
			a.logf("stampede: no answer whether %s is worse than %s: %s", c.Candidate, c.Base, reason)
		}
		return exitUndecided
	}
	for _, few := range c.Few {
		a.logf("stampede: of %s nothing can be said: %s", c.Candidate, few)
	}
	for _, r := range c.Regressions {
		a.logf("stampede: regression against %s: %s", c.Base, r)
	}
	if len(c.Regressions) > 0 {
		return exitRegression
	}
	return exitOK
}

// checkAgainst refuses, before anything is started, a run that could not be
// compared with that of --against. Without --seed it gets that run's seed.
func (f *runFlags) checkAgainst(plans []resolved, seed *uint64) error {
	if f.against == "" {
		return nil
	}
	stored, err := openRun(f.out, f.against)
	if err != nil {
		return fmt.Errorf("--against: %w", err)
	}
	// The latest run is another one when this one is over.
	f.against = stored.Path
	base, err := stored.Summary()
	if err != nil {
		return fmt.Errorf("--against: %w", err)
	}
	if len(plans) != 1 {
		return errors.New("--against compares one scenario")
	}
	if f.seed == "" {
		*seed = base.Run.Seed
	}
	plans[0].fitAs(base.Run)
	if !slices.Contains(f.failOn, regression) {
		return nil
	}
	return canCompare(base.Run, plans[0], *seed)
}

// comparedMetrics is how many metrics of a variant are compared.
func comparedMetrics() int { return len(stats.Samples(rundir.Variant{}, false)) }

// canCompare says why a run that is planned could not be compared with one
// that was, as far as that is known before.
func canCompare(base rundir.RunInfo, plan resolved, seed uint64) error {
	least := stats.LeastRepeats(comparedMetrics())
	if !stats.CanShow(base.Repeats, plan.Scenario.Repeats, comparedMetrics()) {
		return fmt.Errorf("--fail-on regression: %d repeats there and %d here can never show one; "+
			"it takes %d a side (--repeats %d)", base.Repeats, plan.Scenario.Repeats, least, least)
	}
	digest, err := run.ScenarioDigest(plan.Scenario, plan.System)
	if err != nil {
		return err
	}
	if digest != base.ScenarioDigest {
		return fmt.Errorf("--fail-on regression: the resolved scenario is not that of %s; "+
			"give the same profile, designs, --repeats and --set", base.ID)
	}
	load, err := run.PlanOf(plan.Scenario, seed)
	if err != nil {
		return err
	}
	if seed != base.Seed || load.Digest != base.ArrivalDigest {
		return fmt.Errorf("--fail-on regression: the load is not that of %s; its seed is %d",
			base.ID, base.Seed)
	}
	return nil
}
