package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"stampede/harness/deploy"
	"stampede/harness/events"
	"stampede/harness/history"
	"stampede/harness/judge"
	"stampede/harness/load"
	"stampede/harness/rundir"
	"stampede/harness/scenario"
	"stampede/harness/sut"
	"stampede/harness/telemetry"
)

const (
	// prepareTimeout, auditTimeout and closeTimeout bound what a variant may
	// take outside the load.
	prepareTimeout = 2 * time.Minute
	auditTimeout   = 2 * time.Minute
	closeTimeout   = 30 * time.Second
	// start is where due time 0 lies on the run's clock: time enough to start
	// the workers and the faults' clock.
	start = 100 * time.Millisecond
	// quiescePoll is how often an instance is asked whether it has settled.
	quiescePoll = 50 * time.Millisecond
	// interruptedDrain replaces the drain of a run that was interrupted, if that
	// is longer.
	interruptedDrain = 10 * time.Second
	// samplePeriod is how often a gauge is sampled.
	samplePeriod = 250 * time.Millisecond
	// targetGrace is how long after its time limit a request may return.
	targetGrace = 2 * time.Second
)

// trial is one repeat under way: what it leaves beside its history, and the windows of its
// faults, which the history keeps.
type trial struct {
	judge.Trial
	faults []history.Window
	teller *teller
	// together has those that run beside it.
	together *together
}

// trial runs one variant once and records it. A variant that fails is
// recorded as failed; an error means that the run cannot go on.
func (r *runner) trial(slot rundir.Slot, beside *together) error {
	t := &trial{Trial: judge.Trial{Variant: slot.Variant, Repeat: slot.Repeat, Order: slot.Order,
		Inside: r.inside(), Cores: runtime.NumCPU()}, together: beside,
		teller: r.progress.begin(slot, r.Scenario.Load.WarmUp.D())}
	defer beside.leave()
	perform := r.perform
	if r.Simulate != nil {
		perform = r.simulate
	}
	// The garbage of one trial must not be collected in the next one's load.
	runtime.GC()
	if err := perform(slot, t); err != nil {
		if _, ok := errors.AsType[*EnvironmentError](err); ok {
			return err
		}
		t.fail(err.Error())
		if DiskFailed(err) {
			_ = r.dir.WriteJSON(judge.TrialName(slot), t.Trial) // the disk's error is being told
			return fmt.Errorf("recording %s: %w", slot.Variant, err)
		}
		if r.soft.Err() == nil {
			r.Observer.Logf("%s: %v", slot.Variant, err)
		}
	}
	if err := r.dir.WriteJSON(judge.TrialName(slot), t.Trial); err != nil {
		return fmt.Errorf("recording the trial: %w", err)
	}
	return r.judgeEarly(slot, t)
}

// fail adds a reason why the repeat could not be finished.
func (t *trial) fail(why string) {
	if t.Error != "" {
		why = t.Error + "\n" + why
	}
	t.Error = why
}

// perform is the life of a trial: prepare, load and break, drain, audit. A
// panic of the variant is an error.
func (r *runner) perform(slot rundir.Slot, t *trial) (err error) {
	defer recovered(&err)
	v, ok := r.variant(slot.Variant)
	if !ok {
		return fmt.Errorf("there is no variant %s", slot.Variant)
	}
	t.teller.phase(events.Prepare)
	place, err := r.services.place(r.soft, r, v, slot)
	if err != nil {
		return fmt.Errorf("making a place for %s: %w", v.Name, err)
	}
	defer func() { err = r.cleaned(slot, err, place.close(r.hard)) }()
	inst, err := r.open(slot, v, place.config)
	if err != nil {
		return err
	}
	defer func() { err = r.cleaned(slot, err, closing(v.Name, inst.Close)) }()
	if err := r.prepare(slot, t, inst); err != nil {
		return err
	}
	return r.exercise(slot, v, t, inst, place)
}

// cleaned is the error of a trial after a step of its clean-up. An error after the final truth was
// read says nothing about the design and is logged. An error of the disk counts, because the record
// may be incomplete.
func (r *runner) cleaned(slot rundir.Slot, err, failed error) error {
	if err != nil || failed == nil || DiskFailed(failed) {
		return errors.Join(err, failed)
	}
	r.Observer.Logf("cleaning up after %s: %v", slot.Variant, failed)
	return nil
}

// exercise is a trial from the initial state to the final truth.
func (r *runner) exercise(slot rundir.Slot, v sut.Variant, t *trial, inst sut.Instance,
	place *place,
) (err error) {
	stores, err := r.services.identify(r.soft, v)
	if err != nil {
		return err
	}
	if err := place.openGauge(r.soft, v); err != nil {
		return err
	}
	roles, err := r.deploy(v, inst, place)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, roles.Stop()) }()
	workload, err := r.System.Workload(r.plan.WorkloadSeed, r.Params)
	if err != nil {
		return fmt.Errorf("making the workload: %w", err)
	}
	var others *fleet
	if r.Generators != nil {
		others, err = r.assemble(slot, workload, r.urls(roles))
		if err != nil {
			return err
		}
		defer func() { err = r.cleaned(slot, err, others.close(r.hard)) }()
	}
	if !r.Scenario.SideBySide { // where nobody can tell whose doing it is
		metered := slices.Concat(roles.Metered(), others.metered())
		if err := place.openTelemetry(r.services, v, metered); err != nil {
			return err
		}
	}
	if err := r.record(slot, t, sender{workload, roles.Do, others}, place); err != nil {
		return err
	}
	if err := r.drain(v, t, inst, roles); err != nil {
		return err
	}
	if err := r.keepTelemetry(slot, t, place); err != nil {
		return err
	}
	stores.tell(r.hard, t)
	stopped := roles.Stop()
	if errors.Is(stopped, deploy.ErrCutShort) {
		return stopped // nobody knows what it would have left
	}
	t.teller.phase(events.Audit)
	return errors.Join(stopped, r.audit(slot, inst))
}

// openGauge connects the variant's gauge, if it has one.
func (p *place) openGauge(ctx context.Context, v sut.Variant) error {
	if v.Gauge == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, prepareTimeout)
	defer cancel()
	cfg := p.config // directly: through a proxy its questions would prove faults that no client met
	cfg.PostgresURL, cfg.ReplicaURL = p.direct.PostgresURL, p.direct.ReplicaURL
	cfg.RedisURL = p.direct.RedisURL
	gauge, err := v.Gauge(ctx, cfg)
	if err != nil {
		return fmt.Errorf("opening the gauge of %s: %w", v.Name, err)
	}
	p.gauge = gauge
	return nil
}

// recovered, deferred, turns a panic into an error and keeps the other one.
func recovered(err *error) {
	if p := recover(); p != nil {
		*err = errors.Join(*err, fmt.Errorf("panic: %v\n%s", p, debug.Stack()))
	}
}

// open connects to the services.
func (r *runner) open(slot rundir.Slot, v sut.Variant, cfg sut.Config) (sut.Instance, error) {
	ctx, cancel := context.WithTimeout(r.soft, prepareTimeout)
	defer cancel()
	inst, err := v.Open(ctx, cfg)
	if err != nil {
		return nil, r.unprepared(slot, fmt.Errorf("opening %s: %w", v.Name, err))
	}
	return inst, nil
}

// prepare makes the initial state and asks whether it is one.
func (r *runner) prepare(slot rundir.Slot, t *trial, inst sut.Instance) error {
	ctx, cancel := context.WithTimeout(r.soft, prepareTimeout)
	defer cancel()
	if err := inst.Prepare(ctx); err != nil {
		return r.unprepared(slot, fmt.Errorf("preparing %s: %w", slot.Variant, err))
	}
	return askEmpty(ctx, t, inst)
}

// askEmpty asks an instance, before anything is done to it, whether anything
// was.
func askEmpty(ctx context.Context, t *trial, inst sut.Instance) error {
	e, ok := inst.(sut.Emptier)
	if !ok {
		t.Empty = judge.NotAsked
		return nil
	}
	found, err := e.Empty(ctx)
	if err != nil {
		return fmt.Errorf("asking %s whether it is empty: %w", t.Variant, err)
	}
	t.Empty, t.Found = judge.Empty, found
	if found != "" {
		t.Empty = judge.NotEmpty
	}
	return nil
}

// unprepared makes an environment's error of a foreign server's: without it
// there is nothing to judge. A server that is lost later, or a run that is
// interrupted, leaves what was recorded.
func (r *runner) unprepared(slot rundir.Slot, err error) error {
	if r.Target == "" || slot.Order > 0 || r.soft.Err() != nil {
		return err
	}
	return &EnvironmentError{fmt.Errorf("the server at %s cannot be judged: %w", r.Target, err)}
}

// closing closes something of the variant. What does not return, because an
// operation that was given up holds a connection, is left behind.
func closing(what string, end func() error) error {
	done := make(chan error, 1)
	go func() {
		var err error
		defer func() { done <- err }()
		defer recovered(&err)
		err = end()
	}()
	err := fmt.Errorf("it did not return within %s", closeTimeout)
	select {
	case err = <-done:
	case <-time.After(closeTimeout):
	}
	if err != nil {
		return fmt.Errorf("closing %s: %w", what, err)
	}
	return nil
}

// sender is who offers a load: this process, with do, or others.
type sender struct {
	workload sut.Workload
	do       load.Do
	others   *fleet
}

// record sends the load, breaks what the scenario says, watches, and keeps
// the history.
func (r *runner) record(
	slot rundir.Slot, t *trial, from sender, place *place,
) (err error) {
	live := &load.Live{}
	base, snapshot := t.together.base, live.Snapshot
	if from.others != nil {
		base, snapshot = from.others.Begin, from.others.Snapshot
	}
	zero := base()
	w, err := r.createHistory(slot, zero)
	if err != nil {
		return err
	}
	whole := from.others == nil
	defer func() {
		err = errors.Join(err, w.Close())
		t.Lost += w.Lost()
		if err != nil && !whole { // it does not tell of all
			err = errors.Join(err, os.Remove(r.dir.File(slot.History)))
		}
	}()
	stop := t.teller.follow(snapshot)
	defer stop()
	ctx, cancel := untilFailed(r.soft, w)
	defer cancel()
	faults := r.startFaults(ctx, zero, place, t)
	if place.meter != nil {
		place.hush = telemetry.Watch(r.hard, zero, place.sources...)
	}
	unwatch := sut.Watch(ctx, place.gauge, zero, samplePeriod, w.Sample)
	defer unwatch()
	var result load.Result
	if from.others != nil {
		result, err = from.others.collect(ctx, r.hard, t)
	} else {
		result, err = load.Run(ctx, loadPlan(r.Scenario, r.plan, zero, from.workload, r.inside()),
			from.do, func() load.Recorder { return w.Shard() }, live)
	}
	if err != nil {
		cancel() // there is nothing left to break
	}
	t.fill(result)
	var faultErr error
	t.faults, faultErr = faults.wait()
	unwatch()
	if from.others != nil && err == nil {
		err = from.others.merge(w)
		whole = err == nil
	}
	return errors.Join(err, faultErr, keepWindows(w, slices.Concat(t.faults, r.phases(result))))
}

// createHistory begins the history of a repeat, whose clock's zero is base.
func (r *runner) createHistory(slot rundir.Slot, base time.Time) (*history.Writer, error) {
	return history.Create(r.dir.File(slot.History), history.Header{
		RunID: r.dir.ID(), Scenario: r.Scenario.Name, System: r.System.Name,
		Variant: slot.Variant, Repeat: slot.Repeat, Seed: r.Seed, Base: base.UTC()})
}

// untilFailed is a context that ends when the history can record no more: a
// load that leaves no record proves nothing.
func untilFailed(parent context.Context, w *history.Writer) (context.Context, func()) {
	ctx, cancel := context.WithCancel(parent)
	go func() {
		select {
		case <-w.Failed():
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// keepWindows writes the windows unless the writer has failed, which Close
// says.
func keepWindows(w *history.Writer, windows []history.Window) error {
	for _, window := range windows {
		if err := w.Window(window); err != nil && w.Err() == nil {
			return err
		}
	}
	return nil
}

// loadPlan is the load of a scenario on a clock; inside says that the system under test is in the
// generator's process.
func loadPlan(
	sc scenario.Scenario, plan Plan, base time.Time, workload sut.Workload, inside bool,
) load.Plan {
	l := sc.Load
	p := load.Plan{Base: base, Start: start, Workload: workload, Users: l.Users,
		Think: l.Think.D(), Duration: l.Duration.D(), MaxInFlight: l.MaxInFlight,
		Queue: l.Queue, Timeout: l.Timeout.D(), Drain: l.Drain.D(), StopDrain: interruptedDrain}
	if !inside {
		// A request to a server of its own cannot be called back: it ends with
		// its answer or its own time limit, however soon it is cancelled.
		p.Grace = p.Timeout + targetGrace
	}
	if l.Users == 0 {
		p.Arrivals = plan.Process.Start(plan.ArrivalSeed)
	}
	return p
}

// fill keeps what the generator counted.
func (t *trial) fill(res load.Result) {
	t.Load, t.Generator = res.Load, res.Generator
	t.Cut, t.CutFollowUps, t.Abandoned = res.Cut, res.CutFollowUps, res.Abandoned
	t.StartNS, t.EndNS = res.Start.Nanoseconds(), res.End.Nanoseconds()
	t.Interrupted = res.Stopped
	if res.FirstPanic != "" {
		t.fail("panic in the design: " + res.FirstPanic)
	}
}

// phases returns the windows of the load's phases.
func (r *runner) phases(res load.Result) []history.Window {
	warm := min(res.Start+r.Scenario.Load.WarmUp.D(), res.End)
	last := max(warm, min(res.Start+r.plan.Over, res.End))
	windows := []history.Window{}
	for _, w := range []history.Window{
		{Name: judge.WarmUp, Start: res.Start, End: warm},
		{Name: "steady", Start: warm, End: last},
		{Name: "drain", Start: last, End: res.End},
	} {
		if w.End > w.Start {
			w.Kind = history.PhaseWindow
			windows = append(windows, w)
		}
	}
	return windows
}

// audit keeps the final truth of the services.
func (r *runner) audit(slot rundir.Slot, inst sut.Instance) error {
	ctx, cancel := context.WithTimeout(r.hard, auditTimeout)
	defer cancel()
	audit, err := inst.Audit(ctx)
	if err != nil {
		return fmt.Errorf("auditing %s: %w", slot.Variant, err)
	}
	if !json.Valid(audit) {
		return fmt.Errorf("auditing %s: the audit is not JSON", slot.Variant)
	}
	_, err = r.dir.WriteAudit(slot.Variant, slot.Repeat, audit)
	return err
}

// judgeEarly tells the observer the repeat's verdict as soon as it is over.
func (r *runner) judgeEarly(slot rundir.Slot, t *trial) error {
	r.judging.Lock()
	defer r.judging.Unlock()
	t.teller.phase(events.Judge)
	repeat, err := r.judge.Repeat(r.hard, r.dir, slot)
	if err != nil {
		return fmt.Errorf("judging %s: %w", slot.Variant, err)
	}
	t.teller.done(repeat, r.judge.Verdict(slot.Variant, []rundir.Repeat{repeat}))
	return nil
}
