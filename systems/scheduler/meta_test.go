package scheduler_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/sut"
	"stampede/harness/suttest"
	"stampede/systems/scheduler"
)

const ms = time.Millisecond

// smallParams is a morning of a few seconds in which everything happens.
func smallParams() scheduler.Params {
	p := scheduler.DefaultParams()
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
func goodRun(t tb) *evidence {
	t.Helper()
	return morningOf(t, 1, smallParams(), trouble{}, 200)
}

// TestGoodRunHolds: without trouble all is decided, whatever the seed, however tasks recur and
// in whatever order changes are listed.
func TestGoodRunHolds(t *testing.T) {
	for seed := range uint64(10) {
		for _, recurrence := range []string{scheduler.Reset, scheduler.Insert} {
			p := smallParams()
			p.Recurrence = recurrence
			e := morningOf(t, seed, p, trouble{}, 200)
			if seed%2 == 1 {
				slices.Reverse(e.audit.Changes)
			}
			for name, v := range e.judge(t) {
				if v.Status != check.Held {
					t.Errorf("seed %d, %s: %s is %s: %s", seed, recurrence, name, v.Status, v.Reason)
				}
			}
		}
	}
}

// TestCorrectSchedulerIsNeverBroken: the judges are sound.
func TestCorrectSchedulerIsNeverBroken(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		share := rapid.Float64Range(0, 0.3)
		p := smallParams()
		p.Recurrence = rapid.SampledFrom([]string{scheduler.Reset, scheduler.Insert}).
			Draw(t, "recurrence")
		p.Recurring, p.Cancel = share.Draw(t, "recurring"), share.Draw(t, "cancel")
		p.Pause, p.Poison = share.Draw(t, "pause"), share.Draw(t, "poison")
		p.Aligned = share.Draw(t, "aligned")
		mishap := rapid.Float64Range(0, 0.15)
		tr := trouble{suttest.DrawTrouble(t), mishap.Draw(t, "dies"), mishap.Draw(t, "sleeps")}
		e := morningOf(t, rapid.Uint64().Draw(t, "seed"), p, tr, rapid.IntRange(0, 100).Draw(t, "ops"))
		for name, v := range e.judge(t) {
			if v.Status == check.Broken {
				t.Fatalf("%s is broken: %+v", name, v.Violations)
			}
		}
	})
}

// corruption is one thing that a correct scheduler never does.
type corruption struct {
	name, breaks string
	// do changes the evidence; pick draws one of so many. It returns false if the
	// run has nothing to change.
	do func(e *evidence, pick func(n int) int) bool
}

// corruptSeeds is how many mornings with trouble each corruption is tried on.
const corruptSeeds uint64 = 8

// TestCorruptionsAreCaught: each clause refuses a run that differs from a good one
// in one thing, also in the midst of unknown outcomes and of executors that die.
func TestCorruptionsAreCaught(t *testing.T) {
	for _, c := range slices.Concat(runCorruptions(), effectCorruptions(), timeCorruptions(),
		changeCorruptions(), taskCorruptions()) {
		t.Run(c.name, func(t *testing.T) {
			e := goodRun(t)
			if !c.do(e, theFirst) {
				e = morningOf(t, 1, smallParams(), trouble{dies: 0.1, sleeps: 0.1}, 200)
				if !c.do(e, theFirst) {
					t.Fatal("no run has anything to corrupt")
				}
			}
			if v := e.verdict(t, c.breaks); v.Status != check.Broken {
				t.Errorf("good run: %s is %s: %s", c.breaks, v.Status, v.Reason)
			}
			for seed := range corruptSeeds {
				rng := rand.New(rand.NewPCG(seed, 2))
				tr := trouble{suttest.Trouble{LostRequest: 0.02, LostReply: 0.02, Late: 0.02,
					Dropped: 0.02}, 0.03, 0.03}
				e := morningOf(t, seed, smallParams(), tr, 60)
				if !c.do(e, rng.IntN) {
					continue
				}
				if v := e.verdict(t, c.breaks); v.Status != check.Broken || v.Count == 0 {
					t.Errorf("seed %d: %s is %s: %s", seed, c.breaks, v.Status, v.Reason)
				}
			}
		})
	}
}

// theFirst picks it.
func theFirst(int) int { return 0 }

// onRun changes a run that fits.
func onRun(
	fits func(e *evidence, r *scheduler.RunAudit) bool,
	change func(e *evidence, r *scheduler.RunAudit),
) func(*evidence, func(int) int) bool {
	return func(e *evidence, pick func(int) int) bool {
		r := suttest.PickFrom(e.audit.Runs, pick, func(r *scheduler.RunAudit) bool {
			return fits(e, r)
		})
		if r != nil {
			change(e, r)
		}
		return r != nil
	}
}

func done(_ *evidence, r *scheduler.RunAudit) bool { return r.Outcome == scheduler.Done }

// acked says whether a task's request was acknowledged.
func acked(e *evidence, task uint64) bool {
	return slices.ContainsFunc(e.records, func(r history.Record) bool {
		return r.Op.ID == task && r.Outcome == history.OK
	})
}

// another starts an occurrence once more, some time after a run.
func (e *evidence) another(r *scheduler.RunAudit, fence, at int64) {
	again := *r
	again.Fence, again.PickedUS, again.StartedUS, again.EndedUS = fence, at, at, at+1
	again.Outcome = scheduler.Fenced
	e.audit.Runs = append(e.audit.Runs, again)
}

// once is a run of an occurrence that has no other.
func once(e *evidence, r *scheduler.RunAudit) bool {
	n := 0
	for _, o := range e.audit.Runs {
		if o.Task == r.Task && o.Occurrence == r.Occurrence {
			n++
		}
	}
	return n == 1 && r.Outcome == scheduler.Done
}

func runCorruptions() []corruption {
	const day = 24 * 3600 * 1_000_000
	return []corruption{
		{"a complete run is lost", scheduler.AllRun, func(e *evidence, pick func(int) int) bool {
			r := suttest.PickFrom(e.audit.Runs, pick, func(r *scheduler.RunAudit) bool {
				i := slices.IndexFunc(e.audit.Tasks, func(t scheduler.TaskAudit) bool {
					return t.Task == r.Task
				})
				return once(e, r) && e.audit.Tasks[i].State == scheduler.Done
			})
			if r == nil {
				return false
			}
			gone := *r
			e.audit.Runs = slices.DeleteFunc(e.audit.Runs, func(o scheduler.RunAudit) bool {
				return o.Task == gone.Task && o.Occurrence == gone.Occurrence
			})
			return true
		}},
		{"an occurrence runs for another time", scheduler.AllRun, onRun(done,
			func(_ *evidence, r *scheduler.RunAudit) { r.DueUS -= 60_000_000 })},
		{"a run that is not due", scheduler.NoPhantomRuns, onRun(done,
			func(_ *evidence, r *scheduler.RunAudit) { r.DueUS -= 60_000_000 })},
		{"a run of one occurrence more", scheduler.NoPhantomRuns, onRun(done,
			func(_ *evidence, r *scheduler.RunAudit) { r.Occurrence += 7 })},
		{"a run of no task", scheduler.NoPhantomRuns, onRun(done,
			func(_ *evidence, r *scheduler.RunAudit) { r.Task = 1 << 40 })},
		{"a start before its time", scheduler.NeverEarly, onRun(done,
			func(_ *evidence, r *scheduler.RunAudit) { r.StartedUS = r.DueUS - 1 })},
		{"an end before its time", scheduler.NeverEarly, onRun(done,
			func(_ *evidence, r *scheduler.RunAudit) { r.StartedUS, r.EndedUS = r.DueUS, r.DueUS-1 })},
		{"an effect before its time", scheduler.NeverEarly, onRun(done,
			func(e *evidence, r *scheduler.RunAudit) {
				r.StartedUS = r.DueUS
				effectOf(e, r).AtUS = r.DueUS - 1
			})},
		{"two runs with one token", scheduler.FencedRuns, onRun(done,
			func(e *evidence, r *scheduler.RunAudit) { e.another(r, r.Fence, r.StartedUS+1) })},
		{"a lower token ends", scheduler.FencedRuns, onRun(done,
			func(e *evidence, r *scheduler.RunAudit) { e.another(r, r.Fence+1, r.StartedUS) })},
		{"done and started again", scheduler.FinalStates, onRun(done,
			func(e *evidence, r *scheduler.RunAudit) { e.another(r, r.Fence+1, r.EndedUS+1) })},
		{"cancelled while it ran and started again", scheduler.FinalStates, onRun(once,
			func(e *evidence, r *scheduler.RunAudit) {
				r.Outcome = scheduler.Cancelled
				e.another(r, r.Fence+1, r.EndedUS+1)
			})},
		{"failed and started again", scheduler.FinalStates, onRun(
			func(_ *evidence, r *scheduler.RunAudit) bool { return r.Outcome == scheduler.Failed },
			func(e *evidence, r *scheduler.RunAudit) {
				e.audit.Changes = slices.DeleteFunc(e.audit.Changes, func(c scheduler.ChangeAudit) bool {
					return c.Task == r.Task
				})
				e.another(r, r.Fence+1, r.EndedUS+1)
			})},
		{"a token that falls", scheduler.FinalStates, onRun(done,
			func(e *evidence, r *scheduler.RunAudit) { e.another(r, r.Fence-1, r.StartedUS+1) })},
		{"started too often", scheduler.FinalStates, onRun(once,
			func(e *evidence, r *scheduler.RunAudit) {
				reruns := 0
				for _, c := range e.audit.Changes {
					if c.Task == r.Task && c.What == scheduler.KindRerun {
						reruns++
					}
				}
				for n := range e.params.MaxAttempts * (1 + reruns) {
					e.another(r, r.Fence+int64(n)+1, r.StartedUS+int64(n)+1)
				}
			})},
		{"taken back too late", scheduler.FinalStates, onRun(
			func(_ *evidence, r *scheduler.RunAudit) bool { return r.Outcome == scheduler.Lost },
			func(_ *evidence, r *scheduler.RunAudit) { r.LeaseUS = r.EndedUS - 201_000 })},
		{"a lease that nobody sees end", scheduler.FinalStates, func(e *evidence, _ func(int) int) bool {
			return e.look(func(l *scheduler.Look) { l.LeaseUS = 201_000 })
		}},
		{"done, and failed at the end", scheduler.FinalStates, onDone(scheduler.Failed)},
		{"done, and waiting at the end", scheduler.FinalStates, onDone(scheduler.Waiting)},
		{"done, and picked at the end", scheduler.FinalStates, onDone(scheduler.Picked)},
		{"done, and running at the end", scheduler.FinalStates, onDone(scheduler.Running)},
		{"done, and cancelled at the end", scheduler.FinalStates, onDone(scheduler.Cancelled)},
		{"running for ever", scheduler.FinalStates, func(e *evidence, pick func(int) int) bool {
			row := suttest.PickFrom(e.audit.Tasks, pick, func(t *scheduler.TaskAudit) bool {
				return t.State == scheduler.Done
			})
			if row == nil {
				return false
			}
			row.State, row.LeaseUS = scheduler.Running, e.audit.Now-day
			return true
		}},
	}
}

// onDone gives the row of an occurrence that is complete another state.
func onDone(state scheduler.State) func(*evidence, func(int) int) bool {
	return func(e *evidence, pick func(int) int) bool {
		row := suttest.PickFrom(e.audit.Tasks, pick, func(t *scheduler.TaskAudit) bool {
			return t.State == scheduler.Done
		})
		if row != nil {
			row.State = state
		}
		return row != nil
	}
}

// look changes the last look of the gauge; false if there is none.
func (e *evidence) look(change func(*scheduler.Look)) bool {
	if len(e.samples) == 0 {
		return false
	}
	s := &e.samples[len(e.samples)-1]
	s.Body = scheduler.ChangeLook(s.Body, change)
	return true
}

// effectOf is the effect of an occurrence.
func effectOf(e *evidence, r *scheduler.RunAudit) *scheduler.EffectAudit {
	i := slices.IndexFunc(e.audit.Effects, func(f scheduler.EffectAudit) bool {
		return f.Task == r.Task && f.Occurrence == r.Occurrence
	})
	return &e.audit.Effects[i]
}

func effectCorruptions() []corruption {
	return []corruption{
		{"an effect twice", scheduler.OneEffect, onRun(done,
			func(e *evidence, r *scheduler.RunAudit) {
				e.audit.Effects = append(e.audit.Effects, *effectOf(e, r))
			})},
		{"complete without effect", scheduler.OneEffect, onRun(done,
			func(e *evidence, r *scheduler.RunAudit) {
				e.audit.Effects = slices.DeleteFunc(e.audit.Effects, func(f scheduler.EffectAudit) bool {
					return f.Task == r.Task && f.Occurrence == r.Occurrence
				})
			})},
		{"complete twice", scheduler.OneEffect, onRun(once,
			func(e *evidence, r *scheduler.RunAudit) {
				e.another(r, r.Fence+1, r.EndedUS+1)
				e.audit.Runs[len(e.audit.Runs)-1].Outcome = scheduler.Done
			})},
		{"an effect of nobody", scheduler.OneEffect, onRun(done,
			func(e *evidence, r *scheduler.RunAudit) { effectOf(e, r).Fence += 9 })},
		{"an effect by a lower token", scheduler.FencedRuns, onRun(once,
			func(e *evidence, r *scheduler.RunAudit) {
				e.another(r, r.Fence+1, r.EndedUS+1)
				effectOf(e, r).AtUS = r.EndedUS + 5
			})},
	}
}

// firstRun is the first run of an occurrence, with nothing before it.
func firstRun(e *evidence, r *scheduler.RunAudit) bool { return once(e, r) && r.Occurrence == 1 }

// delay starts a run later than it may.
func delay(by int64) func(*evidence, *scheduler.RunAudit) {
	return func(e *evidence, r *scheduler.RunAudit) {
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
		{"a start too late", scheduler.StartsInTime, onRun(firstRun, delay(1_000_001))},
		{"a wait too long", scheduler.NoStarvation, onRun(firstRun, delay(900_001))},
		{"a due task that nobody starts", scheduler.NoStarvation,
			func(e *evidence, _ func(int) int) bool {
				return e.look(func(l *scheduler.Look) { l.Due, l.DueUS = 1, 900_001 })
			}},
		{"left at the end", scheduler.NoStarvation, func(e *evidence, pick func(int) int) bool {
			row := suttest.PickFrom(e.audit.Tasks, pick, func(t *scheduler.TaskAudit) bool {
				return t.State == scheduler.Done && t.Cron == ""
			})
			if row == nil {
				return false
			}
			row.State, row.DueUS, row.ReadyUS = scheduler.Picked, e.audit.Now-900_001, 0
			e.audit.Runs = slices.DeleteFunc(e.audit.Runs, func(r scheduler.RunAudit) bool {
				return r.Task == row.Task
			})
			return true
		}},
	}
}

// onChange changes a change of a kind, with an outcome.
func onChange(
	what string, outcome scheduler.State, change func(e *evidence, c *scheduler.ChangeAudit) bool,
) func(*evidence, func(int) int) bool {
	return func(e *evidence, pick func(int) int) bool {
		c := suttest.PickFrom(e.audit.Changes, pick, func(c *scheduler.ChangeAudit) bool {
			return c.What == what && c.Outcome == outcome
		})
		return c != nil && change(e, c)
	}
}

// ghost starts a task at a moment.
func (e *evidence) ghost(task uint64, at int64) {
	e.audit.Runs = append(e.audit.Runs, scheduler.RunAudit{Task: task, Occurrence: 1, Fence: 77,
		Queue: "queue-1", DueUS: at - 2, PickedUS: at - 1, StartedUS: at})
}

// stopping cancels the task of a run while it runs.
func (e *evidence) stopping(r *scheduler.RunAudit) {
	e.audit.Changes = append(e.audit.Changes, scheduler.ChangeAudit{Op: 1 << 50, Task: r.Task,
		What: scheduler.KindCancel, Outcome: scheduler.Stopping, AtUS: r.StartedUS})
}

// TestStartsAfterACancel: what correct designs do after a cancel that came while a task
// ran breaks nothing: a run that was lost is made up for, and a task that failed runs
// again where somebody wants it to.
func TestStartsAfterACancel(t *testing.T) {
	for name, change := range map[string]func(e *evidence, r *scheduler.RunAudit){
		"lost and started again": func(_ *evidence, r *scheduler.RunAudit) {
			r.Outcome, r.LeaseUS = scheduler.Lost, r.EndedUS
		},
		"failed and run again": func(e *evidence, r *scheduler.RunAudit) {
			r.Outcome = scheduler.Failed
			e.audit.Changes = append(e.audit.Changes, scheduler.ChangeAudit{Op: 1<<50 + 1, Task: r.Task,
				What: scheduler.KindRerun, Outcome: scheduler.Waiting, AtUS: r.EndedUS})
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := goodRun(t)
			if !onRun(once, func(e *evidence, r *scheduler.RunAudit) {
				e.stopping(r)
				change(e, r)
				second := len(e.audit.Runs)
				e.another(r, r.Fence+1, r.EndedUS+1)
				e.audit.Runs[second].Outcome = scheduler.Done
			})(e, theFirst) {
				t.Fatal("nothing ran once")
			}
			for _, inv := range []string{scheduler.FinalStates, scheduler.CancelledRests} {
				if v := e.verdict(t, inv); v.Status != check.Held {
					t.Errorf("%s is %s: %+v", inv, v.Status, v.Violations)
				}
			}
		})
	}
}

func changeCorruptions() []corruption {
	started := func(e *evidence, task uint64) bool {
		return slices.ContainsFunc(e.audit.Runs, func(r scheduler.RunAudit) bool {
			return r.Task == task
		})
	}
	return []corruption{
		{"cancelled and started", scheduler.CancelledRests, onChange(scheduler.KindCancel,
			scheduler.Cancelled, func(e *evidence, c *scheduler.ChangeAudit) bool {
				e.ghost(c.Task, c.AtUS+1)
				return true
			})},
		{"paused and started", scheduler.CancelledRests, onChange(scheduler.KindPause,
			scheduler.Paused, func(e *evidence, c *scheduler.ChangeAudit) bool {
				e.ghost(c.Task, c.AtUS+1)
				return true
			})},
		{"cancelled while it ran, and started for another time", scheduler.CancelledRests,
			func(e *evidence, pick func(int) int) bool {
				r := suttest.PickFrom(e.audit.Runs, pick, func(r *scheduler.RunAudit) bool {
					return once(e, r)
				})
				if r == nil {
					return false
				}
				e.audit.Changes = append(e.audit.Changes, scheduler.ChangeAudit{Op: 1 << 50, Task: r.Task,
					What: scheduler.KindCancel, Outcome: scheduler.Stopping, AtUS: r.StartedUS - 1})
				return true
			}},
		{"cancelled while it ran, ended, and started again", scheduler.CancelledRests,
			func(e *evidence, pick func(int) int) bool {
				r := suttest.PickFrom(e.audit.Runs, pick, func(r *scheduler.RunAudit) bool {
					return once(e, r)
				})
				if r == nil {
					return false
				}
				e.stopping(r)
				e.another(r, r.Fence+1, r.EndedUS+1)
				return true
			}},
		{"cancelled and waiting", scheduler.CancelledRests, onChange(scheduler.KindCancel,
			scheduler.Cancelled, func(e *evidence, c *scheduler.ChangeAudit) bool {
				for i := range e.audit.Tasks {
					if e.audit.Tasks[i].Task == c.Task {
						e.audit.Tasks[i].State = scheduler.Waiting
					}
				}
				return true
			})},
		{"a cancel that is forgotten", scheduler.CancelledRests,
			func(e *evidence, pick func(int) int) bool {
				rec := suttest.PickFrom(e.records, pick, func(r *history.Record) bool {
					return r.Op.Kind == scheduler.KindCancel && r.Outcome == history.OK
				})
				if rec == nil {
					return false
				}
				e.audit.Changes = slices.DeleteFunc(e.audit.Changes, func(c scheduler.ChangeAudit) bool {
					return c.Op == rec.Op.ID
				})
				return true
			}},
		{"a change that nobody wanted", scheduler.NoPhantomRuns, onChange(scheduler.KindCancel,
			scheduler.Cancelled, func(_ *evidence, c *scheduler.ChangeAudit) bool {
				c.Op = 1 << 50
				return true
			})},
		{"a change of another kind", scheduler.NoPhantomRuns, onChange(scheduler.KindCancel,
			scheduler.Cancelled, func(_ *evidence, c *scheduler.ChangeAudit) bool {
				c.What = scheduler.KindPause
				return true
			})},
		{"a refused change", scheduler.NoPhantomRuns, func(e *evidence, pick func(int) int) bool {
			rec := suttest.PickFrom(e.records, pick, func(r *history.Record) bool {
				tried := func(o history.Record) bool {
					return o.Op.ID == r.Op.ID && (o.Outcome == history.OK || o.Outcome == history.Unknown)
				}
				return r.Op.Kind == scheduler.KindCancel && r.Outcome == history.Refused &&
					!slices.ContainsFunc(e.records, tried)
			})
			if rec == nil {
				return false
			}
			e.audit.Changes = append(e.audit.Changes, scheduler.ChangeAudit{Op: rec.Op.ID,
				Task: rec.Op.ID &^ 0xff, What: scheduler.KindCancel, Outcome: scheduler.Stopping,
				AtUS: e.audit.Now})
			return !started(e, 0)
		}},
	}
}

// onTask changes the row of a task that runs once.
func onTask(change func(*scheduler.TaskAudit)) func(*evidence, func(int) int) bool {
	return func(e *evidence, pick func(int) int) bool {
		row := suttest.PickFrom(e.audit.Tasks, pick, func(t *scheduler.TaskAudit) bool {
			return t.Cron == ""
		})
		if row != nil {
			change(row)
		}
		return row != nil
	}
}

func taskCorruptions() []corruption {
	return []corruption{
		{"an acknowledged task is lost", scheduler.AllRun, func(e *evidence, pick func(int) int) bool {
			row := suttest.PickFrom(e.audit.Tasks, pick, func(t *scheduler.TaskAudit) bool {
				return t.Origin && acked(e, t.Task)
			})
			if row == nil {
				return false
			}
			gone := row.Task
			e.audit.Tasks = slices.DeleteFunc(e.audit.Tasks, func(t scheduler.TaskAudit) bool {
				return t.Task == gone
			})
			return true
		}},
		{"a task that waits for ever", scheduler.AllRun, func(e *evidence, pick func(int) int) bool {
			row := suttest.PickFrom(e.audit.Tasks, pick, func(t *scheduler.TaskAudit) bool {
				return t.State == scheduler.Done && t.Cron == ""
			})
			if row == nil {
				return false
			}
			row.State = scheduler.Waiting
			e.audit.Runs = slices.DeleteFunc(e.audit.Runs, func(r scheduler.RunAudit) bool {
				return r.Task == row.Task
			})
			e.audit.Now += 3_600_000_000
			return true
		}},
		{"a task that nobody asked for", scheduler.NoPhantomRuns, onTask(
			func(t *scheduler.TaskAudit) { t.Task = 1 << 40 })},
		{"another task", scheduler.NoPhantomRuns, onTask(
			func(t *scheduler.TaskAudit) { t.Name += "x" })},
		{"another time", scheduler.NoPhantomRuns, onTask(
			func(t *scheduler.TaskAudit) { t.FirstUS += 60_000_000 })},
		{"once, and inserted again", scheduler.NoPhantomRuns, onTask(
			func(t *scheduler.TaskAudit) { t.Origin = false })},
		{"a refused task", scheduler.NoPhantomRuns, func(e *evidence, pick func(int) int) bool {
			row := suttest.PickFrom(e.audit.Tasks, pick, func(t *scheduler.TaskAudit) bool {
				return t.Origin
			})
			if row == nil {
				return false
			}
			for i := range e.records {
				if r := &e.records[i]; r.Op.ID == row.Task && r.Outcome != history.Dropped {
					r.Outcome = history.Refused
				}
			}
			return true
		}},
	}
}
