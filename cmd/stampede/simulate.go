package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"stampede/harness/run"
	"stampede/harness/scenario"
	"stampede/harness/sim"
	"stampede/harness/sut"
)

func newSimulate(a *app) *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "simulate <scenario>",
		Short: "Run a scenario on models of its designs, in virtual time",
		Example: `  stampede simulate flash-sale-100k
  stampede simulate flash-sale-100k --machine big.yaml --duration 20s
  stampede simulate flash-sale-100k --from flash-sale-100k --scale 100`,
		Long: `Runs models of the designs in virtual time, under the scenario's load and faults, and
judges their histories as run does. A model has the design's state and the costs of its
steps; no store is started, and nothing is measured: every page says SIMULATED.

` + exitCodesHelp,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.simulate(args[0], f)
		},
	}
	f.defineSimulated(cmd)
	return cmd
}

// defineSimulated defines the flags that make sense without stores, and --machine.
func (f *runFlags) defineSimulated(cmd *cobra.Command) {
	fl := cmd.Flags()
	f.changed = fl.Changed
	f.defineLoad(fl)
	fl.StringSliceVar(&f.variants, "design", nil, "only these, by `name` (comma-separated, or all); "+
		"by default those of the scenario that have a model")
	fl.IntVar(&f.repeat, "repeats", 1, "how often each design runs")
	fl.StringVar(&f.machine, "machine", "", "a YAML `file` with the machine; by default that of "+
		"--costs, or else two cores")
	fl.StringVar(&f.costs, "costs", "", "what steps cost: calibrated, or a `file` that stampede "+
		"calibrate wrote; assumed by default")
	fl.StringVar(&f.from, "from", "", "a `run` that was measured: its load is predicted first and "+
		"put beside what was measured")
	fl.StringVar(&f.sweep, "sweep", "", "simulate once for each `value` of the machine, of scale or "+
		"of stores.max_conns: cores=2,4,8")
	fl.Float64Var(&f.scale, "scale", 1, "multiply rates, operations and users by this")
	fl.DurationVar(&f.timeout, "timeout", 0, "stop the run after this long, as Ctrl-C would")
	fl.BoolVar(&f.open, "open", false, "open the report in the browser after the run")
	fl.BoolVarP(&f.verbose, "verbose", "v", false, "show phases and faults in a log")
	f.defineOutput(cmd)
	flagGroups(cmd,
		[]string{"Load", "profile", "duration", "rate", "scale", "repeats", "seed", "fault", "set",
			"timeout"},
		[]string{"Designs", "design", "baseline", "machine", "costs", "from", "sweep"},
		[]string{"Verdict", "fail-on", "against", "across-machines"},
		[]string{"Output", "open", "out", "format", "color", "verbose", "html", "md", "junit",
			"json", "metrics"})
}

// simulate runs the models of one scenario.
func (a *app) simulate(name string, f runFlags) (err error) {
	f.backend = "auto"
	if !(f.scale > 0) || math.IsInf(f.scale, 1) {
		return usage(errors.New("--scale must be more than zero"))
	}
	var measured *measuredRun
	if f.from != "" {
		if measured, err = f.openMeasured(name); err != nil {
			return usage(err)
		}
		name, f.costs = measured.scenario(), cmp.Or(f.costs, calibratedCosts)
	}
	whole, err := resolve(name, scenario.Options{Profile: f.profile})
	if err != nil {
		return err
	}
	have := modelled(whole, f.costs != "")
	if whole.System.Costs == nil || len(have) == 0 {
		return usage(fmt.Errorf("no design of %s has a model; %s", whole.Scenario.Name,
			haveModels(whole.System)))
	}
	if !f.some() {
		f.variants = have
	}
	if err := f.onMachine(a.interrupts.soft, whole.System); err != nil {
		return usage(err)
	}
	switch {
	case measured == nil:
	case f.sweep != "": // whose page compares its values
		f.seed = cmp.Or(f.seed, seedOf(measured.summary))
		if f.machine == "" { // of another machine nobody knows
			f.simulated.Machine.Stalls.Share = measured.stalls
		}
	default:
		if err := a.holdAgainst(measured, &f); err != nil {
			return err
		}
	}
	if f.sweep != "" {
		if err := errors.Join(f.checkSweep(), f.check(), f.read()); err != nil {
			return usage(err)
		}
		return a.sweepAll(name, f)
	}
	return a.runAll([]string{name}, f)
}

// onMachine chooses the machine of a simulation and the costs of its designs.
func (f *runFlags) onMachine(ctx context.Context, s sut.System) (err error) {
	designs := slices.DeleteFunc(slices.Clone(f.variants), func(name string) bool {
		v, is := s.Variant(name)
		return !is || v.Model == nil // which checkModels refuses
	})
	f.simulated = &run.Simulation{Costs: map[string]sim.Costs{}, Known: "assumed costs"}
	for _, name := range designs {
		f.simulated.Costs[name] = s.Costs()
	}
	base := sim.DefaultMachine()
	if f.calibrated, err = f.calibration(ctx, s, designs); err != nil {
		return err
	}
	if c := f.calibrated; c != nil {
		base = c.Machine
		f.simulated.Costs = c.Costs()
		f.simulated.Known = "costs measured on " + c.Day()
	}
	f.simulated.Machine, err = readMachine(f.machine, base)
	return err
}

// holdAgainst predicts what was measured, for the page of the simulation.
func (a *app) holdAgainst(m *measuredRun, f *runFlags) error {
	p, err := a.predict(m, f.calibrated, f.variants)
	if err != nil {
		return err
	}
	p.Scaled = f.changesLoad()
	f.predicted = &p
	f.seed = cmp.Or(f.seed, seedOf(m.summary))
	if !p.Scaled {
		f.simulated.Machine.Stalls.Share = m.stalls
	}
	return nil
}

// modelled are the scenario's designs that have a model, or a calibrated one.
func modelled(plan resolved, calibrated bool) (names []string) {
	for _, name := range plan.Scenario.Variants {
		if v, _ := plan.System.Variant(name); v.Model != nil && (!calibrated || calibratable(v)) {
			names = append(names, name)
		}
	}
	return names
}

// haveModels says which designs of a system have one.
func haveModels(s sut.System) string {
	var names []string
	for _, v := range s.Variants {
		if v.Model != nil {
			names = append(names, v.Name)
		}
	}
	if len(names) == 0 {
		return s.Name + " has none yet"
	}
	return "of " + s.Name + " these have one: " + strings.Join(names, ", ")
}

// checkModels refuses designs without a model, and faults that no model knows.
func (f *runFlags) checkModels(plan resolved) error {
	if f.simulated == nil {
		return nil
	}
	for _, name := range plan.Scenario.Variants {
		if v, _ := plan.System.Variant(name); v.Model == nil {
			return usage(fmt.Errorf("--design: %s has no model; %s", name, haveModels(plan.System)))
		}
	}
	if err := run.CheckSimulated(plan.Scenario.Faults); err != nil {
		return usage(fmt.Errorf("%w; --fault none leaves all out", err))
	}
	return nil
}
