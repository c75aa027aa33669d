package scheduler

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/sut"
)

// grace is how long a fault excuses what comes late after it: until a lease has
// ended and the task is taken back, or one is handed over again, and what has piled
// up meanwhile has started.
func (f *final) grace() time.Duration {
	found := max(f.p.Lease.D()+f.p.RescueWithin.D(), f.p.HandAgain.D())
	return found + 2*f.p.clock(f.p.SLA) + time.Second
}

// excused says whether a time on the database's clock, in microseconds, meets a
// fault, or the grace after one. Without a tie between the clocks every fault
// excuses everything.
func (j *judging) excused(from, to int64) bool {
	return j.excusedBut(func(history.Window) bool { return false }, from, to)
}

// excusedBut is excused by any but some faults.
func (j *judging) excusedBut(but func(history.Window) bool, from, to int64) bool {
	return slices.ContainsFunc(j.Faults(), func(w history.Window) bool {
		end := w.Over() + j.grace()
		return !but(w) && (!j.tied ||
			to >= w.Start.Microseconds()+j.low && from <= end.Microseconds()+j.high)
	})
}

// onExecutor says whether a fault is one by which executors lose their leases.
func onExecutor(w history.Window) bool {
	words := strings.Fields(w.Fault)
	return len(words) > 1 && strings.HasPrefix(words[1], "executor")
}

// executorsBroke says whether a fault ended an executor that had started tasks, or put
// one to sleep for longer than a lease.
func (j *judging) executorsBroke() bool {
	return j.executorsSlept() > 0 || slices.ContainsFunc(j.Faults(), func(w history.Window) bool {
		return struck(w, "crash") && slices.Contains(strings.Fields(w.Fault), placeClaimed)
	})
}

// executorsSlept is for how long a fault put an executor to sleep at most; 0 if none did
// for longer than two leases.
func (j *judging) executorsSlept() (longest time.Duration) {
	for _, w := range j.Faults() {
		if slept := w.End - w.Start; struck(w, "pause") && slept > 2*j.p.Lease.D() {
			longest = max(longest, slept)
		}
	}
	return longest
}

// struck says whether there is evidence that a fault of a kind hit an executor.
func struck(w history.Window, kind string) bool {
	return onExecutor(w) && len(w.Evidence) > 0 && strings.HasPrefix(w.Fault, kind+" ")
}

// allowed says by how much more a design may be late because it declares that.
func allowed(declared time.Duration, field string) string {
	if declared == 0 {
		return ""
	}
	return fmt.Sprintf("; %v more are allowed, because the audit declares %s", declared, field)
}

// longestWork is for how long a task works at most.
func (f *final) longestWork() time.Duration { return max(f.p.Work.D(), f.p.LongWork.D()) }

// judgeEarly compares what every run tells of itself with when it was due. When a run started is
// what the design wrote, perhaps not by the clock: what came after the start was not early either.
func judgeEarly(j *judging) {
	for i := range j.Runs {
		r := &j.Runs[i]
		j.Checked(1)
		j.notBefore(r, "started", r.StartedUS)
		if r.EndedUS > 0 {
			j.notBefore(r, "ended", r.EndedUS)
		}
		for _, e := range j.effects[r.of()] {
			if e.Fence == r.Fence {
				j.notBefore(r, "had its effect", e.AtUS)
			}
		}
	}
	j.Need(len(j.Runs) > 0, "no task ran")
}

// notBefore is violated if a run did something before it was due.
func (j *judging) notBefore(r *RunAudit, did string, at int64) {
	if early := r.DueUS - at; early > 0 {
		j.Violate([]uint64{r.Task}, "%v was due at %v and %s %v before that", r.of(), moment(r.DueUS),
			did, micros(early))
	}
}

// judgeInTime measures from when an occurrence could start to when it did.
func judgeInTime(j *judging) {
	slack, _ := j.Promise(startSlack)
	promised := j.p.clock(j.p.SLA+j.p.LateAllowed) + slack
	judged := j.outsideFaults(func(s start, late time.Duration) {
		if late > promised {
			j.Late([]uint64{s.task}, "%v could start at %v and started %v later; the limit is %v",
				s.occurrence, moment(s.ready), late, promised)
		}
	})
	j.follow("age of the oldest due task not yet started", "ms", func(l look) int64 {
		return l.DueUS / 1000
	})
	j.NeedTimely(judged > 0, "no task started outside faults")
	j.needScaled()
	j.Note("%d starts in time, %d near faults not judged%s%s%s", judged, len(j.starts)-judged,
		j.punctuality(), j.executors(), allowed(slack, startSlack))
}

// outsideFaults counts the starts that no fault excuses, and visits them, each with how long after
// it could start it did.
func (j *judging) outsideFaults(visit func(s start, late time.Duration)) (n int) {
	for _, s := range j.starts {
		if !j.excused(s.ready, s.StartedUS) {
			n++
			j.Checked(1)
			visit(s, micros(s.StartedUS-s.ready))
		}
	}
	return n
}

// follow draws a quantity over the looks.
func (j *judging) follow(quantity, unit string, of func(look) int64) {
	w := check.Watched{Quantity: quantity, Unit: unit, Gaps: len(j.Samples()) - len(j.looks)}
	for _, l := range j.looks {
		w.Look(l.at.To, of(l), of(l), j.excused(l.NowUS, l.NowUS))
	}
	if w.Judged+w.Excused > 0 {
		j.Watched(&w)
	}
}

// punctuality sums up how late starts were, faults included, and by how much
// starts came after picks.
func (j *judging) punctuality() string {
	var late, since []time.Duration
	misfires := 0
	for _, s := range j.starts {
		late = append(late, micros(s.StartedUS-s.ready))
		since = append(since, micros(s.StartedUS-s.PickedUS))
		if late[len(late)-1] > j.p.clock(j.p.SLA) {
			misfires++
		}
	}
	if len(late) == 0 {
		return ""
	}
	slices.Sort(late)
	slices.Sort(since)
	at := func(list []time.Duration, q float64) time.Duration {
		return list[int(q*float64(len(list)-1))].Round(time.Millisecond)
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
	for _, s := range j.starts {
		at := (s.DueUS - j.Begins) / minute
		perMinute[at]++
		rush = max(rush, perMinute[at])
	}
	need := j.p.needed(rush, j.p.Work.D().Seconds())
	wanted := j.Scales && need >= 2*j.p.Executors && j.p.MaxFleet > j.p.Executors
	grew := slices.ContainsFunc(j.Fleet, func(f FleetAudit) bool {
		return f.Executors > int64(j.p.Executors)
	})
	j.Need(grew || !wanted, "no more than the initial %d executors were requested, although %d "+
		"tasks in one minute needed %d", j.p.Executors, rush, need)
}

// fleetShown is how many changes of the number of executors are listed at most.
const fleetShown = 12

// executors sums up for how long executors were wanted, in business time.
func (j *judging) executors() string {
	begins, now := j.Begins, j.Now
	if begins == 0 || now <= begins {
		return ""
	}
	total, most := int64(0), int64(j.p.Executors)
	count, since := most, begins
	sizes := fmt.Sprint(most)
	for _, f := range j.Fleet {
		at := min(max(f.AtUS, begins), now)
		total += count * (at - since)
		count, since, most = f.Executors, at, max(most, f.Executors)
		sizes += fmt.Sprintf(", %d", count)
	}
	total += count * (now - since)
	minutes := micros(total).Minutes() * j.p.TimeScale
	text := fmt.Sprintf("; %.0f executor-minutes, at most %d at once", minutes, most)
	if n := len(j.Fleet); n > 0 && n <= fleetShown {
		text += ", planned " + sizes
	}
	return text
}

// judgeStarvation bounds the wait in every queue.
func judgeStarvation(j *judging) {
	slack, _ := j.Promise(startSlack)
	bound := j.p.StarveWithin.D() + slack
	queues, longest := map[string]bool{}, time.Duration(0)
	j.outsideFaults(func(s start, wait time.Duration) {
		queues[s.Queue], longest = true, max(longest, wait)
		if wait > bound {
			j.Late([]uint64{s.task}, "%v waited %v in %s; the limit is %v", s.occurrence, wait, s.Queue,
				bound)
		}
	})
	for _, l := range j.looks {
		j.Checked(1)
		if micros(l.DueUS) > bound && !j.excused(l.NowUS-l.DueUS, l.NowUS) {
			j.LateAt(l.at.To, nil, "at %v a task had been due for %v and had not started", l.at.To,
				micros(l.DueUS))
		}
	}
	j.follow("depth of the queue", "tasks", func(l look) int64 { return l.Due })
	j.NeedTimely(len(queues) > 0, "no task started outside faults")
	failed := func(r RunAudit) bool { return r.Outcome == Failed }
	j.Need(j.p.Poison == 0 || slices.ContainsFunc(j.Runs, failed), "no task failed")
	j.Note("the longest wait in any of %d queues was %v%s", len(queues),
		longest.Round(time.Millisecond), allowed(slack, startSlack))
}
