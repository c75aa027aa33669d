package scheduler

import (
	"fmt"
	"slices"
	"time"

	"stampede/harness/history"
	"stampede/harness/sut"
)

// answers judges what those were told who waited for a start, read a task, or were refused.
func (j *judging) answers() {
	for i := range j.told {
		rec, wrong := &j.told[i], j.notRefused
		task, _ := taskOf(rec.Op.Key) // 0 if it names none
		switch j.Checked(1); {
		case rec.Outcome != history.OK:
		case rec.Op.Kind == KindTask:
			wrong = j.notShown
		default:
			wrong = j.notStarted
		}
		if why := wrong(rec, task); why != "" {
			j.ViolateAt(rec.End, []uint64{rec.Op.ID, task}, "%s %d %s", rec.Op.Kind, rec.Op.ID, why)
		}
	}
}

// notStarted says what is wrong with the report of a task's first start: that it has no run, how
// late it started or, as far as the clocks are tied, that it had not started yet.
func (j *judging) notStarted(rec *history.Record, task uint64) string {
	runs := j.runs[occurrence{task, 1}]
	if len(runs) == 0 {
		return "says that its task started, which has no run"
	}
	first, by := slices.MinFunc(runs, byStart), rec.End.Microseconds()+j.high
	late := max(0, first.StartedUS-first.DueUS)
	switch {
	case !sameDue(late, time.Duration(rec.Reply.Value).Microseconds()):
		return fmt.Sprintf("says that its task started %v late, but that was %v",
			time.Duration(rec.Reply.Value), micros(late))
	case j.tied && first.StartedUS > by && !sameDue(first.StartedUS, by):
		return fmt.Sprintf("ended by %v; its task started at %v", moment(by), moment(first.StartedUS))
	}
	return ""
}

// notShown says what is wrong with an answer about a task: it is not cancelled, or has no run,
// although an earlier answer said so.
func (j *judging) notShown(rec *history.Record, task uint64) string {
	before := func(kind string) bool {
		at, known := j.known[settledAs{task, kind}]
		return known && at < rec.Start
	}
	switch {
	case before(KindCancel) && rec.Reply.Key != string(Cancelled):
		return fmt.Sprintf("says that its task is %s, which was acknowledged as cancelled", rec.Reply.Key)
	case before(KindAwait) && rec.Reply.Value == 0:
		return "says that its task has no run, but its start had been acknowledged before"
	}
	return ""
}

// notRefused says why the reason of a refusal is certainly false, "" if it may be true. A request
// or change of the workload has an identity of its own, which it keeps when it is sent again.
func (j *judging) notRefused(rec *history.Record, task uint64) string {
	switch a := j.asked[task]; {
	case sut.RefusedFor(rec, ErrConflict) || sut.RefusedFor(rec, ErrOpTaken):
		return "was refused, although no other request has its identity"
	case sut.RefusedFor(rec, ErrUnknownTask) && a != nil && a.End < rec.Start:
		return "was refused, although its task had been acknowledged"
	case !sut.RefusedFor(rec, ErrState):
	case rec.Op.Kind == KindAwait && len(j.changed(task, KindCancel)) == 0:
		return "was refused, although nobody cancelled its task"
	case rec.Op.Kind == KindRerun && j.failedFor(rec, task):
		return "was refused, although its task had failed before, and nobody had run it again"
	}
	return ""
}

// failedFor says whether a task had failed before an attempt began, and nobody ran it again
// before the attempt had ended. Where the clocks are not tied, that is not certain.
func (j *judging) failedFor(rec *history.Record, task uint64) bool {
	from, to := rec.Start-time.Millisecond, rec.End+time.Millisecond // clocks drift a little
	return j.tied && !j.rerun(task, 0, to.Microseconds()+j.high) &&
		slices.ContainsFunc(j.runs[occurrence{task, 1}], func(r *RunAudit) bool {
			return r.Outcome == Failed && r.EndedUS < from.Microseconds()+j.low
		})
}
