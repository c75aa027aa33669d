// Package run is the one run loop: a scenario goes in, a run directory comes
// out, whatever happens in between.
package run

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"time"

	"stampede/harness/env"
	"stampede/harness/env/admin"
	"stampede/harness/events"
	"stampede/harness/history"
	"stampede/harness/judge"
	"stampede/harness/rundir"
	"stampede/harness/scenario"
	"stampede/harness/sut"
)

// Options say what to run and on what.
type Options struct {
	Scenario scenario.Scenario
	System   sut.System
	// Params is the value of System.Params after decoding.
	Params any
	Seed   uint64
	// Root is the folder of the run directories.
	Root string
	// Provider starts the stores; Spec carries the user's settings for it.
	// Both are unused when Target is set.
	Provider      env.Provider
	BackendReason string
	Spec          env.Spec
	// Launcher starts the variants' roles and API where the scenario deploys
	// them as processes or containers. It stays the caller's.
	Launcher env.Launcher
	// Guard, if set, is called with the run's id before anything is started;
	// what it returns is called when everything has been stopped, or, to keep
	// it, is to be left running.
	Guard func(runID string) (stop func(keep bool) error, err error)
	// Kept, if set, is called at the end of a run that was not interrupted,
	// whose stores then stay as they are, with the data of every repeat.
	Kept func([]Place)
	// Generators, if set, offer the load. The API is then a server of its own: the scenario
	// deploys it, or Target is set.
	Generators *Generators
	// Simulate, if set, runs the variants' models on this machine, in virtual time, in place of
	// the variants on stores. Provider, Spec, Launcher and Guard are unused then.
	Simulate *Simulation
	// Target is the base URL of a server to judge instead of the variants.
	Target string
	// TargetCAs verify a target's certificate; nil means the system's.
	TargetCAs *x509.CertPool
	// Without maps invariants that a target is not held to, to the reason.
	Without map[string]string
	// Control runs the baseline once more at the end, if there is another variant to
	// compare with: how far it differs from itself is the noise floor.
	Control bool
	// Again is how often a repeat is run again, at the end, whose times the machine
	// interfered with.
	Again int
	// Fitted and ProvokedBy are recorded; see rundir.RunInfo.
	Fitted     *rundir.Fitted
	ProvokedBy map[string][]string
	// Tool, Argv and Reproduce are recorded.
	Tool      rundir.Tool
	Argv      []string
	Reproduce string
	Observer  Observer
	// Now is the wall clock, for names and records.
	Now func() time.Time
}

// EnvironmentError says that the stores could not be had.
type EnvironmentError struct{ Err error }

// Error returns the message of Err.
func (e *EnvironmentError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *EnvironmentError) Unwrap() error { return e.Err }

// Run prepares, loads, breaks, drains, audits and judges each variant in
// each repeat, and returns the run directory's path with the summary in it.
//
// When soft is cancelled, the load stops, what happened is judged and the
// summary says INTERRUPTED; when hard is cancelled, everything is given up.
// On an error before the first trial there is no directory; after that the
// directory has all that was recorded, and the error says what went wrong.
func Run(soft, hard context.Context, opts Options) (string, rundir.Summary, error) {
	if err := hard.Err(); err != nil {
		return "", rundir.Summary{}, err
	}
	if opts.Scenario.Load.Arrival.Over == scenario.Fit {
		return "", rundir.Summary{}, errors.New("load.arrival.over is fit, which is to be replaced " +
			"by a time before a run")
	}
	plan, err := PlanOf(opts.Scenario, opts.Seed)
	if err != nil {
		return "", rundir.Summary{}, err
	}
	dir, err := rundir.Create(opts.Root, opts.Scenario.Name, opts.Seed, opts.Now())
	if err != nil {
		return "", rundir.Summary{}, &EnvironmentError{err}
	}
	defer dir.Close()
	r := &runner{Options: opts, plan: plan, dir: dir, soft: soft, hard: hard,
		progress: &progress{Observer: opts.Observer, id: dir.ID(), now: opts.Now}}
	r.Observer = r.progress
	if r.Spec.Log != nil {
		r.Spec.Log = r.progress.Logf
	}
	summary, err := r.recorded()
	if _, ok := errors.AsType[*EnvironmentError](err); ok {
		// Nothing was measured, so nothing is left.
		return "", summary, errors.Join(err, dir.Discard())
	}
	return dir.Path(), summary, err
}

// runner is a run under way.
type runner struct {
	Options
	plan       Plan
	dir        *rundir.Dir
	soft, hard context.Context
	services   *services
	progress   *progress

	judging sync.Mutex // guards the judge while several trials end
	judge   *judge.Judge
}

// recorded is the run with the file of its events.
func (r *runner) recorded() (rundir.Summary, error) {
	var err error
	if r.progress.record, err = events.KeepIn(r.dir.File(events.FileName)); err != nil {
		return rundir.Summary{}, &EnvironmentError{err}
	}
	defer r.progress.close()
	summary, err := r.run()
	if err != nil {
		r.progress.tell(events.Event{RunFailed: &events.Failure{Error: err.Error()}})
		return summary, err
	}
	verdict := summary.Verdict
	verdict.Reasons = append([]string{}, verdict.Reasons...)
	r.progress.tell(events.Event{RunDone: &events.Judged{Verdict: verdict,
		Interrupted: summary.Run.Interrupted}})
	return summary, nil
}

func (r *runner) run() (_ rundir.Summary, err error) {
	names := r.variantNames()
	control := r.Control && len(names) > 1 && !r.Scenario.SideBySide
	if control { // what changes during the run lies between the baseline's two runs
		names = first(names, r.baseline())
	}
	slots := rundir.Interleave(names, r.Scenario.Repeats)
	if control {
		slots = rundir.WithControl(slots, r.baseline())
	}
	r.started(slots)
	began := time.Now()
	r.services, err = startServices(r.soft, r)
	if err != nil {
		return rundir.Summary{}, &EnvironmentError{err}
	}
	defer func() { err = r.leave(err) }()
	if err := r.begin(slots); err != nil {
		return rundir.Summary{}, err
	}
	loaded := time.Now()
	for _, group := range r.groups(slots) {
		if r.soft.Err() != nil {
			break
		}
		if err := r.trials(group); err != nil {
			return rundir.Summary{}, err
		}
	}
	if err := r.runAgain(slots, began, loaded); err != nil {
		return rundir.Summary{}, err
	}
	return r.finish()
}

// first puts a name before all others.
func first(names []string, name string) []string {
	rest := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == name })
	return append([]string{name}, rest...)
}

// leave stops the stores, or keeps them. An error after the summary was written is logged, unless
// it is the disk's. An error of the disk, which a log may meet again, is told once.
func (r *runner) leave(err error) error {
	if r.Kept != nil && err == nil && r.soft.Err() == nil {
		if err := r.services.keep(); err != nil {
			return errors.Join(err, r.services.close(r.hard))
		}
		r.Kept(r.services.kept)
		return nil
	}
	closing := r.services.close(r.hard)
	switch {
	case err == nil && closing != nil && !DiskFailed(closing):
		r.Observer.Logf("%v; stampede clean removes what is left", closing)
		return nil
	case DiskFailed(err) && DiskFailed(closing):
		return err
	}
	return errors.Join(err, closing)
}

// DiskFailed says that an error is the disk's: it is full, too slow for the
// history, failing or read-only.
func DiskFailed(err error) bool {
	for _, is := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EIO, syscall.EROFS,
		history.ErrBehind} {
		if errors.Is(err, is) {
			return true
		}
	}
	return false
}

// begin records what is about to run, so that a run that dies can be judged.
func (r *runner) begin(slots []rundir.Slot) error {
	text, err := shown(r.Scenario, r.System)
	if err != nil {
		return fmt.Errorf("writing the resolved scenario: %w", err)
	}
	info := rundir.RunInfo{
		ID: r.dir.ID(), Scenario: r.Scenario.Name, Question: r.Scenario.Question,
		System: r.System.Name, Profile: r.Scenario.Profile, Seed: r.Seed,
		Repeats: r.Scenario.Repeats, Baseline: r.baseline(),
		ArrivalDigest: r.plan.Digest, ScenarioDigest: digest(text),
		Started: r.Now().UTC(), Argv: r.Argv, Reproduce: r.Reproduce, Target: admin.Redact(r.Target),
		Fitted: r.Fitted, ProvokedBy: r.ProvokedBy,
	}
	err = errors.Join(
		r.dir.WriteScenario(text),
		r.dir.WriteEnvironment(r.services.environment),
		r.dir.WriteManifest(rundir.Manifest{Tool: r.Tool, Run: info, Slots: slots}),
	)
	if err == nil && r.Target != "" {
		err = r.dir.WriteJSON(judge.ExemptionsFile, r.Without)
	}
	if err != nil {
		return err
	}
	environment := r.services.environment
	r.progress.tell(events.Event{Environment: &environment})
	r.judge, err = judge.Open(r.dir.Path(), r.System)
	return err
}

// finish judges the run directory and writes the summary into it.
func (r *runner) finish() (rundir.Summary, error) {
	summary, err := r.judge.Summary(r.hard, r.dir, judge.End{
		Finished: r.Now().UTC(), Interrupted: r.soft.Err() != nil})
	if err != nil {
		return summary, fmt.Errorf("judging the run: %w", err)
	}
	return summary, nil
}

// variant returns one of the variants by its name.
func (r *runner) variant(name string) (sut.Variant, bool) {
	if r.Target != "" {
		return judge.Target(r.System, r.Target, r.Without), name == judge.TargetName
	}
	return r.System.Variant(name)
}

// variantNames lists what is compared: the scenario's variants, or the target.
func (r *runner) variantNames() []string {
	if r.Target != "" {
		return []string{judge.TargetName}
	}
	return r.Scenario.Variants
}

func (r *runner) baseline() string {
	if r.Target != "" {
		return judge.TargetName
	}
	return r.Scenario.Baseline
}
