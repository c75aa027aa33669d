package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"stampede/harness/durable"
	"stampede/harness/run"
	"stampede/harness/rundir"
	"stampede/harness/scenario"
	"stampede/harness/sim"
	"stampede/reports/answer"
	"stampede/reports/page"
	"stampede/reports/words"
)

// sweeping is a value of a simulation that takes several values in turn.
type sweeping struct {
	path   string
	values []swept
}

// swept is one of them: a number or a duration, as it was given, and in seconds.
type swept struct {
	text string
	x    float64
}

// What a sweep may change that is no part of a machine.
const (
	sweepScale       = "scale"
	sweepConnections = "stores.max_conns"
)

// parseSweep reads "postgres.cores=2,4,8".
func parseSweep(text string) (s sweeping, err error) {
	path, list, ok := strings.Cut(text, "=")
	if s.path = path; !ok || path == "" || list == "" {
		return s, fmt.Errorf("--sweep is %q; expected a path and values, as in cores=2,4,8,16", text)
	}
	for _, value := range strings.Split(list, ",") {
		x, err := strconv.ParseFloat(value, 64)
		if d, isTime := time.ParseDuration(value); err != nil && isTime == nil && path != sweepScale {
			x, err = d.Seconds(), nil
		}
		if err != nil || !(x > 0) || math.IsInf(x, 1) {
			return s, fmt.Errorf("--sweep has the value %q; expected numbers of more than 0, or "+
				"durations where the machine has one", value)
		}
		s.values = append(s.values, swept{value, x})
	}
	slices.SortFunc(s.values, func(a, b swept) int { return cmp.Compare(a.x, b.x) })
	// A wrong path is told before anything is simulated.
	_, _, err = s.at(s.values[0], sim.DefaultMachine())
	return s, err
}

// checkSweep refuses what a sweep does not do: it keeps no runs, and judges for its page alone.
func (f *runFlags) checkSweep() error {
	var problems []error
	for _, name := range []string{"against", "across-machines", "baseline", "fail-on", "format",
		"json", "junit", "md", "metrics", "open", "repeats", "timeout", "verbose"} {
		if f.changed(name) {
			problems = append(problems, fmt.Errorf("--%s is of no use with --sweep, which keeps no "+
				"run", name))
		}
	}
	return errors.Join(problems...)
}

// at is a machine, and what else is set, for one of the values.
func (s sweeping) at(value swept, m sim.Machine) (sim.Machine, []string, error) {
	switch s.path {
	case sweepScale:
		return m, nil, nil
	case sweepConnections:
		return m, []string{sweepConnections + "=" + value.text}, nil
	}
	names := strings.Split(s.path, ".")
	yaml := strings.Join(names, ": {") + ": " + value.text + strings.Repeat("}", len(names)-1)
	if err := scenario.DecodeInto("--sweep", []byte(yaml), &m); err != nil {
		return m, nil, fmt.Errorf("%w; beside a machine's values there are %s and %s", err, sweepScale,
			sweepConnections)
	}
	return m, nil, m.Validate()
}

// sweepAll simulates a scenario once for each value and prints a table for each design, with
// what was waited for longest; --html writes them as a page with curves.
func (a *app) sweepAll(name string, f runFlags) error {
	s, err := parseSweep(f.sweep)
	if err != nil {
		return usage(err)
	}
	seed, err := parseSeed(f.seed) // one for all values
	if err != nil {
		return usage(err)
	}
	root, err := os.MkdirTemp("", "stampede-sweep-")
	if err != nil {
		return withCode(exitEnvironment, err)
	}
	told := page.Sweep{Scenario: name, Path: s.path, Known: f.simulated.Known}
	for _, design := range f.variants {
		told.Designs = append(told.Designs, page.SweptDesign{Name: design})
	}
	for _, value := range s.values {
		if err = a.sweepOne(a.interrupts.soft, root, f, s, value, seed, &told); err != nil {
			break
		}
		a.logf("%s = %s is simulated", s.path, value.text)
	}
	if err = errors.Join(err, os.RemoveAll(root)); err != nil {
		return err
	}
	fmt.Fprintf(a.stdout, "%s · %s, costs: %s, seed %d\n", answer.SimulatedWord, s.path, told.Known,
		seed)
	for _, d := range told.Designs {
		a.tellSweep(s.path, d)
	}
	if f.html == "" {
		return nil
	}
	return withCode(exitEnvironment, durable.WriteFile(f.html, func(w io.Writer) error {
		return page.WriteSweep(w, told)
	}))
}

// sweepOne simulates all designs with one value, and adds what came of it.
func (a *app) sweepOne(
	ctx context.Context, root string, f runFlags, s sweeping, value swept, seed uint64,
	told *page.Sweep,
) error {
	machine, set, err := s.at(value, f.simulated.Machine)
	if err != nil {
		return usage(err)
	}
	if s.path == sweepScale {
		f.scale *= value.x
	}
	f.set = slices.Concat(f.set, set)
	plan, err := f.plan(told.Scenario)
	if err == nil {
		err = f.checkModels(plan)
	}
	if err != nil {
		return err
	}
	told.Question = plan.Scenario.Question
	plan = plan.shortest()
	_, summary, err := a.simulateSilently(ctx, plan, seed, root, &run.Simulation{Machine: machine,
		Costs: f.simulated.Costs, Known: f.simulated.Known})
	if err != nil {
		return a.runError(err, "")
	}
	for _, v := range summary.Variants {
		for i := range told.Designs {
			if d := &told.Designs[i]; d.Name == v.Name {
				d.Points = append(d.Points, sweptPoint(v, value))
				d.Wrong = d.Wrong || len(v.Violated()) > 0
			}
		}
	}
	return nil
}

func sweptPoint(v rundir.Variant, value swept) page.SweptPoint {
	r := page.SweptPoint{Value: value.x, Given: value.text, PerS: v.ThroughputPerS,
		P50: v.Latency.Response.P50, P99: v.Latency.Response.P99}
	if len(v.Repeats) > 0 {
		r.Bottleneck = v.Repeats[0].Bottleneck
	}
	return r
}

// barWidth is how many characters the longest bar of a curve has.
const barWidth = 24

// tellSweep prints what came of a design, with its throughput as a curve.
func (a *app) tellSweep(path string, d page.SweptDesign) {
	most := 0.0
	for _, r := range d.Points {
		most = max(most, r.PerS)
	}
	fmt.Fprintf(a.stdout, "\n%s\n%12s %12s %10s %10s\n", d.Name, path, "successes", "p50", "p99")
	for _, r := range d.Points {
		bar := strings.Repeat("█", int(barWidth*r.PerS/max(most, 1)+0.5))
		fmt.Fprintf(a.stdout, "%12s %12s %10s %10s  %s\n", r.Given, words.Rate(r.PerS),
			words.Latency(r.P50), words.Latency(r.P99), bar)
	}
	for i, r := range d.Points {
		if i == 0 || i == len(d.Points)-1 {
			fmt.Fprintf(a.stdout, "%s = %s: %s\n", path, r.Given, r.Bottleneck)
		}
	}
}
