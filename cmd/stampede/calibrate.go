package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"stampede/harness/calibrate"
	"stampede/harness/check"
	"stampede/harness/env"
	"stampede/harness/events"
	"stampede/harness/run"
	"stampede/harness/rundir"
	"stampede/harness/scenario"
	"stampede/harness/sim"
	"stampede/harness/sut"
)

// calibrateFlags are the flags of calibrate.
type calibrateFlags struct {
	variants      []string
	backend, out  string
	window, limit time.Duration
	heldOut       bool
	verbose       bool
	objective     string
}

func newCalibrate(a *app) *cobra.Command {
	var f calibrateFlags
	cmd := &cobra.Command{
		Use:   "calibrate <system>",
		Short: "Measure what the steps of a system's models cost on this machine",
		Example: `  stampede calibrate flashsale
  stampede calibrate flashsale --held-out
  stampede simulate flash-sale-100k --costs calibrated`,
		Long: `Starts stores, runs each design that has a model under loads that show one cost after the
other, and writes the costs into a small file, for simulate.

Only seconds in which nobody else used the machine count. Where there are too few of them
within the limit, the quieter half of all is used, and the file says so.`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return a.calibrate(args[0], f) },
	}
	fl := cmd.Flags()
	fl.StringSliceVar(&f.variants, "design", nil, "only these, by `name`; by default all that have "+
		"a model and no store but Postgres")
	fl.BoolVar(&f.heldOut, "held-out", false, "test a calibration: compare its predictions with "+
		"loads that it was not made from, which are the knee, shares of it, and a burst")
	fl.StringVar(&f.objective, "objective", "p99(response) <= 50ms", "what the knee is about, with "+
		"--held-out")
	fl.BoolVarP(&f.verbose, "verbose", "v", false, "show each rate that --held-out tries")
	fl.StringVar(&f.backend, "backend", "auto", "auto, containers or processes")
	fl.StringVar(&f.out, "out", "", "the `file`; by default one in the user's cache folder, where "+
		"simulate --costs calibrated finds it")
	fl.DurationVar(&f.window, "window", 8*time.Second, "how long each load lasts")
	fl.DurationVar(&f.limit, "limit", 10*time.Minute, "after this long no load is run again for "+
		"quiet seconds")
	return cmd
}

// calibrate measures and writes a file.
func (a *app) calibrate(name string, f calibrateFlags) error {
	system, ok := findSystem(name)
	if !ok {
		return usage(fmt.Errorf("there is no system %q%s", name, didYouMean(name, systemNames())))
	}
	if f.window < leastWindow {
		return usage(fmt.Errorf("--window is %s; expected at least %s", f.window, leastWindow))
	}
	designs, err := calibrated(system, f.variants)
	if err == nil && f.out == "" {
		f.out, err = calibrate.DefaultPath(name)
	}
	if err == nil {
		err = checkBackend(f.backend)
	}
	if err == nil && f.backend == env.External {
		err = errors.New("--backend external: a calibration starts Postgres with settings of its own")
	}
	if err != nil {
		return usage(err)
	}
	if _, err := check.ParseObjective(f.objective); err != nil {
		return usage(fmt.Errorf("--objective %q: %w", f.objective, err))
	}
	tuneRuntime()
	if f.heldOut {
		return a.holdOut(system, designs, f)
	}
	lab, err := a.openCalibration(system, f.backend, calibrate.Settings())
	if err != nil {
		return err
	}
	file, err := lab.measure(designs, f)
	if err = errors.Join(err, lab.close()); err != nil {
		return a.failed(exitInternal, err)
	}
	if err := file.Write(f.out); err != nil {
		return withCode(exitEnvironment, err)
	}
	return a.tellCalibration(file, f.out)
}

const leastWindow = 4 * time.Second

// calibrated are the designs to calibrate.
func calibrated(s sut.System, names []string) (designs []sut.Variant, err error) {
	if s.Calibration == nil || s.Costs == nil {
		return nil, fmt.Errorf("no model of %s can be calibrated; %s", s.Name, haveModels(s))
	}
	for _, name := range names {
		v, is := s.Variant(name)
		if !is || v.Model == nil {
			return nil, fmt.Errorf("--design: %s has no model; %s", name, haveModels(s))
		}
		if !calibratable(v) {
			return nil, fmt.Errorf("--design: %s has stores beside Postgres, whose costs nothing "+
				"measures yet", name)
		}
	}
	for _, v := range s.Variants {
		if calibratable(v) && (len(names) == 0 || slices.Contains(names, v.Name)) {
			designs = append(designs, v)
		}
	}
	return designs, nil
}

// calibratable says that a calibration measures all that a design's model needs.
func calibratable(v sut.Variant) bool {
	return v.Model != nil && slices.Equal(v.Needs, []sut.Service{sut.Postgres})
}

// calibration is a lab on which loads are measured one after the other.
type calibration struct {
	*app
	system  sut.System
	cluster env.Cluster
	opts    run.Options
	folder  string
	stop    func() error
	url     string // of a database of its own
	began   time.Time
	// taken are the shares of the machine that others had while loads were measured.
	taken []calibrate.Window
	noisy []string
	// flushes are those of all loads, each of which takes flushNS of CPU, and committing the loads
	// that flush often.
	flushes    calibrate.Flushes
	flushNS    float64
	committing []calibrate.Committing
	// perStatement is the CPU time that postgres needs for a statement that does nothing.
	perStatement float64
	// drain is for how long what is left to do is waited for.
	drain time.Duration
}

// openCalibration starts Postgres with some settings.
func (a *app) openCalibration(
	s sut.System, backend string, settings map[string]string,
) (_ *calibration, err error) {
	folder, err := os.MkdirTemp("", "stampede-calibrate-")
	if err != nil {
		return nil, withCode(exitEnvironment, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(folder))
		}
	}()
	servers := servers{backend: backend}
	spec := servers.spec([]sut.Service{sut.Postgres}, a.logf)
	spec.RunID, spec.Dir, spec.Postgres = newID(), folder, settings
	provider, reason, err := env.Choose(a.interrupts.soft, backend, spec, providers()...)
	if err != nil {
		return nil, a.failed(exitEnvironment, env.Stopped(a.interrupts.soft, err))
	}
	c := &calibration{app: a, system: s, folder: folder, began: time.Now(), drain: warm}
	if c.cluster, c.stop, err = a.startStores(provider, spec); err != nil {
		return nil, a.failed(exitEnvironment, env.Stopped(a.interrupts.soft, err))
	}
	c.opts = run.Options{System: s, Root: folder, Provider: env.Lend(provider.Name(), c.cluster),
		BackendReason: reason, Spec: spec, Tool: tool(), Now: time.Now, Observer: silence{},
		Argv: a.argv}
	return c, nil
}

func (c *calibration) close() error { return errors.Join(c.stop(), os.RemoveAll(c.folder)) }

// measure calibrates the designs.
func (c *calibration) measure(designs []sut.Variant, f calibrateFlags) (calibrate.File, error) {
	ctx := c.interrupts.soft
	file := calibrate.File{System: c.system.Name, Date: time.Now().UTC().Format(time.RFC3339),
		Host: run.HostDigest(), Machine: sim.DefaultMachine(), Known: map[string]string{},
		Designs: map[string]calibrate.Design{}, Notes: []string{}}
	if err := c.probe(ctx, &file); err != nil {
		return file, err
	}
	for _, v := range designs {
		d, err := c.design(ctx, v, file.Machine, f)
		if err != nil {
			return file, fmt.Errorf("calibrating %s: %w", v.Name, err)
		}
		file.Designs[v.Name] = d
	}
	if err := c.flushed(ctx, &file.Machine.Postgres); err != nil {
		return file, err
	}
	file.Machine.Stalls.Share = round(calibrate.Taken(c.taken), 1e4)
	if len(c.noisy) > 0 {
		file.Notes = append(file.Notes, fmt.Sprintf("the machine was not quiet: of %d loads fewer "+
			"than %d seconds were; others had %.1f %% of it, which stalls of the machine stand for",
			len(c.noisy), calibrate.Least, 100*file.Machine.Stalls.Share))
	}
	return file, nil
}

// flushed finds what a flush takes while others write too, which is several times as long as on
// an idle machine.
func (c *calibration) flushed(ctx context.Context, m *sim.PostgresMachine) error {
	mean := c.flushes.Mean(c.flushNS)
	if mean == 0 {
		return nil
	}
	for i := range c.committing {
		c.committing[i].Machine.Postgres.Fsync = sut.Duration(mean)
	}
	cv, err := calibrate.FlushCV(ctx, c.committing, c.perStatement+c.flushNS)
	if err != nil {
		return fmt.Errorf("finding how much flushes vary: %w", err)
	}
	if cv == 0 {
		return nil
	}
	m.Fsync, m.FsyncCV = sut.Duration(mean.Round(time.Microsecond)), round(cv, 1e2)
	c.logf("%d flushes under load took %s of the disk (coefficient of variation %.2f)",
		c.flushes.Count, m.Fsync.D(), m.FsyncCV)
	return nil
}

// round keeps so many pieces of one.
func round(x, pieces float64) float64 { return math.Round(x*pieces) / pieces }

// probe measures the idle machine.
func (c *calibration) probe(ctx context.Context, file *calibrate.File) error {
	ns, err := c.cluster.Namespace(ctx, "calibration")
	if err != nil {
		return err
	}
	c.url = ns.PostgresURL
	if err := calibrate.Install(ctx, c.url); err != nil {
		return err
	}
	metered, is := c.cluster.Component(sut.Postgres).(env.Metered)
	if !is {
		return errors.New("this backend cannot tell the CPU time of postgres")
	}
	stalls := calibrate.Stalls(ctx, stallSpan)
	p, err := calibrate.Ask(ctx, c.url, metered.CPU)
	if err != nil {
		return err
	}
	m := &file.Machine
	m.Cores, m.Stalls = runtime.NumCPU(), stalls
	m.App.Threads = m.Cores + 1 // the generator needs one more while it offers load
	m.Postgres.Fsync = sut.Duration(p.Flush.Round(time.Microsecond))
	m.Postgres.FsyncCV = round(p.FlushCV, 1e2)
	way := (float64(p.RoundTrip) - p.ServerNS - p.ClientNS) / 2
	m.Network.Latency = sut.Duration(time.Duration(max(way, 0)).Round(100 * time.Nanosecond))
	file.Known = map[string]string{"cores": calibrate.Measured,
		"stalls": calibrate.Measured, "postgres.fsync": calibrate.Measured,
		"postgres.fsync_cv": calibrate.Measured, "network.latency": calibrate.Fitted}
	c.logf("an empty statement takes %s: %.0f µs of CPU in postgres, %.0f µs in its client; a flush "+
		"takes %.0f µs of CPU and %s of the disk (coefficient of variation %.2f)",
		p.RoundTrip.Round(time.Microsecond), p.ServerNS/1e3, p.ClientNS/1e3, p.FlushNS/1e3,
		p.Flush.Round(time.Microsecond), p.FlushCV)
	c.perStatement, c.flushNS = p.ServerNS, p.FlushNS
	return nil
}

// stallSpan is for how long stalls are looked for.
const stallSpan = 2 * time.Second

// The loads of a calibration. Users keep a machine of two cores about three quarters busy; at
// the share of their rate costs are measured, with arrivals at random.
const (
	oneClient  = 1
	someUsers  = 4
	pilotLasts = 2500 * time.Millisecond
	ofPilot    = 0.7
	rounds     = 3
	warm       = time.Second
	oftenPerS  = 200 // flushes
)

// design finds the costs of one design.
func (c *calibration) design(
	ctx context.Context, v sut.Variant, m sim.Machine, f calibrateFlags,
) (d calibrate.Design, err error) {
	if d.Model, err = calibrate.Digest(ctx, c.system, v); err != nil {
		return d, err
	}
	d.Costs = c.system.Costs()
	known := map[string]float64{}
	for name, cost := range d.Costs.Postgres {
		known[name] = cost.MeanNS
	}
	var client, trips float64
	checked := false
	for _, load := range c.system.Calibration.Loads {
		alone := len(load.Finds) == 1 && !checked
		l, err := c.load(ctx, v, load, m, d.Costs, alone, f)
		if err != nil {
			return d, fmt.Errorf("%s: %w", load.Name, err)
		}
		demand := calibrate.Demand(l.windows)
		part := string(sut.Postgres)
		costs, err := calibrate.Split(1e9*demand[part], l.drawn[part], known, load.Finds, l.weights)
		if err != nil { // on a machine that is not quiet; the costs stay assumed
			d.Notes = append(d.Notes, fmt.Sprintf("%s, %s: %v; assumed costs stay", v.Name, load.Name, err))
			c.logf("%s", d.Notes[len(d.Notes)-1])
		}
		for name, ns := range costs {
			known[name] = ns
			d.Costs.Postgres[name] = sim.Cost{MeanNS: round(ns, 1), CV: d.Costs.Postgres[name].CV,
				Known: calibrate.Measured}
		}
		client += 1e9 * demand[rundir.GeneratorPart]
		trips += l.drawn["app"][part]
		d.Costs.App[part] = sim.Cost{MeanNS: round(client/trips, 1), CV: d.Costs.App[part].CV,
			Known: calibrate.Measured}
		d.Windows, d.Quiet = d.Windows+l.all, d.Quiet+l.quiet
		c.flushes.Add(l.flushes)
		if l.flushes.Count > int64(oftenPerS*l.all) {
			c.committing = append(c.committing,
				calibrate.Committing{Load: l.model, Took: l.flushes.Commits})
		}
		c.tellLoad(v.Name, load.Name, l, demand, costs)
		if alone {
			checked = true
			if err := c.compareOne(ctx, v, load, m, &d, l.p50); err != nil {
				return d, err
			}
		}
	}
	return d, nil
}

func (c *calibration) tellLoad(
	design, load string, l measuredLoad, demand, costs map[string]float64,
) {
	var found []string
	for _, name := range slices.Sorted(maps.Keys(costs)) {
		found = append(found, fmt.Sprintf("%s %.0f µs", name, costs[name]/1e3))
	}
	c.logf("%s, %s at %.0f/s: an operation takes %.0f µs of postgres and %.0f µs of its client; "+
		"%s (%d of %d seconds were quiet)", design, load, l.rate, 1e6*demand[string(sut.Postgres)],
		1e6*demand[rundir.GeneratorPart], strings.Join(found, ", "), l.quiet, l.all)
}

// compareOne predicts the response time of one client.
func (c *calibration) compareOne(ctx context.Context, v sut.Variant, load sut.CalibrationLoad,
	m sim.Machine, d *calibrate.Design, measured time.Duration,
) error {
	plan, err := c.plan(v, load, users(oneClient, pilotLasts))
	if err != nil {
		return err
	}
	one, err := c.modelled(plan, v, m, d.Costs).Model(ctx)
	if err != nil {
		return err
	}
	d.MeasuredP50, d.PredictedP50 = sut.Duration(measured), sut.Duration(one.P50)
	c.logf("%s, %s with one client: p50 %s, predicted %s", v.Name, load.Name,
		measured.Round(time.Microsecond), one.P50.Round(time.Microsecond))
	return nil
}

// measuredLoad is what came of a load.
type measuredLoad struct {
	rate       float64
	windows    []calibrate.Window
	all, quiet int
	drawn      map[string]map[string]float64
	weights    map[string]float64
	p50        time.Duration // of one client
	model      calibrate.Load
	flushes    calibrate.Flushes
}

// oneClient runs a load with one client: what its statements take without any waiting.
func (c *calibration) oneClient(
	ctx context.Context, v sut.Variant, load sut.CalibrationLoad, l *measuredLoad,
) error {
	if _, err := calibrate.Statements(ctx, c.url); err != nil {
		return err
	}
	one, err := c.run(ctx, v, load, users(oneClient, pilotLasts))
	if err != nil {
		return err
	}
	statements, err := calibrate.Statements(ctx, c.url)
	if err != nil {
		return err
	}
	l.p50 = time.Duration(one.repeat.Operations[0].Latency.Response.P50)
	l.weights = calibrate.Weigh(statements, c.system.Calibration.Statements)
	for name := range l.weights {
		l.weights[name] += c.perStatement
	}
	return nil
}

// load runs a load until there are enough quiet windows of it, or no time is left.
func (c *calibration) load(ctx context.Context, v sut.Variant, load sut.CalibrationLoad,
	m sim.Machine, costs sim.Costs, withOne bool, f calibrateFlags,
) (l measuredLoad, err error) {
	if len(load.Finds) > 1 || withOne {
		if err := c.oneClient(ctx, v, load, &l); err != nil {
			return l, err
		}
	}
	pilot, err := c.run(ctx, v, load, users(someUsers, pilotLasts))
	if err != nil {
		return l, err
	}
	answered := pilot.repeat.Operations[0].Load
	l.rate = round(ofPilot*float64(answered.OK+answered.Refused)/(pilotLasts-warm).Seconds(), 1)
	var windows []calibrate.Window
	for range rounds {
		of, flushes, err := c.watched(ctx, v, load, poisson(l.rate, f.window))
		if err != nil {
			return l, err
		}
		l.flushes.Add(flushes)
		windows = append(windows, of.windows...)
		var quiet bool
		if l.windows, quiet = calibrate.Choose(windows); quiet {
			break
		}
		if time.Since(c.began) > f.limit {
			break
		}
	}
	l.all = len(windows)
	for _, w := range windows {
		if w.Quiet() {
			l.quiet++
		}
	}
	if l.quiet < calibrate.Least {
		c.noisy = append(c.noisy, v.Name+" "+load.Name)
	}
	c.taken = append(c.taken, l.windows...)
	plan, err := c.plan(v, load, poisson(l.rate, f.window))
	if err != nil {
		return l, err
	}
	l.model = c.modelled(plan, v, m, costs)
	modelled, err := l.model.Model(ctx)
	l.drawn = modelled.Drawn
	return l, err
}

// modelled is a plan as its model is run.
func (c *calibration) modelled(
	plan resolved, v sut.Variant, m sim.Machine, costs sim.Costs,
) calibrate.Load {
	return calibrate.Load{Scenario: plan.Scenario, Params: plan.Params, Workload: c.system.Workload,
		Design: v, Machine: m, Costs: costs}
}

// users and poisson are loads in YAML.
func users(n int, over time.Duration) string {
	return fmt.Sprintf("users: %d, duration: %s", n, over)
}

func poisson(rate float64, over time.Duration) string {
	return fmt.Sprintf("arrival: {process: poisson, rate: %v, over: %s}", max(rate, 1), over)
}

// calibrationText is the scenario of a load.
const calibrationText = `
name: %[1]s-calibration
question: What does a step of %[2]s cost?
system: %[1]s
baseline: %[2]s
variants: [%[2]s]
repeats: 1
params: %[3]s
stores: {max_conns: 16}
load: {%[4]s, warm_up: %[5]s, max_in_flight: 256, queue: 100000, timeout: 10s, drain: %[6]s, min_operations: 1}
`

// plan decodes the scenario of a load.
func (c *calibration) plan(v sut.Variant, load sut.CalibrationLoad, text string) (resolved, error) {
	src := fmt.Sprintf(calibrationText, c.system.Name, v.Name, load.Params, text, warm, c.drain)
	sc, res, err := scenario.Decode([]byte(src), c.system.Name+"-calibration.yaml",
		withSystems(scenario.Options{}))
	if err != nil {
		return resolved{}, fmt.Errorf("the load %q of a calibration: %w", load.Name, err)
	}
	return resolved{Scenario: sc, Resolved: res}, nil
}

// executed is a load that was run.
type executed struct {
	repeat  rundir.Repeat
	windows []calibrate.Window
}

// run runs one load on the stores.
func (c *calibration) run(
	ctx context.Context, v sut.Variant, load sut.CalibrationLoad, text string,
) (executed, error) {
	plan, err := c.plan(v, load, text)
	if err != nil {
		return executed{}, err
	}
	path, summary, err := c.perform(ctx, plan)
	if err != nil {
		return executed{}, err
	}
	return readLoad(path, summary.Variants[0].Repeats[0], plan.Scenario)
}

// watched runs one load and watches the flushes under it.
func (c *calibration) watched(
	ctx context.Context, v sut.Variant, load sut.CalibrationLoad, text string,
) (executed, calibrate.Flushes, error) {
	watch := &steadyWatch{ctx: ctx, url: c.url}
	c.opts.Observer = watch
	of, err := c.run(ctx, v, load, text)
	c.opts.Observer = silence{}
	err = errors.Join(err, watch.end())
	return of, watch.flushes, err
}

// steadyWatch watches the flushes of a run while its load is steady.
type steadyWatch struct {
	silence
	ctx     context.Context //nolint:containedctx // an observer is given none
	url     string
	stop    context.CancelFunc
	ended   chan error
	flushes calibrate.Flushes
}

// Observe begins when the load is steady, and ends with it.
func (w *steadyWatch) Observe(e events.Event) {
	if e.Phase == nil {
		return
	}
	if e.Phase.Phase != events.Steady {
		if w.stop != nil {
			w.stop()
		}
		return
	}
	ctx, stop := context.WithCancel(w.ctx)
	w.stop, w.ended = stop, make(chan error, 1)
	go func() {
		var err error
		w.flushes, err = calibrate.WatchFlushes(ctx, w.url)
		w.ended <- err
	}()
}

// end waits until it has.
func (w *steadyWatch) end() error {
	if w.stop == nil {
		return nil
	}
	w.stop()
	return <-w.ended
}

// perform runs a scenario on the lab's stores.
func (c *calibration) perform(ctx context.Context, plan resolved) (string, rundir.Summary, error) {
	opts := c.opts
	opts.Scenario, opts.Params, opts.Seed = plan.Scenario, plan.Params, 1
	path, summary, err := run.Run(ctx, c.interrupts.hard, opts)
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err == nil {
		err = failedRepeat(summary)
	}
	return path, summary, err
}

// readLoad reads the windows of a repeat.
func readLoad(path string, r rundir.Repeat, sc scenario.Scenario) (e executed, err error) {
	e.repeat = r
	stored, err := rundir.Open("", path)
	if err != nil {
		return e, err
	}
	line, err := stored.Timeline(r.Timeline)
	if err != nil {
		return e, err
	}
	said, err := stored.Telemetry(r.Telemetry)
	if err != nil {
		return e, err
	}
	to := max(sc.Load.Duration.D(), sc.Load.Arrival.Over.D())
	e.windows = calibrate.Windows(said, line, warm, to, runtime.NumCPU())
	return e, nil
}

// tellCalibration prints what was found.
func (a *app) tellCalibration(f calibrate.File, path string) error {
	names := slices.Sorted(maps.Keys(f.Designs))
	for _, note := range f.Notes {
		a.logf("note: %s", note)
	}
	for _, name := range names {
		d := f.Designs[name]
		var costs []string
		for _, cost := range slices.Sorted(maps.Keys(d.Costs.Postgres)) {
			c := d.Costs.Postgres[cost]
			costs = append(costs, fmt.Sprintf("%s %.0f µs (%s)", cost, c.MeanNS/1e3, c.Known))
		}
		fmt.Fprintf(a.stdout, "%s: client %.0f µs; %s\n", name, d.Costs.App["postgres"].MeanNS/1e3,
			strings.Join(costs, ", "))
	}
	fmt.Fprintf(a.stdout, "calibration of %d designs in %s\n", len(names), path)
	return nil
}
