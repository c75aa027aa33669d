package check

import (
	"stampede/harness/history"
)

// Effects says which rows the operations of a kind bring about. Rows and records are compared
// by the columns that both have: Op, Name, Key, Owner and Thing.
type Effects struct {
	Table string
	Kind  Kind
	// AtRest says that rows may come until the system is at rest: what is missing then is
	// Unfinished.
	AtRest bool
	// Losses are what the design declares to lose, given the run's faults; nil is nothing.
	Losses func(*Run) ([]Loss, error)
	// Excused is called before the reading and says after it which acknowledged operations
	// need no row, because another took its place or because it was consumed; nil is none.
	Excused func(*Run) func(op uint64) bool
}

// compare is a clause about rows and what brought them about.
func (e Effects) compare(judge func(*Run, *Table, *Comparison) (end func())) Clause {
	return On(e.Table, func(r *Run, t *Table) func() {
		seen := NewComparison()
		for i := range t.Rows {
			f := &t.Rows[i]
			seen.Found(Effect{Op: f.Op, Name: f.Name, Key: f.Key, Client: f.Owner})
		}
		r.See(func(rec *history.Record) { seen.see(rec, e.Kind.said(rec)) }, e.Kind.Names...)
		return judge(r, t, seen)
	})
}

// AckedDurable is the clause that what was acknowledged is there at the end as it was
// acknowledged: with its owner, key, name and thing. What is of unknown outcome may be there
// or not. Declared losses and excused operations are subtracted. At least one operation must
// have been acknowledged.
func AckedDurable(e Effects) Clause {
	return e.compare(func(r *Run, t *Table, seen *Comparison) func() {
		if e.Excused != nil {
			seen.excused = e.Excused(r)
		}
		if t.Has(ByName | ByThing) {
			r.See(func(rec *history.Record) { e.sameThing(r, t, rec) }, e.Kind.Names...)
		}
		return func() {
			if e.AtRest {
				r.AtRest()
			}
			var losses []Loss
			if e.Losses != nil {
				var err error
				if losses, err = e.Losses(r); err != nil {
					r.Fail("%v", err)
				}
			}
			seen.Durable(r.Collector, losses...)
		}
	})
}

// sameThing requires that an acknowledged row is of the thing that the reply named.
func (e Effects) sameThing(r *Run, t *Table, rec *history.Record) {
	if rec.Outcome != history.OK {
		return
	}
	said := e.Kind.said(rec)
	if f := t.byName[said.Name]; f != nil && f.Op == said.Op && f.Thing != said.Thing {
		r.Violate([]uint64{f.Op}, "%s was acknowledged as %v at %v; at the end it is %v", t.Label(f),
			Group{Key: said.Key, Thing: said.Thing}, rec.End, Group{Key: f.Key, Thing: f.Thing})
	}
}

// NoPhantom is the clause that every row was asked for, by its owner and for its key, in an
// operation that was not refused. One of unknown outcome may bring it about long after its
// client gave up. At least one row must be there.
func NoPhantom(e Effects) Clause {
	return e.compare(func(r *Run, _ *Table, seen *Comparison) func() {
		return func() { seen.NoPhantom(r.Collector) }
	})
}

// AtMostOnce is the clause that no two rows of a table have the same values in some columns,
// such as ByOp: no operation took effect twice, however often it was attempted. At least one
// row must be there.
func AtMostOnce(table string, by By) Clause {
	return On(table, func(r *Run, t *Table) func() {
		r.Need(len(t.Rows) > 0, "there is no %s at the end", t.Name)
		r.Checked(len(t.Rows))
		first := t.first(by, nil)
		for i := range t.Rows {
			f := &t.Rows[i]
			g, other := by.Of(f), first(f)
			if other != f && g != (Group{}) { // it has one of the columns
				r.Violate(distinct(other.Op, f.Op), "%v: there are %s and %s", g, t.Label(other),
					t.Label(f))
			}
		}
		return nil
	})
}

// distinct are operations, each once.
func distinct(a, b uint64) []uint64 {
	if a == b {
		return []uint64{a}
	}
	return []uint64{a, b}
}
