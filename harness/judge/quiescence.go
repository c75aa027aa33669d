package judge

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"stampede/harness/check"
	"stampede/harness/history"
)

// quiescence is the invariant of every system that its background work comes
// to rest.
type quiescence struct{ trial Trial }

func (quiescence) Name() string { return "quiescence" }

func (quiescence) Statement() string {
	return "After the load and the faults, all background work finishes within the drain's " +
		"deadline, and every operation returns."
}

func (q quiescence) Check(context.Context, history.History, json.RawMessage) check.Verdict {
	v := check.Verdict{Invariant: q.Name(), Checked: int(q.trial.Load.Started)}
	switch {
	case q.trial.Interrupted:
		v.Reason = "the load was interrupted"
	case q.trial.Abandoned > 0 && q.trial.Inside:
		v.Violations = append(v.Violations, check.Violation{Text: fmt.Sprintf(
			"%d operations did not return even when they were cancelled", q.trial.Abandoned)})
	case q.trial.Error != "":
		v.Reason = "the repeat was not finished: " + q.trial.Error
	case q.trial.Unasked != "":
		v.Reason = "it is not known whether work was pending: " + q.trial.Unasked
	case q.trial.Pending != "" && q.trial.Falling == "":
		v.Violations = append(v.Violations, check.Violation{Text: fmt.Sprintf(
			"after %s work was still pending: %s",
			time.Duration(q.trial.DrainNS).Round(time.Millisecond), q.trial.Pending)})
	case q.trial.Pending != "":
		v.Reason = fmt.Sprintf("after %s work was still pending (%s), but %s; a "+
			"longer drain would decide it", time.Duration(q.trial.DrainNS).Round(time.Millisecond),
			q.trial.Pending, q.trial.Falling)
	case q.trial.Abandoned > 0:
		v.Reason = fmt.Sprintf("%d requests did not return after their time limit: a failure of the "+
			"generator", q.trial.Abandoned)
	case q.trial.Overdue != "":
		v.Late, v.Violations = 1, []check.Violation{{Text: fmt.Sprintf("%s; it was finished %s after "+
			"the load", q.trial.Overdue,
			time.Duration(q.trial.DrainNS).Round(time.Millisecond))}}
	default:
		v.Status = check.Held
	}
	if v.Count = len(v.Violations); v.Count > 0 {
		v.Status = check.Broken
	}
	return v
}
