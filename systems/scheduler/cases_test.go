package scheduler

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/sut"
	"stampede/harness/suttest"
)

const (
	pass  = check.Held
	fail  = check.Broken
	maybe = check.Undecided
)

// clause is a run that differs from a good one, and what is to be said of it. What is not
// finished, or late, is told by the name.
type clause suttest.Case[*evidence]

// TestClauses: each clause accepts what is right and refuses what is wrong.
func TestClauses(t *testing.T) {
	p := proof()
	p.Judged = func(t *testing.T, c suttest.Case[*evidence], v check.Verdict) {
		if unfinished := strings.HasSuffix(c.Name, "not finished"); c.Invariant == AllRun &&
			v.Count > 0 && unfinished != (v.Unfinished == v.Count) {
			t.Errorf("%d of %d are not finished", v.Unfinished, v.Count)
		}
		if late := strings.HasSuffix(c.Name, "late"); late && v.Late != v.Count {
			t.Errorf("%d of %d are late", v.Late, v.Count)
		}
	}
	good := goodRun(t)
	suttest.Clauses(t, p, good.copied, slices.Concat(slackCases(), besideCases(), sleeperCases(),
		givenUpCases(t), faultCases(t), changeCases(t), toldCases(t), refusalCases(), shownCases(),
		fleetCases()))
}

// copied is the same evidence, to be changed.
func (e *evidence) copied() *evidence {
	c := *e
	c.records, c.samples = slices.Clone(e.records), slices.Clone(e.samples)
	c.audit.Tasks, c.audit.Runs = slices.Clone(e.audit.Tasks), slices.Clone(e.audit.Runs)
	c.audit.Effects, c.audit.Changes = slices.Clone(e.audit.Effects), slices.Clone(e.audit.Changes)
	return &c
}

// with is another run, with other parameters and then changed.
func with(t tb, set func(*Params), tr trouble, change func(*evidence)) func(*evidence) {
	return func(e *evidence) {
		p := smallParams()
		set(&p)
		*e = *morningOf(t, 1, p, tr, 200)
		change(e)
	}
}

// certainly makes a change that a run has an occasion for.
func certainly(do edit) func(*evidence) {
	return func(e *evidence) {
		if !do(e, theFirst) {
			panic("the run has nothing to change")
		}
	}
}

// slackCases: what a design declares to be later by is granted, up to a bound, and the verdict
// says so; one that declares more is not decided, and one that is later than it declares is
// broken.
func slackCases() (list []clause) {
	const us = time.Microsecond
	declares := func(start, rescue time.Duration) func(*evidence) {
		return func(e *evidence) {
			e.audit.StartSlackUS, e.audit.RescueSlackUS = start.Microseconds(), rescue.Microseconds()
		}
	}
	for _, inv := range []string{AllRun, StartsInTime, NoStarvation} {
		list = append(list, clause{inv, "slack is granted", pass, declares(20*time.Second, 0),
			"20s more are allowed"},
			clause{inv, "too much slack", maybe, declares(20*time.Second+us, 0), startSlack})
	}
	late := func(slack time.Duration) func(*evidence) {
		return func(e *evidence) {
			declares(slack, 0)(e)
			certainly(onRun(firstRun, delay(1_500_000)))(e)
		}
	}
	return append(list,
		clause{FinalStates, "slack is granted", pass, declares(0, time.Minute), "1m0s more are allowed"},
		clause{FinalStates, "too much slack", maybe, declares(0, time.Minute+us), rescueSlack},
		clause{StartsInTime, "within its slack", pass, late(time.Second), ""},
		clause{StartsInTime, "beyond its slack, late", fail, late(100 * ms), "started 1.5"})
}

// besideCases: executors that take turns say nothing about what they do when two want the same
// task, nor does one that runs its batch all at once, nor do runs that do not name who claimed
// them.
func besideCases() (list []clause) {
	each := func(do func(i int, r *RunAudit)) func(*evidence) {
		return func(e *evidence) {
			for i := range e.audit.Runs {
				do(i, &e.audit.Runs[i])
			}
		}
	}
	const none = "0 runs were under way beside"
	for _, inv := range []string{OneEffect, FencedRuns} {
		list = append(list,
			clause{inv, "one after the other", maybe, each(func(_ int, r *RunAudit) {
				r.EndedUS = r.StartedUS
			}), none},
			clause{inv, "of one executor and of nobody", maybe, each(func(i int, r *RunAudit) {
				r.Executor = []string{"", "executor-1"}[i%2]
			}), none},
			clause{inv, "in any order", pass, func(e *evidence) { slices.Reverse(e.audit.Runs) }, ""})
	}
	return list
}

// sleeperCases: where an executor slept through its lease, that nothing came of it is decided
// only if it tried: to end runs if it slept through its work, and else at least to keep them.
func sleeperCases() (list []clause) {
	for _, c := range []struct {
		name          string
		slept         bool
		work          int // the longest, in leases
		turned, letGo bool
		want          check.Status
	}{
		{"nobody slept", false, 0, false, false, pass},
		{"one slept and did not try", true, 0, false, false, maybe},
		{"one slept and was turned away", true, 0, true, false, pass},
		{"one slept through all work and let go", true, 2, false, true, maybe},
		{"one slept in long work and let go", true, 3, false, true, pass},
		{"one slept in long work and did not try", true, 3, false, false, maybe},
	} {
		list = append(list, clause{FencedRuns, c.name, c.want, func(e *evidence) {
			lease := e.params.Lease.D()
			e.params.LongWork = sut.Duration(c.work) * sut.Duration(lease)
			certainly(onRun(once, func(e *evidence, r *RunAudit) {
				e.another(r, r.Fence-1, r.StartedUS-1, Lost)
				if lost := &e.audit.Runs[len(e.audit.Runs)-1]; c.turned {
					lost.TurnedUS = lost.EndedUS + 1
				} else if c.letGo {
					lost.LetGoUS = lost.EndedUS + 1
				}
			}))(e)
			if c.slept {
				e.windows = []history.Window{{Kind: history.FaultWindow, Name: "sleeps", Start: time.Second,
					End: time.Second + 3*lease, Fault: "pause executor-1", Evidence: []string{"it slept"}}}
			}
		}, ""})
	}
	return append(list, clause{FencedRuns, "two runs with one token", fail, certainly(onRun(completed,
		func(e *evidence, r *RunAudit) { e.another(r, r.Fence, r.StartedUS+1, Fenced) })), "version"})
}

// neverRan makes a task that ran once, and that nobody has changed, one that never did, with
// what users did to it so long after it was due.
func (e *evidence) neverRan(state State, changes ...any) *TaskAudit {
	var gone RunAudit
	certainly(onRun(func(e *evidence, r *RunAudit) bool {
		return single(e, r) && !slices.ContainsFunc(e.audit.Changes,
			func(c ChangeAudit) bool { return c.Task == r.Task })
	}, func(_ *evidence, r *RunAudit) { gone = *r }))(e)
	e.noRuns(gone.Task)
	row := e.rowOf(gone.Task)
	row.State = state
	for i := 0; i < len(changes); i += 2 {
		what, after := changes[i].(string), changes[i+1].(time.Duration)
		e.changed(gone.Task, what, state, max(gone.DueUS, row.CreatedUS)+after.Microseconds())
		row.Paused = row.Paused || what == KindPause
	}
	e.audit.Now += time.Hour.Microseconds()
	return row
}

// givenUpCases: a cancel or a pause is a reason for what would have started after it, and
// none for what should have started long before. That it was due a moment ago is a reason
// for what may still start, and none for what a scheduler gave up by itself. A task that waits
// at the end was lost if it was due by then, by the server's clock or by what the server said
// when it took the task: a server that has stopped tells of no later moment itself.
func givenUpCases(t tb) (list []clause) {
	const soon, late = 100 * ms, 10 * time.Second
	starve := func(d time.Duration) func(*Params) {
		return func(p *Params) { p.StarveWithin = sut.Duration(d) }
	}
	for _, c := range []struct {
		name    string
		state   State
		changes []any
		want    check.Status
	}{
		{"cancelled by nobody", Cancelled, nil, fail},
		{"cancelled soon", Cancelled, []any{KindCancel, soon}, pass},
		{"cancelled before it was due", Cancelled, []any{KindCancel, -soon}, pass},
		{"cancelled long after, late", Cancelled, []any{KindCancel, late}, fail},
		{"paused, and cancelled long after", Cancelled, []any{KindPause, soon, KindCancel, late}, pass},
		{"paused, resumed, and cancelled", Cancelled, []any{KindPause, soon, KindResume, late,
			KindCancel, late + soon}, pass},
		{"paused, resumed, and cancelled long after, late", Cancelled, []any{KindPause, soon,
			KindResume, 2 * soon, KindCancel, late}, fail},
		{"paused soon", Waiting, []any{KindPause, soon}, pass},
		{"paused long after, late", Picked, []any{KindPause, late}, fail},
		{"waiting for ever, not finished", Waiting, nil, fail},
		{"done without a run", Done, nil, fail},
	} {
		list = append(list, clause{AllRun, c.name, c.want, with(t, starve(time.Second), trouble{},
			func(e *evidence) { e.neverRan(c.state, c.changes...) }), ""})
	}
	for _, c := range []struct {
		name string
		set  func(*TaskAudit)
		want check.Status
	}{
		{"picked, not finished", func(r *TaskAudit) { r.State = Picked }, fail},
		{"running, not finished", func(r *TaskAudit) { r.State = Running }, fail},
		{"stopping, not finished", func(r *TaskAudit) { r.Stops = true }, fail},
		{"failed", func(r *TaskAudit) { r.State = Failed }, fail},
		{"paused", func(r *TaskAudit) { r.Paused = true }, fail},
		{"failed, to be stopped", func(r *TaskAudit) { r.State, r.Stops = Failed, true }, fail},
		{"failed, as it was asked to", func(r *TaskAudit) { r.State, r.Fails = Failed, true }, pass},
	} {
		list = append(list, clause{AllRun, "a moment ago, by nobody, " + c.name, c.want,
			with(t, starve(2*time.Hour), trouble{}, func(e *evidence) { c.set(e.neverRan(Waiting)) }), ""})
	}
	for _, c := range []struct {
		name    string
		stopped bool
		due     time.Duration // what the answer said, in addition
		outcome history.Outcome
		want    check.Status
	}{
		{"the others went on, not finished", false, time.Hour, history.OK, fail},
		{"nothing ran after that, not finished", true, 0, history.OK, fail},
		{"nothing ran after that, and it is due later", true, time.Hour, history.OK, pass},
		{"nothing ran after that, and no answer came", true, 0, history.Unknown, pass},
	} {
		list = append(list, clause{AllRun, c.name, c.want, func(e *evidence) {
			now := e.audit.Now
			row := e.neverRan(Waiting)
			if e.samples, e.audit.Now = nil, now; c.stopped {
				e.audit.Now = row.DueUS - 1
			}
			for i := range e.records {
				if rec := &e.records[i]; rec.Op.ID == row.Task && rec.Outcome == history.OK {
					rec.Outcome, rec.Reply.Value = c.outcome, rec.Reply.Value+int64(c.due)
				}
			}
		}, ""})
	}
	return list
}

// faultCases: a start that is late because of a fault is excused, one long after it is not; and
// without a look there is no telling, so nothing is judged. Where finished tasks were deleted
// during the run, nothing is held against the scheduler, and nothing is proven.
func faultCases(t tb) (list []clause) {
	late := func(fault time.Duration, looks bool) func(*evidence) {
		return certainly(onRun(firstRun, func(e *evidence, r *RunAudit) {
			delay(1_500_000)(e, r)
			at := micros(r.StartedUS) - storeOffset + fault
			e.windows = []history.Window{{Kind: history.FaultWindow, Name: "dies", Start: at, End: at + ms,
				Fault: "kill postgres", Recovered: at + ms, Evidence: []string{"it did"}}}
			if !looks {
				e.samples = nil
			}
		}))
	}
	for _, inv := range []string{StartsInTime, NoStarvation} {
		list = append(list, clause{inv, "near a fault", pass, late(-100*ms, true), ""},
			clause{inv, "a minute before a fault, late", fail, late(time.Minute, true), ""},
			clause{inv, "without looks", maybe, late(time.Minute, false), "outside faults"})
	}
	for _, inv := range proof().Invariants {
		list = append(list, clause{inv, "finished tasks are deleted", maybe, with(t, func(p *Params) {
			p.Retention = sut.Duration(time.Second)
		}, trouble{}, func(e *evidence) { e.audit.Effects = []EffectAudit{} }), "deleted tasks"})
	}
	return list
}

// changeCases: what correct designs do after a cancel that came while a task ran breaks
// nothing: a run that was lost is made up for, and a task that failed runs again where somebody
// wants it to. A recurring task that was cancelled while it ran, and came to its end all the
// same, is cancelled; one that runs once, or was cancelled after that, is done.
func changeCases(t tb) (list []clause) {
	for name, rerun := range map[string]bool{"lost": false, "failed and wanted again": true} {
		change := certainly(onRun(once, func(e *evidence, r *RunAudit) {
			e.changed(r.Task, KindCancel, Stopping, r.StartedUS)
			if r.Outcome, r.LeaseUS = Lost, r.EndedUS; rerun {
				r.Outcome = Failed
				e.changed(r.Task, KindRerun, Waiting, r.EndedUS)
			}
			e.another(r, r.Fence+1, r.EndedUS+1, Done)
		}))
		list = append(list, clause{FinalStates, "cancelled while it ran, " + name, pass, change, ""},
			clause{CancelledRests, "cancelled while it ran, " + name, pass, change, ""})
	}
	for _, c := range []struct {
		recurring    bool
		after        time.Duration // the cancel, after the end
		final, rests check.Status
	}{
		{true, -ms, pass, pass}, {true, 0, pass, pass}, {true, ms, fail, pass}, {false, -ms, fail, fail},
		{false, 0, fail, pass},
	} {
		name := fmt.Sprintf("done and cancelled %v after, recurring %t", c.after, c.recurring)
		change := with(t, func(p *Params) {
			p.Cancel, p.Recurring, p.Recurrence = 0, 0.5, Insert
		}, trouble{}, certainly(onRun(func(e *evidence, r *RunAudit) bool {
			row := e.rowOf(r.Task) // none starts after the last
			return once(e, r) && (row.Cron != "") == c.recurring && r.Occurrence == max(1, row.Times)
		}, func(e *evidence, r *RunAudit) {
			r.EndedUS = r.StartedUS + (5 * ms).Microseconds()
			effectOf(e, r).AtUS = r.StartedUS
			e.changed(r.Task, KindCancel, Cancelled, r.EndedUS+c.after.Microseconds())
			certainly(onTask(func(t *TaskAudit) bool {
				return t.Task == r.Task && t.Occurrence == r.Occurrence
			}, func(_ *evidence, t *TaskAudit) { t.State = Cancelled }))(e)
		})))
		list = append(list, clause{FinalStates, name, c.final, change, ""},
			clause{CancelledRests, name, c.rests, change, ""})
	}
	// A start and a pause at the same moment have an order by the database's clock.
	for after, want := range map[int64]check.Status{-1: fail, 1: pass} {
		list = append(list, clause{CancelledRests, fmt.Sprintf("paused %d us from its start", after),
			want, certainly(onRun(single, func(e *evidence, r *RunAudit) {
				e.changed(r.Task, KindPause, Paused, r.StartedUS+after)
			})), ""}, clause{NeverEarly, fmt.Sprintf("an effect %d us from its time", after),
			want, certainly(onRun(single, func(e *evidence, r *RunAudit) {
				r.StartedUS, effectOf(e, r).AtUS = r.DueUS, r.DueUS+after
			})), ""})
	}
	return append(list,
		clause{NoPhantomRuns, "repeated, and refused for another reason", pass, func(e *evidence) {
			again := e.records[0]
			again.Outcome, again.Start = history.Refused, again.End+ms
			e.records = append(e.records, again)
		}, ""},
		clause{NoPhantomRuns, "a repeated request is denied", fail, func(e *evidence) {
			again := e.records[0]
			again.Outcome, again.Start, again.Err = history.Refused, again.End+ms, ErrConflict.Error()
			e.records = append(e.records, again)
		}, "denied"},
		clause{OneEffect, "complete without effect", fail, certainly(onRun(completed,
			func(e *evidence, r *RunAudit) {
				e.audit.Effects = slices.DeleteFunc(e.audit.Effects, func(f EffectAudit) bool {
					return f.of() == r.of()
				})
			})), "no such effect"})
}

// toldCases: who was told of a start proves that there was one by then, and how late it was. By
// when it was says nothing where the clocks may differ by as much, or nobody compared them.
func toldCases(t tb) (list []clause) {
	for _, c := range []struct {
		name               string
		early, wider, late time.Duration // the answer; less known of when the gauge looked; too late
		looks, run         bool
		outcome            history.Outcome
		want               check.Status
	}{
		{"when it had started", 0, 0, 0, true, true, history.OK, pass},
		{"early", 100 * ms, 0, 0, true, true, history.OK, fail},
		{"early by less than clocks may differ", 100 * ms, 200 * ms, 0, true, true, history.OK, pass},
		{"early by more than clocks may differ", 300 * ms, 200 * ms, 0, true, true, history.OK, fail},
		{"early, and nobody compared clocks", 100 * ms, 0, 0, false, true, history.OK, pass},
		{"nothing", 100 * ms, 0, 2 * ms, true, false, history.Unknown, pass},
		{"as late as it was, rounded", 0, 0, ms, true, true, history.OK, pass},
		{"later than it was", 0, 0, 2 * ms, false, true, history.OK, fail},
		{"although it has no run", 0, 0, 0, false, false, history.OK, fail},
	} {
		list = append(list, clause{NoPhantomRuns, "told " + c.name, c.want, with(t, func(p *Params) {
			p.Awaits = 0.5
		}, trouble{}, func(e *evidence) {
			for i := range e.samples {
				e.samples[i].From -= c.wider
				e.samples[i].To += c.wider
			}
			if !c.looks {
				e.samples = nil
			}
			rec := suttest.PickFrom(e.records, theFirst, func(r *history.Record) bool {
				return r.Op.Kind == KindAwait && r.Outcome == history.OK
			})
			run := e.firstOf(rec.Op.ID)
			rec.Outcome, rec.End = c.outcome, micros(run.StartedUS)-storeOffset-c.early
			rec.Start, rec.Intended, rec.Reply.Value = rec.End-ms, rec.End-ms, rec.Reply.Value+int64(c.late)
			if !c.run {
				e.noRuns(run.Task)
			}
		}), ""})
	}
	return list
}

// firstOf is the first run of the task of an operation.
func (e *evidence) firstOf(op uint64) RunAudit {
	return e.audit.Runs[slices.IndexFunc(e.audit.Runs, func(r RunAudit) bool {
		return r.Task == op&^idMask
	})]
}

// refusalCases: a refusal is wrong if its reason is certainly false.
func refusalCases() (list []clause) {
	for _, c := range []struct {
		name, kind, of string        // what is refused, of the task of what other request
		after          time.Duration // the answer to that, or of a rerun the failure
		reason         error
		want           check.Status
	}{
		{"a name is taken", KindSchedule, KindSchedule, -ms, ErrConflict, fail},
		{"an identity is taken", KindCancel, KindCancel, -ms, ErrOpTaken, fail},
		{"acknowledged, and unknown", KindTask, KindSchedule, ms, ErrUnknownTask, fail},
		{"unknown while it is asked for", KindTask, KindSchedule, -ms, ErrUnknownTask, pass},
		{"cancelled by nobody", KindAwait, KindAwait, -ms, ErrState, fail},
		{"not started in time", KindAwait, KindAwait, -ms, ErrNotStarted, pass},
		{"cancelled", KindAwait, KindCancel, ms, ErrState, pass},
		{"not failed yet", KindRerun, KindRerun, -10 * ms, ErrState, pass},
		{"failed", KindRerun, KindRerun, 10 * ms, ErrState, fail},
		{"failed, and run again", KindRerun, KindRerun, time.Minute, ErrState, pass},
	} {
		list = append(list, clause{NoPhantomRuns, "refused, " + c.name, c.want, func(e *evidence) {
			rec := *suttest.PickFrom(e.records, theFirst, func(r *history.Record) bool {
				return r.Op.Kind == c.of && r.Outcome == history.OK
			})
			if rec.Start = rec.End + c.after; c.kind == KindRerun {
				rec.Start = micros(e.firstOf(rec.Op.ID).EndedUS) - storeOffset + c.after
			}
			if rec.End = rec.Start + ms; c.kind != KindSchedule {
				rec.Op = history.Op{ID: 1 << 60, Kind: c.kind, Key: taskName(rec.Op.ID &^ idMask)}
			}
			suttest.Deny(&rec, c.reason)
			e.records = append(e.records, rec)
		}, ""})
	}
	return list
}

// shownCases: what is shown of a task is what was said of it before.
func shownCases() (list []clause) {
	for _, c := range []struct {
		name, of string        // what was said of the task
		after    time.Duration // when it is read
		state    State
		runs     int64
		want     check.Status
		text     string
	}{
		{"cancelled", KindCancel, ms, Cancelled, 0, pass, ""},
		{"not yet cancelled", KindCancel, -ms, Waiting, 0, pass, ""},
		{"still waiting", KindCancel, ms, Waiting, 0, fail, "which was acknowledged as cancelled"},
		{"started", KindAwait, ms, Running, 1, pass, ""},
		{"not yet started", KindAwait, -ms, Waiting, 0, pass, ""},
		{"still not started", KindAwait, ms, Waiting, 0, fail, "its start had been acknowledged"},
	} {
		list = append(list, clause{NoPhantomRuns, "shown, " + c.name, c.want, func(e *evidence) {
			rec := *suttest.PickFrom(e.records, theFirst, func(r *history.Record) bool {
				return r.Op.Kind == c.of && r.Outcome == history.OK &&
					(c.of != KindCancel || r.Reply.Key == string(Cancelled))
			})
			rec.Start = rec.End + c.after
			rec.End = rec.Start + ms
			rec.Op = history.Op{ID: 1 << 60, Kind: KindTask, Key: taskName(rec.Op.ID &^ idMask)}
			rec.Reply = history.Reply{Key: string(c.state), Value: c.runs}
			e.records = append(e.records, rec)
		}, c.text})
	}
	return list
}

// fleetCases: of a design that scales, a rush that needs more executors decides nothing if
// nobody has ever asked for them.
func fleetCases() (list []clause) {
	for _, c := range []struct {
		name   string
		scales bool
		work   time.Duration
		fleet  []int64
		want   check.Status
	}{
		{"a fixed number", false, time.Second, nil, pass},
		{"more were asked for", true, time.Second, []int64{30, 15}, pass},
		{"nothing was asked for", true, time.Second, nil, maybe},
		{"only fewer were asked for", true, time.Second, []int64{5}, maybe},
		{"nothing was asked for, and nothing needed", true, 0, nil, pass},
	} {
		list = append(list, clause{StartsInTime, c.name, c.want, func(e *evidence) {
			e.params.Work, e.audit.Scales = sut.Duration(c.work), c.scales
			for i, n := range c.fleet {
				e.audit.Fleet = append(e.audit.Fleet, FleetAudit{Executors: n, AtUS: e.audit.Begins + int64(i)})
			}
		}, ""})
	}
	return list
}
