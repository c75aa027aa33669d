package check

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

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
	// need no row, because another took its place or because it was consumed; nil is none, also
	// as what it returns.
	Excused func(*Run) func(op uint64) bool
}

// comparison is what the records of a kind say of the rows of a table, sound under unknown
// outcomes: an acknowledged operation must have its row, one of unknown outcome may, a refused
// one must not. It keeps a byte for each row, and what is wrong.
type comparison struct {
	kind Kind
	t    *Table
	// fates are, of the first row of each operation, the most that a record says of it.
	fates         []fate
	acked, unsure int
	missing       map[uint64]missingAck
	strayed       []stray
}

// fate is what the records of an operation say of it. The later ones outweigh the others.
type fate uint8

const (
	unasked fate = iota
	refused
	unsure
	acked
)

// missingAck is an acknowledged operation without its row, and when it was first acknowledged.
type missingAck struct {
	op   uint64
	at   time.Duration
	said Fact
}

// String says what was acknowledged, and to whom.
func (m missingAck) String() string {
	text := fmt.Sprintf("operation %d (key %q, client %q) was acknowledged at %v",
		m.op, m.said.Key, m.said.Owner, TimeText(m.at))
	if m.said.Name != "" {
		text += fmt.Sprintf(" (%q)", m.said.Name)
	}
	return text
}

// stray is a row that is not what its operation asked for, which breaks both clauses if that
// was acknowledged, or not what it was told.
type stray struct {
	op             uint64
	text           string
	acked, unasked bool
}

// compare is a clause about rows and what brought them about.
func (e Effects) compare(judge func(*Run, *comparison) (end func())) Clause {
	return On(e.Table, func(r *Run, t *Table) func() {
		c := &comparison{kind: e.Kind, t: t, fates: make([]fate, len(t.Rows)),
			missing: make(map[uint64]missingAck)}
		r.SeeParts(e.Kind, c.see)
		return judge(r, c)
	})
}

func (c *comparison) see(rec *history.Record) {
	is := refused
	switch rec.Outcome {
	case history.OK:
		c.acked++
		is = acked
	case history.Unknown:
		c.unsure++
		is = unsure
	}
	i, there := c.t.ops()[rec.Op.ID]
	switch {
	case there:
		c.fates[i] = max(c.fates[i], is)
		c.differ(i, rec, c.kind.said(rec))
	case is == acked:
		m := missingAck{rec.Op.ID, rec.End, c.kind.said(rec)}
		if known, twice := c.missing[m.op]; !twice || known.at > m.at {
			c.missing[m.op] = m
		}
	}
}

// differ notes a row that is another's than the one who asked, and an acknowledgement that
// names none of the rows.
func (c *comparison) differ(i int32, rec *history.Record, said Fact) {
	named := rec.Outcome != history.OK
	for f := range c.t.from(i) {
		if differ(f.Key, said.Key) || differ(f.Owner, said.Owner) {
			c.strayed = append(c.strayed, stray{op: rec.Op.ID, unasked: true,
				acked: rec.Outcome == history.OK, text: fmt.Sprintf(
					"%s was requested with key %q by client %q", effect(f), said.Key, said.Owner)})
			return
		}
		named = named || !differ(f.Name, said.Name)
	}
	if !named {
		c.strayed = append(c.strayed, stray{op: rec.Op.ID, acked: true, text: fmt.Sprintf(
			"operation %d was answered %q, but at the end there is %s", rec.Op.ID, said.Name,
			effect(&c.t.Rows[i]))})
	}
}

// differ compares a column, which not every table has.
func differ(found, asked string) bool { return found != "" && found != asked }

// effect names a row as what an operation brought about.
func effect(f *Fact) string {
	return fmt.Sprintf("%s of operation %d (key %q, client %q)", cmp.Or(f.Name, "effect"), f.Op, f.Key,
		f.Owner)
}

// AckedDurable is the clause that what was acknowledged is there at the end as it was
// acknowledged: with its owner, key, name and thing. What is of unknown outcome may be there
// or not. Declared losses and excused operations are subtracted. At least one operation must
// have been acknowledged.
func AckedDurable(e Effects) Clause {
	return e.compare(func(r *Run, c *comparison) func() {
		var excused func(op uint64) bool
		if e.Excused != nil {
			excused = e.Excused(r)
		}
		if c.t.Has(ByName | ByThing) {
			r.SeeParts(e.Kind, func(rec *history.Record) { c.sameThing(r, rec) })
		}
		return func() {
			var losses []Loss
			if e.Losses != nil {
				var err error
				if losses, err = e.Losses(r); err != nil {
					r.Fail("%v", err)
				}
			}
			missing := c.durable(r, excused, losses)
			if e.AtRest {
				r.AtRest()
			}
			for _, m := range missing {
				r.Violate([]uint64{m.op}, "%v but has no effect at the end", m)
			}
		}
	})
}

// sameThing requires that an acknowledged row is of the thing that the reply named.
func (c *comparison) sameThing(r *Run, rec *history.Record) {
	if rec.Outcome != history.OK {
		return
	}
	said := c.kind.said(rec)
	if f := c.t.Named(said.Name); f != nil && f.Op == said.Op && f.Thing != said.Thing {
		r.Violate([]uint64{f.Op}, "%s was acknowledged as %v at %v; at the end it is %v", c.t.Label(f),
			Group{Key: said.Key, Thing: said.Thing}, rec.End, Group{Key: f.Key, Thing: f.Thing})
	}
}

// durable judges the rows of what was acknowledged, and returns what has none.
func (c *comparison) durable(
	r *Run, excused func(op uint64) bool, losses []Loss,
) (missing []missingAck) {
	r.Checked(c.acked)
	r.AllowedUnknown(c.unsure)
	r.Need(c.acked > 0, "no operation was acknowledged")
	for _, s := range c.strayed {
		if s.acked {
			r.Violate([]uint64{s.op}, "%s", s.text)
		}
	}
	for _, m := range slices.SortedFunc(maps.Values(c.missing), func(a, b missingAck) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.op, b.op))
	}) {
		// What is there as another's is not lost, and nothing excuses it.
		if f := c.t.Named(m.said.Name); f != nil {
			r.Violate([]uint64{m.op, f.Op}, "%v; at the end there is %s", m, effect(f))
		} else if excused == nil || !excused(m.op) {
			missing = append(missing, m)
		}
	}
	for _, l := range losses {
		missing = r.accept(l, missing, int64(c.acked))
	}
	return missing
}

// NoPhantom is the clause that every row was asked for, by its owner and for its key, in an
// operation that was not refused. One of unknown outcome may bring it about long after its
// client gave up. At least one row must be there.
func NoPhantom(e Effects) Clause {
	return e.compare(func(r *Run, c *comparison) func() {
		return func() {
			r.Need(len(c.fates) > 0, "there is no effect at the end")
			r.Checked(len(c.fates))
			var wrong []*Fact
			for _, i := range c.t.ops() {
				switch c.fates[i] {
				case unasked, refused:
					wrong = append(wrong, &c.t.Rows[i])
				case unsure:
					r.AllowedUnknown(1)
				}
			}
			slices.SortFunc(wrong, func(a, b *Fact) int { return cmp.Compare(a.Op, b.Op) })
			for _, f := range wrong {
				text := "%s exists, but the operation was refused"
				if c.fates[c.t.ops()[f.Op]] == unasked {
					text = "%s was never requested"
				}
				r.Violate([]uint64{f.Op}, text, effect(f))
			}
			for _, s := range c.strayed {
				if s.unasked {
					r.Violate([]uint64{s.op}, "%s", s.text)
				}
			}
		}
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
