package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"stampede/harness/deploy"
	"stampede/harness/env"
	"stampede/harness/events"
	"stampede/harness/knee"
	"stampede/harness/run"
	"stampede/harness/rundir"
	"stampede/reports/answer"
)

// kneeLab offers rates to variants on stores that it keeps for the whole search.
type kneeLab struct {
	*kneeSearch
	opts run.Options // what all windows have in common
	stop func() error
}

// openLab starts the stores of a search.
func (a *app) openLab(k *kneeSearch) (tryRate, func() error, error) {
	soft := a.interrupts.soft
	sc := k.plan.whole.Scenario
	sc.Variants = k.plan.variants
	lab := &kneeLab{kneeSearch: k, opts: run.Options{Scenario: sc, System: k.plan.whole.System,
		Root: k.dir.File(rundir.WindowsFolder), Tool: tool(), Now: time.Now,
		Argv: k.summary.Search.Argv, Observer: liveOnly{k.printer}}}
	if err := a.chooseBackend(soft, &lab.opts, k.flags.runFlags); err != nil {
		return nil, nil, a.failed(exitEnvironment, env.Stopped(soft, err))
	}
	k.printer.detailf("backend: %s", lab.opts.BackendReason)
	if err := lab.start(); err != nil {
		return nil, nil, a.failed(exitEnvironment, env.Stopped(soft, err))
	}
	return lab.try, lab.close, nil
}

// start starts the stores, and what guards and deploys.
func (l *kneeLab) start() (err error) {
	provider := l.opts.Provider
	if l.opts.Launcher, err = launcher(l.opts.Scenario.Deploy); err != nil {
		return err
	}
	l.opts.Guard = func(runID string) (func(bool) error, error) {
		return l.guard(l.opts.Scenario.Deploy == deploy.Containers, runID, nil)
	}
	spec := l.opts.Spec
	spec.RunID, spec.Dir = l.dir.ID(), l.dir.File("logs")
	cluster, stop, err := l.startStores(provider, spec)
	if err != nil {
		return err
	}
	l.opts.Provider, l.stop = env.Lend(provider.Name(), cluster), stop
	return nil
}

// close stops what start has started.
func (l *kneeLab) close() error {
	err := l.stop()
	if l.opts.Launcher != nil {
		err = errors.Join(err, l.opts.Launcher.Close())
	}
	if err != nil {
		return withCode(exitEnvironment, fmt.Errorf("stopping the stores: %w", err))
	}
	return nil
}

// try runs one window. The page of one that does not hold is written, for its
// evidence.
func (l *kneeLab) try(
	ctx context.Context, variant string, rate float64, seed uint64,
) (tried, error) {
	opts := l.opts
	plan, err := l.plan.at(variant, rate)
	if err != nil {
		return tried{}, err
	}
	opts.Scenario, opts.System, opts.Params = plan.Scenario, plan.System, plan.Params
	f := l.flags.runFlags
	f.variants = nil
	if f.set, err = l.plan.settings(variant, rate); err != nil {
		return tried{}, err
	}
	opts.Seed, opts.Reproduce = seed, reproduce(l.plan.name, plan, seed, f)
	path, summary, err := run.Run(ctx, l.interrupts.hard, opts)
	if err != nil {
		return tried{}, l.runError(err, path)
	}
	if ctx.Err() != nil {
		return tried{}, ctx.Err()
	}
	t, err := l.judge(path, summary)
	if err != nil {
		return tried{}, err
	}
	if t.Verdict != knee.Held {
		err = l.keepPage(path)
	}
	return t, err
}

// judge reads what a window left.
func (l *kneeLab) judge(path string, summary rundir.Summary) (t tried, err error) {
	stored, err := rundir.Open("", path)
	if err != nil {
		return t, err
	}
	v := summary.Variants[0]
	var timeline rundir.Timeline
	if len(v.Repeats) > 0 && len(v.Repeats[0].Operations) > 0 {
		if timeline, err = stored.Timeline(v.Repeats[0].Timeline); err != nil {
			return t, err
		}
		t.kind = v.Repeats[0].Operations[0].Kind
	}
	t.Window, t.environment = knee.Judge(v, timeline), summary.Environment
	t.Run, err = filepath.Rel(l.dir.Path(), stored.Path)
	t.Run = filepath.ToSlash(t.Run)
	return t, err
}

func (l *kneeLab) keepPage(path string) error {
	data, err := answer.Load(path)
	if err != nil {
		return err
	}
	return withCode(exitEnvironment, writeReports(path, data, []string{"html"}))
}

// liveOnly shows how a window goes on a terminal, and nothing of it elsewhere.
type liveOnly struct{ *printer }

// Observe shows an event.
func (p liveOnly) Observe(e events.Event) {
	if p.live {
		p.printer.Observe(e)
	}
}
