package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"stampede/harness/calibrate"
	"stampede/harness/knee"
	"stampede/harness/run"
	"stampede/harness/rundir"
	"stampede/harness/scenario"
	"stampede/harness/sim"
	"stampede/harness/sut"
	"stampede/reports/words"
)

// The search for the knee: windows are short, because what is of interest is whether two
// searches come to the same.
const (
	kneeFrom      = 500
	kneeLeast     = 50
	kneeMost      = 20_000
	kneePrecision = 0.08
	kneeWindows   = 12
)

// heldOutDrain is for how long background work may go on after a load.
const heldOutDrain = 30 * time.Second

// heldOut are the loads that a calibration is checked with.
type heldOut struct {
	*calibration
	file    calibrate.File
	load    sut.CalibrationLoad
	flags   calibrateFlags
	samples []calibrate.Sample
	// taken are the shares of the machine that others had while rates were tried.
	taken []float64
	// without are the designs that no rate kept the objective of.
	without []string
}

// holdOut holds a calibration's predictions against loads that it has not seen.
func (a *app) holdOut(s sut.System, designs []sut.Variant, f calibrateFlags) error {
	flags := runFlags{costs: f.out}
	names := []string{}
	for _, v := range designs {
		names = append(names, v.Name)
	}
	file, err := flags.calibration(a.interrupts.soft, s, names)
	if err != nil {
		return usage(err)
	}
	lab, err := a.openCalibration(s, f.backend, nil)
	if err != nil {
		return err
	}
	h := &heldOut{calibration: lab, file: *file, flags: f,
		load: sut.CalibrationLoad{Name: "held out", Params: s.Calibration.HeldOut}}
	h.drain = heldOutDrain
	for _, v := range designs {
		if err = h.design(a.interrupts.soft, v); err != nil {
			err = fmt.Errorf("%s: %w", v.Name, err)
			break
		}
	}
	if err = errors.Join(err, lab.close()); err != nil {
		return a.failed(exitInternal, err)
	}
	h.tell()
	return nil
}

// design measures and predicts the loads of one design: shares of the measured knee, and a
// burst that begins at one and a half times it.
func (h *heldOut) design(ctx context.Context, v sut.Variant) error {
	machine := h.file.Machine
	guess, err := h.knee(ctx, v, kneeFrom, h.simulated(machine))
	if err != nil {
		return err
	}
	h.taken = nil
	measured, err := h.knee(ctx, v, cmp.Or(guess, kneeFrom), h.measured)
	if err != nil {
		return err
	}
	if measured == 0 {
		h.without = append(h.without, v.Name)
		h.logf("%s: no rate keeps %s on this machine; others have %.0f %% of it", v.Name,
			h.flags.objective, 100*mean(h.taken))
		return nil
	}
	machine.Stalls.Share = mean(h.taken)
	predicted, err := h.knee(ctx, v, measured, h.simulated(machine))
	if err != nil {
		return err
	}
	h.add(calibrate.Sample{Load: "knee", PredictedDesign: rundir.PredictedDesign{Design: v.Name,
		Quantities: []rundir.Quantity{
			{Name: "knee", Unit: "/s", Predicted: predicted, Measured: measured}}}})
	for _, load := range []struct{ name, text string }{
		{"0.3 of the knee", poisson(0.3*measured, h.flags.window)},
		{"0.6 of the knee", poisson(0.6*measured, h.flags.window)},
		{"0.75 of the knee", poisson(0.75*measured, h.flags.window)},
		{"burst", fmt.Sprintf("arrival: {process: burst, ops: %d, over: %s, peak: 2}",
			int(0.75*measured*h.flags.window.Seconds()), h.flags.window)},
	} {
		if err := h.compare(ctx, v, load.name, load.text); err != nil {
			return fmt.Errorf("%s: %w", load.name, err)
		}
	}
	return nil
}

// add keeps a sample and tells of it.
func (h *heldOut) add(s calibrate.Sample) {
	h.samples = append(h.samples, s)
	var figures []string
	for _, q := range s.Quantities {
		show := words.Rate
		if q.Unit == "ns" {
			show = func(x float64) string { return words.Latency(int64(x)) }
		}
		figures = append(figures, fmt.Sprintf("%s %s for %s (%+.0f %%)", q.Name, show(q.Predicted),
			show(q.Measured), 100*(q.Predicted/q.Measured-1)))
	}
	h.logf("%s, %s: %s", s.Design, s.Load, strings.Join(figures, ", "))
}

// compare runs one load and its simulation with what others took meanwhile.
func (h *heldOut) compare(ctx context.Context, v sut.Variant, name, text string) error {
	plan, err := h.plan(v, h.load, text)
	if err != nil {
		return err
	}
	_, measured, err := h.measured(ctx, plan)
	if err != nil {
		return err
	}
	machine := h.file.Machine
	machine.Stalls.Share = h.taken[len(h.taken)-1]
	_, predicted, err := h.simulate(ctx, plan, machine)
	if err != nil {
		return err
	}
	for _, d := range calibrate.Beside(predicted, measured) {
		h.add(calibrate.Sample{Load: name, PredictedDesign: d})
	}
	return nil
}

// simulate runs the model of a load.
func (h *heldOut) simulate(ctx context.Context, plan resolved, machine sim.Machine,
) (string, rundir.Summary, error) {
	return h.simulateSilently(ctx, plan, 1, h.folder, &run.Simulation{Machine: machine,
		Costs: h.file.Costs(), Known: "measured costs"})
}

// tryLoad runs one load and returns its folder.
type tryLoad func(ctx context.Context, plan resolved) (string, rundir.Summary, error)

// measured runs a load on stores, and notes what others took meanwhile.
func (h *heldOut) measured(ctx context.Context, plan resolved) (string, rundir.Summary, error) {
	path, summary, err := h.perform(ctx, plan)
	if err != nil {
		return path, summary, err
	}
	stored, err := rundir.Open("", path)
	if err != nil {
		return path, summary, err
	}
	share, err := takenIn(stored, summary)
	h.taken = append(h.taken, share)
	return path, summary, err
}

func mean(values []float64) (sum float64) {
	for _, x := range values {
		sum += x / float64(len(values))
	}
	return sum
}

func (h *heldOut) simulated(machine sim.Machine) tryLoad {
	return func(ctx context.Context, plan resolved) (string, rundir.Summary, error) {
		return h.simulate(ctx, plan, machine)
	}
}

// knee is the highest rate that was confirmed, or that held at all, 0 if none did.
func (h *heldOut) knee(ctx context.Context, v sut.Variant, from float64, try tryLoad,
) (float64, error) {
	bounds := knee.Plan{FromPerS: knee.Rounded(max(from, kneeLeast)), LeastPerS: kneeLeast,
		MostPerS: kneeMost, Precision: kneePrecision, Repeats: 1, Windows: kneeWindows}
	result, err := knee.Search(ctx, bounds, func(ctx context.Context, rate float64,
	) (w knee.Window, err error) {
		plan, err := h.plan(v, h.load, poisson(rate, h.flags.window))
		if err != nil {
			return w, err
		}
		plan.Scenario.SLOs = []scenario.SLO{{Name: "p99", Objective: h.flags.objective}}
		path, summary, err := try(ctx, plan)
		if err != nil {
			return w, err
		}
		stored, err := rundir.Open("", path)
		if err != nil {
			return w, err
		}
		of := summary.Variants[0]
		line, err := stored.Timeline(of.Repeats[0].Timeline)
		if err != nil {
			return w, err
		}
		w = knee.Judge(of, line)
		if h.flags.verbose {
			h.logf("%s at %.0f/s: %s %v", v.Name, rate, w.Verdict, w.Reasons)
		}
		return w, nil
	})
	return cmp.Or(result.RatePerS, result.HeldOncePerS), err
}

// tell prints what the errors come to.
func (h *heldOut) tell() {
	for _, g := range calibrate.Goals() {
		share, n := calibrate.Median(h.samples, g.Quantity)
		if n == 0 {
			fmt.Fprintf(h.stdout, "%-5s was not measured\n", g.Quantity)
			continue
		}
		fmt.Fprintf(h.stdout, "%-5s median error %3.0f %% of %d loads (goal: %.0f %%): %s\n", g.Quantity,
			100*share, n, 100*g.Share, metOrMissed(share <= g.Share))
	}
	right, pairs, wrong := calibrate.Order(h.samples)
	fmt.Fprintf(h.stdout, "order %d of %d pairs of designs that differ by more than half (goal: 9 "+
		"of 10): %s%s\n", right, pairs, metOrMissed(10*right >= 9*pairs),
		prefixed("; wrong: ", strings.Join(wrong, ", ")))
	if len(h.without) > 0 {
		fmt.Fprintf(h.stdout, "in none of these: %s, of which no rate kept %s\n",
			strings.Join(h.without, ", "), h.flags.objective)
	}
	for _, s := range h.samples {
		for _, q := range s.Quantities {
			if e := math.Expm1(q.Error()); e > farOff && q.Name != "throughput" {
				fmt.Fprintf(h.stdout, "off by more than half: %s of %s at %s (%.0f %%)\n", q.Name,
					s.Design, s.Load, 100*e)
			}
		}
	}
}

func metOrMissed(met bool) string {
	if met {
		return "met"
	}
	return "MISSED"
}

// farOff is from which error on it is named.
const farOff = 0.5

func prefixed(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}
