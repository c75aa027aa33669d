// Package calibrate measures what the steps of a system's models cost on this machine, and
// holds what the models then predict against what is measured.
//
// Costs are CPU demands. A load is run that shows one of them; its CPU time in the windows in
// which nobody else used the machine, divided by what the model says was done how often, is
// the cost. Nothing is fitted to a p99 or to the highest rate that works: those are predicted.
// See Jain, The Art of Computer Systems Performance Analysis (1991), for demands, and
// docs/simulation.md for what came of it.
package calibrate

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"stampede/harness/scenario"
	"stampede/harness/sim"
)

// How a cost is known: sim.Cost.Known.
const (
	Measured = "measured"
	Fitted   = "fitted"
	Assumed  = "assumed"
)

// File is a calibration of some designs of a system on a machine.
type File struct {
	System string `json:"system"`
	// Date is when, RFC 3339, and Host which machine it was: a digest.
	Date string `json:"date"`
	Host string `json:"host"`
	// Machine is what a simulation of it runs on, with its stalls.
	Machine sim.Machine `json:"machine"`
	// Known says how its values are known, by their paths; the others are assumed.
	Known   map[string]string `json:"known"`
	Designs map[string]Design `json:"designs"`
	// Notes say what was not as it should have been.
	Notes []string `json:"notes"`
}

// Design is what was found of one design.
type Design struct {
	// Model is the digest of what its model does: see Digest.
	Model string    `json:"model"`
	Costs sim.Costs `json:"costs"`
	// Quiet of so many Windows of a second were quiet.
	Windows int `json:"windows"`
	Quiet   int `json:"quiet"`
	// MeasuredP50 and PredictedP50 are the response times of one client. What they differ by
	// no step of the model explains.
	MeasuredP50  sim.Duration `json:"measured_p50"`
	PredictedP50 sim.Duration `json:"predicted_p50"`
	// Notes say which costs were not found.
	Notes []string `json:"notes,omitempty"`
}

// DefaultPath is where the calibration of a system lies unless the user says otherwise.
func DefaultPath(system string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding a place for calibrations: %w", err)
	}
	return filepath.Join(cache, "stampede", "calibration-"+system+".yaml"), nil
}

// Write keeps the calibration in a file, whose folder is made.
func (f File) Write(path string) error {
	text, err := scenario.ToYAML(f)
	if err != nil {
		return fmt.Errorf("writing the calibration: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("writing the calibration: %w", err)
	}
	if err := os.WriteFile(path, text, 0o644); err != nil {
		return fmt.Errorf("writing the calibration: %w", err)
	}
	return nil
}

// Read reads a calibration. An unknown field is an error.
func Read(path string) (f File, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return f, fmt.Errorf("reading the calibration: %w", err)
	}
	f.Machine = sim.DefaultMachine()
	return f, scenario.DecodeInto(path, text, &f)
}

// Wanted is what a calibration is to be used for.
type Wanted struct {
	System string
	// Models are the digests of the models of the designs that are to be simulated, and
	// Assumed the costs that they know.
	Models  map[string]string
	Assumed sim.Costs
	// Host is the machine, "" if another one is given.
	Host string
}

// Check refuses a calibration that says nothing about what it is to be used for.
func (f File) Check(w Wanted) error {
	again := fmt.Sprintf("; `stampede calibrate %s` makes a new one", w.System)
	if f.System != w.System {
		return fmt.Errorf("the calibration is of %s, and this is %s", f.System, w.System)
	}
	if w.Host != "" && f.Host != w.Host {
		return errors.New("the calibration is of another machine; --machine says on which one to " +
			"simulate, its own machine among them" + again)
	}
	var wrong []error
	for _, name := range slices.Sorted(maps.Keys(w.Models)) {
		d, is := f.Designs[name]
		switch {
		case !is:
			wrong = append(wrong, fmt.Errorf("the calibration does not have %s, but %v%s", name,
				slices.Sorted(maps.Keys(f.Designs)), again))
		case d.Model != w.Models[name]:
			wrong = append(wrong, fmt.Errorf("the model of %s has changed since it was calibrated%s",
				name, again))
		}
		if is {
			wrong = append(wrong, differ(name, d.Costs, w.Assumed))
		}
	}
	return errors.Join(wrong...)
}

// differ refuses costs that no model knows, and too few.
func differ(design string, costs, assumed sim.Costs) error {
	has, known := byComponent(costs), byComponent(assumed)
	var wrong []error
	for _, component := range slices.Sorted(maps.Keys(known)) {
		for _, name := range slices.Sorted(maps.Keys(has[component])) {
			if _, is := known[component][name]; !is {
				wrong = append(wrong, fmt.Errorf("the calibration of %s has a cost of %s, %q, that no "+
					"model knows", design, component, name))
			}
		}
		for _, name := range slices.Sorted(maps.Keys(known[component])) {
			if _, is := has[component][name]; !is {
				wrong = append(wrong, fmt.Errorf("the calibration of %s lacks the cost %q of %s", design,
					name, component))
			}
		}
	}
	return errors.Join(wrong...)
}

func byComponent(c sim.Costs) map[string]map[string]sim.Cost {
	return map[string]map[string]sim.Cost{"app": c.App, "postgres": c.Postgres, "redis": c.Redis,
		"kafka": c.Kafka}
}

// Costs are those of each design.
func (f File) Costs() map[string]sim.Costs {
	all := map[string]sim.Costs{}
	for name, d := range f.Designs {
		all[name] = d.Costs
	}
	return all
}

// Day is when the calibration was made, in words.
func (f File) Day() string {
	t, err := time.Parse(time.RFC3339, f.Date)
	if err != nil {
		return f.Date
	}
	return t.UTC().Format(time.DateOnly)
}
