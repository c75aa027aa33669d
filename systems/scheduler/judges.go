package scheduler

import (
	"math"
	"slices"
	"time"

	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/sut"
)

// Names of the invariants, as variants list them in Breaks and NotApplicable.
// They are TS1 to TS9 of the literature on this system's design.
const (
	AllRun         = "every-occurrence-runs"
	OneEffect      = "one-effect"
	NeverEarly     = "never-early"
	StartsInTime   = "starts-in-time"
	FencedRuns     = "fenced-runs"
	FinalStates    = "final-states"
	CancelledRests = "cancelled-never-starts"
	NoPhantomRuns  = "no-phantom-runs"
	NoStarvation   = "no-starvation"
)

// Invariants returns the nine statements about a scheduler with the given parameters. Each
// judges from the history and the Audit alone.
func Invariants(p Params) []check.Invariant {
	s := subject(p)
	said := (&final{api: API()}).said
	granted := func(kinds ...string) check.Effects {
		return check.Effects{Table: grantedFact, Kind: check.Kind{Names: kinds, Says: said}}
	}
	changes := []string{KindCancel, KindPause, KindResume, KindRerun}
	requests := granted(append(changes, KindSchedule)...)
	return []check.Invariant{
		s.State(AllRun, "every acknowledged task exists, and each of its due occurrences has a complete "+
			"run, unless it was cancelled, is paused or failed", requested(judgeAllRun)),
		s.State(OneEffect, "a complete occurrence had exactly one effect, any other occurrence at most "+
			"one", judged(judgeCompetition), check.AtMostOnce(effectFact, check.ByKey),
			check.AtMostOnce(completeFact, check.ByKey),
			check.Agree(check.Pair{A: completeFact, B: effectFact, By: check.ByKey, Subset: true}),
			check.Agree(check.Pair{A: effectFact, B: runFact, By: check.ByKey | check.ByVersion,
				Subset: true})),
		s.State(NeverEarly, "no task starts before it is due, by the database's clock",
			judged(judgeEarly)),
		s.State(StartsInTime, "outside faults, every occurrence starts within the promised time after "+
			"it was due", judged(judgeInTime)),
		s.State(FencedRuns, "no two runs of an occurrence have the same token, and once a higher token "+
			"was issued, a lower one can neither end the run nor have an effect", judged(judgeFences),
			check.AtMostOnce(runFact, check.ByKey|check.ByVersion)),
		s.State(FinalStates, "a complete occurrence stays complete, tokens increase, and a run whose "+
			"lease expired is reclaimed in time", judged(judgeFinal)),
		s.State(CancelledRests, "no task starts after it was cancelled or while it is paused, and a "+
			"task whose cancellation was acknowledged is cancelled", judged(judgeCancelled),
			check.AckedDurable(granted(changes...))),
		s.State(NoPhantomRuns, "every task, run and change was requested, with its values and its time, "+
			"by a request that was not refused, and answers say when tasks are due and have started; no "+
			"reason of a refusal is certainly false, and a repeated request adds nothing and is not denied",
			requested(judgePhantoms), check.NoPhantom(requests),
			check.AtMostOnce(grantedFact, check.ByOp|check.ByThing),
			// That a task has not failed yet is no answer to count, for a rerun waits for that.
			check.SameReply(check.Replies{Kind: requests.Kind, What: "acknowledged request",
				Sent: p.Resend > 0, Denied: func(rec *history.Record) bool {
					return slices.ContainsFunc([]error{ErrUnknownTask, ErrConflict, ErrState, ErrOpTaken},
						func(reason error) bool { return sut.RefusedFor(rec, reason) })
				}})),
		s.State(NoStarvation, "outside faults, no task of any queue waits longer than the limit, "+
			"whatever fails ahead of it", judged(judgeStarvation)),
	}
}

// judging is one invariant at work.
type judging struct {
	*check.Run
	*final
}

// judged is a clause about an audit and what was observed of the run.
func judged(judge func(*judging)) check.Clause {
	return check.OnAudit(func(r *check.Run, f *final) func() {
		if f.asked == nil {
			f.observe(r)
		}
		if f.bad != nil {
			r.Fail("%v", f.bad)
			return nil
		}
		return func() { judge(&judging{r, f}) }
	})
}

// requested is a clause about what was asked for too.
func requested(judge func(*judging)) check.Clause {
	return judged(func(j *judging) {
		if j.unread != nil {
			j.Fail("%v", j.unread)
			return
		}
		judge(j)
	})
}

// leastBeside is how many runs must have been under way beside another executor's in their
// queue, at least: executors that take turns cannot take a task from each other, and one that
// takes a batch has nobody to take it from.
const leastBeside = 10

// judgeCompetition counts the runs that were under way while another executor's was in their
// queue, and needs some. A run that does not name its executor counts for nothing: it may be
// of the same one as all others.
func judgeCompetition(j *judging) {
	queues, beside, nameless := map[string][]check.Span{}, int64(0), 0
	for _, r := range j.Runs {
		if r.Executor == "" {
			nameless++
			continue
		}
		queues[r.Queue] = append(queues[r.Queue], check.Span{Who: r.Executor,
			From: time.Duration(r.StartedUS), To: time.Duration(r.EndedUS)})
	}
	for _, spans := range queues {
		beside += check.Together(spans).Raced
	}
	j.Need(beside >= leastBeside, "%d runs were under way beside another executor's in their queue; "+
		"at least %d are needed to say whether executors take tasks from each other (%d runs do not "+
		"name theirs)", beside, leastBeside, nameless)
	j.Note("%d of %d runs were under way beside another executor's in their queue", beside,
		len(j.Runs))
}

// ended says whether a run ended its occurrence.
func (r *RunAudit) ended() bool {
	return r.Outcome == Done || r.Outcome == Failed || r.Outcome == Cancelled
}

// judgeFences looks for what a run did after a higher token was issued.
func judgeFences(j *judging) {
	lost, turned, letGo := 0, 0, 0
	for i := range j.Runs {
		r := &j.Runs[i]
		j.Checked(1)
		if r.Outcome == Lost || r.Outcome == Fenced {
			lost++
		}
		switch {
		case r.TurnedUS > 0:
			turned++
		case r.LetGoUS > 0:
			letGo++
		}
		if r.ended() {
			j.notAbove(r.of(), r.Fence, r.EndedUS, "was ended as "+string(r.Outcome))
		}
	}
	for i := range j.Effects {
		e := &j.Effects[i]
		j.notAbove(e.of(), e.Fence, e.AtUS, "had its effect")
	}
	j.Need(lost > 0 || !j.executorsBroke(), "no run was reclaimed, although a fault hit the executors")
	j.needStale(turned, letGo)
	judgeCompetition(j)
	j.Note("%d runs; %d were reclaimed, of which %d tried to end later and were rejected, and %d "+
		"were abandoned before that", len(j.Runs), lost, turned, letGo)
}

// notAbove is violated if a higher token was issued before something was done under another.
func (j *judging) notAbove(o occurrence, fence, at int64, did string) {
	for _, r := range j.runs[o] {
		if r.Fence > fence && r.StartedUS < at {
			j.Violate([]uint64{o.task}, "%v %s with token %d at %v, after token %d was issued at %v", o, did,
				fence, moment(at), r.Fence, moment(r.StartedUS))
			return
		}
	}
}

// needStale wants executors that slept through their leases to have tried to write after
// that: to end runs if they slept through all their work as well, and else at least to
// renew leases, for then they let go of all that is still under way.
func (j *judging) needStale(turned, letGo int) {
	slept := j.executorsSlept()
	j.Need(turned > 0 || slept <= j.longestWork(),
		"no run tried to end after it was reclaimed, although executors were frozen beyond their "+
			"leases and beyond the longest work")
	j.Need(turned+letGo > 0 || slept == 0,
		"no run tried to end or was abandoned after it was reclaimed, although executors were frozen "+
			"beyond their leases")
}

// judgePhantoms compares what ran with what was asked for; that rows are those of requests, a
// family judges.
func judgePhantoms(j *judging) {
	dues := map[uint64][]int64{}
	for i := range j.Tasks {
		row := &j.Tasks[i]
		a := j.asked[row.Task]
		if a == nil {
			continue
		}
		switch {
		case !row.Origin && row.Cron == "":
			j.Violate([]uint64{row.Task}, "task %d runs once, but was inserted again", row.Task)
		case row.Fails != (a.Fails && len(j.changed(row.Task, KindRerun)) == 0):
			j.Violate([]uint64{row.Task}, "task %d fails: %t after %d reruns, but was requested with %t",
				row.Task, row.Fails, len(j.changed(row.Task, KindRerun)), a.Fails)
		case row.Stops && len(j.changed(row.Task, KindCancel)) == 0:
			j.Violate([]uint64{row.Task}, "task %d is to stop, but nobody cancelled it", row.Task)
		}
		until := max(j.now, row.FirstUS)
		list, err := j.dues(a.Request, until)
		if err != nil {
			j.Fail("%v", err)
			return
		}
		if dues[row.Task] = list; len(list) == 0 || !sameDue(list[0], row.FirstUS) {
			j.Violate([]uint64{row.Task}, "task %d is first due at %v, but was requested for %v", row.Task,
				moment(row.FirstUS), a.At)
			continue
		}
		j.dueThen(row, list, until)
		j.answered(row.Task, a, list[0])
	}
	for i := range j.Runs {
		j.Checked(1)
		r := &j.Runs[i]
		switch list := dues[r.Task]; {
		case list == nil:
			j.Violate(nil, "%v ran, but its task does not exist", r.of())
		case r.Occurrence > int64(len(list)) || !sameDue(list[r.Occurrence-1], r.DueUS):
			j.Violate([]uint64{r.Task}, "%v ran for %v, but is not due then", r.of(), moment(r.DueUS))
		default:
			j.ofItsTask(r)
		}
	}
	j.answers()
	j.Need(len(j.Runs) > 0, "no task ran")
}

// judgeFinal follows each occurrence from run to run.
func judgeFinal(j *judging) {
	slack, _ := j.Promise(rescueSlack)
	j.watchLeases()
	for _, s := range j.starts {
		o := s.occurrence
		runs := slices.SortedStableFunc(slices.Values(j.runs[o]), byStart)
		j.Checked(len(runs))
		reruns := len(j.changed(o.task, KindRerun))
		if most := j.p.MaxAttempts * (1 + reruns); len(runs) > most {
			j.Violate([]uint64{o.task}, "%v was started %d times; the limit is %d", o, len(runs), most)
		}
		for i, r := range runs {
			if i > 0 && r.Fence < runs[i-1].Fence {
				j.Violate([]uint64{o.task}, "%v was started with token %d after token %d", o, r.Fence,
					runs[i-1].Fence)
			}
			if row := j.row(o); row != nil && r.Fence > row.Fence {
				j.Violate([]uint64{o.task}, "%v was started with token %d, but the last token of its task "+
					"is %d", o, r.Fence, row.Fence)
			}
			j.stays(o, r, runs[i+1:])
		}
	}
	for i := range j.Tasks {
		row := &j.Tasks[i]
		j.Checked(1)
		if row.State == Running && row.LeaseUS > 0 && j.now-row.LeaseUS > j.rescue() &&
			!j.excused(row.LeaseUS, j.now) {
			j.Late([]uint64{row.Task}, "task %d is still running at the end, %v after its lease expired",
				row.Task, micros(j.now-row.LeaseUS))
		}
		j.settled(row)
	}
	j.Need(len(j.Runs) > 0, "no task ran")
	j.Note("expired leases are noticed within %v%s", micros(j.rescue()), allowed(slack, rescueSlack))
}

// rescue is how long a lease that has ended may go unnoticed, in microseconds.
func (f *final) rescue() int64 { return f.p.RescueWithin.D().Microseconds() + f.RescueSlackUS }

// stays compares a run with those of its occurrence that started after it.
func (j *judging) stays(o occurrence, r *RunAudit, later []*RunAudit) {
	if over := r.EndedUS - r.LeaseUS; r.Outcome == Lost && r.LeaseUS > 0 && over > j.rescue() &&
		!j.excusedBut(onExecutor, r.LeaseUS, r.EndedUS) {
		j.Late([]uint64{o.task}, "%v was reclaimed %v after its lease expired", o, micros(over))
	}
	if !r.ended() {
		return
	}
	for _, next := range later {
		if next.StartedUS > r.EndedUS &&
			(r.Outcome != Failed || !j.rerun(o.task, r.EndedUS, next.StartedUS)) {
			j.Violate([]uint64{o.task}, "%v was %s at %v and started again at %v", o, r.Outcome,
				moment(r.EndedUS), moment(next.StartedUS))
		}
	}
}

// settled compares a row with the runs of the occurrence that it is at the end: one that is
// complete is done. Only a recurring task that somebody cancelled while it ran is cancelled,
// because its row would have gone on with the next. A row that went on is another occurrence,
// and what is done is neither cancelled, paused nor run again.
func (j *judging) settled(row *TaskAudit) {
	o := occurrence{row.Task, row.Occurrence}
	run := j.done(o)
	if run == nil || row.State == Done {
		return
	}
	stopped := slices.ContainsFunc(j.changed(row.Task, KindCancel), func(at int64) bool {
		return at <= run.EndedUS
	})
	if row.State != Cancelled || row.Cron == "" || !stopped {
		j.Violate([]uint64{row.Task}, "%v was done at %v, but its task is %s at the end", o,
			moment(run.EndedUS), row.State)
	}
}

// watchLeases looks whether a lease that had ended went unnoticed for too long.
func (j *judging) watchLeases() {
	for _, l := range j.looks {
		j.Checked(1)
		if l.LeaseUS > j.rescue() && !j.excusedBut(onExecutor, l.NowUS-l.LeaseUS, l.NowUS) {
			j.LateAt(l.at.To, nil, "at %v a lease had expired %v before, but its task was not reclaimed",
				l.at.To, micros(l.LeaseUS))
		}
	}
	j.follow("age of the oldest expired lease", "ms", func(l look) int64 { return l.LeaseUS / 1000 })
}

// judgeCancelled looks at what started after a change.
func judgeCancelled(j *judging) {
	for i := range j.Runs {
		r := &j.Runs[i]
		j.Checked(1)
		for _, c := range j.changes[r.Task] {
			if c.What == KindCancel && r.StartedUS > c.AtUS && !j.rerun(r.Task, c.AtUS, r.StartedUS) &&
				(c.Outcome == Cancelled || c.Outcome == Stopping && !j.takenBack(r.of(), c.AtUS)) {
				j.Violate([]uint64{r.Task}, "%v started at %v, after it was cancelled at %v", r.of(),
					moment(r.StartedUS), moment(c.AtUS))
			}
		}
		if from, paused := j.pausedAt(r.Task, r.StartedUS); paused {
			j.Violate([]uint64{r.Task}, "%v started at %v, although paused since %v", r.of(),
				moment(r.StartedUS), moment(from))
		}
	}
	before := 0
	for _, c := range j.Changes {
		if c.What != KindCancel || c.Outcome != Cancelled {
			continue
		}
		before++
		for _, row := range j.rows[c.Task] {
			j.Checked(1)
			if row.State == Waiting || row.State == Picked {
				j.Violate([]uint64{c.Task}, "task %d was cancelled, but is %s at the end", c.Task, row.State)
			}
		}
		j.rested(&c)
	}
	j.Need(before > 0, "no task was cancelled before it started")
	j.Note("%d tasks were cancelled before they started, and none started", before)
}

// rested is violated if a task that runs once was done, or had its effect, after it was cancelled.
// Of a recurring one a change may cancel a row, and leave one that runs.
func (j *judging) rested(c *ChangeAudit) {
	o := occurrence{c.Task, 1}
	if row := j.row(o); row == nil || row.Cron != "" || j.rerun(c.Task, c.AtUS, math.MaxInt64) {
		return
	}
	if r := j.done(o); r != nil && r.EndedUS > c.AtUS {
		j.Violate([]uint64{c.Task}, "%v was done at %v, after it was cancelled at %v", o,
			moment(r.EndedUS), moment(c.AtUS))
	}
	for _, e := range j.effects[o] {
		if e.AtUS > c.AtUS {
			j.Violate([]uint64{c.Task}, "%v had its effect at %v, after it was cancelled at %v", o,
				moment(e.AtUS), moment(c.AtUS))
		}
	}
}

// takenBack says whether an occurrence was under way at a moment by a run that did not
// come to its end: that it was cancelled then does not keep it from being taken back
// from who had died, and started again.
func (j *judging) takenBack(o occurrence, at int64) bool {
	return slices.ContainsFunc(j.runs[o], func(r *RunAudit) bool {
		return r.StartedUS <= at && (r.EndedUS == 0 || r.EndedUS >= at) && !r.ended()
	})
}
