// Package judge judges what a run recorded: it reads a run directory and nothing else, and
// writes the verdicts, the numbers and the summary into it.
package judge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"stampede/harness/rundir"
	"stampede/harness/scenario"
	"stampede/harness/stats"
	"stampede/harness/sut"
)

// ExemptionsFile holds the invariants that a target is not held to.
const ExemptionsFile = "exemptions.json"

// Exemptions reads which invariants a stored run's target is not held to, and
// why. There are none if the run judged variants.
func Exemptions(stored *rundir.Run) (map[string]string, error) {
	var without map[string]string
	return without, readJSON(stored, ExemptionsFile, &without)
}

// End is how a run ended, which its directory does not say.
type End struct {
	Finished    time.Time
	Interrupted bool
}

// Directory judges a run directory from what is stored in it and writes the
// summary and the timelines. It needs no store: the same directory is judged
// again by `stampede check`, with the checkers of the day.
func Directory(
	ctx context.Context, dir *rundir.Dir, system sut.System, how End,
) (rundir.Summary, error) {
	j, err := Open(dir.Path(), system)
	if err != nil {
		return rundir.Summary{}, err
	}
	return j.Summary(ctx, dir, how)
}

// Judge is a run directory being judged.
type Judge struct {
	run      *rundir.Run
	system   sut.System
	scenario scenario.Scenario
	params   any
	without  map[string]string
	// known holds the repeats that were judged while the run went on.
	known map[int]rundir.Repeat
}

// Open reads a run directory of a system, to judge it or one repeat of it.
func Open(path string, system sut.System) (*Judge, error) {
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
	j := &Judge{run: stored, system: system, scenario: sc, params: res.Params,
		known: map[int]rundir.Repeat{}}
	return j, readJSON(stored, ExemptionsFile, &j.without)
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

func (j *Judge) variant(name string) sut.Variant {
	if url := j.run.Manifest.Run.Target; url != "" {
		return Target(j.system, url, j.without)
	}
	v, ok := j.system.Variant(name)
	if !ok {
		return sut.Variant{Name: name, Idea: "no longer part of " + j.system.Name}
	}
	return v
}

// Summary puts the summary together from the repeats that have a history.
func (j *Judge) Summary(
	ctx context.Context, dir *rundir.Dir, how End,
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
func (j *Judge) statements() map[string]string {
	out := map[string]string{quiescence{}.Name(): quiescence{}.Statement()}
	for _, inv := range j.system.Invariants(j.params) {
		out[inv.Name()] = inv.Statement()
	}
	return out
}

// names lists the variants in the order of the first repeat.
func (j *Judge) names() []string {
	names := []string{}
	for _, slot := range j.run.Manifest.Slots {
		if slot.Repeat == 0 {
			names = append(names, slot.Variant)
		}
	}
	return names
}

// judgeVariant judges the repeats of one variant and merges them.
func (j *Judge) judgeVariant(
	ctx context.Context, dir *rundir.Dir, name string,
) (rundir.Variant, error) {
	v := j.variant(name)
	out := rundir.Variant{Name: name, Idea: v.Idea, Guarantees: v.Guarantees,
		GivesUp: v.GivesUp, NotApplicable: v.NotApplicable,
		ExpectedBroken: j.scenario.MustCatch(v),
		KnownWrong:     triggers(v), Repeats: []rundir.Repeat{}}
	j.anatomy(v, &out)
	for _, slot := range j.run.Manifest.Slots {
		if slot.Variant != name || !j.recorded(slot) {
			continue
		}
		repeat, err := j.Repeat(ctx, dir, slot)
		if err != nil {
			return out, fmt.Errorf("judging %s, repeat %d: %w", name, slot.Repeat+1, err)
		}
		out.Repeats = append(out.Repeats, repeat)
	}
	return out, j.mergeRepeats(&out)
}

// anatomy notes what a variant consists of.
func (j *Judge) anatomy(v sut.Variant, out *rundir.Variant) {
	if len(v.Needs) == 0 {
		return
	}
	count := func(role string) int { return max(1, j.scenario.Replicas[role]) }
	for _, need := range v.Needs {
		out.Needs = append(out.Needs, string(need))
	}
	if v.KeepsFiles {
		out.Needs = append(out.Needs, "files")
	}
	out.Servers = count(sut.APIRole)
	for _, r := range v.Roles {
		out.Roles = append(out.Roles, rundir.Role{Name: r.Name, Summary: r.Summary,
			Replicas: count(r.Name)})
	}
}

// recorded says whether a repeat got as far as a history.
func (j *Judge) recorded(slot rundir.Slot) bool {
	return j.has(slot.History) || j.has(TrialName(slot))
}

// has says whether the run directory has a file.
func (j *Judge) has(name string) bool {
	path, err := j.run.File(name)
	if err != nil {
		return false
	}
	_, err = os.Stat(path)
	return err == nil
}

// Manifest is the run directory's manifest, to which repeats that ran again are added.
func (j *Judge) Manifest() *rundir.Manifest { return &j.run.Manifest }

// Judged returns the repeat of a slot if it has been judged, by the slot's order.
func (j *Judge) Judged(order int) (rundir.Repeat, bool) {
	repeat, ok := j.known[order]
	return repeat, ok
}

// SoFar is the verdict of a variant by one planned repeat and by those that repeat it.
func (j *Judge) SoFar(variant string, index int) Verdict {
	var repeats []rundir.Repeat
	for _, slot := range j.run.Manifest.Slots {
		repeat, ok := j.known[slot.Order]
		if ok && slot.Variant == variant && planned(repeat) == index {
			repeats = append(repeats, repeat)
		}
	}
	return j.Verdict(variant, repeats)
}
