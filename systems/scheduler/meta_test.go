package scheduler

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"stampede/harness/history"
	"stampede/harness/sut"
	"stampede/harness/suttest"
)

const ms = time.Millisecond

// smallParams is a morning of a few seconds in which everything happens.
func smallParams() Params {
	p := DefaultParams()
	p.TimeScale, p.Rate, p.NineAfter = 60, 200, sut.Duration(time.Minute)
	p.Ahead = sut.Duration(2 * time.Minute)
	p.Recurring, p.Times, p.Crons = 0.1, 3, []string{"* * * * *", "*/2 * * * *", "1,3 9 * * *"}
	p.Zones = []string{"UTC", "Europe/London"}
	p.Cancel, p.Pause, p.Poison = 0.1, 0.1, 0.05
	p.Lease, p.RescueEvery = sut.Duration(200*ms), sut.Duration(50*ms)
	p.RescueWithin, p.StarveWithin = sut.Duration(200*ms), sut.Duration(900*ms)
	p.SLA = sut.Duration(time.Minute)
	return p
}

// goodRun is a run that every invariant accepts.
func goodRun(t tb) *evidence { return morningOf(t, 1, smallParams(), trouble{}, 200) }

// drawMorning is any run of a correct scheduler with any amount of trouble.
func drawMorning(t *rapid.T) *evidence {
	p, share := smallParams(), rapid.Float64Range(0, 0.3)
	p.Recurrence = rapid.SampledFrom([]string{Reset, Insert}).Draw(t, "recurrence")
	p.Recurring, p.Cancel = share.Draw(t, "recurring"), share.Draw(t, "cancel")
	p.Pause, p.Poison = share.Draw(t, "pause"), share.Draw(t, "poison")
	p.Aligned = share.Draw(t, "aligned")
	mishap := rapid.Float64Range(0, 0.15)
	tr := trouble{suttest.DrawTrouble(t), mishap.Draw(t, "dies"), mishap.Draw(t, "sleeps")}
	return morningOf(t, rapid.Uint64().Draw(t, "seed"), p, tr, rapid.IntRange(0, 100).Draw(t, "ops"))
}

// proof is what the judges are proved by.
func proof() suttest.Proof[*evidence] {
	p := suttest.Proof[*evidence]{Any: drawMorning, Judge: (*evidence).judge,
		Some: func(t *rapid.T) *evidence {
			tr := suttest.Trouble{LostRequest: 0.02, LostReply: 0.02, Late: 0.02, Dropped: 0.02}
			return morningOf(t, rapid.Uint64().Draw(t, "seed"), smallParams(), trouble{tr, 0.05, 0.05}, 40)
		},
		Whole: func(t tb, seed uint64) *evidence {
			p := smallParams()
			p.Recurrence = []string{Reset, Insert}[seed%2]
			e := morningOf(t, seed, p, trouble{}, 200)
			if seed%4 > 1 { // a foreign server may list changes in any order
				slices.Reverse(e.audit.Changes)
			}
			return e
		},
		Parts:     func(e *evidence) ([]history.Record, any) { return e.records, &e.audit },
		Unnoticed: unnoticed, Absent: absent,
	}
	for _, inv := range Invariants(smallParams()) {
		p.Invariants = append(p.Invariants, inv.Name())
	}
	return p
}

// unnoticed are the blind corruptions that no invariant can notice, by the reason.
var unnoticed = map[string][]string{
	"the client refuses an answer about another task": {"mistake key in answers to schedule"},
	"it is by a nanosecond": {"raise value in answers to schedule",
		"lower value in answers to schedule"},
	"anybody may change a task": {"change client of cancel", "change client of pause",
		"change client of rerun", "change client of resume"},
	"reads are of the moment, and the conformance tests say what they return": {"deny task",
		"change client of task", "change key of task", "deny tasks", "change client of tasks",
		"change key of tasks"},
	"a task that was there earlier only makes its start later": {"lower created_us of tasks"},
	"the last token of a task may be one that started nothing": {"raise fence of tasks"},
	"who stops gives tasks back before their leases expire":    {"raise lease_us of runs"},
	"it is only counted, as evidence of an executor that came too late": {
		"exchange turned_us of runs", "raise turned_us of runs", "lower turned_us of runs",
		"exchange let_go_us of runs", "raise let_go_us of runs", "lower let_go_us of runs"},
	"names only show that executors competed":     {"exchange executor of runs"},
	"the effect and the end may be one statement": {"raise at_us of effects"},
}

// absent are those of what the reference has none of, by the reason.
var absent = map[string][]string{
	"none is refused": {"invent rerun", "invent schedule", "invent task", "invent tasks"},
	"all answers are the same": {"exchange answers to pause", "exchange answers to rerun",
		"exchange answers to resume", "exchange answers to task", "exchange answers to tasks"},
	"nothing runs any more at the end": {"exchange lease_us of tasks", "raise lease_us of tasks",
		"lower lease_us of tasks"},
	"its executors are not scaled, and no invariant is about the fleet": {"drop of fleet",
		"double of fleet", "exchange executors of fleet", "raise executors of fleet",
		"lower executors of fleet", "exchange at_us of fleet", "raise at_us of fleet",
		"lower at_us of fleet"},
}

// TestJudges: the judges are sound, a run without trouble decides all of them, and none is
// vacuous.
func TestJudges(t *testing.T) {
	suttest.Prove(t, proof(), 12, slices.Concat(runCorruptions(), finalCorruptions(),
		timeCorruptions(), changeCorruptions(), taskCorruptions()))
}

// corruption is one thing that a correct scheduler never does.
type corruption suttest.Corruption[*evidence]

// edit changes evidence, if there is something to change.
type edit = func(e *evidence, pick func(n int) int) bool

// on changes one row of a list that fits.
func on[T any](
	list func(*evidence) []T, fits func(*evidence, *T) bool, do func(*evidence, *T),
) edit {
	return func(e *evidence, pick func(int) int) bool {
		return suttest.Change(list(e), pick, func(row *T) bool { return fits(e, row) },
			func(row *T) { do(e, row) })
	}
}

// onRun, onTask and onChange change such rows.
func onRun(fits func(*evidence, *RunAudit) bool, do func(*evidence, *RunAudit)) edit {
	return on(func(e *evidence) []RunAudit { return e.audit.Runs }, fits, do)
}

func onTask(fits func(*TaskAudit) bool, do func(*evidence, *TaskAudit)) edit {
	return on(func(e *evidence) []TaskAudit { return e.audit.Tasks },
		func(_ *evidence, t *TaskAudit) bool { return fits(t) }, do)
}

func onChange(what string, outcome State, do func(*evidence, *ChangeAudit)) edit {
	return on(func(e *evidence) []ChangeAudit { return e.audit.Changes },
		func(_ *evidence, c *ChangeAudit) bool { return c.What == what && c.Outcome == outcome }, do)
}

// onLook changes the last look of the gauge.
func onLook(do func(*Look)) edit {
	return func(e *evidence, _ func(int) int) bool {
		if len(e.samples) == 0 {
			return false
		}
		s := &e.samples[len(e.samples)-1]
		var l Look
		err := json.Unmarshal(s.Body, &l)
		if do(&l); err == nil {
			s.Body, err = json.Marshal(l)
		}
		return err == nil
	}
}

// theFirst picks it.
func theFirst(int) int { return 0 }

func completed(_ *evidence, r *RunAudit) bool { return r.Outcome == Done }
func settledOnce(t *TaskAudit) bool {
	return t.Cron == "" && t.State == Done && !t.Paused && !t.Stops
}

// once is a run of an occurrence that has no other, and is complete; firstRun is one with no
// occurrence before it, single one with none after it either.
func once(e *evidence, r *RunAudit) bool {
	return r.Outcome == Done && len(grouped(e.audit.Runs, (*RunAudit).of)[r.of()]) == 1
}

func firstRun(e *evidence, r *RunAudit) bool { return once(e, r) && r.Occurrence == 1 }
func single(e *evidence, r *RunAudit) bool   { return once(e, r) && e.rowOf(r.Task).Cron == "" }

// another starts an occurrence once more, some time after a run.
func (e *evidence) another(r *RunAudit, fence, at int64, outcome State) {
	again := *r
	again.Fence, again.PickedUS, again.StartedUS, again.EndedUS = fence, at, at, at+1
	again.Outcome = outcome
	e.audit.Runs = append(e.audit.Runs, again)
	for i := range e.audit.Tasks {
		if row := &e.audit.Tasks[i]; row.Task == r.Task {
			row.Fence = max(row.Fence, fence)
		}
	}
}

// noRuns takes away the runs of a task.
func (e *evidence) noRuns(task uint64) {
	e.audit.Runs = slices.DeleteFunc(e.audit.Runs, func(r RunAudit) bool { return r.Task == task })
}

// changed has a user change a task.
func (e *evidence) changed(task uint64, what string, outcome State, at int64) {
	e.audit.Changes = append(e.audit.Changes, ChangeAudit{Op: 1<<50 + uint64(len(e.audit.Changes)),
		Task: task, What: what, Outcome: outcome, AtUS: at})
}

// effectOf is the effect of an occurrence.
func effectOf(e *evidence, r *RunAudit) *EffectAudit {
	return grouped(e.audit.Effects, (*EffectAudit).of)[r.of()][0]
}

func runCorruptions() []corruption {
	due := func(do func(*RunAudit)) edit {
		return onRun(completed, func(_ *evidence, r *RunAudit) { do(r) })
	}
	return []corruption{
		{"a complete run is lost", AllRun, onRun(func(e *evidence, r *RunAudit) bool {
			return once(e, r) && e.rowOf(r.Task).State == Done
		}, func(e *evidence, r *RunAudit) {
			gone := r.of()
			e.audit.Runs = slices.DeleteFunc(e.audit.Runs, func(o RunAudit) bool { return o.of() == gone })
		})},
		{"an occurrence runs for another time", AllRun, due(func(r *RunAudit) { r.DueUS -= 60_000_000 })},
		{"a run that is not due", NoPhantomRuns, due(func(r *RunAudit) { r.DueUS -= 60_000_000 })},
		{"a run of one occurrence more", NoPhantomRuns, due(func(r *RunAudit) { r.Occurrence += 7 })},
		{"a run of no task", NoPhantomRuns, due(func(r *RunAudit) { r.Task = 1 << 40 })},
		{"too little work", NoPhantomRuns, due(func(r *RunAudit) { r.EndedUS = r.StartedUS })},
		{"done, and should have failed", NoPhantomRuns, onRun(func(_ *evidence, r *RunAudit) bool {
			return r.Outcome == Failed
		}, func(_ *evidence, r *RunAudit) { r.Outcome = Done })},
		{"a start before its time", NeverEarly, due(func(r *RunAudit) { r.StartedUS = r.DueUS - 1 })},
		{"an end before its time", NeverEarly, due(func(r *RunAudit) {
			r.StartedUS, r.EndedUS = r.DueUS, r.DueUS-1
		})},
		{"a lower token ends", FencedRuns, onRun(completed, func(e *evidence, r *RunAudit) {
			e.another(r, r.Fence+1, r.StartedUS, Fenced)
		})},
		{"an effect by a lower token", FencedRuns, onRun(once, func(e *evidence, r *RunAudit) {
			effectOf(e, r).AtUS = r.EndedUS + 5
			e.another(r, r.Fence+1, r.EndedUS+1, Fenced)
		})},
		{"an effect of nobody", OneEffect, onRun(completed, func(e *evidence, r *RunAudit) {
			effectOf(e, r).Fence += 9
		})},
	}
}

func finalCorruptions() []corruption {
	again := func(outcome State, fits func(*evidence, *RunAudit) bool) edit {
		return onRun(fits, func(e *evidence, r *RunAudit) {
			r.Outcome = outcome
			e.audit.Changes = slices.DeleteFunc(e.audit.Changes, func(c ChangeAudit) bool {
				return c.Task == r.Task
			})
			e.another(r, r.Fence+1, r.EndedUS+1, Fenced)
		})
	}
	ended := func(t *TaskAudit) bool { return t.State == Done }
	return []corruption{
		{"done and started again", FinalStates, again(Done, completed)},
		{"cancelled while it ran and started again", FinalStates, again(Cancelled, once)},
		{"failed and started again", FinalStates, again(Failed, once)},
		{"a token that falls", FinalStates, onRun(completed, func(e *evidence, r *RunAudit) {
			e.another(r, r.Fence-1, r.StartedUS+1, Fenced)
		})},
		{"started too often", FinalStates, onRun(once, func(e *evidence, r *RunAudit) {
			n := int64(e.params.MaxAttempts * (1 + len(e.audit.Changes)))
			for first := *r; n > 0; n-- {
				e.another(&first, first.Fence+n, first.StartedUS+n, Fenced)
			}
		})},
		{"taken back too late", FinalStates, onRun(
			func(_ *evidence, r *RunAudit) bool { return r.Outcome == Lost },
			func(_ *evidence, r *RunAudit) { r.LeaseUS = r.EndedUS - 201_000 })},
		{"a lease that nobody sees end", FinalStates, onLook(func(l *Look) { l.LeaseUS = 201_000 })},
		{"done, and something else at the end", FinalStates, func(e *evidence, pick func(int) int) bool {
			state := []State{Failed, Waiting, Picked, Running, Cancelled}[pick(5)]
			return onTask(ended, func(_ *evidence, t *TaskAudit) { t.State = state })(e, pick)
		}},
		{"running for ever", FinalStates, onTask(ended, func(e *evidence, t *TaskAudit) {
			t.State, t.LeaseUS = Running, e.audit.Now-24*time.Hour.Microseconds()
		})},
	}
}

// delay starts a run later than it may.
func delay(by int64) func(*evidence, *RunAudit) {
	return func(e *evidence, r *RunAudit) {
		for _, c := range e.audit.Changes {
			if c.Task == r.Task {
				r.StartedUS = max(r.StartedUS, c.AtUS)
			}
		}
		r.StartedUS += by
		r.EndedUS = r.StartedUS + 1
	}
}

func timeCorruptions() []corruption {
	return []corruption{
		{"a start too late", StartsInTime, onRun(firstRun, delay(1_000_001))},
		{"a wait too long", NoStarvation, onRun(firstRun, delay(900_001))},
		{"a due task that nobody starts", NoStarvation, onLook(func(l *Look) {
			l.Due, l.DueUS = 1, 900_001
		})},
		{"a task that waits for ever", AllRun, onTask(settledOnce, func(e *evidence, t *TaskAudit) {
			t.State = Waiting
			e.noRuns(t.Task)
			e.audit.Now += time.Hour.Microseconds()
		})},
	}
}

func changeCorruptions() []corruption {
	started := func(e *evidence, c *ChangeAudit) {
		e.audit.Runs = append(e.audit.Runs, RunAudit{Task: c.Task, Occurrence: 1, Fence: 77,
			Queue: "queue-1", DueUS: c.AtUS - 2, PickedUS: c.AtUS, StartedUS: c.AtUS + 1})
	}
	return []corruption{
		{"cancelled and started", CancelledRests, onChange(KindCancel, Cancelled, started)},
		{"paused and started", CancelledRests, onChange(KindPause, Paused, started)},
		{"cancelled while it ran, and started for another time", CancelledRests, onRun(once,
			func(e *evidence, r *RunAudit) { e.changed(r.Task, KindCancel, Stopping, r.StartedUS-1) })},
		{"cancelled while it ran, ended, and started again", CancelledRests, onRun(once,
			func(e *evidence, r *RunAudit) {
				e.changed(r.Task, KindCancel, Stopping, r.StartedUS)
				e.another(r, r.Fence+1, r.EndedUS+1, Fenced)
			})},
		{"cancelled, and an effect later", CancelledRests, onRun(single, func(e *evidence, r *RunAudit) {
			e.changed(r.Task, KindCancel, Cancelled, r.EndedUS)
			effectOf(e, r).AtUS = r.EndedUS + 1
		})},
		{"run again, and as if it were not", NoPhantomRuns, onChange(KindRerun, Waiting,
			func(e *evidence, c *ChangeAudit) { e.rowOf(c.Task).Fails = true })},
		{"cancelled and waiting", CancelledRests, onChange(KindCancel, Cancelled,
			func(e *evidence, c *ChangeAudit) { e.rowOf(c.Task).State = Waiting })},
	}
}

func taskCorruptions() []corruption {
	row := func(do func(*TaskAudit)) edit {
		return onTask(func(t *TaskAudit) bool { return t.Cron == "" },
			func(_ *evidence, t *TaskAudit) { do(t) })
	}
	return []corruption{
		{"another task", NoPhantomRuns, row(func(t *TaskAudit) { t.WorkMS++ })},
		{"another time", NoPhantomRuns, row(func(t *TaskAudit) { t.FirstUS += 60_000_000 })},
		{"a task that fails, and should not", NoPhantomRuns, row(func(t *TaskAudit) {
			t.Fails = !t.Fails
		})},
		{"once, and inserted again", NoPhantomRuns, row(func(t *TaskAudit) { t.Origin = false })},
	}
}
