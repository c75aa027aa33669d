package judge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"time"

	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/measure"
	"stampede/harness/rundir"
)

// Repeat judges one repeat, once.
func (j *Judge) Repeat(
	ctx context.Context, dir *rundir.Dir, slot rundir.Slot,
) (rundir.Repeat, error) {
	if known, ok := j.known[slot.Order]; ok {
		return known, nil
	}
	trial, err := j.trial(slot)
	if err != nil {
		return rundir.Repeat{}, err
	}
	out := rundir.Repeat{Index: slot.Repeat, Order: slot.Order, Control: slot.Control,
		Again: slot.Again, Used: true, Timing: rundir.NoTimes, Generator: trial.Generator,
		Bottleneck: trial.Bottleneck, DrainNS: trial.DrainNS, Processor: trial.Processor,
		History: slot.History, Audit: slot.Audit,
		Timeline: slot.Timeline, Error: trial.Error,
		Invariants: []check.Verdict{}, SLOs: []check.SLOVerdict{},
		Operations: []rundir.Operation{}, Validity: []rundir.Validity{evidence(finished(trial))}}
	if name := rundir.TelemetryName(slot.Variant, slot.Repeat); j.has(name) {
		out.Telemetry = name
	}
	path, err := j.run.File(slot.History)
	if err != nil {
		return out, err
	}
	h, err := history.Open(path)
	switch {
	case errors.Is(err, fs.ErrNotExist): // it failed before the load
	case err != nil:
		return out, err
	default:
		defer h.Close()
		res, err := j.measure(h, trial, &out)
		if err != nil {
			return out, err
		}
		if err := j.race(h, trial, &out); err != nil {
			return out, err
		}
		if err := j.writeLogs(dir, slot, res); err != nil {
			return out, err
		}
		if out.Windows, err = dir.WriteWindows(trial.Variant, trial.Repeat, res.Windows); err != nil {
			return out, err
		}
		if out.Invariants, err = j.check(ctx, h, slot, trial, &out); err != nil {
			return out, err
		}
		res.Timeline.Watched = rundir.WatchedLines(out.Invariants)
		if _, err := dir.WriteTimeline(trial.Variant, trial.Repeat, res.Timeline); err != nil {
			return out, err
		}
	}
	out.Verdict = j.Verdict(slot.Variant, []rundir.Repeat{out}).Overall()
	j.known[slot.Order] = out
	return out, nil
}

// trial reads what a repeat left beside its history. A repeat that was cut
// off left nothing.
func (j *Judge) trial(slot rundir.Slot) (Trial, error) {
	var t Trial
	if err := readJSON(j.run, TrialName(slot), &t); err != nil {
		return t, err
	}
	if t.Variant == "" {
		t = Trial{Variant: slot.Variant, Repeat: slot.Repeat, Order: slot.Order,
			Error: "the run ended before this repeat did"}
	}
	return t, nil
}

// writeLogs writes the response times over time, a file for each operation kind, for
// HdrHistogram's tools.
func (j *Judge) writeLogs(dir *rundir.Dir, slot rundir.Slot, res *measure.Result) error {
	for _, op := range res.Operations {
		name := rundir.HLogName(slot.Variant, op.Kind, slot.Repeat)
		err := dir.WriteFile(name, func(w io.Writer) error {
			return res.WriteLog(w, op.Kind, j.run.Manifest.Run.Started)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// measure fills in the repeat's numbers and returns all that was measured.
func (j *Judge) measure(
	h *history.File, trial Trial, out *rundir.Repeat,
) (*measure.Result, error) {
	windows := h.Windows()
	objectives, err := j.objectives()
	if err != nil {
		return nil, err
	}
	spans, sampled, err := j.taken(trial, out.Telemetry)
	if err != nil {
		return nil, err
	}
	res, err := measure.Summarise(h, measure.Options{Kinds: j.kinds(), Windows: windows,
		Scopes: check.Scopes(objectives, windows), Taken: spans})
	if err != nil {
		return nil, fmt.Errorf("measuring %s: %w", out.History, err)
	}
	out.Load, out.Latency, out.ThroughputPerS = res.Load, res.Latency, res.ThroughputPerS
	out.Operations, out.Faults = res.Operations, h.Faults()
	facts := measure.Facts{
		Generator: trial.Generator, Counted: trial.Load, Recorded: res.Recorded,
		Cut: trial.Cut, CutFollowUps: trial.CutFollowUps,
		Response: res.Latency.Response, Service: res.Latency.Service,
		Cores: trial.Cores, Inside: trial.Inside, Machine: trial.machine(),
		SideBySide: j.scenario.SideBySide, Simulated: trial.Simulated,
		Sampled: sampled, Quiet: res.Quiet}
	gates, timing := gate(facts, trial.Generators)
	out.Validity = append(j.assumptions(h, trial, res), gates...)
	out.Timing, out.Quiet = timing, res.Quiet
	for i, slo := range j.scenario.SLOs {
		out.SLOs = append(out.SLOs, oneSided(objectives[i].JudgeRun(slo.Name, res, windows), out.Timing,
			j.scenario.SideBySide))
	}
	return res, nil
}

// oneSided judges an objective by the state of the times. Interference only delays, so that
// what is met in spite of it is met, and what is missed may not be the design's doing. A
// late generator sends a gentler load, by which nothing is met.
func oneSided(v check.SLOVerdict, timing string, sideBySide bool) check.SLOVerdict {
	switch {
	case v.Status == check.Broken && timing == rundir.Noisy:
		v.Reason = "it was missed (" + v.Actual + ", limit " + v.Limit + "), and the machine interfered"
	case sideBySide:
		v.Reason = "the designs ran side by side: objectives are not judged"
	case v.Status != check.Undecided && timing == rundir.NoTimes:
		v.Reason = "the generator sent too late: these times cannot be used"
	default:
		return v
	}
	v.Status, v.NotJudged = check.Undecided, true
	return v
}

// race counts the operations that raced, where the system names them.
func (j *Judge) race(h *history.File, trial Trial, out *rundir.Repeat) error {
	races := j.system.Races
	if races == nil {
		return nil
	}
	o, err := check.Overlap(history.Widen(h, -trial.clockError()), races.Kinds, races.Idle)
	if err != nil {
		return err
	}
	out.Races = &rundir.Races{Kinds: races.Kinds, Successful: o.Successful, Raced: o.Raced,
		Peak: o.Peak, Least: int64(races.Least)}
	out.Validity = append(out.Validity, evidence(raced(*out.Races)))
	return nil
}

// taken are the spans of a repeat in which the hypervisor or other programs took the CPU, by
// the samples of the machine; sampled is false if there are none.
func (j *Judge) taken(t Trial, telemetry string) (spans []measure.Span, sampled bool, err error) {
	if telemetry == "" {
		return nil, false, nil
	}
	said, err := j.run.Telemetry(telemetry)
	if err != nil {
		return nil, false, err
	}
	spans, sampled = takenIn(said, t.Cores, time.Duration(t.EndNS-t.StartNS), t.machine() != nil)
	return spans, sampled, nil
}

// takenIn finds the seconds in telemetry in which more than the allowed share of the cores
// was taken. A point of a series is about the time since the one before. The machine is
// sampled only if what other programs took is, wherever that is known at all, and for at
// least every other period of span, the repeat's.
func takenIn(
	said rundir.Telemetry, cores int, span time.Duration, othersKnown bool,
) (spans []measure.Span, sampled bool) {
	most := map[string]float64{rundir.Hypervisor: measure.StealMost,
		rundir.OtherPrograms: measure.OthersMost}
	needed := int64(span) / max(1, 2*said.PeriodNS)
	for _, source := range said.Sources {
		for _, s := range source.Series {
			share, ok := most[s.Part]
			if s.Quantity != rundir.Taken || !ok {
				continue
			}
			sampled = sampled || int64(len(s.AtNS)) >= max(1, needed) &&
				(s.Part == rundir.OtherPrograms || !othersKnown)
			from := time.Duration(0)
			for i, at := range s.AtNS {
				to := time.Duration(at)
				if s.Values[i] > share*float64(cores) {
					spans = append(spans, measure.Span{From: from, To: to})
				}
				from = to
			}
		}
	}
	return spans, sampled
}

// objectives parses the scenario's SLOs, which decoding has checked.
func (j *Judge) objectives() ([]check.Objective, error) {
	out := make([]check.Objective, len(j.scenario.SLOs))
	for i, slo := range j.scenario.SLOs {
		o, err := check.ParseObjective(slo.Objective)
		if err != nil {
			return nil, fmt.Errorf("objective %s: %w", slo.Name, err)
		}
		out[i] = o
	}
	return out, nil
}

// kinds lists the operation kinds, the main one first.
func (j *Judge) kinds() []string {
	w, err := j.system.Workload(0, j.params)
	if err != nil {
		return nil // an unordered report is better than none
	}
	return w.Kinds()
}

// check judges the invariants that say something about the variant.
func (j *Judge) check(
	ctx context.Context, h *history.File, slot rundir.Slot, trial Trial, out *rundir.Repeat,
) ([]check.Verdict, error) {
	audit, err := j.run.Audit(slot.Audit)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	v := j.variant(slot.Variant)
	invariants := []check.Invariant{quiescence{trial}}
	for _, inv := range j.system.Invariants(j.params) {
		if _, exempt := v.NotApplicable[inv.Name()]; !exempt {
			invariants = append(invariants, inv)
		}
	}
	seen := history.Widen(h, trial.clockError())
	verdicts := unproven(check.All(ctx, invariants, seen, audit), trial.doubt())
	expected, noise := j.scenario.MustCatch(v), j.noise(trial, out)
	for i, v := range verdicts {
		if slices.Contains(expected, v.Invariant) {
			verdicts[i] = trial.inTime(v, "") // that a control is late is what was expected of it
			continue
		}
		verdicts[i] = trial.orderedBy(j.exercisedBy(trial.inTime(v, noise), out.Races))
	}
	return verdicts, nil
}

// noise says why lateness in a repeat proves nothing against a design, "" if it does.
func (j *Judge) noise(t Trial, out *rundir.Repeat) string {
	facts := measure.Facts{Generator: t.Generator, Machine: t.machine()}
	if crowded := facts.Crowded(); crowded != "" {
		return crowded
	}
	for _, v := range out.Validity {
		if v.Class == rundir.Times && !v.OK {
			return v.Name + ": " + v.Detail
		}
	}
	if f := j.run.Manifest.Run.Fitted; f != nil && f.Capped {
		return "the load needs more than half of the rate that this machine sends cleanly"
	}
	return ""
}

// exercisedBy leaves open what was not violated where too few operations raced to say so.
func (j *Judge) exercisedBy(v check.Verdict, races *rundir.Races) check.Verdict {
	if races == nil || v.Status != check.Held || races.Raced >= races.Least ||
		!slices.Contains(j.system.Races.Invariants, v.Invariant) {
		return v
	}
	v.Status, v.NotExercised = check.Undecided, true
	v.Reason = raced(*races).Detail
	return v
}
