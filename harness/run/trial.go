package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"stampede/harness/events"
	"stampede/harness/history"
	"stampede/harness/load"
	"stampede/harness/rundir"
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
	// targetGrace is how long after its time limit a request may return.
	targetGrace = 2 * time.Second
)

// Trial is what a repeat leaves beside its history and its audit.
type Trial struct {
	Variant string `json:"variant"`
	Repeat  int    `json:"repeat"`
	Order   int    `json:"order"`
	// Load is what the generator counted itself; the history must agree.
	Load      rundir.Load      `json:"load"`
	Generator rundir.Generator `json:"generator"`
	// Cut operations were never offered because the load was stopped,
	// Abandoned ones did not return even when cancelled.
	Cut       int64 `json:"cut"`
	Abandoned int64 `json:"abandoned"`
	// MaxPacerLagNS and MaxBurst are the generator's worst moments.
	MaxPacerLagNS int64 `json:"max_pacer_lag_ns"`
	MaxBurst      int64 `json:"max_burst"`
	// StartNS to LastDueNS is when operations were scheduled, EndNS when the
	// last one ended, on the run's clock; DrainNS is how long quiescence took.
	StartNS   int64 `json:"start_ns"`
	LastDueNS int64 `json:"last_due_ns"`
	EndNS     int64 `json:"end_ns"`
	DrainNS   int64 `json:"drain_ns"`
	// Lost counts records that could not be written to the history.
	Lost uint64 `json:"lost_records"`
	// Empty is what is known of the state before the load, Found what was
	// there if it was not empty.
	Empty Emptiness `json:"empty,omitempty"`
	Found string    `json:"found,omitempty"`
	// Pending is what had not settled when the drain's deadline passed, Unasked
	// why that is not known.
	Pending string `json:"pending,omitempty"`
	Unasked string `json:"unasked,omitempty"`
	// Falling says how what was pending was still getting less then, if it was.
	Falling string `json:"falling,omitempty"`
	// Overdue says what was left when the drain's deadline passed, if it was being done and
	// was waited for.
	Overdue string `json:"overdue,omitempty"`
	// StoresAsked says that the stores were asked who they are, before and
	// after the load; StoreTrouble is what happened to them that no fault did.
	StoresAsked  bool   `json:"stores_asked,omitempty"`
	StoreTrouble string `json:"store_trouble,omitempty"`
	// Interrupted is true when the load was stopped before its end.
	Interrupted bool `json:"interrupted"`
	// Cores is how many cores this process could use.
	Cores int `json:"cores"`
	// Inside is true when the system under test runs in this process.
	Inside bool `json:"inside"`
	// Processor is the processor time that it all took.
	Processor *rundir.Processor `json:"processor,omitempty"`
	// Error is why the repeat could not be finished.
	Error string `json:"error,omitempty"`

	// faults are the windows of the faults, which the history keeps.
	faults []history.Window
}

// Emptiness says what an instance answered when it was asked, after Prepare,
// whether anything had been done to it. Runs from before it was asked have "".
type Emptiness string

// The answers.
const (
	// Empty: nothing was there.
	Empty Emptiness = "empty"
	// NotEmpty: something was there already.
	NotEmpty Emptiness = "not empty"
	// NotAsked: the instance cannot say; see sut.Emptier.
	NotAsked Emptiness = "not asked"
)

// trialName is where a repeat's Trial goes in the run directory.
func trialName(slot rundir.Slot) string {
	return strings.TrimSuffix(slot.Audit, ".json") + ".trial.json"
}

// trial runs one variant once and records it. A variant that fails is
// recorded as failed; an error means that the run cannot go on.
func (r *runner) trial(slot rundir.Slot) error {
	t := &Trial{Variant: slot.Variant, Repeat: slot.Repeat, Order: slot.Order,
		Inside: r.inside(), Cores: runtime.NumCPU()}
	r.teller.begin(slot, r.Scenario.Load.WarmUp.D())
	// The garbage of one trial must not be collected in the next one's load.
	runtime.GC()
	if err := r.perform(slot, t); err != nil {
		if _, ok := errors.AsType[*EnvironmentError](err); ok {
			return err
		}
		t.fail(err.Error())
		if DiskFailed(err) {
			_ = r.dir.WriteJSON(trialName(slot), t) // the disk's error is being told
			return fmt.Errorf("recording %s: %w", slot.Variant, err)
		}
		if r.soft.Err() == nil {
			r.Observer.Logf("%s: %v", slot.Variant, err)
		}
	}
	if err := r.dir.WriteJSON(trialName(slot), t); err != nil {
		return fmt.Errorf("recording the trial: %w", err)
	}
	return r.judgeEarly(slot)
}

// fail adds a reason why the repeat could not be finished.
func (t *Trial) fail(why string) {
	if t.Error != "" {
		why = t.Error + "\n" + why
	}
	t.Error = why
}

// perform is the life of a trial: prepare, load and break, drain, audit. A
// panic of the variant is an error.
func (r *runner) perform(slot rundir.Slot, t *Trial) (err error) {
	defer recovered(&err)
	v, ok := r.variant(slot.Variant)
	if !ok {
		return fmt.Errorf("there is no variant %s", slot.Variant)
	}
	r.teller.phase(events.Prepare)
	place, err := r.services.place(r.soft, r, v, slot)
	if err != nil {
		return fmt.Errorf("making a place for %s: %w", v.Name, err)
	}
	defer func() { err = errors.Join(err, place.close(r.hard)) }()
	inst, err := r.open(slot, v, place.config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closing(v.Name, inst.Close)) }()
	if err := r.prepare(slot, t, inst); err != nil {
		return err
	}
	return r.exercise(slot, v, t, inst, place)
}

// exercise is a trial from the initial state to the final truth.
func (r *runner) exercise(slot rundir.Slot, v sut.Variant, t *Trial, inst sut.Instance,
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
	if err := place.openTelemetry(r.services, v, roles); err != nil {
		return err
	}
	if err := r.record(slot, t, roles.Do, place); err != nil {
		return err
	}
	if err := r.drain(v, t, inst); err != nil {
		return err
	}
	if err := r.keepTelemetry(slot, t, place); err != nil {
		return err
	}
	stores.tell(r.hard, t)
	if err := roles.Stop(); err != nil {
		return err
	}
	r.teller.phase(events.Audit)
	return r.audit(slot, inst)
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
func (r *runner) prepare(slot rundir.Slot, t *Trial, inst sut.Instance) error {
	ctx, cancel := context.WithTimeout(r.soft, prepareTimeout)
	defer cancel()
	if err := inst.Prepare(ctx); err != nil {
		return r.unprepared(slot, fmt.Errorf("preparing %s: %w", slot.Variant, err))
	}
	return askEmpty(ctx, t, inst)
}

// askEmpty asks an instance, before anything is done to it, whether anything
// was.
func askEmpty(ctx context.Context, t *Trial, inst sut.Instance) error {
	e, ok := inst.(sut.Emptier)
	if !ok {
		t.Empty = NotAsked
		return nil
	}
	found, err := e.Empty(ctx)
	if err != nil {
		return fmt.Errorf("asking %s whether it is empty: %w", t.Variant, err)
	}
	t.Empty, t.Found = Empty, found
	if found != "" {
		t.Empty = NotEmpty
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

// record sends the load, breaks what the scenario says, watches, and keeps
// the history.
func (r *runner) record(
	slot rundir.Slot, t *Trial, do load.Do, place *place,
) (err error) {
	workload, err := r.System.Workload(r.plan.WorkloadSeed, r.Params)
	if err != nil {
		return fmt.Errorf("making the workload: %w", err)
	}
	base := time.Now()
	w, err := history.Create(r.dir.File(slot.History), history.Header{
		RunID: r.dir.ID(), Scenario: r.Scenario.Name, System: r.System.Name,
		Variant: slot.Variant, Repeat: slot.Repeat, Seed: r.Seed, Base: base.UTC()})
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, w.Close())
		t.Lost = w.Lost()
	}()
	live := &load.Live{}
	stop := r.teller.follow(live)
	defer stop()
	ctx, cancel := untilFailed(r.soft, w)
	defer cancel()
	faults := r.startFaults(ctx, base, place)
	place.hush = telemetry.Watch(r.hard, base, place.sources...)
	unwatch := watch(ctx, place.gauge, base, w.Sample)
	defer unwatch()
	result, err := load.Run(ctx, r.loadPlan(base, workload), do,
		func() load.Recorder { return w.Shard() }, live)
	if err != nil {
		cancel() // there is nothing left to break
	}
	t.fill(result)
	var faultErr error
	t.faults, faultErr = faults.wait()
	unwatch()
	return errors.Join(err, faultErr, keepWindows(w, slices.Concat(t.faults, r.phases(result))))
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

func (r *runner) loadPlan(base time.Time, workload sut.Workload) load.Plan {
	l := r.Scenario.Load
	p := load.Plan{Base: base, Start: start, Workload: workload, Users: l.Users,
		Think: l.Think.D(), Duration: l.Duration.D(), MaxInFlight: l.MaxInFlight,
		Queue: l.Queue, Timeout: l.Timeout.D(), Drain: l.Drain.D(), StopDrain: interruptedDrain}
	if !r.inside() {
		// A request to a server of its own cannot be called back: it ends with
		// its answer or its own time limit, however soon it is cancelled.
		p.Grace = p.Timeout + targetGrace
	}
	if l.Users == 0 {
		p.Arrivals = r.plan.Process.Start(r.plan.ArrivalSeed)
	}
	return p
}

// fill keeps what the generator counted.
func (t *Trial) fill(res load.Result) {
	t.Load, t.Generator = res.Load, res.Generator
	t.Cut, t.Abandoned = res.Cut+res.CutFollowUps, res.Abandoned
	t.MaxPacerLagNS, t.MaxBurst = res.MaxPacerLag.Nanoseconds(), res.MaxBurst
	t.StartNS, t.LastDueNS = res.Start.Nanoseconds(), res.LastDue.Nanoseconds()
	t.EndNS, t.Interrupted = res.End.Nanoseconds(), res.Stopped
	if res.FirstPanic != "" {
		t.fail("panic in the design: " + res.FirstPanic)
	}
}

// warmUpName is the phase that is judged and not measured.
const warmUpName = "warm-up"

// phases returns the windows of the load's phases.
func (r *runner) phases(res load.Result) []history.Window {
	warm := min(res.Start+r.Scenario.Load.WarmUp.D(), res.End)
	last := max(warm, min(res.Start+r.plan.Over, res.End))
	windows := []history.Window{}
	for _, w := range []history.Window{
		{Name: warmUpName, Start: res.Start, End: warm},
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

// drain waits until the instance says that nothing is left to do. Missing the
// deadline is recorded and fails the repeat. Who has no roles need not say.
func (r *runner) drain(v sut.Variant, t *Trial, inst sut.Instance) error {
	q, ok := inst.(sut.Quiescer)
	if !ok {
		if len(v.Roles) > 0 {
			t.Unasked = "it has roles and cannot say whether they are done; see sut.Quiescer"
		}
		return nil
	}
	r.teller.phase(events.Settle)
	limit := r.Scenario.Load.Drain.D()
	if r.soft.Err() != nil {
		limit = min(limit, interruptedDrain)
	}
	began := time.Now()
	left := ebb{every: limit / ebbLooks}
	for extra := range 1 + moreDrains {
		if err := r.settled(t, q, limit, &left); err != nil {
			return err
		}
		t.DrainNS = time.Since(began).Nanoseconds()
		t.Falling = ""
		if t.Pending != "" {
			t.Falling = left.falling(time.Now())
		}
		if t.Falling == "" || r.stopped() {
			break
		}
		if extra == 0 {
			t.Overdue = fmt.Sprintf("%s after the load work was still pending (%s)",
				time.Duration(t.DrainNS).Round(time.Millisecond), t.Pending)
		}
	}
	return nil
}

// stopped says that the run is to end.
func (r *runner) stopped() bool { return r.soft.Err() != nil }

// moreDrains is how many times the drain's deadline is waited once more for work that is
// still being done: what is left undone then is evidence of nothing.
const moreDrains = 2

// settled waits until nothing is pending, at most for limit.
func (r *runner) settled(t *Trial, q sut.Quiescer, limit time.Duration, left *ebb) error {
	ctx, cancel := context.WithTimeout(r.hard, limit)
	defer cancel()
	t.Pending, t.Unasked = settle(ctx, q, left)
	if errors.Is(ctx.Err(), context.Canceled) {
		return fmt.Errorf("draining %s: %w", t.Variant, ctx.Err())
	}
	return nil
}

// settle polls until nothing is pending or ctx ends; it returns what is
// pending then, or why that is not known.
func settle(ctx context.Context, q sut.Quiescer, left *ebb) (pending, unasked string) {
	tick := time.NewTicker(quiescePoll)
	defer tick.Stop()
	unasked = "it did not answer in time"
	for {
		now, err := q.Quiesced(ctx)
		switch {
		case err == nil && now == "":
			return "", ""
		case err == nil:
			pending, unasked = now, ""
			left.look(ctx, q)
		case ctx.Err() == nil:
			pending, unasked = "", err.Error()
		}
		select {
		case <-ctx.Done():
			return pending, unasked
		case <-tick.C:
		}
	}
}

// ebb follows how much is left to do.
type ebb struct {
	// every is how often to count at most, next when to do so again: it is work for the
	// stores, which have enough of it.
	every time.Duration
	next  time.Time

	began time.Time
	first int64
	// lows are the moments at which there was less than ever before.
	lows []low
}

type low struct {
	at   time.Time
	left int64
}

// look counts once, if q can. What cannot be counted now is later.
func (e *ebb) look(ctx context.Context, q sut.Quiescer) {
	counts, can := q.(sut.Backlogger)
	began := time.Now()
	if !can || began.Before(e.next) {
		return
	}
	n, err := counts.Backlog(ctx)
	now := time.Now()
	e.next = now.Add(max(e.every, ebbShare*now.Sub(began)))
	if err == nil {
		e.note(now, n)
	}
}

// note takes a count. Something is pending, so that nothing is no count.
func (e *ebb) note(now time.Time, left int64) {
	if left <= 0 {
		return
	}
	if e.began.IsZero() {
		e.began, e.first = now, left
	}
	if len(e.lows) == 0 || left < e.lows[len(e.lows)-1].left {
		e.lows = append(e.lows, low{now, left})
	}
}

// ebbLooks is how often a backlog is counted in a drain at most, and ebbShare how many times
// as long as a count took is waited at least before the next.
const (
	ebbLooks = 100
	ebbShare = 10
)

// ebbSteps is how often a backlog reaches a new low in the last quarter of the time at
// least, if it falls; ebbPatience in how many such quarters, at that pace, it would be gone.
const ebbSteps, ebbPatience = 2, 12

// falling says how the backlog was still getting less in the last quarter of the time in
// which it was counted, and soon enough; "" if it was not. What goes up and down has been
// as low before, and what stands still is not gone soon, whatever is done beside it.
func (e *ebb) falling(now time.Time) string {
	since := now.Add(-now.Sub(e.began) / 4)
	i := slices.IndexFunc(e.lows, func(l low) bool { return l.at.After(since) })
	if i < 1 || len(e.lows)-i < ebbSteps {
		return ""
	}
	least := e.lows[len(e.lows)-1].left
	if least > ebbPatience*(e.lows[i-1].left-least) {
		return ""
	}
	return fmt.Sprintf("it fell from %d to %d", e.first, least)
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
func (r *runner) judgeEarly(slot rundir.Slot) error {
	r.teller.phase(events.Judge)
	repeat, err := r.judge.repeat(r.hard, r.dir, slot)
	if err != nil {
		return fmt.Errorf("judging %s: %w", slot.Variant, err)
	}
	r.teller.done(repeat, r.judge.parts(slot.Variant, []rundir.Repeat{repeat}))
	return nil
}
