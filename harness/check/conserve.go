package check

import (
	"stampede/harness/history"
)

// Conserved is the clause that in every reply of a kind the counts add up to a total and none
// is negative. counts reads the counts of a reply; an error is a violation.
func Conserved(k Kind, total int64, counts func(*history.Record) ([]Term, error)) Clause {
	return func(r *Run) func() {
		r.SeeParts(k, func(rec *history.Record) {
			if rec.Outcome != history.OK {
				return
			}
			terms, err := counts(rec)
			if err != nil {
				r.Violate([]uint64{rec.Op.ID}, "%s: a reply cannot be read: %v", rec.Op.Key, err)
				return
			}
			Conserve(r.Collector, rec.Op.Key+" in a reply at "+TimeText(rec.End), total,
				[]uint64{rec.Op.ID}, terms...)
		})
		return nil
	}
}

// ConservedRows is the clause that at the end the counts of each group add up to a total and
// none is negative. A row is a count: Thing of State.
func ConservedRows(table string, by By, total int64) Clause {
	return On(table, func(r *Run, t *Table) func() {
		for _, g := range t.groups(by, nil) {
			terms := make([]Term, len(g.rows))
			for i, f := range g.rows {
				terms[i] = Term{Name: f.State, Count: f.Thing}
			}
			Conserve(r.Collector, g.String()+" at the end", total, nil, terms...)
		}
		return nil
	})
}
