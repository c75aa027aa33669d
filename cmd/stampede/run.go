package main

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"stampede/harness/deploy"
	"stampede/harness/env"
	"stampede/harness/env/kubernetes"
	"stampede/harness/events"
	"stampede/harness/fit"
	"stampede/harness/run"
	"stampede/harness/rundir"
	"stampede/harness/scenario"
	"stampede/harness/sut"
	"stampede/harness/topics"
	"stampede/reports/answer"
	"stampede/scenarios"
)

func newRun(a *app) *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run <scenario>... | all",
		Short: "Run a scenario, judge it and write its report",
		Example: `  stampede run flash-sale-100k
  stampede run flash-sale-100k --profile smoke --design redis_lua,for_update
  stampede run likes-spike --repeats 5 --against RUN --fail-on regression
  stampede run flash-sale-100k --target http://127.0.0.1:8080`,
		Long: `Runs each scenario: starts the stores, loads the designs in turn, injects the
scenario's faults, judges the histories and writes report.html.

A scenario is a built-in name (stampede list scenarios) or a path to a file.

Profiles, with how long most scenarios take:
  smoke    a small load, for every change in CI: 30 s to 2 min
  quick    the fewest designs that answer the question: 2 to 3 min on two CPUs;
           the same as default where a scenario has no quick
  default  all designs, or as many as 4 min on two CPUs allow: 1 to 4 min
  full     all designs, the largest load, the same on every machine, mostly
           repeated: 2 min to 1 h, some 3 to 7 h; --dry-run says how long

` + exitCodesHelp,
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.runAll(args, f)
		},
	}
	f.define(cmd)
	return cmd
}

// runAll runs the scenarios one after the other, those after one that could not
// be run too, and returns the worst exit code. All are decoded before the first
// one starts.
func (a *app) runAll(names []string, f runFlags) error {
	if err := errors.Join(f.check(), f.read()); err != nil {
		return usage(err)
	}
	if slices.Contains(names, "all") {
		names = scenarios.All()
	}
	seed, err := parseSeed(f.seed)
	if err := errors.Join(err, f.checkCopies(len(names))); err != nil {
		return usage(err)
	}
	plans := make([]resolved, len(names))
	for i, name := range names {
		if plans[i], err = f.plan(name); err == nil {
			err = errors.Join(f.checkTarget(plans[i]), f.checkModels(plans[i]),
				f.checkSplit(plans[i]))
		}
		if err != nil {
			return err
		}
	}
	if err := f.checkAgainst(plans, &seed); err != nil {
		return usage(err)
	}
	if f.dryRun {
		for _, plan := range plans {
			if err := describe(a.stdout, plan, f.control(plan.Scenario.Profile)); err != nil {
				return err
			}
		}
		return f.showGenerators(a.stdout, plans[0])
	}
	return a.runPlans(names, plans, seed, f)
}

func (a *app) runPlans(names []string, plans []resolved, seed uint64, f runFlags) error {
	if err := os.MkdirAll(f.out, 0o755); err != nil {
		return withCode(exitEnvironment, fmt.Errorf("--out: the folder of the runs cannot be made: %w",
			err))
	}
	tuneRuntime()
	soft := a.interrupts.soft
	if f.timeout > 0 {
		defer a.interrupts.after(f.timeout)()
	}
	codes := []int{}
	for i, plan := range plans {
		code, err := a.runOne(soft, names[i], plan, seed, f)
		if err != nil && soft.Err() != nil {
			return err
		}
		codes = append(codes, code)
		if err != nil {
			codes = append(codes, exitCode(err))
			if len(plans) > 1 {
				err = fmt.Errorf("%s: %w", plan.Scenario.Name, err)
			}
			a.logf("stampede: %v", err)
		}
		if soft.Err() != nil {
			break
		}
	}
	if code := a.interrupts.exit(); code != 0 {
		return withCode(code, context.Cause(soft))
	}
	if code := worstExit(codes); code != exitOK {
		return &exitError{code: code}
	}
	return nil
}

// runOne runs one scenario, writes its reports and returns its exit code. That
// of what was judged is there beside an error in telling it.
func (a *app) runOne(
	soft context.Context, name string, plan resolved, seed uint64, f runFlags,
) (code int, err error) {
	p := a.runPrinter(f)
	defer func() {
		if s, ok := p.view.(*stream); ok {
			s.fail(err)
		}
		err = errors.Join(err, withCode(exitEnvironment, p.close()))
		a.tellKept(p.kept)
	}()
	path, summary, err := a.perform(soft, name, plan, seed, f, p)
	if err != nil {
		return 0, err
	}
	for _, line := range f.replayed.differences(summary) {
		p.Logf("not as it was: %s", line)
	}
	s, streams := p.view.(*stream)
	if !streams {
		if err := p.close(); err != nil {
			return exitOf(summary, f.failOn), err
		}
	}
	t, err := a.tell(path, summary, f)
	if err != nil {
		return t.code, err
	}
	written := a.noteReport(path, t.data.Summary.Run.ID)
	if streams {
		s.Observe(written)
		s.tell(events.Event{RunID: written.RunID, Result: &events.Document{Directory: path,
			Exit: t.code, Summary: t.data.Summary}})
	}
	switch {
	case f.open:
		a.tryToOpen(path)
	case !streams && f.format != "quiet":
		a.tellOpen(f.out, plan.Scenario.Name)
	}
	return t.code, nil
}

// noteReport adds to a run's events that its page is there. Events fail nothing: one
// that cannot be written is told of.
func (a *app) noteReport(path, id string) events.Event {
	written := events.Stamped(events.Event{RunID: id, ReportWritten: &events.Report{
		Path: filepath.Join(path, rundir.ReportFile)}}, time.Now())
	if err := events.Append(filepath.Join(path, events.FileName), written); err != nil {
		a.logf("stampede: %v", err)
	}
	return written
}

// perform runs one scenario on the backend that it chooses.
func (a *app) perform(
	soft context.Context, name string, plan resolved, seed uint64, f runFlags, p *printer,
) (_ string, _ rundir.Summary, err error) {
	marked := ""
	if f.simulated != nil {
		marked = answer.SimulatedWord + " "
	}
	p.Logf("%s%s (%s), seed %d: %s", marked, plan.Scenario.Name, plan.Scenario.Profile, seed,
		plan.Scenario.Question)
	if f.simulated != nil {
		plan = plan.shortest()
	} else if f.used() && plan.Scenario.Load.Arrival.Over != scenario.Fit {
		// Whether their machines carry it, each generator's times will show.
	} else if plan, err = fitLoad(soft, plan, fit.Send, p.Logf); err != nil {
		return "", rundir.Summary{}, a.failed(exitInternal, err)
	}
	opts := a.options(name, plan, seed, f, p)
	if f.keep {
		opts.Kept = func(places []run.Place) { p.kept = places }
	}
	var place *kubernetes.Place // of generators in pods
	opts.Guard = func(runID string) (func(bool) error, error) {
		inContainers := opts.Provider != nil && opts.Provider.Name() == env.Containers
		return a.guard(inContainers || f.elsewhere() || plan.Scenario.Deploy == deploy.Containers, runID,
			place)
	}
	designs := len(plan.Scenario.Variants)
	if f.target != "" {
		designs = 1
	}
	// run.Run says what is wrong.
	if e, err := estimate(plan, designs, opts.Control); err == nil && f.simulated == nil {
		p.Logf("this takes %s", e)
	}
	if f.simulated != nil {
		opts.BackendReason, opts.Again = "virtual time, "+f.simulated.Known, 0
	} else if f.target == "" {
		if err := a.chooseBackend(soft, &opts, f); err != nil {
			return "", rundir.Summary{}, a.failed(exitEnvironment, env.Stopped(soft, err))
		}
		p.detailf("backend: %s", opts.BackendReason)
	}
	if opts.Generators, place, err = a.findPlacer(soft, f); err != nil {
		return "", rundir.Summary{}, a.failed(exitEnvironment, fmt.Errorf("--engine %s: %w", f.engine,
			err))
	}
	if f.simulated == nil {
		if opts.Launcher, err = launcher(plan.Scenario.Deploy); err != nil {
			return "", rundir.Summary{}, a.failed(exitEnvironment, err)
		}
	}
	path, summary, err := run.Run(soft, a.interrupts.hard, opts)
	if opts.Launcher != nil {
		err = errors.Join(err, opts.Launcher.Close())
	}
	if err == nil && f.predicted != nil {
		err = f.predicted.Write(path)
	}
	if err != nil {
		return path, summary, a.runError(err, path)
	}
	return path, summary, nil
}

// options are those of a run, but for what depends on its backend.
func (a *app) options(name string, plan resolved, seed uint64, f runFlags, p *printer) run.Options {
	return run.Options{Scenario: plan.Scenario, System: plan.System, Params: plan.Params,
		Seed: seed, Root: f.out, Tool: tool(),
		Argv:      append([]string{"stampede"}, redacted(a.argv, plan.System)...),
		Reproduce: reproduce(name, plan, seed, f), Observer: p, Now: time.Now,
		Fitted: plan.fitted,
		Target: f.target, TargetCAs: f.given.authorities, Without: exemptions(plan.System, f),
		Again: f.again, Control: f.control(plan.Scenario.Profile),
		ProvokedBy: provokedBy(plan), Simulate: f.simulated}
}

// tellKept says where what was kept is and how to remove it.
func (a *app) tellKept(places []run.Place) {
	for _, p := range places {
		where := []string{}
		if p.PostgresURL != "" {
			where = append(where, p.PostgresURL)
		}
		if p.ReplicaURL != "" {
			where = append(where, p.ReplicaURL)
		}
		if p.RedisURL != "" {
			where = append(where, p.RedisURL+" (keys "+p.Prefix+"*)")
		}
		if len(p.KafkaBrokers) > 0 {
			where = append(where, "kafka at "+strings.Join(p.KafkaBrokers, ",")+" (topics "+
				topics.Prefix(p.Prefix)+"*)")
		}
		if p.Folder != "" {
			where = append(where, "files in "+p.Folder)
		}
		a.logf("kept: %s #%d: %s", p.Variant, p.Repeat+1, strings.Join(where, ", "))
	}
	if len(places) > 0 {
		fmt.Fprintln(a.stderr, asCalled("kept: `stampede clean` removes these stores", program()))
	}
}

// runError gives a failed run its exit code and says where its directory is.
func (a *app) runError(err error, path string) error {
	if path != "" {
		err = fmt.Errorf("%w (what was recorded is in %s)", err, path)
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		err = fmt.Errorf("%w; a private authority is given with --target-ca", err)
	}
	if _, ok := errors.AsType[*run.EnvironmentError](err); ok || run.DiskFailed(err) {
		return a.failed(exitEnvironment, err)
	}
	return a.failed(exitInternal, err)
}

// failed gives an error its exit code, which is that of the interruption if
// there was one: the error says so then.
func (a *app) failed(code int, err error) error {
	stopped := a.interrupts.exit()
	if stopped == 0 {
		return withCode(code, err)
	}
	if why := context.Cause(a.interrupts.soft); !errors.Is(err, why) {
		err = fmt.Errorf("%w: %w", why, err)
	}
	return withCode(stopped, err)
}

// chooseBackend finds the provider and what it needs to know.
func (a *app) chooseBackend(ctx context.Context, opts *run.Options, f runFlags) error {
	plan := resolved{Scenario: opts.Scenario}
	plan.System = opts.System
	services := []sut.Service{}
	for _, service := range needs(plan) {
		services = append(services, sut.Service(service))
	}
	opts.Spec = f.spec(services, opts.Observer.Logf)
	stores := opts.Scenario.Stores
	opts.Spec.Postgres, opts.Spec.Redis, opts.Spec.Kafka = stores.Postgres, stores.Redis, stores.Kafka
	provider, reason, err := env.Choose(ctx, f.backend, opts.Spec, providers()...)
	opts.Provider, opts.BackendReason = provider, reason
	if err == nil && f.keep && provider.Name() != env.Containers {
		return fmt.Errorf("%w; here it is %s", errKeepProcesses, reason)
	}
	return err
}

// exemptions are the invariants that a target is not held to.
func exemptions(s sut.System, f runFlags) map[string]string {
	if f.replayed != nil {
		return f.replayed.without
	}
	if f.target == "" {
		return nil
	}
	out := map[string]string{}
	for name, why := range s.TargetNotApplicable {
		out[name] = why
	}
	for _, name := range f.without {
		out[name] = "excluded on the command line (--without)"
	}
	return out
}

// The bounds of the heap's soft limit while a load runs, in bytes.
const (
	leastHeap = 512 << 20
	mostHeap  = 2 << 30
)

// tuneRuntime prepares this process for generating load: no garbage is
// collected but between trials, unless an eighth of the memory (at most 2 GiB,
// and half of it where there is little) is full of it. A collection stops the
// generator while the system under test goes on.
func tuneRuntime() {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(heapLimit(1))
}

// heapLimit is the limit of each of some processes that share this machine, in bytes.
func heapLimit(processes int) int64 {
	limit := int64(leastHeap)
	if memory := run.Memory(); memory > 0 {
		limit = min(max(memory/8, leastHeap), mostHeap, memory/2)
	}
	return max(limit/int64(processes), leastHeap/4)
}

// parseSeed reads a seed, or draws one.
func parseSeed(text string) (uint64, error) {
	if text == "" {
		var b [8]byte
		if _, err := rand.Read(b[:]); err != nil {
			return 0, fmt.Errorf("drawing a seed: %w", err)
		}
		// Short enough to read out and to type.
		return binary.LittleEndian.Uint64(b[:]) >> 33, nil
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("--seed is %q; expected a whole number of 0 or more", text)
	}
	return seed, nil
}
