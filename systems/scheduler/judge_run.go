package scheduler

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"stampede/harness/history"
)

// judgeAllRun matches what was asked for with what ran.
func judgeAllRun(j *judging) {
	slack, _ := j.Promise(startSlack)
	complete, excused := 0, 0
	for _, id := range slices.Sorted(maps.Keys(j.asked)) {
		a := j.asked[id]
		if j.origins[id] == nil {
			if a.Outcome == history.OK {
				j.Violate([]uint64{id}, "task %d was acknowledged but does not exist", id)
			} else {
				j.AllowedUnknown(1)
			}
			continue
		}
		dues, err := j.dues(a.Request, j.now)
		if err != nil {
			j.Fail("%v", err)
			return
		}
		n, m := j.matches(id, dues, j.ripe(a, dues))
		complete, excused = complete+n, excused+m
	}
	j.Need(complete > 0, "no occurrence was completed")
	j.Note("%d occurrences were completed, %d were not due, cancelled, paused or failed%s%s", complete,
		excused, j.punctuality(), allowed(slack, startSlack))
}

// ripe counts the occurrences that were due before the end of the run: by the server's clock,
// or by the run's and what the answer to the request said. The last moment that an audit
// tells of is when something last ran: of a server that has stopped that says nothing.
func (j *judging) ripe(a *asked, dues []int64) (n int) {
	for n < len(dues) && (dues[n] <= j.now || a.due != history.Never &&
		a.due+micros(dues[n]-dues[0]) <= j.until) {
		n++
	}
	return n
}

// matches looks for a complete run of each occurrence of a task, of which the first ones are
// ripe. The drain waits for what is not complete: a ripe one that is still open at the end
// was lost, unless the work was still going on when the drain gave up.
func (j *judging) matches(id uint64, dues []int64, ripe int) (complete, excused int) {
	finished := !slices.ContainsFunc(j.rows[id], func(r *TaskAudit) bool { return r.State != Done })
	for i, due := range dues {
		o := occurrence{id, int64(i + 1)}
		j.Checked(1)
		for _, r := range j.runs[o] {
			if !sameDue(r.DueUS, due) {
				j.Violate([]uint64{id}, "%v was due at %v, but its run says %v", o, moment(due),
					moment(r.DueUS))
			}
		}
		violate, why := j.Violate, j.state(o)
		switch {
		case j.done(o) != nil:
			complete++
			continue
		case finished:
			why = "its task is done"
		case j.given(o, due) || i >= ripe && j.open(o):
			excused++
			continue
		case j.stopped(o):
			violate, why = j.Late, "it should have had one before its task was cancelled or paused"
		case j.unfinished(o):
			violate = j.Unfinished
		}
		violate([]uint64{id}, "%v, due at %v, has no complete run: %s", o, moment(due), why)
	}
	return complete, excused
}

// patience is how long something may be due and not have run before somebody cancels or
// pauses it: the time in which it was to start, and that in which it works, in microseconds.
func (f *final) patience() int64 {
	return (f.p.clock(f.p.SLA) + f.longestWork() + f.p.StarveWithin.D()).Microseconds() +
		f.StartSlackUS
}

// row is the row that an occurrence is or was.
func (f *final) row(o occurrence) *TaskAudit {
	rows := f.rows[o.task]
	for _, r := range rows {
		if r.Occurrence == o.k {
			return r
		}
	}
	if len(rows) == 1 {
		return rows[0]
	}
	return nil
}

// open says whether an occurrence may still come to run: nobody has said that it will
// not.
func (f *final) open(o occurrence) bool {
	row := f.row(o)
	return row == nil || o.k < row.Occurrence ||
		row.State != Failed && row.State != Cancelled && !row.Stops && !row.Paused
}

// unfinished says whether an occurrence has its turn yet to come, or to end: its task was
// not passed over and stands where it is worked on, by one whose lease has not long ended.
// One that has no row yet comes after one that is so.
func (f *final) unfinished(o occurrence) bool {
	row := f.row(o)
	if row == nil {
		return slices.ContainsFunc(f.rows[o.task], func(r *TaskAudit) bool {
			return r.Occurrence < o.k && f.unfinished(occurrence{o.task, r.Occurrence})
		})
	}
	if row.Occurrence > o.k || row.Paused {
		return false
	}
	held := row.LeaseUS == 0 || f.now-row.LeaseUS <= f.rescue()+f.patience()
	return row.State == Waiting || row.State == Picked || row.State == Running && held
}

// given says whether an occurrence was given up for a reason, before it was overdue.
func (j *judging) given(o occurrence, due int64) bool {
	row := j.row(o)
	switch {
	case !j.stopped(o):
		return false
	case row == nil || row.State == Failed:
		return true
	case row.State == Cancelled || row.Stops:
		return !j.overdue(o, row, due, j.changed(o.task, KindCancel)[0])
	}
	return !j.overdue(o, row, due, j.now)
}

// stopped says whether an occurrence was given up for a reason: somebody cancelled the
// task or has paused it, or it failed, as its request wants, as it may after so many
// attempts, and nobody ran it again. What is cancelled or paused by nobody is no reason.
func (f *final) stopped(o occurrence) bool {
	row := f.row(o)
	cancelled := len(f.changed(o.task, KindCancel)) > 0
	_, paused := f.pausedAt(o.task, math.MaxInt64)
	switch {
	case row == nil: // it would come after one that is there
		return slices.ContainsFunc(f.rows[o.task], func(r *TaskAudit) bool {
			return (r.State == Cancelled || r.Stops) && cancelled || r.Paused && paused
		})
	case o.k < row.Occurrence: // the task went on without it
		return false
	case row.State == Failed && !row.Stops:
		return row.Fails || len(f.runs[occurrence{o.task, row.Occurrence}]) >= f.p.MaxAttempts
	case row.State == Failed || row.State == Cancelled || row.Stops:
		return cancelled
	}
	return row.Paused && paused
}

// overdue says whether an occurrence that has never started should have, long before
// somebody cancelled or paused its task, and no fault kept it from that.
func (j *judging) overdue(o occurrence, row *TaskAudit, due, until int64) bool {
	if o.k > row.Occurrence || len(j.runs[o]) > 0 {
		return false
	}
	if since, paused := j.pausedAt(o.task, until); paused {
		until = since
	}
	ready := max(due, row.CreatedUS)
	for _, resumed := range j.changed(o.task, KindResume) {
		if resumed <= until {
			ready = max(ready, resumed)
		}
	}
	for _, before := range j.runs[occurrence{o.task, o.k - 1}] {
		ready = max(ready, before.EndedUS)
	}
	return until-ready > j.patience() && !j.excused(ready, until)
}

// state says what the row of an occurrence is at the end.
func (f *final) state(o occurrence) string {
	if row := f.row(o); row != nil {
		return fmt.Sprintf("at the end its task is %s", row.State)
	}
	return "no task exists that would run it"
}

// dueThen compares when the occurrence of a row is due with all that are until some moment.
func (j *judging) dueThen(row *TaskAudit, dues []int64, until int64) {
	right := row.DueUS > until
	if row.Occurrence <= int64(len(dues)) {
		right = sameDue(dues[row.Occurrence-1], row.DueUS)
	}
	if !right {
		j.Violate([]uint64{row.Task}, "occurrence %d of task %d has the due time %v, but is not due then",
			row.Occurrence, row.Task, moment(row.DueUS))
	}
}

// answered compares when a task is first due with when its answers said that it is. They must
// be no more wrong than a start may be late: the clocks are not tied more closely for good.
func (j *judging) answered(task uint64, a *asked, due int64) {
	if !j.tied || a.due == history.Never {
		return
	}
	allowed := j.p.clock(j.p.SLA).Microseconds()
	low, high := a.from.Microseconds()+j.low, a.due.Microseconds()+j.high
	if due > high+allowed || a.from > 0 && due < low-allowed {
		j.Violate([]uint64{task}, "task %d is first due at %v, but an answer said between %v and %v",
			task, moment(due), moment(low), moment(high))
	}
}

// ofItsTask compares a run with its task: their queue, that it failed if it was to, that it worked
// as long as it was to, and that the task was there before it was picked, and picked before it
// started. The clocks that work and ends are by may run at speeds a little different.
func (j *judging) ofItsTask(r *RunAudit) {
	if origin := j.origins[r.Task]; origin != nil && origin.Queue != r.Queue {
		j.Violate([]uint64{r.Task}, "%v ran in %s, but its task is in %s", r.of(), r.Queue, origin.Queue)
	}
	switch a := j.asked[r.Task]; {
	case r.Outcome != Done:
	case a.Fails && !j.rerun(r.Task, 0, r.StartedUS):
		j.Violate([]uint64{r.Task}, "%v was done at %v, but was to fail until it was run again", r.of(),
			moment(r.EndedUS))
	case r.EndedUS-r.StartedUS < 999*a.WorkMS-1000:
		j.Violate([]uint64{r.Task}, "%v was done after %v of work, but was to work for %v", r.of(),
			micros(r.EndedUS-r.StartedUS), micros(1000*a.WorkMS))
	}
	row := j.row(r.of())
	if row == nil {
		return
	}
	if r.StartedUS < row.CreatedUS {
		j.Violate([]uint64{r.Task}, "%v started at %v, before its task was created at %v", r.of(),
			moment(r.StartedUS), moment(row.CreatedUS))
	} else if r.PickedUS > 0 && (r.PickedUS < row.CreatedUS || r.PickedUS > r.StartedUS) {
		j.Violate([]uint64{r.Task}, "%v was picked at %v, but was created at %v and started at %v",
			r.of(), moment(r.PickedUS), moment(row.CreatedUS), moment(r.StartedUS))
	}
}
