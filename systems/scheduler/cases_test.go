package scheduler_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/sut"
	"stampede/harness/suttest"
	"stampede/systems/scheduler"
)

// TestSlack: what a design declares to be later by is granted, up to a bound, and the
// verdict says so; one that declares more is not decided, and one that is later than it
// declares is broken.
func TestSlack(t *testing.T) {
	starts := []string{scheduler.AllRun, scheduler.StartsInTime, scheduler.NoStarvation}
	for _, c := range []struct {
		name     string
		declares func(*scheduler.Audit, time.Duration)
		most     time.Duration
		judged   []string
	}{
		{"start_slack_us", func(a *scheduler.Audit, d time.Duration) {
			a.StartSlackUS = d.Microseconds()
		}, 20 * time.Second, starts},
		{"rescue_slack_us", func(a *scheduler.Audit, d time.Duration) {
			a.RescueSlackUS = d.Microseconds()
		}, time.Minute, []string{scheduler.FinalStates}},
	} {
		for _, inv := range c.judged {
			e := goodRun(t)
			if v := e.verdict(t, inv); v.Status != check.Held ||
				strings.Contains(v.Reason, "more are allowed") {
				t.Errorf("%s without slack is %s: %s", inv, v.Status, v.Reason)
			}
			c.declares(&e.audit, c.most)
			if v := e.verdict(t, inv); v.Status != check.Held ||
				!strings.Contains(v.Reason, c.most.String()+" more are allowed") {
				t.Errorf("%s with %v is %s: %s", inv, c.most, v.Status, v.Reason)
			}
			c.declares(&e.audit, c.most+time.Microsecond)
			if v := e.verdict(t, inv); v.Status != check.Undecided || !strings.Contains(v.Reason, c.name) {
				t.Errorf("%s with more than %v is %s: %s", inv, c.most, v.Status, v.Reason)
			}
		}
	}
	e := goodRun(t)
	e.audit.StartSlackUS = time.Second.Microseconds()
	if !onRun(firstRun, delay(1_500_000))(e, theFirst) {
		t.Fatal("no task ran")
	}
	if v := e.verdict(t, scheduler.StartsInTime); v.Status != check.Held {
		t.Errorf("a start within its slack is %s: %s", v.Status, v.Reason)
	}
	e.audit.StartSlackUS = 100_000
	if v := e.verdict(t, scheduler.StartsInTime); v.Status != check.Broken || v.Late != v.Count {
		t.Errorf("a start after its slack is %s, %d of %d late: %s", v.Status, v.Late, v.Count, v.Reason)
	}
}

// TestExecutorsSideBySide: executors that take turns say nothing about what they do when
// two want the same task, nor does one that runs its batch all at once, nor do runs that do
// not name who claimed them.
func TestExecutorsSideBySide(t *testing.T) {
	for _, c := range []struct {
		name      string
		change    func(i int, r *scheduler.RunAudit)
		exercised bool
		says      string
	}{
		{"side by side", func(int, *scheduler.RunAudit) {}, true, ""},
		{"one after the other", func(_ int, r *scheduler.RunAudit) { r.EndedUS = r.StartedUS }, false,
			"0 runs were under way beside"},
		{"of one executor", func(_ int, r *scheduler.RunAudit) { r.Executor = "executor-1" }, false,
			"0 runs were under way beside"},
		{"of nobody", func(_ int, r *scheduler.RunAudit) { r.Executor = "" }, false,
			"runs do not name their executor"},
		{"of one executor and of nobody", func(i int, r *scheduler.RunAudit) {
			r.Executor = []string{"", "executor-1"}[i%2]
		}, false, "0 runs were under way beside"},
	} {
		for _, inv := range []string{scheduler.OneEffect, scheduler.FencedRuns} {
			e := goodRun(t)
			for i := range e.audit.Runs {
				c.change(i, &e.audit.Runs[i])
			}
			v := e.verdict(t, inv)
			if v.NotExercised == c.exercised || (v.Status == check.Held) != c.exercised ||
				!strings.Contains(v.Reason, c.says) {
				t.Errorf("%s of runs %s is %s: %s", inv, c.name, v.Status, v.Reason)
			}
		}
	}
}

// TestBesideOthers counts the runs that were under way beside another executor's.
func TestBesideOthers(t *testing.T) {
	type runs = []scheduler.RunAudit
	for name, c := range map[string]struct {
		runs runs
		want int
	}{
		"one over many": {runs{turn("a", 1, 9), turn("b", 2, 3), turn("b", 4, 5), turn("a", 6, 7)}, 3},
		"two batches":   {runs{turn("a", 1, 4), turn("a", 1, 4), turn("b", 3, 9)}, 3},
		"the longer":    {runs{turn("a", 1, 3), turn("a", 1, 6), turn("b", 5, 9)}, 2},
		"in turns":      {runs{turn("a", 1, 3), turn("b", 3, 4)}, 0},
		"without end":   {runs{turn("a", 1, 5), turn("b", 3, 0), turn("a", 6, 7)}, 2},
		"hidden by its own": {runs{turn("a", 1, 20), turn("b", 2, 8), turn("a", 9, 30),
			turn("b", 25, 26)}, 4},
	} {
		if got := scheduler.BesideOthers(c.runs); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

func turn(executor string, start, end int64) scheduler.RunAudit {
	return scheduler.RunAudit{Executor: executor, StartedUS: start, EndedUS: end}
}

// TestUnfinishedRuns: a task that still waits is not finished, one that is done without a
// run, or is not there, is lost.
func TestUnfinishedRuns(t *testing.T) {
	for state, unfinished := range map[scheduler.State]bool{
		scheduler.Waiting: true, scheduler.Running: true, scheduler.Picked: true,
		scheduler.Done: false, "": false,
	} {
		e := goodRun(t)
		row := &e.audit.Tasks[slices.IndexFunc(e.audit.Tasks, func(t scheduler.TaskAudit) bool {
			return t.State == scheduler.Done && t.Cron == ""
		})]
		task := row.Task
		row.State = state
		e.audit.Runs = slices.DeleteFunc(e.audit.Runs, func(r scheduler.RunAudit) bool {
			return r.Task == task
		})
		e.audit.Tasks = slices.DeleteFunc(e.audit.Tasks, func(t scheduler.TaskAudit) bool {
			return t.State == ""
		})
		e.audit.Now += time.Hour.Microseconds()
		v := e.verdict(t, scheduler.AllRun)
		if v.Status != check.Broken || unfinished != (v.Unfinished == v.Count) {
			t.Errorf("%q is %s, %d of %d not finished: %s", state, v.Status, v.Unfinished, v.Count,
				v.Reason)
		}
	}
}

// TestSleepersAreTurnedAway: where an executor slept through its lease, that nothing
// came of it is decided only if it tried: to end runs if it slept through its work, and
// else at least to keep them.
func TestSleepersAreTurnedAway(t *testing.T) {
	e := morningOf(t, 1, smallParams(), trouble{dies: 0.1}, 200)
	lease := e.params.Lease.D()
	pause := history.Window{Kind: history.FaultWindow, Name: "sleeps", Start: time.Second,
		End: time.Second + 3*lease, Fault: "pause executor-1", Evidence: []string{"it slept"}}
	for _, c := range []struct {
		name          string
		windows       []history.Window
		work          time.Duration
		turned, letGo bool
		want          check.Status
	}{
		{"nobody slept", nil, ms, false, false, check.Held},
		{"one slept and did not try", []history.Window{pause}, ms, false, false, check.Undecided},
		{"one slept and was turned away", []history.Window{pause}, ms, true, false, check.Held},
		{"one slept through all work and let go", []history.Window{pause}, 3*lease - ms, false, true,
			check.Undecided},
		{"one slept in long work and let go", []history.Window{pause}, 3 * lease, false, true,
			check.Held},
		{"one slept in long work and did not try", []history.Window{pause}, 3 * lease, false, false,
			check.Undecided},
	} {
		e.params.LongWork = sut.Duration(c.work)
		lost := suttest.PickFrom(e.audit.Runs, theFirst, func(r *scheduler.RunAudit) bool {
			return r.Outcome == scheduler.Lost
		})
		if lost.TurnedUS = 0; c.turned {
			lost.TurnedUS = lost.EndedUS + 1
		}
		if lost.LetGoUS = 0; c.letGo {
			lost.LetGoUS = lost.EndedUS + 1
		}
		e.windows = c.windows
		if v := e.verdict(t, scheduler.FencedRuns); v.Status != c.want {
			t.Errorf("%s: %s: %s", c.name, v.Status, v.Reason)
		}
	}
}

// neverRan makes a task that ran once one that never did, with what users did to it
// so long after it was due.
func (e *evidence) neverRan(
	t *testing.T, state scheduler.State, changes map[string]time.Duration,
) *scheduler.TaskAudit {
	t.Helper()
	var gone scheduler.RunAudit
	if !onRun(func(e *evidence, r *scheduler.RunAudit) bool {
		changed := slices.ContainsFunc(e.audit.Changes, func(c scheduler.ChangeAudit) bool {
			return c.Task == r.Task
		})
		row := e.rowOf(r.Task)
		return firstRun(e, r) && row.Cron == "" && !changed
	}, func(_ *evidence, r *scheduler.RunAudit) { gone = *r })(e, theFirst) {
		t.Fatal("no task ran once")
	}
	e.audit.Runs = slices.DeleteFunc(e.audit.Runs, func(r scheduler.RunAudit) bool {
		return r.Task == gone.Task
	})
	row := e.rowOf(gone.Task)
	row.State = state
	for what, after := range changes {
		e.audit.Changes = append(e.audit.Changes, scheduler.ChangeAudit{Op: 1<<50 + uint64(after),
			Task: gone.Task, What: what, Outcome: state, AtUS: max(gone.DueUS, row.CreatedUS) +
				after.Microseconds()})
		row.Paused = row.Paused || what == scheduler.KindPause
	}
	slices.SortFunc(e.audit.Changes, func(a, b scheduler.ChangeAudit) int {
		return int(a.AtUS - b.AtUS)
	})
	e.audit.Now += time.Hour.Microseconds()
	return row
}

func (e *evidence) rowOf(task uint64) *scheduler.TaskAudit {
	i := slices.IndexFunc(e.audit.Tasks, func(t scheduler.TaskAudit) bool { return t.Task == task })
	return &e.audit.Tasks[i]
}

// TestStartBesidePause: a start and a pause at the same moment have an order by the database's
// clock. A task may be paused after its start, and must not start after its pause.
func TestStartBesidePause(t *testing.T) {
	pause := history.Op{ID: 1, Kind: scheduler.KindPause, Key: "1"}
	for _, moved := range []int64{0, 1, -1} {
		w := &world{World: suttest.NewWorld(1, nil, suttest.Trouble{}), params: smallParams()}
		w.ref = newRefScheduler(w)
		task := scheduler.TaskAudit{Task: 1, Occurrence: 1, DueUS: 1, State: scheduler.Waiting}
		row := &refRow{TaskAudit: task}
		w.ref.byTask[1] = []*refRow{row}
		w.After(time.Second, func() { w.ref.start(row) })
		w.After(time.Second, func() { _, _ = w.ref.do(pause) })
		w.Run(w.ref, 0, 0)
		e := &evidence{params: w.params, audit: w.ref.audit()}
		if moved != 0 {
			e.audit.Changes[0].AtUS = e.audit.Runs[0].StartedUS + moved
		}
		v := e.verdict(t, scheduler.CancelledRests)
		if broken := v.Status == check.Broken; broken != (moved < 0) {
			t.Errorf("moved by %d: %s %s%+v", moved, v.Status, v.Reason, v.Violations)
		}
	}
}

// TestGivenUp: a cancel or a pause is a reason for what would have started after it, and
// none for what should have started long before. That it was due a moment ago is a reason
// for what may still start, and none for what a scheduler gave up by itself.
func TestGivenUp(t *testing.T) {
	const soon, late = 100 * ms, 10 * time.Second
	changes := func(list ...any) map[string]time.Duration {
		m := map[string]time.Duration{}
		for i := 0; i < len(list); i += 2 {
			m[list[i].(string)] = list[i+1].(time.Duration)
		}
		return m
	}
	for _, c := range []struct {
		name    string
		state   scheduler.State
		changes map[string]time.Duration
		want    check.Status
	}{
		{"cancelled by nobody", scheduler.Cancelled, nil, check.Broken},
		{"cancelled soon", scheduler.Cancelled, changes(scheduler.KindCancel, soon), check.Held},
		{"cancelled before it was due", scheduler.Cancelled, changes(scheduler.KindCancel, -soon),
			check.Held},
		{"cancelled long after", scheduler.Cancelled, changes(scheduler.KindCancel, late), check.Broken},
		{"paused, and cancelled long after", scheduler.Cancelled,
			changes(scheduler.KindPause, soon, scheduler.KindCancel, late), check.Held},
		{"paused, resumed, and cancelled", scheduler.Cancelled, changes(scheduler.KindPause, soon,
			scheduler.KindResume, late, scheduler.KindCancel, late+soon), check.Held},
		{"paused, resumed, and cancelled long after", scheduler.Cancelled, changes(scheduler.KindPause,
			soon, scheduler.KindResume, 2*soon, scheduler.KindCancel, late), check.Broken},
		{"paused soon", scheduler.Waiting, changes(scheduler.KindPause, soon), check.Held},
		{"paused long after", scheduler.Picked, changes(scheduler.KindPause, late), check.Broken},
		{"waiting for ever", scheduler.Waiting, nil, check.Broken},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := smallParams()
			p.StarveWithin = sut.Duration(time.Second)
			e := morningOf(t, 1, p, trouble{}, 200)
			e.neverRan(t, c.state, c.changes)
			if v := e.verdict(t, scheduler.AllRun); v.Status != c.want {
				t.Errorf("%s: %+v", v.Status, v.Violations)
			}
		})
	}
	for name, c := range map[string]struct {
		set        func(*scheduler.TaskAudit)
		want       check.Status
		unfinished bool
	}{
		"waiting": {func(r *scheduler.TaskAudit) { r.State = scheduler.Waiting }, check.Broken, true},
		"running": {func(r *scheduler.TaskAudit) { r.State = scheduler.Running }, check.Broken, true},
		"failed":  {func(r *scheduler.TaskAudit) { r.State = scheduler.Failed }, check.Broken, false},
		"cancelled": {func(r *scheduler.TaskAudit) { r.State = scheduler.Cancelled }, check.Broken,
			false},
		"paused":   {func(r *scheduler.TaskAudit) { r.Paused = true }, check.Broken, false},
		"stopping": {func(r *scheduler.TaskAudit) { r.Stops = true }, check.Broken, true},
		"failed, to be stopped": {func(r *scheduler.TaskAudit) {
			r.State, r.Stops = scheduler.Failed, true
		}, check.Broken, false},
		"failed, as it was asked to": {func(r *scheduler.TaskAudit) {
			r.State, r.Fails = scheduler.Failed, true
		}, check.Held, false},
	} {
		t.Run("a moment ago, by nobody, "+name, func(t *testing.T) {
			p := smallParams()
			p.StarveWithin = sut.Duration(2 * time.Hour)
			e := morningOf(t, 1, p, trouble{}, 200)
			c.set(e.neverRan(t, scheduler.Waiting, nil))
			v := e.verdict(t, scheduler.AllRun)
			if v.Status != c.want || c.unfinished != (v.Unfinished > 0) || v.Late > 0 {
				t.Errorf("%s, %d not finished, %d late: %+v", v.Status, v.Unfinished, v.Late, v.Violations)
			}
		})
	}
}

// TestLostAtTheEnd: a task that waits at the end was lost if it was due by then, by the
// server's clock or by what the server said when it took the task. A server that has stopped
// tells of no later moment itself.
func TestLostAtTheEnd(t *testing.T) {
	for _, c := range []struct {
		name    string
		stopped bool
		due     time.Duration // what the answer said, in addition
		outcome history.Outcome
		want    check.Status
	}{
		{"the others went on", false, time.Hour, history.OK, check.Broken},
		{"nothing ran after that", true, 0, history.OK, check.Broken},
		{"nothing ran after that, and it is due later", true, time.Hour, history.OK, check.Held},
		{"nothing ran after that, and no answer came", true, 0, history.Unknown, check.Held},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := goodRun(t)
			now := e.audit.Now
			e.samples = nil
			row := e.neverRan(t, scheduler.Waiting, nil)
			if e.audit.Now = now; c.stopped {
				e.audit.Now = row.DueUS - 1
			}
			for i := range e.records {
				if rec := &e.records[i]; rec.Op.ID == row.Task && rec.Outcome == history.OK {
					rec.Outcome, rec.Reply.Value = c.outcome, rec.Reply.Value+int64(c.due)
				}
			}
			v := e.verdict(t, scheduler.AllRun)
			if v.Status != c.want || v.Unfinished != v.Count {
				t.Errorf("%s, %d of %d not finished: %+v", v.Status, v.Unfinished, v.Count, v.Violations)
			}
		})
	}
}

// TestRepeatsAreNeeded: that a repeated request is not denied is open where none was answered
// again: whoever turns all of them away has denied nothing. A rerun that came too early, and
// was sent until its task had failed, is none.
func TestRepeatsAreNeeded(t *testing.T) {
	reruns := func(r *history.Record) bool { return r.Op.Kind == scheduler.KindRerun }
	for _, c := range []struct {
		name   string
		resend float64
		again  history.Outcome // what became of all but the first acknowledged sending
		want   check.Status
	}{
		{"answered again", 0.2, history.OK, check.Held},
		{"turned away", 0.2, history.Refused, check.Undecided},
		{"without an answer", 0.2, history.Unknown, check.Undecided},
		{"none", 0, history.Refused, check.Held},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := smallParams()
			p.Resend = c.resend
			e := morningOf(t, 1, p, trouble{}, 200)
			if c.resend > 0 {
				first := suttest.PickFrom(e.records, theFirst, reruns)
				if first == nil {
					t.Fatal("no task was to run again")
				}
				early := *first
				early.Outcome, early.Err = history.Refused, scheduler.ErrState.Error()
				early.Start, early.End = first.Start-2*ms, first.Start-ms
				e.records = append(e.records, early)
			}
			acked := map[uint64]bool{}
			for i := range e.records {
				rec := &e.records[i]
				if acked[rec.Op.ID] {
					rec.Outcome = c.again
				}
				acked[rec.Op.ID] = acked[rec.Op.ID] || rec.Outcome == history.OK
			}
			v := e.verdict(t, scheduler.NoPhantomRuns)
			if v.Status != c.want || v.NotExercised != (c.want == check.Undecided) {
				t.Errorf("%s: %s %+v", v.Status, v.Reason, v.Violations)
			}
		})
	}
}

// TestWhatWasDeletedIsNotJudged: where finished tasks were deleted during the run, nothing
// is held against the scheduler, and nothing is proven.
func TestWhatWasDeletedIsNotJudged(t *testing.T) {
	for retention, want := range map[time.Duration]bool{24 * time.Hour: true, time.Second: false} {
		p := smallParams()
		p.Retention = sut.Duration(retention)
		e := morningOf(t, 1, p, trouble{}, 200)
		for _, inv := range scheduler.Invariants(p) {
			v := e.verdict(t, inv.Name())
			if judged := v.Status != check.Undecided; judged && !want {
				t.Errorf("kept for %v: %s is %s", retention, v.Invariant, v.Status)
			}
		}
		v := e.verdict(t, scheduler.AllRun)
		if (v.Status == check.Held) != want {
			t.Errorf("kept for %v: %s (%s)", retention, v.Status, v.Reason)
		}
	}
}

// TestDoneAndCancelled: a recurring task that was cancelled while it ran, and came to its end
// all the same, is cancelled; one that runs once, or was cancelled after that, is done.
func TestDoneAndCancelled(t *testing.T) {
	for _, c := range []struct {
		name      string
		recurring bool
		after     time.Duration // the cancel, after the end
		want      check.Status
	}{
		{"recurring, cancelled while it ran", true, -ms, check.Held},
		{"recurring, cancelled when it ended", true, 0, check.Held},
		{"recurring, cancelled after its end", true, ms, check.Broken},
		{"once, cancelled while it ran", false, -ms, check.Broken},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := smallParams()
			p.Cancel, p.Recurring, p.Recurrence = 0, 0.5, scheduler.Insert
			e := morningOf(t, 1, p, trouble{}, 200)
			if !onRun(func(e *evidence, r *scheduler.RunAudit) bool {
				return once(e, r) && (e.rowOf(r.Task).Cron != "") == c.recurring
			}, func(e *evidence, r *scheduler.RunAudit) {
				r.EndedUS = r.StartedUS + (5 * ms).Microseconds()
				e.stopping(r)
				e.audit.Changes[len(e.audit.Changes)-1].AtUS = r.EndedUS + c.after.Microseconds()
				for i := range e.audit.Tasks {
					if row := &e.audit.Tasks[i]; row.Task == r.Task && row.Occurrence == r.Occurrence {
						row.State = scheduler.Cancelled
					}
				}
			})(e, theFirst) {
				t.Fatal("nothing ran once")
			}
			if v := e.verdict(t, scheduler.FinalStates); v.Status != c.want {
				t.Errorf("%s: %s %+v", v.Status, v.Reason, v.Violations)
			}
		})
	}
}

// TestToldEarly: who was told of a start before the task was due proves that it was early,
// whatever the runs say; but not where the clocks may differ by as much, or nobody compared
// them, and not if the task was due before.
func TestToldEarly(t *testing.T) {
	for _, c := range []struct {
		name  string
		early time.Duration
		// wider is by how much less is known of when the gauge looked.
		wider   time.Duration
		noGauge bool
		outcome history.Outcome
		want    check.Status
	}{
		{"when it was due", 0, 0, false, history.OK, check.Held},
		{"early", 100 * ms, 0, false, history.OK, check.Broken},
		{"early by less than the clocks may differ", 100 * ms, 200 * ms, false, history.OK, check.Held},
		{"early by more than the clocks may differ", 300 * ms, 200 * ms, false, history.OK,
			check.Broken},
		{"early, and nobody compared the clocks", 100 * ms, 0, true, history.OK, check.Held},
		{"told nothing", 100 * ms, 0, false, history.Unknown, check.Held},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := smallParams()
			p.Awaits = 0.5
			e := morningOf(t, 1, p, trouble{}, 200)
			for i := range e.samples {
				e.samples[i].From -= c.wider
				e.samples[i].To += c.wider
			}
			if c.noGauge {
				e.samples = nil
			}
			rec := suttest.PickFrom(e.records, theFirst, func(r *history.Record) bool {
				return r.Op.Kind == scheduler.KindAwait && r.Outcome == history.OK
			})
			row := e.rowOf(rec.Op.ID &^ 0xff)
			due := time.Duration(row.FirstUS)*time.Microsecond - storeOffset
			rec.Outcome, rec.End = c.outcome, due-c.early
			rec.Start, rec.Intended = rec.End-ms, rec.End-ms
			if v := e.verdict(t, scheduler.NeverEarly); v.Status != c.want {
				t.Errorf("%s: %s %+v", v.Status, v.Reason, v.Violations)
			}
		})
	}
}

// TestOrchestratorMustAct: of a design that scales, a rush that needs more executors decides
// nothing if nobody has ever asked for them.
func TestOrchestratorMustAct(t *testing.T) {
	asked := func(sizes ...int64) (list []scheduler.FleetAudit) {
		for _, n := range sizes {
			list = append(list, scheduler.FleetAudit{Executors: n, Reason: "a test"})
		}
		return list
	}
	for _, c := range []struct {
		name   string
		scales bool
		work   time.Duration
		fleet  []scheduler.FleetAudit
		want   check.Status
	}{
		{"a fixed number", false, time.Second, nil, check.Held},
		{"more were asked for", true, time.Second, asked(30, 15), check.Held},
		{"nothing was asked for", true, time.Second, nil, check.Undecided},
		{"only fewer were asked for", true, time.Second, asked(5), check.Undecided},
		{"nothing was asked for, and nothing needed", true, 0, nil, check.Held},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := goodRun(t)
			e.params.Work, e.audit.Scales, e.audit.Fleet = sut.Duration(c.work), c.scales, c.fleet
			for i := range e.audit.Fleet {
				e.audit.Fleet[i].AtUS = e.audit.Begins + int64(i)
			}
			if v := e.verdict(t, scheduler.StartsInTime); v.Status != c.want {
				t.Errorf("%s: %s %+v", v.Status, v.Reason, v.Violations)
			}
		})
	}
}
