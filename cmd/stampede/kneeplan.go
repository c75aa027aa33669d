package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"stampede/harness/check"
	"stampede/harness/knee"
	"stampede/harness/plain"
	"stampede/harness/run"
	"stampede/harness/scenario"
)

// At the lowest rate a window has leastOperations, or so many times what the objective
// that needs most operations needs: not all of them are of its kind.
const (
	leastOperations = 100
	plenty          = 1.5
)

// kneePlan is what a search tries.
type kneePlan struct {
	// name is the scenario as the user gave it, whole what it is without the
	// search's changes.
	name       string
	whole      resolved
	flags      kneeFlags
	variants   []string
	knownWrong map[string]bool
	objectives []knee.Objective
	bounds     knee.Plan
	// warnings say what of the scenario is left out.
	warnings []string
}

// planKnee decodes a scenario for a search. Whatever is wrong is a usage error,
// and found before anything is started.
func planKnee(name string, f kneeFlags, seed uint64) (kneePlan, error) {
	p := kneePlan{name: name, flags: f, knownWrong: map[string]bool{}, warnings: []string{}}
	set := slices.Clone(f.set)
	if len(f.variants) > 0 {
		set = append(set, "variants=["+strings.Join(f.variants, ", ")+"]",
			"baseline="+f.variants[0])
	}
	var err error
	if p.whole, err = resolve(name, scenario.Options{Profile: f.profile, Set: set}); err != nil {
		return p, err
	}
	if users := p.whole.Scenario.Load.Users; users > 0 {
		return p, usage(fmt.Errorf("%s has %d closed-loop users: each sends its next operation after a "+
			"reply, so their rate is a result and cannot be searched; a knee needs load.arrival",
			p.whole.Scenario.Name, users))
	}
	if err := errors.Join(p.chooseVariants(), p.chooseObjectives()); err != nil {
		return p, usage(err)
	}
	if err := p.bound(seed); err != nil {
		return p, usage(err)
	}
	for _, fault := range p.whole.Scenario.Faults {
		p.warnings = append(p.warnings, "its fault "+fault.Name+" is left out")
	}
	// What holds for the first rate of one variant holds for all of them.
	_, err = p.at(p.variants[0], p.bounds.FromPerS)
	return p, err
}

// chooseVariants leaves out what the scenario must catch breaking something,
// unless it was named.
func (p *kneePlan) chooseVariants() error {
	var left []string
	for _, v := range chosen(p.whole) {
		wrong := len(p.whole.Scenario.MustCatch(v)) > 0
		if wrong && len(p.flags.variants) == 0 {
			left = append(left, v.Name)
			continue
		}
		p.variants, p.knownWrong[v.Name] = append(p.variants, v.Name), wrong
	}
	if len(left) > 0 {
		p.warnings = append(p.warnings, "known to be wrong under this load and left out: "+
			strings.Join(left, ", ")+" (--design names them)")
	}
	if len(p.variants) == 0 {
		return fmt.Errorf("every design of %s is known to be wrong under its load; name some "+
			"with --design: %s", p.whole.Scenario.Name, strings.Join(left, ", "))
	}
	return nil
}

// chooseObjectives takes the scenario's objectives but those about faults, and
// those of flags.
func (p *kneePlan) chooseObjectives() error {
	for _, slo := range p.whole.Scenario.SLOs {
		o, err := check.ParseObjective(slo.Objective)
		if err != nil {
			return fmt.Errorf("objective %s: %w", slo.Name, err)
		}
		if o.Part.Relation != "in" {
			p.warnings = append(p.warnings, fmt.Sprintf("its objective %s is about the fault %s and "+
				"left out", slo.Name, o.Part.Name))
			continue
		}
		p.objectives = append(p.objectives, knee.Objective(slo))
	}
	for i, text := range p.flags.objectives {
		if _, err := check.ParseObjective(text); err != nil {
			return fmt.Errorf("--objective %q: %w", text, err)
		}
		p.objectives = append(p.objectives,
			knee.Objective{Name: "flag-" + strconv.Itoa(i+1), Objective: text})
	}
	if len(p.objectives) == 0 {
		return fmt.Errorf("%s has no objective that a rate could miss; give one, for example "+
			"--objective 'p99(response) <= 100ms'", p.whole.Scenario.Name)
	}
	return nil
}

// bound makes the search's bounds.
func (p *kneePlan) bound(seed uint64) error {
	f := p.flags
	least := p.leastRate()
	b := knee.Plan{FromPerS: f.from, MostPerS: f.most, Precision: f.precision,
		Repeats: f.repeats, Again: f.again, Windows: f.mostWindows, LeastPerS: min(least, f.most)}
	if f.from == 0 {
		load, err := run.PlanOf(p.whole.Scenario, seed)
		if err != nil {
			return err
		}
		mean := load.Process.Mean() / load.Over.Seconds()
		b.FromPerS = min(max(knee.Rounded(mean/4), b.LeastPerS), f.most)
	}
	b.LeastPerS = min(b.LeastPerS, b.FromPerS)
	p.bounds = b
	if err := b.Validate(); err != nil {
		return fmt.Errorf("--from, --max, --precision, --repeats, --again and --max-windows do "+
			"not go together: %w", err)
	}
	return nil
}

// leastRate is the lowest rate at which the measured part of a window has operations
// enough to judge every objective.
func (p *kneePlan) leastRate() float64 {
	needs := int64(0)
	for _, objective := range p.objectives {
		if o, err := check.ParseObjective(objective.Objective); err == nil { // it was parsed before
			needs = max(needs, o.Needs())
		}
	}
	measured := p.flags.window - p.whole.Scenario.Load.WarmUp.D()
	if measured <= 0 {
		measured = p.flags.window // decoding refuses it, and says why
	}
	return knee.Rounded(max(leastOperations, plenty*float64(needs)) / measured.Seconds())
}

// settings are what makes a window of the scenario: the user's own, then the
// search's.
func (p *kneePlan) settings(variant string, rate float64) ([]string, error) {
	a := p.whole.Scenario.Load.Arrival
	arrival := fmt.Sprintf("process: constant, rate: %v, over: %s",
		strconv.FormatFloat(rate, 'f', -1, 64), p.flags.window)
	if a.Poisson || a.Process == "poisson" {
		arrival += ", poisson: true"
	}
	// JSON is YAML, but for the escapes of HTML.
	var slos bytes.Buffer
	enc := json.NewEncoder(&slos)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(p.objectives); err != nil {
		return nil, fmt.Errorf("writing the objectives: %w", err)
	}
	return append(slices.Clone(p.flags.set), "variants=["+variant+"]", "baseline="+variant,
		"repeats=1", "faults=[]", "provokes=[]", "load.min_operations=null",
		"slos="+strings.TrimSpace(slos.String()), "load.arrival={"+arrival+"}"), nil
}

// at is the scenario of one window.
func (p *kneePlan) at(variant string, rate float64) (resolved, error) {
	set, err := p.settings(variant, rate)
	if err != nil {
		return resolved{}, err
	}
	return resolve(p.name, scenario.Options{Profile: p.flags.profile, Set: set})
}

// reproduce is the command line that searches the same again.
func (p *kneePlan) reproduce(f kneeFlags, seed uint64) string {
	number := func(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }
	line := typed{"stampede", "knee", plain.Word(p.name), "--profile", p.whole.Scenario.Profile,
		"--design", strings.Join(p.variants, ","), "--window", f.window.String(),
		"--from", number(p.bounds.FromPerS), "--max", number(f.most),
		"--precision", number(f.precision), "--repeats", strconv.Itoa(f.repeats),
		"--again", strconv.Itoa(f.again),
		"--max-windows", strconv.Itoa(f.mostWindows), "--seed", strconv.FormatUint(seed, 10)}
	note := line.servers(f.servers)
	line.flag("--objective", f.objectives...)
	line.settings(f.set, p.whole.System)
	return strings.Join(line, " ") + note
}
