package check

import (
	"slices"
	"time"

	"stampede/harness/history"
)

// Bound says when rows must be over, by the store's clock alone, so that no skew between
// machines matters.
type Bound struct {
	Table string
	// Kind brings rows about, which ties the store's clock to the driver's.
	Kind Kind
	// Ended are the states of rows that are over because of their time. Open are those of
	// rows that are not over yet, although the audit was made at Facts.Now or later.
	Ended, Open []string
	// Rows last at least NotBefore, less Grain, the coarsest resolution of the store's clock;
	// and at most Within and the promise that Slack names.
	NotBefore, Within, Grain time.Duration
	Slack                    string
}

// InTime is the clause that no row ends before its time is over, and none later than promised,
// which is Late. A row that is still open after that is Unfinished: the system is at rest and
// nobody will end it. At least one row must have come to the end of its time.
//
// What is late is excused by the slowest operation of the run, and by the faults that were in
// force meanwhile: who ends rows had to wait for each to heal, and then has the slack once
// more.
func InTime(b Bound) Clause {
	return On(b.Table, func(r *Run, t *Table) func() {
		slack, granted := r.Promise(b.Slack)
		r.Need(slack > 0, "the audit has no %s, so nothing can be late", b.Slack)
		ended, slowest := 0, time.Duration(0)
		late := make(map[uint64]bool)
		for i := range t.Rows {
			f := &t.Rows[i]
			age, judged := b.age(r, f)
			if !judged {
				continue
			}
			r.Checked(1)
			if slices.Contains(b.Ended, f.State) {
				ended++
				slowest = max(slowest, age-b.Within)
				if age+b.Grain < b.NotBefore {
					r.Violate([]uint64{f.Op}, "%s was over after %v, before its time of %v was", t.Label(f),
						age, b.NotBefore)
				}
			}
			late[f.Op] = late[f.Op] || granted && slack > 0 && age > b.Within+slack
		}
		r.Need(ended > 0, "no %s came to the end of its time", t.Name)
		r.Note("%d %s came to the end of their time, the slowest %v after it; the promise is %v", ended,
			plural(t.Name), slowest.Round(time.Millisecond), slack)
		return b.judgeLate(r, t, late, slack)
	})
}

// age is how long a row has lasted, if it is one that is judged.
func (b Bound) age(r *Run, f *Fact) (age time.Duration, judged bool) {
	switch {
	case slices.Contains(b.Ended, f.State):
		return f.Lasted(), true
	case slices.Contains(b.Open, f.State):
		return time.Duration(r.Facts.Now - f.From), true
	}
	return 0, false
}

// judgeLate grants what excuses the rows of the operations that are late.
func (b Bound) judgeLate(r *Run, t *Table, late map[uint64]bool, slack time.Duration) func() {
	slowest := r.Slowest()
	ops := r.operations(b.Kind, func(op uint64) bool { return late[op] })
	return func() {
		for i := range t.Rows {
			f := &t.Rows[i]
			age, judged := b.age(r, f)
			if !judged || !late[f.Op] {
				continue
			}
			op, until := ops[f.Op], history.Never
			if op.End < history.Never-age {
				until = op.End + age
			}
			allowed := b.Within + slack + *slowest
			if down := FaultTime(r.Faults(), op.Start, until); down > 0 {
				allowed += down + slack
			}
			switch {
			case age <= allowed:
			case slices.Contains(b.Open, f.State):
				r.Unfinished([]uint64{f.Op}, "%s has not ended after %v; the limit is %v", t.Label(f), age,
					allowed)
			default:
				r.Late([]uint64{f.Op}, "%s was over after %v; the limit is %v", t.Label(f), age, allowed)
			}
		}
	}
}

// Quiescent is the clause that at rest no row of a table is in an open state: nothing is held,
// running or waiting any more. What is, is Unfinished.
func Quiescent(table string, open ...string) Clause {
	return On(table, func(r *Run, t *Table) func() {
		r.Checked(len(t.Rows))
		for i := range t.Rows {
			if f := &t.Rows[i]; slices.Contains(open, f.State) {
				r.Unfinished([]uint64{f.Op}, "%s is left at rest", t.Label(f))
			}
		}
		return nil
	})
}
