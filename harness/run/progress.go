package run

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"stampede/harness/events"
	"stampede/harness/judge"
	"stampede/harness/load"
	"stampede/harness/rundir"
	"stampede/harness/scenario"
	"stampede/harness/stats"
)

// Observer is told of a run's progress. Observe is called with every event as it
// happens, from one goroutine at a time, with those of the load about ten times a
// second; Logf adds a line. Neither may take long: faults wait for them.
type Observer interface {
	Observe(events.Event)
	Logf(format string, args ...any)
}

// progress tells an observer what happens, and the run directory's file of events.
type progress struct {
	Observer
	id  string
	now func() time.Time

	mu     sync.Mutex
	record *events.Recorder // nil once it is closed
}

// teller tells of one trial, and knows what was told of it.
type teller struct {
	*progress
	events.Repeat

	now    events.PhaseName
	broken []string // the names of the faults in force
	warmUp time.Duration
}

// tell stamps an event, hands it on and keeps it.
func (t *progress) tell(e events.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tellLocked(e)
}

func (t *progress) tellLocked(e events.Event) {
	e.RunID = t.id
	e = events.Stamped(e, t.now())
	if t.record != nil {
		t.record.Tell(e)
	}
	t.Observe(e)
}

// Logf hands a line on and keeps it.
func (t *progress) Logf(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.record != nil {
		line := &events.Line{Text: fmt.Sprintf(format, args...)}
		t.record.Tell(events.Stamped(events.Event{RunID: t.id, Log: line}, t.now()))
	}
	t.Observer.Logf(format, args...)
}

// close ends the file of events. That it could not be written is told, and fails
// nothing: what is judged is not in it.
func (t *progress) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.record == nil {
		return
	}
	err := t.record.Close()
	t.record = nil
	if err != nil && !DiskFailed(err) {
		t.Observer.Logf("%v", err)
	}
}

// started tells what the run sets out to do.
func (r *runner) started(slots []rundir.Slot) {
	p := &events.Plan{Directory: r.dir.Path(), PID: os.Getpid(), Tool: r.Tool,
		Scenario: r.Scenario.Name, Question: r.Scenario.Question, System: r.System.Name,
		Profile: r.Scenario.Profile, Seed: r.Seed, Baseline: r.baseline(),
		Repeats: r.Scenario.Repeats, LoadNS: r.plan.Over.Nanoseconds(),
		WarmUpNS: r.Scenario.Load.WarmUp.D().Nanoseconds(), Reproduce: r.Reproduce,
		SideBySide: r.Scenario.SideBySide, Slots: []events.Slot{}, Faults: faultNames(r.Scenario.Faults)}
	for _, s := range slots {
		p.Slots = append(p.Slots, events.Slot{Variant: s.Variant, Repeat: s.Repeat,
			Control: s.Control})
	}
	r.progress.tell(events.Event{RunStarted: p})
}

func faultNames(faults []scenario.Fault) []string {
	names := []string{}
	for _, f := range faults {
		names = append(names, f.Name)
	}
	return names
}

// begin tells of a new trial.
func (t *progress) begin(slot rundir.Slot, warmUp time.Duration) *teller {
	repeat := events.Repeat{Variant: slot.Variant, Repeat: slot.Repeat, Order: slot.Order}
	t.tell(events.Event{RepeatStarted: &repeat})
	return &teller{progress: t, Repeat: repeat, warmUp: warmUp}
}

// phase tells of a change of phase.
func (t *teller) phase(name events.PhaseName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.enter(name)
}

func (t *teller) enter(name events.PhaseName) {
	if t.now == name {
		return
	}
	t.now = name
	t.tellLocked(events.Event{Phase: &events.Phase{Repeat: t.Repeat, Phase: name}})
}

// follow tells of the load ten times a second until the returned function is
// called.
func (t *teller) follow(now func() load.Snapshot) (stop func()) {
	t.snapshot(now())
	done := make(chan struct{})
	var ended sync.WaitGroup
	ended.Go(func() {
		tick := time.NewTicker(time.Second / 10)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				t.snapshot(now())
			}
		}
	})
	return sync.OnceFunc(func() {
		close(done)
		ended.Wait()
		t.snapshot(now())
	})
}

// snapshot tells of the load, and of the phase that it is in.
func (t *teller) snapshot(s load.Snapshot) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case s.Phase == load.Draining || s.Phase == load.Over:
		t.enter(events.Drain)
	case s.Elapsed < t.warmUp:
		t.enter(events.WarmUp)
	default:
		t.enter(events.Steady)
	}
	t.tellLocked(events.Event{Load: &events.Tick{Repeat: t.Repeat,
		ElapsedNS: max(0, s.Elapsed).Nanoseconds(), Load: s.Load, InFlight: s.InFlight,
		Waiting: s.Waiting, OfferedPerS: s.Offered, AchievedPerS: s.Achieved,
		P99NS: s.P99.Nanoseconds(), P99RecentNS: s.P99Recent.Nanoseconds()}})
}

// faults tells which faults have begun and which have ended.
func (t *teller) faults(inForce []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.broken
	t.broken = slices.Clone(inForce)
	for _, name := range before {
		if !slices.Contains(inForce, name) {
			t.tellLocked(events.Event{Fault: &events.FaultChange{Repeat: t.Repeat, Fault: name}})
		}
	}
	for _, name := range inForce {
		if !slices.Contains(before, name) {
			t.tellLocked(events.Event{Fault: &events.FaultChange{Repeat: t.Repeat, Fault: name,
				On: true}})
		}
	}
}

// done tells of a trial's verdict.
func (t *teller) done(repeat rundir.Repeat, v judge.Verdict) {
	t.mu.Lock()
	defer t.mu.Unlock()
	o := &events.Outcome{Repeat: t.Repeat, Verdict: v.Overall(), Correctness: v.Answer,
		Timing: repeat.Timing, Load: repeat.Load, Reasons: append([]string{}, v.Reasons...)}
	if len(repeat.Operations) > 0 {
		o.Kind, o.Main = repeat.Operations[0].Kind, repeat.Operations[0].Load
		successes := stats.OfSuccesses([]rundir.Variant{{Operations: repeat.Operations}})
		p, _ := stats.MainResponse(repeat, repeat.Operations[0].Kind, successes)
		o.P99NS = p.P99
	}
	if o.P99NS == rundir.Infinite {
		o.P99NS = 0
	}
	t.tellLocked(events.Event{RepeatDone: o})
}
