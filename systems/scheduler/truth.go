package scheduler

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"stampede/harness/api"
)

// occurrence names one occurrence of a task.
type occurrence struct {
	task uint64
	k    int64
}

// truth is an audit with its indexes.
type truth struct {
	Audit
	err error

	origins map[uint64]*TaskAudit
	rows    map[uint64][]*TaskAudit
	// runs are by their tokens.
	runs    map[occurrence][]*RunAudit
	effects map[occurrence][]*EffectAudit
	changes map[uint64][]*ChangeAudit // by task, in the order of their times
}

// Check makes sure that each list but that of the fleet is there, and that an outcome comes
// with an end.
func (a *Audit) Check() error {
	if a.Tasks == nil || a.Runs == nil || a.Effects == nil || a.Changes == nil {
		return errors.New("tasks, runs, effects and changes must be there")
	}
	for i, r := range a.Runs {
		if (r.Outcome != "") != (r.EndedUS > 0) {
			return fmt.Errorf("runs[%d]: an outcome comes with an end", i)
		}
	}
	return nil
}

func newTruth(raw json.RawMessage) *truth {
	t := &truth{origins: map[uint64]*TaskAudit{}, rows: map[uint64][]*TaskAudit{},
		runs: map[occurrence][]*RunAudit{}, effects: map[occurrence][]*EffectAudit{},
		changes: map[uint64][]*ChangeAudit{}}
	if t.Audit, t.err = api.DecodeAudit[Audit](raw); t.err != nil {
		return t
	}
	for i := range t.Tasks {
		row := &t.Tasks[i]
		t.rows[row.Task] = append(t.rows[row.Task], row)
		if row.Origin {
			t.origins[row.Task] = row
		}
	}
	for i := range t.Runs {
		r := &t.Runs[i]
		o := occurrence{r.Task, r.Occurrence}
		t.runs[o] = append(t.runs[o], r)
	}
	for _, list := range t.runs {
		slices.SortStableFunc(list, func(a, b *RunAudit) int {
			return cmp.Or(cmp.Compare(a.Fence, b.Fence), cmp.Compare(a.StartedUS, b.StartedUS))
		})
	}
	for i := range t.Effects {
		e := &t.Effects[i]
		o := occurrence{e.Task, e.Occurrence}
		t.effects[o] = append(t.effects[o], e)
	}
	for i := range t.Changes {
		c := &t.Changes[i]
		t.changes[c.Task] = append(t.changes[c.Task], c)
	}
	for _, list := range t.changes { // a foreign server may list them in any order
		slices.SortStableFunc(list, func(a, b *ChangeAudit) int { return cmp.Compare(a.AtUS, b.AtUS) })
	}
	return t
}

// occurrences lists those that have run, in order.
func (t *truth) occurrences() []occurrence {
	list := make([]occurrence, 0, len(t.runs))
	for o := range t.runs {
		list = append(list, o)
	}
	slices.SortFunc(list, func(a, b occurrence) int {
		return cmp.Or(cmp.Compare(a.task, b.task), cmp.Compare(a.k, b.k))
	})
	return list
}

// done is the run by which an occurrence is complete, nil if there is none.
func (t *truth) done(o occurrence) *RunAudit {
	for _, r := range t.runs[o] {
		if r.Outcome == Done {
			return r
		}
	}
	return nil
}

// calendar is the day that the audit tells of.
func (t *truth) calendar(p Params) calendar {
	return calendar{begins: moment(t.Begins), day: p.day(), scale: p.TimeScale}
}

// changed lists when a task was changed in some way, with some outcome or any.
func (t *truth) changed(task uint64, what string, outcome State) (at []int64) {
	for _, c := range t.changes[task] {
		if c.What == what && (outcome == "" || c.Outcome == outcome) {
			at = append(at, c.AtUS)
		}
	}
	return at
}

// moment is a time of the audit.
func moment(us int64) time.Time { return time.UnixMicro(us).UTC() }

// name is an occurrence for violations.
func (o occurrence) String() string { return fmt.Sprintf("task %d, occurrence %d", o.task, o.k) }
