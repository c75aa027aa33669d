package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"stampede/harness/knee"
	"stampede/harness/rundir"
	"stampede/harness/scenario"
	"stampede/reports/answer"
	"stampede/reports/page"
	"stampede/reports/words"
)

// kneeFlags are the flags of knee: those of run that make sense for it, and its
// own.
type kneeFlags struct {
	runFlags
	window               time.Duration
	from, most           float64
	precision            float64
	repeats, mostWindows int
	again                int
	objectives           []string
}

func newKnee(a *app) *cobra.Command {
	var f kneeFlags
	cmd := &cobra.Command{
		Use:     "knee <scenario>",
		Aliases: []string{"find-rate"},
		Short:   "Search for the highest rate that meets every objective",
		Example: `  stampede knee likes-spike
  stampede knee flash-sale-100k --objective 'p99(response) <= 5ms'
  stampede knee flash-sale-100k --window 5s --repeats 1 --max 5000`,
		Long: `Searches, for each design in turn, for the highest constant rate at which every
objective of the scenario and every invariant holds and no work piles up. It keeps
one set of stores and offers a rate for one window after another: it doubles or
halves the rate until one holds and a higher one does not, bisects, and confirms
what it found with repeats, all of which must hold.

The scenario's arrival is replaced by a constant one, and its faults are left out, as
are the designs that it must catch breaking something, unless --design names
them. A window without an answer is tried once more (--again). A rate at which
everything due was done and every objective was met holds, also on a noisy machine; a
miss on one is tried again, and bounds the knee from above with ≈ if it stays.

Exit codes:
    0  for every design the knee was found, as a number or an interval, or
       --max held
    1  an invariant was violated that was not expected to be
    2  the command line or the scenario is wrong
    3  a design misses an objective at the lowest rate that was tried
    4  for some design it is not decided
    5  the environment is not ready
   70  a defect of stampede itself
  130  interrupted by Ctrl-C or --timeout (143 by SIGTERM)
The worst wins, in the order 1, 70, 5, 4, 3.
`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.knee(args[0], f, a.openLab)
		},
	}
	f.define(cmd)
	return cmd
}

func (f *kneeFlags) define(cmd *cobra.Command) {
	fl := cmd.Flags()
	f.changed = fl.Changed
	fl.StringVar(&f.profile, "profile", "", scenario.ProfilesText)
	fl.StringSliceVar(&f.variants, "design", nil, "only these, by `name` (comma-separated)")
	fl.StringArrayVar(&f.set, "set", nil, "override a value of the scenario: path=value")
	fl.StringArrayVar(&f.objectives, "objective", nil, "a further objective, such as "+
		"'p99(response) <= 100ms'")
	fl.DurationVar(&f.window, "window", 10*time.Second, "how long each rate is offered")
	fl.Float64Var(&f.from, "from", 0, "the first rate per second; by default a quarter of the "+
		"scenario's mean rate")
	fl.Float64Var(&f.most, "max", 50_000, "the highest rate per second")
	fl.Float64Var(&f.precision, "precision", 0.1, "how much higher, as a share, a rate that fails "+
		"may be")
	fl.IntVar(&f.repeats, "repeats", 3, "how many windows confirm the knee")
	fl.IntVar(&f.again, "again", 1, "how many more tries a window without an answer gets")
	fl.IntVar(&f.mostWindows, "max-windows", 40, "the largest number of windows for a design")
	fl.StringVar(&f.seed, "seed", "", "the seed; random by default, always printed")
	f.defineBackend(fl)
	f.servers.define(fl)
	fl.DurationVar(&f.timeout, "timeout", 0, "stop the search after this long, as Ctrl-C would")
	fl.StringVar(&f.out, "out", "runs", "the folder of the runs; searches go under knee in it")
	fl.StringVar(&f.format, "format", "", "pretty, plain, quiet or json: one document at the end, "+
		"that of knee.json, where run streams events; by default pretty on a terminal, else plain")
	fl.StringVar(&f.colour, "color", "auto", "auto, always or never")
	fl.BoolVarP(&f.verbose, "verbose", "v", false, "show where the stores come from")
	fl.BoolVar(&f.open, "open", false, "open the report in the browser after the search")
	flagGroups(cmd,
		[]string{"Load", "profile", "from", "max", "window", "seed", "set", "timeout"},
		[]string{"Designs", "design"},
		[]string{"Verdict", "objective", "precision", "repeats", "again", "max-windows"},
		[]string{"Output", "out", "format", "color", "verbose", "open"},
		[]string{"Stores", "backend", "postgres-url", "replica-url", "redis-url", "kafka-brokers",
			"allow-nonempty"})
}

// check refuses flags that make no sense.
func (f *kneeFlags) check() error {
	return errors.Join(f.checkShown(), checkBackend(f.backend), f.checkAddresses(f.changed),
		f.checkPositive(map[string]bool{"window": f.window > 0, "from": f.from > 0,
			"max": f.most > 0, "precision": f.precision > 0,
			"repeats": f.repeats > 0, "max-windows": f.mostWindows > 0, "timeout": f.timeout > 0}))
}

// tried is what offering a rate for a window came to.
type tried struct {
	knee.Window
	// kind is the operation kind that the response times are of.
	kind        string
	environment rundir.Environment
}

// tryRate offers a constant rate to a variant for one window.
type tryRate func(ctx context.Context, variant string, rate float64, seed uint64) (tried, error)

// openLab makes what a search tries rates with.
type openLab func(k *kneeSearch) (try tryRate, stop func() error, err error)

// kneeSearch is a search under way.
type kneeSearch struct {
	*app
	flags   kneeFlags
	plan    kneePlan
	dir     *rundir.Dir
	printer *printer
	summary knee.Summary
}

// knee searches a scenario's variants on what open makes.
func (a *app) knee(name string, f kneeFlags, open openLab) error {
	if err := f.check(); err != nil {
		return usage(err)
	}
	seed, err := parseSeed(f.seed)
	if err != nil {
		return usage(err)
	}
	plan, err := planKnee(name, f, seed)
	if err != nil {
		return err
	}
	tuneRuntime()
	if f.timeout > 0 {
		defer a.interrupts.after(f.timeout)()
	}
	dir, err := rundir.CreateSearch(f.out, plan.whole.Scenario.Name, seed, time.Now())
	if err != nil {
		return withCode(exitEnvironment, err)
	}
	defer dir.Close()
	k := &kneeSearch{app: a, flags: f, plan: plan, dir: dir,
		printer: a.newPrinter(f.format, f.colour, f.verbose)}
	defer func() { _ = k.printer.close() }() // a terminal, if anything
	k.begin(seed)
	failed := k.run(open)
	if len(k.summary.Variants) == 0 {
		// Nothing was tried, so nothing is left.
		if failed == nil {
			failed = a.failed(exitUndecided, context.Cause(a.interrupts.soft))
		}
		return errors.Join(failed, dir.Discard())
	}
	return k.finish(failed)
}

// begin notes what is about to be searched.
func (k *kneeSearch) begin(seed uint64) {
	sc := k.plan.whole.Scenario
	k.summary = knee.Summary{SchemaVersion: knee.SchemaVersion, Tool: tool(),
		Plan: k.plan.bounds, WindowNS: k.flags.window.Nanoseconds(),
		WarmUpNS: sc.Load.WarmUp.D().Nanoseconds(), Objectives: k.plan.objectives,
		Environment: rundir.Environment{Components: map[string]rundir.Component{}},
		Variants:    []knee.Variant{}, Warnings: k.plan.warnings,
		Search: knee.Info{ID: k.dir.ID(), Scenario: sc.Name, Question: sc.Question,
			System: k.plan.whole.System.Name, Profile: sc.Profile, Seed: seed,
			Started:   time.Now().UTC(),
			Argv:      append([]string{"stampede"}, redacted(k.argv, k.plan.whole.System)...),
			Reproduce: k.plan.reproduce(k.flags, seed)}}
	b := k.plan.bounds
	k.printer.Logf("knee of %s (%s), seed %d: windows of %s, from %v/s, %v/s to %v/s",
		sc.Name, sc.Profile, seed, k.flags.window, b.FromPerS, b.LeastPerS, b.MostPerS)
	k.printer.Logf("this takes %s", estimateSearch(k.plan))
	for _, o := range k.plan.objectives {
		k.printer.Logf("objective %s: %s", o.Name, o.Objective)
	}
	for _, warning := range k.plan.warnings {
		k.printer.Logf("note: %s", warning)
	}
}

// run searches the variants in turn, until one fails or the user stops it.
func (k *kneeSearch) run(open openLab) (err error) {
	try, stop, err := open(k)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	for _, name := range k.plan.variants {
		if k.interrupts.soft.Err() != nil {
			return nil
		}
		if err := k.searchVariant(name, try); err != nil {
			return err
		}
	}
	return nil
}

// searchVariant searches one variant and keeps what it came to, be it not all.
func (k *kneeSearch) searchVariant(name string, try tryRate) error {
	v, _ := k.plan.whole.System.Variant(name) // it was chosen
	out := knee.Variant{Name: name, Idea: v.Idea, KnownWrong: k.plan.knownWrong[name]}
	next := k.summary.Search.Seed
	result, err := knee.Search(k.interrupts.soft, k.plan.bounds,
		func(ctx context.Context, rate float64) (knee.Window, error) {
			seed := next
			next++
			t, err := try(ctx, name, rate, seed)
			if err != nil {
				return t.Window, err
			}
			t.Seed, out.Kind, k.summary.Environment = seed, t.kind, t.environment
			k.tellWindow(name, rate, t.Window)
			return t.Window, nil
		})
	out.Result = result
	if len(result.Windows) > 0 {
		k.summary.Variants = append(k.summary.Variants, out)
		k.printer.Logf("%s: %s", name, page.KneeSentence(out))
	}
	return err
}

// tellWindow prints a line for a window.
func (k *kneeSearch) tellWindow(name string, rate float64, w knee.Window) {
	as := map[knee.Verdict]string{knee.Held: rundir.Pass, knee.Missed: rundir.Fail,
		knee.Broke: rundir.Fail}[w.Verdict]
	word := k.printer.paint(colourOf(answer.VerdictMark(as)), string(w.Verdict))
	k.printer.print(page.KneeWindowLine(name, rate, word, w))
}

// finish writes what was found and returns the exit code as an error.
func (k *kneeSearch) finish(failed error) error {
	s := &k.summary
	s.Search.Finished = time.Now().UTC()
	s.Search.Interrupted = k.interrupts.exit() != 0
	if err := k.write(); err != nil {
		return errors.Join(failed, withCode(exitEnvironment, err))
	}
	report := filepath.Join(k.dir.Path(), rundir.ReportFile)
	if failed != nil {
		return fmt.Errorf("%w (what was found by then is in %s)", failed, report)
	}
	code := kneeExit(*s)
	if stopped := k.interrupts.exit(); stopped != 0 {
		code = stopped
	}
	if err := k.printer.close(); err != nil {
		return err
	}
	if err := k.printResult(report, code); err != nil {
		return err
	}
	if k.flags.open {
		k.tryToOpen(k.dir.Path())
	}
	switch {
	case k.interrupts.exit() != 0:
		return withCode(code, context.Cause(k.interrupts.soft))
	case code != exitOK:
		return &exitError{code: code}
	}
	return nil
}

// write puts knee.json and the page into the search's directory.
func (k *kneeSearch) write() error {
	if err := k.dir.WriteJSON(knee.SummaryFile, k.summary); err != nil {
		return err
	}
	return k.dir.WriteFile(rundir.ReportFile, func(w io.Writer) error {
		return page.Knee(w, k.summary)
	})
}

func (k *kneeSearch) printResult(report string, code int) error {
	switch k.flags.format {
	case "json":
		return writeJSON(k.stdout, k.summary)
	case "quiet":
		return nil
	}
	return page.KneeText(k.stdout, k.summary, words.TextOptions{Report: report, Exit: code,
		Colour: wantColour(k.flags.colour, k.stdout)})
}

// kneeExit is the exit code of a search.
func kneeExit(s knee.Summary) int {
	codes := []int{}
	for _, v := range s.Variants {
		brokeAsKnown := v.KnownWrong && slices.ContainsFunc(v.Result.Windows,
			func(w knee.Window) bool { return w.Verdict == knee.Broke })
		switch {
		case v.Broken():
			codes = append(codes, exitInvariant)
		case v.Result.Outcome == knee.NotDecided, v.Result.Outcome == knee.Stopped,
			v.Result.Outcome == knee.Nowhere && v.Result.Approximate:
			codes = append(codes, exitUndecided)
		case v.Result.Outcome == knee.Nowhere && !brokeAsKnown:
			codes = append(codes, exitObjective)
		}
	}
	return worstExit(codes)
}
