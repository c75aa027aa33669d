package main

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net/url"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"stampede/harness/env"
	"stampede/harness/env/admin"
	"stampede/harness/run"
	"stampede/harness/rundir"
	"stampede/harness/scenario"
	"stampede/harness/sut"
	"stampede/scenarios"
)

// runFlags are the flags of run. Each has an environment variable
// STAMPEDE_<NAME> as its default.
type runFlags struct {
	profile, backend, format, colour, out, target, fault string
	postgresURL, redisURL                                string
	variants, set, failOn, without                       []string
	seed                                                 string
	repeat                                               int
	rate                                                 float64
	duration, timeout                                    time.Duration
	allowNonEmpty, dryRun                                bool
	junit, json, md, html                                string
}

func newRun(a *app) *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run <scenario>... | all",
		Short: "Run a scenario, judge it and write its report",
		Long: `Runs each scenario: starts the stores, loads the variants in turn, breaks what
the scenario says, judges the histories and writes report.html.

A scenario is a built-in name (stampede list scenarios) or a path to a file.

` + exitCodesHelp,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := flagsFromEnvironment(cmd); err != nil {
				return usage(err)
			}
			return a.runAll(args, f)
		},
	}
	f.define(cmd)
	return cmd
}

func (f *runFlags) define(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.profile, "profile", "", "smoke, default or full")
	fl.StringSliceVar(&f.variants, "variant", nil, "only these variants (comma-separated, or all)")
	fl.StringArrayVar(&f.set, "set", nil, "override a value of the scenario: path=value")
	fl.IntVar(&f.repeat, "repeat", 0, "how often each variant runs, interleaved")
	fl.StringVar(&f.seed, "seed", "", "the seed; random by default, always printed")
	fl.DurationVar(&f.duration, "duration", 0, "how long the load lasts (load.arrival.over)")
	fl.Float64Var(&f.rate, "rate", 0, "operations per second (load.arrival.rate)")
	fl.StringVar(&f.fault, "fault", "", "none: run without the scenario's faults")
	fl.StringVar(&f.backend, "backend", "auto", "auto, containers, processes or external")
	fl.StringVar(&f.postgresURL, "postgres-url", "", "Postgres of the external backend")
	fl.StringVar(&f.redisURL, "redis-url", "", "Redis of the external backend")
	fl.BoolVar(&f.allowNonEmpty, "allow-nonempty", false, "accept an external store with data")
	fl.StringVar(&f.target, "target", "", "judge the server at this URL instead of the variants")
	fl.StringSliceVar(&f.without, "without", nil, "invariants that the target is not held to")
	fl.DurationVar(&f.timeout, "timeout", 0, "stop the run after this long, as Ctrl-C would")
	fl.BoolVar(&f.dryRun, "dry-run", false, "show the resolved plan and run nothing")
	f.defineOutput(cmd)
}

// check refuses flags that make no sense.
func (f *runFlags) check() error {
	problems := []error{
		f.checkOutput(),
		oneOf("backend", f.backend, "auto", "containers", "processes", "external"),
		oneOf("fault", f.fault, "", "none"),
	}
	if f.rate < 0 || f.repeat < 0 || f.duration < 0 || f.timeout < 0 {
		problems = append(problems, errors.New("--rate, --repeat, --duration and --timeout "+
			"must not be negative"))
	}
	if u, err := url.Parse(f.target); f.target != "" &&
		(err != nil || u.Host == "" || u.Scheme != "http") {
		problems = append(problems, fmt.Errorf("--target is %q; expected a URL such as "+
			"http://127.0.0.1:8080", f.target))
	}
	if f.target == "" && len(f.without) > 0 {
		problems = append(problems, errors.New("--without is for servers judged with --target"))
	}
	return errors.Join(problems...)
}

// settings are the scenario's overrides, those of flags first.
func (f *runFlags) settings() []string {
	set := []string{}
	if f.rate > 0 {
		set = append(set, "load.arrival.rate="+strconv.FormatFloat(f.rate, 'g', -1, 64))
	}
	if f.duration > 0 {
		set = append(set, "load.arrival.over="+f.duration.String())
	}
	if f.repeat > 0 {
		set = append(set, "repeats="+strconv.Itoa(f.repeat))
	}
	if f.fault == "none" {
		set = append(set, "faults=[]")
	}
	if len(f.variants) > 0 && f.variants[0] != "all" {
		set = append(set, "variants=["+strings.Join(f.variants, ", ")+"]")
	}
	return append(set, f.set...)
}

// runAll runs the scenarios one after the other and returns the worst exit
// code. All are decoded before the first one starts.
func (a *app) runAll(names []string, f runFlags) error {
	if err := f.check(); err != nil {
		return usage(err)
	}
	if slices.Contains(names, "all") {
		names = scenarios.All()
	}
	seed, err := parseSeed(f.seed)
	if err != nil {
		return usage(err)
	}
	plans := make([]resolved, len(names))
	for i, name := range names {
		if plans[i], err = f.plan(name); err == nil {
			err = f.checkTarget(plans[i])
		}
		if err != nil {
			return err
		}
	}
	if f.dryRun {
		for _, plan := range plans {
			if err := describe(a.stdout, plan); err != nil {
				return err
			}
		}
		return nil
	}
	return a.runPlans(names, plans, seed, f)
}

// checkTarget refuses what cannot be done to a foreign server.
func (f *runFlags) checkTarget(p resolved) error {
	if f.target == "" {
		return nil
	}
	if len(p.Scenario.Faults) > 0 {
		return usage(fmt.Errorf("%s breaks stores, which a server judged with --target keeps to "+
			"itself; add --fault none", p.Scenario.Name))
	}
	known := []string{}
	for _, inv := range p.System.Invariants(p.Params) {
		known = append(known, inv.Name())
	}
	for _, name := range f.without {
		if !slices.Contains(known, name) {
			return usage(fmt.Errorf("--without: %s has no invariant %q%s", p.System.Name, name,
				didYouMean(name, known)))
		}
	}
	return nil
}

// plan decodes a scenario with the flags applied. When only some variants are
// wanted and the baseline is not among them, the first one takes its place.
func (f *runFlags) plan(name string) (resolved, error) {
	set := f.settings()
	if len(f.variants) > 0 && f.variants[0] != "all" {
		whole, err := resolve(name, scenario.Options{Profile: f.profile})
		if err != nil {
			return whole, err
		}
		if !slices.Contains(f.variants, whole.Scenario.Baseline) {
			set = append([]string{"baseline=" + f.variants[0]}, set...)
		}
	}
	return resolve(name, scenario.Options{Profile: f.profile, Set: set})
}

func (a *app) runPlans(names []string, plans []resolved, seed uint64, f runFlags) error {
	tuneRuntime()
	soft, cancel := a.interrupts.soft, context.CancelFunc(func() {})
	if f.timeout > 0 {
		soft, cancel = context.WithTimeout(soft, f.timeout)
	}
	defer cancel()
	codes := []int{}
	for i, plan := range plans {
		code, err := a.runOne(soft, names[i], plan, seed, f)
		if err != nil {
			return err
		}
		codes = append(codes, code)
		if soft.Err() != nil {
			break
		}
	}
	if code := a.interrupts.exit(); code != 0 {
		return withCode(code, errInterrupted)
	}
	if code := worstExit(codes); code != exitOK {
		return &exitError{code: code}
	}
	return nil
}

// runOne runs one scenario, writes its reports and returns its exit code.
func (a *app) runOne(
	soft context.Context, name string, plan resolved, seed uint64, f runFlags,
) (int, error) {
	p := newPrinter(a.stderr, f.format, wantColour(f.colour, a.stderr))
	defer p.close()
	opts := run.Options{Scenario: plan.Scenario, System: plan.System, Params: plan.Params,
		Seed: seed, Root: f.out, Tool: tool(), Argv: append([]string{"stampede"}, redacted(a.argv)...),
		Reproduce: reproduce(name, plan, seed, f), Observer: p, Now: time.Now,
		Target: f.target, Without: exemptions(plan.System, f)}
	opts.Guard = func(runID string) (func(bool) error, error) {
		return a.guard(opts.Provider, runID)
	}
	p.Logf("%s (%s), seed %d: %s", plan.Scenario.Name, plan.Scenario.Profile, seed,
		plan.Scenario.Question)
	if f.target == "" {
		if err := a.chooseBackend(soft, &opts, f); err != nil {
			return 0, withCode(exitEnvironment, err)
		}
		p.Logf("backend: %s", opts.BackendReason)
	}
	path, summary, err := run.Run(soft, a.interrupts.hard, opts)
	if err != nil {
		return 0, a.runError(err, path)
	}
	p.close()
	return a.tell(path, summary, f)
}

// runError gives a failed run its exit code and says where its directory is.
func (a *app) runError(err error, path string) error {
	if path != "" {
		err = fmt.Errorf("%w (what was recorded is in %s)", err, path)
	}
	if code := a.interrupts.exit(); code != 0 {
		return withCode(code, fmt.Errorf("interrupted: %w", err))
	}
	if _, ok := errors.AsType[*run.EnvironmentError](err); ok || diskTrouble(err) {
		return withCode(exitEnvironment, err)
	}
	return withCode(exitInternal, err)
}

// diskTrouble says that an error is the disk's: full, failing or read-only.
func diskTrouble(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) ||
		errors.Is(err, syscall.EIO) || errors.Is(err, syscall.EROFS)
}

// chooseBackend finds the provider and what it needs to know.
func (a *app) chooseBackend(ctx context.Context, opts *run.Options, f runFlags) error {
	plan := resolved{Scenario: opts.Scenario}
	plan.System = opts.System
	services := []sut.Service{}
	for _, service := range needs(plan) {
		services = append(services, sut.Service(service))
	}
	opts.Spec = env.Spec{Services: services, Postgres: opts.Scenario.Stores.Postgres,
		Redis: opts.Scenario.Stores.Redis, PostgresURL: f.postgresURL, RedisURL: f.redisURL,
		AllowNonEmpty: f.allowNonEmpty, Log: opts.Observer.Logf}
	provider, reason, err := env.Choose(ctx, f.backend, opts.Spec, providers()...)
	opts.Provider, opts.BackendReason = provider, reason
	return err
}

// exemptions are the invariants that a target is not held to.
func exemptions(s sut.System, f runFlags) map[string]string {
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
// collected but between trials, unless an eighth of the machine's memory (at
// most 2 GiB) is full of it. A collection stops the generator while the
// system under test goes on.
func tuneRuntime() {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(min(max(memory()/8, leastHeap), mostHeap))
}

// memory is the machine's memory in bytes, 0 if it is not known.
func memory() int64 {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 0
	}
	return int64(info.Totalram) * int64(info.Unit)
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

// reproduce is the command line that runs the same again.
func reproduce(name string, plan resolved, seed uint64, f runFlags) string {
	words := []string{"stampede", "run", quote(name), "--profile", plan.Scenario.Profile,
		"--seed", strconv.FormatUint(seed, 10)}
	if f.backend != "auto" {
		words = append(words, "--backend", f.backend)
	}
	if f.target != "" {
		words = append(words, "--target", quote(admin.Redact(f.target)))
	}
	for _, inv := range f.without {
		words = append(words, "--without", quote(inv))
	}
	for _, s := range f.settings() {
		words = append(words, "--set", quote(s))
	}
	if len(f.variants) > 0 && f.variants[0] != "all" {
		words = append(words, "--set", quote("baseline="+plan.Scenario.Baseline))
	}
	return strings.Join(words, " ")
}

// redacted is a command line without the passwords in its URLs: it goes into
// files that are kept and handed on.
func redacted(argv []string) []string {
	shown := slices.Clone(argv)
	for i, word := range shown {
		flag, value, joined := strings.Cut(word, "=")
		switch {
		case strings.HasPrefix(word, "--") && joined && strings.Contains(value, "://"):
			shown[i] = flag + "=" + admin.Redact(value)
		case strings.Contains(word, "://"):
			shown[i] = admin.Redact(word)
		}
	}
	return shown
}

// quote quotes a word for a shell where it needs it.
func quote(word string) string {
	plain := func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"+
			"0123456789-_./:=,@%+", r)
	}
	if word != "" && !strings.ContainsFunc(word, plain) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// worstExit picks the exit code of several runs.
func worstExit(codes []int) int {
	for _, code := range []int{exitInvariant, exitInternal, exitEnvironment, exitUndecided,
		exitSLA} {
		if slices.Contains(codes, code) {
			return code
		}
	}
	return exitOK
}

// open says that a verdict decides nothing.
func open(verdict string) bool {
	return verdict == rundir.Inconclusive || verdict == rundir.Invalid
}

// exitOf is the exit code of a summary.
func exitOf(s rundir.Summary, failOn []string) int {
	on := func(reason string) bool { return slices.Contains(failOn, reason) }
	codes := []int{}
	if on("invariant") && s.Verdict.Correctness == rundir.Fail {
		codes = append(codes, exitInvariant)
	}
	if on("sla") && s.Verdict.SLA == rundir.Fail {
		codes = append(codes, exitSLA)
	}
	v := s.Verdict
	if on("inconclusive") && (open(v.Correctness) || open(v.SLA) || open(v.Measurement)) {
		codes = append(codes, exitUndecided)
	}
	return worstExit(codes)
}
