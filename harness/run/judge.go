package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/measure"
	"stampede/harness/rundir"
	"stampede/harness/scenario"
	"stampede/harness/stats"
	"stampede/harness/sut"
)

// exemptionsFile holds the invariants that a target is not held to.
const exemptionsFile = "exemptions.json"

// Exemptions reads which invariants a stored run's target is not held to, and
// why. There are none if the run judged variants.
func Exemptions(stored *rundir.Run) (map[string]string, error) {
	var without map[string]string
	return without, readJSON(stored, exemptionsFile, &without)
}

// Judging says what the judge cannot read from the run directory.
type Judging struct {
	Finished    time.Time
	Interrupted bool
}

// Judge judges a run directory from what is stored in it and writes the
// summary and the timelines. It needs no store: the same directory is judged
// again by `stampede check`, with the checkers of the day.
func Judge(
	ctx context.Context, dir *rundir.Dir, system sut.System, how Judging,
) (rundir.Summary, error) {
	j, err := newJudge(dir.Path(), system)
	if err != nil {
		return rundir.Summary{}, err
	}
	return j.judge(ctx, dir, how)
}

// judge is a run directory being judged.
type judge struct {
	run      *rundir.Run
	system   sut.System
	scenario scenario.Scenario
	params   any
	without  map[string]string
	// known holds the repeats that were judged while the run went on.
	known map[int]rundir.Repeat
}

func newJudge(path string, system sut.System) (*judge, error) {
	stored, err := rundir.Open("", path)
	if err != nil {
		return nil, err
	}
	text, err := stored.Scenario()
	if err != nil {
		return nil, err
	}
	sc, res, err := scenario.Decode(text, path+"/"+rundir.ScenarioFile, scenario.Options{
		Systems:     func(name string) (sut.System, bool) { return system, name == system.Name },
		SystemNames: []string{system.Name},
	})
	if err != nil {
		return nil, fmt.Errorf("the run's scenario: %w", err)
	}
	j := &judge{run: stored, system: system, scenario: sc, params: res.Params,
		known: map[int]rundir.Repeat{}}
	return j, readJSON(stored, exemptionsFile, &j.without)
}

// readJSON reads an optional file of a run directory.
func readJSON(stored *rundir.Run, name string, into any) error {
	path, err := stored.File(name)
	if err != nil {
		return err
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	return nil
}

func (j *judge) variant(name string) sut.Variant {
	if url := j.run.Manifest.Run.Target; url != "" {
		return target(j.system, url, j.without)
	}
	v, ok := variantOf(j.system, name)
	if !ok {
		return sut.Variant{Name: name, Idea: "no longer part of " + j.system.Name}
	}
	return v
}

// judge puts the summary together from the repeats that have a history.
func (j *judge) judge(
	ctx context.Context, dir *rundir.Dir, how Judging,
) (rundir.Summary, error) {
	s := rundir.Summary{Tool: j.run.Manifest.Tool, Run: j.run.Manifest.Run,
		Warnings: j.run.Manifest.Warnings}
	environment, err := j.run.Environment()
	if err != nil {
		return s, err
	}
	s.Environment, s.Statements = environment, j.statements()
	s.Run.Finished, s.Run.Interrupted = how.Finished, how.Interrupted
	for _, name := range j.names() {
		v, err := j.judgeVariant(ctx, dir, name)
		if err != nil {
			return s, err
		}
		s.Variants = append(s.Variants, v)
	}
	for _, v := range s.Variants {
		if v.Name == s.Run.Baseline {
			s.NoiseFloor = noiseFloor(v, stats.OfSuccesses(s.Variants))
		}
	}
	s.Comparisons = stats.Comparisons(s.Variants, s.Run.Baseline, s.Run.Seed, s.NoiseFloor)
	s.Verdict = j.overall(s)
	return s, dir.WriteSummary(s)
}

// statements maps the invariants to what they say.
func (j *judge) statements() map[string]string {
	out := map[string]string{quiescence{}.Name(): quiescence{}.Statement()}
	for _, inv := range j.system.Invariants(j.params) {
		out[inv.Name()] = inv.Statement()
	}
	return out
}

// names lists the variants in the order of the first repeat.
func (j *judge) names() []string {
	names := []string{}
	for _, slot := range j.run.Manifest.Slots {
		if slot.Repeat == 0 {
			names = append(names, slot.Variant)
		}
	}
	return names
}

// judgeVariant judges the repeats of one variant and merges them.
func (j *judge) judgeVariant(
	ctx context.Context, dir *rundir.Dir, name string,
) (rundir.Variant, error) {
	v := j.variant(name)
	out := rundir.Variant{Name: name, Idea: v.Idea, Guarantees: v.Guarantees,
		GivesUp: v.GivesUp, NotApplicable: v.NotApplicable,
		ExpectedBroken: expectedBroken(v, j.scenario.Provokes),
		KnownWrong:     triggers(v), Repeats: []rundir.Repeat{}}
	j.anatomy(v, &out)
	for _, slot := range j.run.Manifest.Slots {
		if slot.Variant != name || !j.recorded(slot) {
			continue
		}
		repeat, err := j.repeat(ctx, dir, slot)
		if err != nil {
			return out, fmt.Errorf("judging %s, repeat %d: %w", name, slot.Repeat+1, err)
		}
		out.Repeats = append(out.Repeats, repeat)
	}
	return out, j.mergeRepeats(&out)
}

// anatomy notes what a variant consists of.
func (j *judge) anatomy(v sut.Variant, out *rundir.Variant) {
	if len(v.Needs) == 0 {
		return
	}
	count := func(role string) int { return max(1, j.scenario.Replicas[role]) }
	for _, need := range v.Needs {
		out.Needs = append(out.Needs, string(need))
	}
	out.Servers = count(sut.APIRole)
	for _, r := range v.Roles {
		out.Roles = append(out.Roles, rundir.Role{Name: r.Name, Summary: r.Summary,
			Replicas: count(r.Name)})
	}
}

// recorded says whether a repeat got as far as a history.
func (j *judge) recorded(slot rundir.Slot) bool {
	return j.has(slot.History) || j.has(trialName(slot))
}

// has says whether the run directory has a file.
func (j *judge) has(name string) bool {
	path, err := j.run.File(name)
	if err != nil {
		return false
	}
	_, err = os.Stat(path)
	return err == nil
}

// repeat judges one repeat, once.
func (j *judge) repeat(
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
		DrainNS: trial.DrainNS, Processor: trial.Processor, History: slot.History, Audit: slot.Audit,
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
		if err := j.race(h, &out); err != nil {
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
	out.Verdict = j.parts(slot.Variant, []rundir.Repeat{out}).overall()
	j.known[slot.Order] = out
	return out, nil
}

// trial reads what a repeat left beside its history. A repeat that was cut
// off left nothing.
func (j *judge) trial(slot rundir.Slot) (Trial, error) {
	var t Trial
	if err := readJSON(j.run, trialName(slot), &t); err != nil {
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
func (j *judge) writeLogs(dir *rundir.Dir, slot rundir.Slot, res *measure.Result) error {
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
func (j *judge) measure(
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
		Cut: trial.Cut, Response: res.Latency.Response, Service: res.Latency.Service,
		Cores: trial.Cores, Inside: trial.Inside, Machine: trial.machine(),
		Sampled: sampled, Quiet: res.Quiet}
	out.Validity = append(j.assumptions(h, trial, res), measure.Gate(facts)...)
	out.Timing, out.Quiet = facts.Timing(), res.Quiet
	for i, slo := range j.scenario.SLOs {
		out.SLOs = append(out.SLOs, oneSided(objectives[i].JudgeRun(slo.Name, res, windows), out.Timing))
	}
	return res, nil
}

// oneSided judges an objective by the state of the times. Interference only delays, so that
// what is met in spite of it is met, and what is missed may not be the design's doing. A
// late generator sends a gentler load, by which nothing is met.
func oneSided(v check.SLOVerdict, timing string) check.SLOVerdict {
	switch {
	case v.Status == check.Broken && timing == rundir.Noisy:
		v.Reason = "it was missed (" + v.Actual + ", limit " + v.Limit + "), and the machine interfered"
	case v.Status != check.Undecided && timing == rundir.NoTimes:
		v.Reason = "the generator sent too late: these times cannot be used"
	default:
		return v
	}
	v.Status, v.NotJudged = check.Undecided, true
	return v
}

// race counts the operations that raced, where the system names them.
func (j *judge) race(h *history.File, out *rundir.Repeat) error {
	races := j.system.Races
	if races == nil {
		return nil
	}
	o, err := check.Overlap(h, races.Kinds, races.Idle)
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
func (j *judge) taken(t Trial, telemetry string) (spans []measure.Span, sampled bool, err error) {
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
func (j *judge) objectives() ([]check.Objective, error) {
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
func (j *judge) kinds() []string {
	w, err := j.system.Workload(0, j.params)
	if err != nil {
		return nil // an unordered report is better than none
	}
	return w.Kinds()
}

// check judges the invariants that say something about the variant.
func (j *judge) check(
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
	verdicts := unproven(check.All(ctx, invariants, h, audit), trial.doubt())
	expected, noise := expectedBroken(v, j.scenario.Provokes), j.noise(trial, out)
	for i, v := range verdicts {
		if slices.Contains(expected, v.Invariant) {
			verdicts[i] = trial.inTime(v, "") // that a control is late is what was expected of it
			continue
		}
		verdicts[i] = j.exercisedBy(trial.inTime(v, noise), out.Races)
	}
	return verdicts, nil
}

// noise says why lateness in a repeat proves nothing against a design, "" if it does.
func (j *judge) noise(t Trial, out *rundir.Repeat) string {
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
func (j *judge) exercisedBy(v check.Verdict, races *rundir.Races) check.Verdict {
	if races == nil || v.Status != check.Held || races.Raced >= races.Least ||
		!slices.Contains(j.system.Races.Invariants, v.Invariant) {
		return v
	}
	v.Status, v.NotExercised = check.Undecided, true
	v.Reason = raced(*races).Detail
	return v
}

// inTime leaves open what was only late, if noise excuses it, and what was only not
// finished, if it was still being done at the end. One violation of another kind is enough
// to prove the design wrong.
func (t Trial) inTime(v check.Verdict, noise string) check.Verdict {
	if v.Status != check.Broken {
		return v
	}
	rest, excuses := v.Count, []string{}
	if v.Late > 0 && noise != "" {
		rest, excuses = rest-v.Late, append(excuses, noise)
	}
	if v.Unfinished > 0 && t.Falling != "" {
		rest -= v.Unfinished
		excuses = append(excuses, "the run ended before background work was finished: "+t.Falling)
	}
	if rest > 0 {
		return v
	}
	open := leftOpen(v, strings.Join(excuses, "; "))
	open.Watched, open.Accepted = v.Watched, v.Accepted
	open.Late, open.Unfinished = v.Late, v.Unfinished
	open.Open, open.NotExercised = v.Open, v.NotExercised
	return open
}

// machine is what others used of the machine, nil if nobody knows.
func (t Trial) machine() *rundir.Machine {
	if t.Processor == nil {
		return nil
	}
	return t.Processor.Machine
}

// doubt says why a violation in a repeat proves nothing against the design:
// who did what is there cannot be told. It is "" if nothing is in doubt.
func (t Trial) doubt() string {
	if t.Empty == NotEmpty {
		return "the stores were not empty before the load: " + t.Found
	}
	return t.StoreTrouble
}

// unproven leaves open what would be broken if nothing were in doubt.
func unproven(verdicts []check.Verdict, doubt string) []check.Verdict {
	for i, v := range verdicts {
		if doubt != "" && v.Status == check.Broken {
			verdicts[i] = leftOpen(v, doubt)
		}
	}
	return verdicts
}

// leftOpen is a broken verdict as one that proves nothing.
func leftOpen(v check.Verdict, doubt string) check.Verdict {
	return check.Verdict{Invariant: v.Invariant, Checked: v.Checked, Unknown: v.Unknown,
		Reason: doubt + "; that may be the cause of: " + v.First()}
}

// quiescence is the invariant of every system that its background work comes
// to rest.
type quiescence struct{ trial Trial }

func (quiescence) Name() string { return "quiescence" }

func (quiescence) Statement() string {
	return "After the load and the faults, all background work finishes within the drain's " +
		"deadline, and every operation returns."
}

func (q quiescence) Check(context.Context, history.History, json.RawMessage) check.Verdict {
	v := check.Verdict{Invariant: q.Name(), Checked: int(q.trial.Load.Started)}
	switch {
	case q.trial.Interrupted:
		v.Reason = "the load was interrupted"
	case q.trial.Error != "":
		v.Reason = "the repeat was not finished: " + q.trial.Error
	case q.trial.Pending != "" && q.trial.Falling == "":
		v.Violations = append(v.Violations, check.Violation{Text: fmt.Sprintf(
			"after %s work was still pending: %s",
			time.Duration(q.trial.DrainNS).Round(time.Millisecond), q.trial.Pending)})
	case q.trial.Abandoned > 0 && q.trial.Inside:
		v.Violations = append(v.Violations, check.Violation{Text: fmt.Sprintf(
			"%d operations did not return even when they were cancelled", q.trial.Abandoned)})
	case q.trial.Pending != "":
		v.Reason = fmt.Sprintf("after %s work was still pending (%s), but it was decreasing: %s; a "+
			"longer drain would decide it", time.Duration(q.trial.DrainNS).Round(time.Millisecond),
			q.trial.Pending, q.trial.Falling)
	case q.trial.Abandoned > 0:
		v.Reason = fmt.Sprintf("%d requests did not return after their time limit: a failure of the "+
			"generator", q.trial.Abandoned)
	case q.trial.Unasked != "":
		v.Reason = "it is not known whether work was pending: " + q.trial.Unasked
	case q.trial.Overdue != "":
		v.Late, v.Violations = 1, []check.Violation{{Text: fmt.Sprintf("%s; it was finished %s after "+
			"the load", q.trial.Overdue,
			time.Duration(q.trial.DrainNS).Round(time.Millisecond))}}
	default:
		v.Status = check.Held
	}
	if v.Count = len(v.Violations); v.Count > 0 {
		v.Status = check.Broken
	}
	return v
}
