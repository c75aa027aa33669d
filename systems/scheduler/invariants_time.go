package scheduler

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/sut"
)

// look is what the gauge saw, and when.
type look struct {
	Look
	at history.Sample
}

// looks reads what the gauge saw, once.
func (j *judging) looks() []look {
	if j.watched != nil {
		return j.watched
	}
	j.watched = []look{}
	for _, s := range j.Samples() {
		if !s.Seen() {
			continue
		}
		l := look{at: s}
		if err := json.Unmarshal(s.Body, &l.Look); err != nil {
			j.Fail("the sample taken at %v cannot be read: %v", s.From, err)
			break
		}
		j.watched = append(j.watched, l)
	}
	return j.watched
}

// clocks ties the run's clock to the database's: what the second showed, less the
// first, was between low and high. Each look of the gauge is at some moment of the
// run between two known ones, and says what the database's clock showed then.
type clocks struct{ low, high int64 }

// tie compares the clocks; false if nobody looked.
func (j *judging) tie() (clocks, bool) {
	if j.clocks != nil {
		return *j.clocks, true
	}
	looks := j.looks()
	for i, l := range looks {
		low, high := l.NowUS-l.at.To.Microseconds(), l.NowUS-l.at.From.Microseconds()
		if i == 0 {
			j.clocks = &clocks{low, high}
		}
		j.clocks.low, j.clocks.high = max(j.clocks.low, low), min(j.clocks.high, high)
	}
	if j.clocks == nil {
		return clocks{}, false
	}
	// A clock that was set a little meanwhile leaves no offset that fits all.
	j.clocks.low, j.clocks.high = min(j.clocks.low, j.clocks.high), max(j.clocks.low, j.clocks.high)
	return *j.clocks, true
}

// grace is how long a fault excuses what comes late after it: until a lease has
// ended and the task is taken back, or one is handed over again, and what has piled
// up meanwhile has started.
func (j *judging) grace() time.Duration {
	found := max(j.p.Lease.D()+j.p.RescueWithin.D(), j.p.HandAgain.D())
	return found + 2*j.p.clock(j.p.SLA) + time.Second
}

// excused says whether a time on the database's clock, in microseconds, meets a
// fault, or the grace after one. Without a tie between the clocks every fault
// excuses everything.
func (j *judging) excused(from, to int64) bool {
	faults := j.Faults()
	if len(faults) == 0 {
		return false
	}
	tie, tied := j.tie()
	if !tied {
		return true
	}
	for _, f := range faults {
		end := max(f.End, f.Recovered) + j.grace()
		if to >= f.Start.Microseconds()+tie.low && from <= end.Microseconds()+tie.high {
			return true
		}
	}
	return false
}

// executorsBroke says whether a fault ended an executor that had started tasks, or put
// one to sleep for longer than a lease.
func (j *judging) executorsBroke() bool {
	return j.executorsSlept() > 0 || slices.ContainsFunc(j.Faults(), func(w history.Window) bool {
		words, did := executorFault(w)
		return did && words[0] == "crash" && slices.Contains(words, placeClaimed)
	})
}

// executorsSlept is for how long a fault put an executor to sleep at most; 0 if none did
// for longer than two leases.
func (j *judging) executorsSlept() (longest time.Duration) {
	for _, w := range j.Faults() {
		words, did := executorFault(w)
		if slept := w.End - w.Start; did && words[0] == "pause" && slept > 2*j.p.Lease.D() {
			longest = max(longest, slept)
		}
	}
	return longest
}

// executorFault reads what a fault did to an executor, if there is evidence that it did.
func executorFault(w history.Window) (words []string, did bool) {
	words = strings.Fields(w.Fault)
	return words, len(words) > 1 && strings.HasPrefix(words[1], "executor") && len(w.Evidence) > 0
}

// ready is when nothing stood in the way of an occurrence any more but the
// scheduler, on the database's clock: it was due, had been asked for, was not
// paused, and in a row that is reset the one before had ended.
func (j *judging) ready(r *RunAudit) int64 {
	at := r.DueUS
	if origin := j.t.origins[r.Task]; origin != nil {
		at = max(at, origin.CreatedUS)
	}
	for _, resumed := range j.t.changed(r.Task, KindResume, "") {
		if resumed <= r.StartedUS {
			at = max(at, resumed)
		}
	}
	for _, before := range j.t.runs[occurrence{r.Task, r.Occurrence - 1}] {
		at = max(at, min(before.EndedUS, r.StartedUS))
	}
	return at
}

// first is the run by which an occurrence was started for the first time.
func first(runs []*RunAudit) *RunAudit {
	return slices.MinFunc(runs, func(a, b *RunAudit) int { return int(a.StartedUS - b.StartedUS) })
}

// judgeEarly compares what every run tells of itself with when it was due, and that with
// when users saw tasks start. When a run started is what the design wrote, perhaps not by the
// clock: what came after the start was not early either.
func judgeEarly(j *judging) {
	for i := range j.t.Runs {
		r := &j.t.Runs[i]
		j.Checked(1)
		j.notBefore(r.DueUS, occurrence{r.Task, r.Occurrence}, "started", r.StartedUS)
		if r.EndedUS > 0 {
			j.notBefore(r.DueUS, occurrence{r.Task, r.Occurrence}, "ended", r.EndedUS)
		}
		for _, e := range j.t.effects[occurrence{r.Task, r.Occurrence}] {
			if e.Fence == r.Fence {
				j.notBefore(r.DueUS, occurrence{r.Task, r.Occurrence}, "had its effect", e.AtUS)
			}
		}
	}
	j.Need(len(j.t.Runs) > 0, "no task ran")
	if seen := j.seenEarly(); seen > 0 {
		j.Note("%d users saw their tasks start, none of them early", seen)
	}
}

// notBefore is violated if an occurrence did something before it was due.
func (j *judging) notBefore(due int64, o occurrence, did string, at int64) {
	if early := due - at; early > 0 {
		j.Violate([]uint64{o.task}, "%v was due at %v and %s %v before that", o, moment(due), did,
			micros(early))
	}
}

// seenEarly looks whether anybody was told of a start before the task was first due, by the
// judges' own reckoning and by the clock of those who asked, which lags behind the
// database's by tie.high at most. It counts those who were told of one.
func (j *judging) seenEarly() (seen int) {
	tie, tied := j.tie()
	if !tied {
		return 0
	}
	requests := j.requests()
	for rec := range j.Records(KindAwait) {
		id, err := taskOf(rec.Op.Key)
		a, origin := requests[id], j.t.origins[id]
		if rec.Outcome != history.OK || err != nil || a == nil || origin == nil {
			continue
		}
		dues, err := j.dues(a.request, max(j.now(), origin.FirstUS))
		if err != nil {
			j.Fail("%v", err)
			return seen
		}
		if len(dues) == 0 {
			continue // another invariant's: what it says to be due first is not
		}
		j.Checked(1)
		seen++
		at := rec.End.Microseconds() + tie.high
		if early := dues[0] - at; early > 0 && !sameDue(dues[0], at) {
			j.ViolateAt(rec.End, []uint64{rec.Op.ID, id}, "task %d was first due at %v, and its start was "+
				"reported at least %v before that", id, moment(dues[0]), micros(early))
		}
	}
	return seen
}

// micros is a number of microseconds.
func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

// judgeInTime measures from when an occurrence could start to when it did.
func judgeInTime(j *judging) {
	granted := j.grantsStart()
	promised := j.p.clock(j.p.SLA+j.p.LateAllowed).Microseconds() + j.t.StartSlackUS
	var judged, waived int
	for _, o := range j.t.occurrences() {
		r := first(j.t.runs[o])
		ready := j.ready(r)
		if j.excused(ready, r.StartedUS) {
			waived++
			continue
		}
		judged++
		j.Checked(1)
		if late := r.StartedUS - ready; late > promised {
			j.Late([]uint64{o.task}, "%v could start at %v and started %v later; the limit is %v", o,
				moment(ready), micros(late), micros(promised))
		}
	}
	j.follow("age of the oldest due task not yet started", "ms", func(l look) int64 {
		return l.DueUS / 1000
	})
	j.NeedTimely(judged > 0, "no task started outside faults")
	j.needScaled()
	j.Note("%d starts in time, %d near faults not "+
		"judged%s%s%s", judged, waived, j.punctuality(), j.executors(),
		granted)
}

// follow draws a quantity over the looks.
func (j *judging) follow(quantity, unit string, of func(look) int64) {
	w := check.Watched{Quantity: quantity, Unit: unit}
	for _, l := range j.looks() {
		n := of(l)
		w.Look(l.at.To, n, n, j.excused(l.NowUS, l.NowUS))
	}
	if w.Gaps = len(j.Samples()) - len(j.looks()); w.Judged+w.Excused > 0 {
		j.Watched(&w)
	}
}

// punctuality sums up how late starts were, faults included, and by how much
// starts came after picks.
func (j *judging) punctuality() string {
	var late, since []int64
	misfires := 0
	for _, o := range j.t.occurrences() {
		r := first(j.t.runs[o])
		late = append(late, r.StartedUS-j.ready(r))
		since = append(since, r.StartedUS-r.PickedUS)
		if late[len(late)-1] > j.p.clock(j.p.SLA).Microseconds() {
			misfires++
		}
	}
	if len(late) == 0 {
		return ""
	}
	slices.Sort(late)
	slices.Sort(since)
	at := func(list []int64, q float64) time.Duration {
		return micros(list[int(q*float64(len(list)-1))]).Round(time.Millisecond)
	}
	return fmt.Sprintf("; due to start p50 %v, p99 %v, max %v; %d misfires; pick to start p50 %v",
		at(late, 0.5), at(late, 0.99), at(late, 1), misfires, at(since, 0.5))
}

// needScaled wants a design that scales its executors to have asked for more of them, if
// the tasks of some minute needed twice as many as those that it began with: what it sees of
// a minute when it looks, and how long it thinks that tasks work, is a little less or more.
func (j *judging) needScaled() {
	rush, perMinute := int64(0), make(map[int64]int64)
	minute := max(1, j.p.clock(sut.Duration(time.Minute)).Microseconds())
	for _, o := range j.t.occurrences() {
		at := (j.t.runs[o][0].DueUS - j.t.Begins) / minute
		perMinute[at]++
		rush = max(rush, perMinute[at])
	}
	need := j.p.needed(rush, j.p.Work.D().Seconds())
	wanted := j.t.Scales && need >= 2*j.p.Executors && j.p.MaxFleet > j.p.Executors
	grew := slices.ContainsFunc(j.t.Fleet, func(f FleetAudit) bool {
		return f.Executors > int64(j.p.Executors)
	})
	j.Need(grew || !wanted, "no more than the initial %d executors were requested, although %d "+
		"tasks in one minute needed %d", j.p.Executors, rush, need)
}

// fleetShown is how many changes of the number of executors are listed at most.
const fleetShown = 12

// executors sums up for how long executors were wanted, in business time.
func (j *judging) executors() string {
	begins, now := j.t.Begins, j.t.Now
	if begins == 0 || now <= begins {
		return ""
	}
	total, most := int64(0), int64(j.p.Executors)
	count, since := most, begins
	sizes := fmt.Sprint(most)
	for _, f := range j.t.Fleet {
		at := min(max(f.AtUS, begins), now)
		total += count * (at - since)
		count, since, most = f.Executors, at, max(most, f.Executors)
		sizes += fmt.Sprintf(", %d", count)
	}
	total += count * (now - since)
	minutes := micros(total).Minutes() * j.p.TimeScale
	text := fmt.Sprintf("; %.0f executor-minutes, at most %d at once", minutes, most)
	if n := len(j.t.Fleet); n > 0 && n <= fleetShown {
		text += ", planned " + sizes
	}
	return text
}

// judgeFinal follows each occurrence from run to run.
func judgeFinal(j *judging) {
	granted := j.grantsRescue()
	j.leases()
	now := j.now()
	for _, o := range j.t.occurrences() {
		runs := slices.Clone(j.t.runs[o])
		slices.SortStableFunc(runs, func(a, b *RunAudit) int { return int(a.StartedUS - b.StartedUS) })
		j.Checked(len(runs))
		reruns := int64(len(j.t.changed(o.task, KindRerun, "")))
		if most := int64(j.p.MaxAttempts) * (1 + reruns); int64(len(runs)) > most {
			j.Violate([]uint64{o.task}, "%v was started %d times; the limit is %d", o, len(runs),
				most)
		}
		for i, r := range runs {
			if i > 0 && r.Fence < runs[i-1].Fence {
				j.Violate([]uint64{o.task}, "%v was started with token %d after token %d", o, r.Fence,
					runs[i-1].Fence)
			}
			j.final(o, r, runs[i+1:])
		}
	}
	for i := range j.t.Tasks {
		row := &j.t.Tasks[i]
		j.Checked(1)
		if overdue := now - row.LeaseUS - j.rescue(); row.State == Running && row.LeaseUS > 0 &&
			overdue > 0 && !j.excused(row.LeaseUS, now) {
			j.Late([]uint64{row.Task}, "task %d is still running at the end, %v after its lease expired",
				row.Task, micros(now-row.LeaseUS))
		}
		j.settled(row)
	}
	j.Need(len(j.t.Runs) > 0, "no task ran")
	j.Note("expired leases are noticed within %v%s", micros(j.rescue()), granted)
}

// rescue is how long a lease that has ended may go unnoticed, in microseconds.
func (j *judging) rescue() int64 { return j.p.RescueWithin.D().Microseconds() + j.t.RescueSlackUS }

// final compares a run with those that started after it.
func (j *judging) final(o occurrence, r *RunAudit, later []*RunAudit) {
	if over := r.EndedUS - r.LeaseUS; r.Outcome == Lost && r.LeaseUS > 0 && over > j.rescue() &&
		!j.excusedButExecutors(r.LeaseUS, r.EndedUS) {
		j.Late([]uint64{o.task}, "%v was reclaimed %v after its lease expired", o, micros(over))
	}
	if r.Outcome != Done && r.Outcome != Failed && r.Outcome != Cancelled {
		return
	}
	for _, next := range later {
		if next.StartedUS <= r.EndedUS {
			continue
		}
		if r.Outcome != Failed || !j.rerun(o.task, r.EndedUS, next.StartedUS) {
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
	run := j.t.done(o)
	if run == nil || row.State == Done {
		return
	}
	stopped := slices.ContainsFunc(j.t.changed(row.Task, KindCancel, ""), func(at int64) bool {
		return at <= run.EndedUS
	})
	if row.State != Cancelled || row.Cron == "" || !stopped {
		j.Violate([]uint64{row.Task}, "%v was done at %v, but its task is %s at the end", o,
			moment(run.EndedUS), row.State)
	}
}

// rerun says whether somebody ran a task again between two moments.
func (j *judging) rerun(task uint64, from, to int64) bool {
	return slices.ContainsFunc(j.t.changed(task, KindRerun, ""), func(at int64) bool {
		return at >= from && at <= to
	})
}

// excusedButExecutors is excused by anything but the faults by which executors
// lose their leases.
func (j *judging) excusedButExecutors(from, to int64) bool {
	tie, tied := j.tie()
	for _, f := range j.Faults() {
		words := strings.Fields(f.Fault)
		if len(words) > 1 && strings.HasPrefix(words[1], "executor") {
			continue
		}
		end := max(f.End, f.Recovered) + j.grace()
		if !tied || to >= f.Start.Microseconds()+tie.low && from <= end.Microseconds()+tie.high {
			return true
		}
	}
	return false
}

// leases looks whether a lease that had ended went unnoticed for too long.
func (j *judging) leases() {
	for _, l := range j.looks() {
		j.Checked(1)
		if l.LeaseUS > j.rescue() && !j.excusedButExecutors(l.NowUS-l.LeaseUS, l.NowUS) {
			j.LateAt(l.at.To, nil, "at %v a lease had expired %v before, but its task was not reclaimed",
				l.at.To, micros(l.LeaseUS))
		}
	}
	j.follow("age of the oldest expired lease", "ms", func(l look) int64 {
		return l.LeaseUS / 1000
	})
}

// judgeCancelled looks at what started after a change.
func judgeCancelled(j *judging) {
	before := 0
	for _, o := range j.t.occurrences() {
		cancelled := j.t.changed(o.task, KindCancel, Cancelled)
		stopped := j.t.changed(o.task, KindCancel, Stopping)
		for _, r := range j.t.runs[o] {
			j.Checked(1)
			for _, at := range cancelled {
				if r.StartedUS > at && !j.rerun(o.task, at, r.StartedUS) {
					j.Violate([]uint64{o.task}, "%v was cancelled at %v and started at %v", o, moment(at),
						moment(r.StartedUS))
				}
			}
			for _, at := range stopped {
				if r.StartedUS > at && !j.rerun(o.task, at, r.StartedUS) && !j.takenBack(o, at) {
					j.Violate([]uint64{o.task}, "%v started at %v, after it was cancelled at %v", o,
						moment(r.StartedUS), moment(at))
				}
			}
			if from, paused := j.pausedAt(o.task, r.StartedUS); paused {
				j.Violate([]uint64{o.task}, "%v started at %v, although paused since %v", o,
					moment(r.StartedUS), moment(from))
			}
		}
	}
	for task, list := range j.t.changes {
		for _, c := range list {
			if c.What == KindCancel && c.Outcome == Cancelled {
				before++
				j.cancelledAtEnd(task)
			}
		}
	}
	j.ackedChanges()
	j.Need(before > 0, "no task was cancelled before it started")
	j.Note("%d tasks were cancelled before they started, and none started", before)
}

// takenBack says whether an occurrence was under way at a moment by a run that did not
// come to its end: that it was cancelled then does not keep it from being taken back
// from who had died, and started again.
func (j *judging) takenBack(o occurrence, at int64) bool {
	return slices.ContainsFunc(j.t.runs[o], func(r *RunAudit) bool {
		under := r.StartedUS <= at && (r.EndedUS == 0 || r.EndedUS >= at)
		return under && (r.Outcome == "" || r.Outcome == Lost || r.Outcome == Fenced)
	})
}

// pausedAt says whether a task was paused at a moment, and since when.
func (j *judging) pausedAt(task uint64, at int64) (since int64, paused bool) {
	for _, c := range j.t.changes[task] {
		if c.AtUS >= at {
			break
		}
		switch c.What {
		case KindPause:
			if !paused {
				since, paused = c.AtUS, true
			}
		case KindResume:
			paused = false
		}
	}
	return since, paused
}

// cancelledAtEnd makes sure that nothing of a cancelled task is left to run.
func (j *judging) cancelledAtEnd(task uint64) {
	for _, row := range j.t.rows[task] {
		j.Checked(1)
		if row.State == Waiting || row.State == Picked {
			j.Violate([]uint64{task}, "task %d was cancelled, but is %s at the end", task, row.State)
		}
	}
}

// ackedChanges makes sure that what was acknowledged is there.
func (j *judging) ackedChanges() {
	made := make(map[uint64]State, len(j.t.Changes))
	for i := range j.t.Changes {
		made[j.t.Changes[i].Op] = j.t.Changes[i].Outcome
	}
	for rec := range j.Records(KindCancel, KindPause, KindResume, KindRerun) {
		if rec.Outcome == history.Unknown {
			j.AllowedUnknown(1)
		}
		if rec.Outcome != history.OK {
			continue
		}
		j.Checked(1)
		if state, there := made[rec.Op.ID]; !there || string(state) != rec.Reply.Key {
			j.Violate([]uint64{rec.Op.ID}, "the %s of task %s was acknowledged (%s), but the audit has %q",
				rec.Op.Kind, rec.Op.Key, rec.Reply.Key, state)
		}
	}
}

// judgeStarvation bounds the wait in every queue.
func judgeStarvation(j *judging) {
	granted := j.grantsStart()
	bound := j.p.StarveWithin.D().Microseconds() + j.t.StartSlackUS
	most, poisoned := make(map[string]int64), 0
	for _, o := range j.t.occurrences() {
		runs := j.t.runs[o]
		if slices.ContainsFunc(runs, func(r *RunAudit) bool { return r.Outcome == Failed }) {
			poisoned++
		}
		r := first(runs)
		ready := j.ready(r)
		if j.excused(ready, r.StartedUS) {
			continue
		}
		j.Checked(1)
		wait := r.StartedUS - ready
		if most[r.Queue] = max(most[r.Queue], wait); wait > bound {
			j.Late([]uint64{o.task}, "%v waited %v in %s; the limit is %v", o, micros(wait),
				r.Queue, micros(bound))
		}
	}
	for _, l := range j.looks() {
		j.Checked(1)
		if l.DueUS > bound && !j.excused(l.NowUS-l.DueUS, l.NowUS) {
			j.LateAt(l.at.To, nil, "at %v a task had been due for %v and had not started", l.at.To,
				micros(l.DueUS))
		}
	}
	j.left(bound)
	j.follow("depth of the queue", "tasks", func(l look) int64 { return l.Due })
	j.NeedTimely(len(most) > 0, "no task started outside faults")
	j.Need(poisoned > 0 || j.p.Poison == 0, "no task failed")
	j.Note("the longest wait in any of %d queues was %v; %d occurrences failed%s", len(most),
		micros(slices.Max(append(values(most), 0))).Round(time.Millisecond), poisoned, granted)
}

func values[K comparable](m map[K]int64) (list []int64) {
	for _, v := range m {
		list = append(list, v)
	}
	return list
}

// left looks for tasks that nobody has started at the end.
func (j *judging) left(bound int64) {
	now := j.now()
	for i := range j.t.Tasks {
		row := &j.t.Tasks[i]
		since := max(row.DueUS, row.ReadyUS)
		open := row.State == Waiting || row.State == Picked
		if open && !row.Paused && len(j.t.runs[occurrence{row.Task, row.Occurrence}]) == 0 &&
			now-since > bound && !j.excused(since, now) {
			j.Late([]uint64{row.Task}, "task %d is %s at the end, %v after it was due", row.Task,
				row.State, micros(now-since))
		}
	}
}
