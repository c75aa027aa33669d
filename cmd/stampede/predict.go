package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"stampede/harness/calibrate"
	"stampede/harness/run"
	"stampede/harness/rundir"
	"stampede/harness/scenario"
	"stampede/harness/sim"
	"stampede/harness/sut"
)

// calibratedCosts is the value of --costs that names the default file.
const calibratedCosts = "calibrated"

// calibration reads the costs that a simulation is to have; nil if they are assumed.
func (f *runFlags) calibration(ctx context.Context, s sut.System, designs []string,
) (*calibrate.File, error) {
	if f.costs == "" {
		return nil, nil //nolint:nilnil // assumed costs
	}
	path := f.costs
	if path == calibratedCosts {
		var err error
		if path, err = calibrate.DefaultPath(s.Name); err != nil {
			return nil, err
		}
		if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("%s was not calibrated here; `stampede calibrate %s` does it in a "+
				"few minutes", s.Name, s.Name)
		}
	}
	file, err := calibrate.Read(path)
	if err != nil {
		return nil, fmt.Errorf("--costs: %w", err)
	}
	wanted := calibrate.Wanted{System: s.Name, Models: map[string]string{}, Assumed: s.Costs()}
	if f.machine == "" {
		wanted.Host = run.HostDigest()
	}
	if err = file.Check(wanted); err == nil { // of this system, on this machine
		for _, name := range designs {
			v, _ := s.Variant(name)
			if wanted.Models[name], err = calibrate.Digest(ctx, s, v); err != nil {
				return nil, err
			}
		}
		err = file.Check(wanted)
	}
	if err != nil {
		return nil, fmt.Errorf("--costs %s: %w", path, err)
	}
	return &file, nil
}

// measuredRun is a run that a simulation is held against.
type measuredRun struct {
	stored  *rundir.Run
	summary rundir.Summary
	// stalls is the share of the machine that others had.
	stalls float64
}

// openMeasured opens the run of --from.
func (f *runFlags) openMeasured(name string) (*measuredRun, error) {
	stored, err := openRun(f.out, f.from)
	if err != nil {
		return nil, fmt.Errorf("--from: %w", err)
	}
	m := &measuredRun{stored: stored}
	if m.summary, err = stored.Summary(); err != nil {
		return nil, fmt.Errorf("--from: %w", err)
	}
	info := m.summary.Run
	switch {
	case m.summary.Environment.Simulated():
		return nil, fmt.Errorf("--from: %s is a simulation; expected a run that was measured",
			stored.Path)
	case info.Target != "":
		return nil, fmt.Errorf("--from: %s judged a server, which has no model", stored.Path)
	case info.Scenario != name:
		return nil, fmt.Errorf("--from: %s is a run of %s, not of %s", stored.Path, info.Scenario, name)
	case f.profile != "":
		return nil, fmt.Errorf("--profile: the load is that of --from, whose profile is %s",
			info.Profile)
	}
	m.stalls, err = takenIn(stored, m.summary)
	return m, err
}

// takenIn is the share of the machine that others had during a run.
func takenIn(stored *rundir.Run, s rundir.Summary) (share float64, err error) {
	var all []calibrate.Window
	for _, v := range s.Variants {
		for _, r := range v.Repeats {
			if r.Telemetry == "" {
				continue
			}
			said, err := stored.Telemetry(r.Telemetry)
			if err != nil {
				return 0, err
			}
			all = append(all, calibrate.Windows(said, rundir.Timeline{BucketNS: int64(time.Second)},
				0, time.Duration(1<<62), s.Environment.Cores)...)
		}
	}
	return calibrate.Taken(all), nil
}

// predict simulates the load of a measured run, on the machine on which it was measured.
func (a *app) predict(m *measuredRun, file *calibrate.File, designs []string,
) (p rundir.Prediction, err error) {
	if run.HostOf(m.summary.Environment) != file.Host {
		return p, usage(fmt.Errorf("--from: %s was measured on another machine than the calibration",
			m.stored.Path))
	}
	root, err := os.MkdirTemp("", "stampede-predict-")
	if err != nil {
		return p, withCode(exitEnvironment, err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(root)) }()
	plan, err := resolve(m.scenario(), scenario.Options{})
	if err != nil {
		return p, err
	}
	if err := run.CheckSimulated(plan.Scenario.Faults); err != nil {
		return p, usage(fmt.Errorf("--from: what was measured cannot be simulated: %w", err))
	}
	plan.Scenario.Variants, plan.Scenario.Repeats = designs, 1
	plan.Scenario.Baseline = designs[0]
	machine := file.Machine
	machine.Stalls.Share = m.stalls
	_, summary, err := a.simulateSilently(a.interrupts.soft, plan, m.summary.Run.Seed, root,
		&run.Simulation{Machine: machine, Costs: file.Costs(), Known: "measured costs"})
	if err != nil {
		return p, a.runError(err, "")
	}
	p = rundir.Prediction{Run: m.summary.Run.ID, Calibrated: file.Day(),
		Designs: calibrate.Beside(summary, m.summary), Notes: slices.Clone(file.Notes)}
	for _, name := range designs {
		p.Notes = append(p.Notes, file.Designs[name].Notes...)
	}
	if m.stalls > stallsTold {
		p.Notes = append(p.Notes, fmt.Sprintf("while the run was measured others had %.1f %% of the "+
			"machine, which stalls of its cores stand for", 100*m.stalls))
	}
	return p, nil
}

// simulateSilently simulates a scenario, shows nobody, and returns the run's folder in root.
func (a *app) simulateSilently(
	ctx context.Context, plan resolved, seed uint64, root string, with *run.Simulation,
) (string, rundir.Summary, error) {
	path, summary, err := run.Run(ctx, a.interrupts.hard, run.Options{Scenario: plan.Scenario,
		System: plan.System, Params: plan.Params, Seed: seed, Root: root, Tool: tool(), Now: time.Now,
		Observer: silence{}, Simulate: with})
	if err == nil {
		err = failedRepeat(summary)
	}
	return path, summary, err
}

// failedRepeat is why a repeat of a run that nobody is shown failed.
func failedRepeat(s rundir.Summary) error {
	for _, v := range s.Variants {
		for _, r := range v.Repeats {
			if r.Error != "" {
				return fmt.Errorf("%s: %s", v.Name, r.Error)
			}
			if len(r.Operations) == 0 {
				return fmt.Errorf("%s answered nothing", v.Name)
			}
		}
	}
	return nil
}

// stallsTold is from which share on it is said what others took.
const stallsTold = 0.01

// scenario is the file with the scenario as it was run.
func (m *measuredRun) scenario() string {
	return filepath.Join(m.stored.Path, rundir.ScenarioFile)
}

// scaled is a scenario with so many times the load: rates, operations and users, and the bounds
// of what is under way and of what waits.
func scaled(sc scenario.Scenario, by float64) scenario.Scenario {
	times := func(n int, most int) int {
		if n == 0 {
			return 0
		}
		return int(min(max(float64(n)*by, 1), float64(most)))
	}
	l := &sc.Load
	l.Arrival.Rate *= by
	l.Arrival.To *= by
	l.Arrival.Ops = times(l.Arrival.Ops, mostScaled)
	l.Arrival.AtOnce = times(l.Arrival.AtOnce, mostScaled)
	l.Arrival.Steps = slices.Clone(l.Arrival.Steps)
	for i := range l.Arrival.Steps {
		l.Arrival.Steps[i].Rate *= by
	}
	l.Users = times(l.Users, mostInFlight)
	l.MaxInFlight = times(l.MaxInFlight, mostInFlight)
	l.Queue = times(l.Queue, mostScaled)
	return sc
}

// The bounds of a scenario: see scenario.Load.
const (
	mostInFlight = 100_000
	mostScaled   = 10_000_000
)

// readMachine reads a machine from a file, over another one, which "" is. Stalls are those of a
// machine, so a file that does not name any has none.
func readMachine(file string, base sim.Machine) (m sim.Machine, err error) {
	if m = base; file == "" {
		return m, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return m, fmt.Errorf("--machine: %w", err)
	}
	m.Stalls.Share = 0
	if err := scenario.DecodeInto(file, text, &m); err != nil {
		return m, fmt.Errorf("--machine: %w", err)
	}
	return m, m.Validate()
}

// changesLoad says that flags make another load or machine of what was measured.
func (f *runFlags) changesLoad() bool {
	return f.machine != "" || f.scale != 1 || len(f.set) > 0 || f.rate > 0 || f.duration > 0 ||
		f.fault != "" || f.seed != ""
}

// seedOf is the seed of a run, as text.
func seedOf(s rundir.Summary) string { return strconv.FormatUint(s.Run.Seed, 10) }
