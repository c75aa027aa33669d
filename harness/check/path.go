package check

import (
	"fmt"
	"slices"
)

// Path says how the log of a system must run: a table of changes by ascending Seq, each of
// which leads from Before to State because of Cause. What it says happened, acknowledged or
// not, so that unknown outcomes do not matter.
type Path struct {
	Log string
	// Start is the state of what nothing has happened to yet.
	Start string
	// Moves are the changes there are. A state that no move leads from is absorbing.
	Moves []Move
	// Owners is the table of the rows that the log names in Name, whose operations prove what
	// is wrong; "" if entries have an Op of their own.
	Owners string
}

// Move is one kind of change. An empty Cause is any.
type Move struct{ From, To, Cause string }

// Causes is the clause that every entry of the log is a move.
func (p Path) Causes() Clause {
	return On(p.Log, func(r *Run, log *Table) func() {
		r.Checked(len(log.Rows))
		for i := range log.Rows {
			e := &log.Rows[i]
			if slices.ContainsFunc(p.Moves, func(m Move) bool {
				return m.From == e.Before && m.To == e.State && (m.Cause == "" || m.Cause == e.Cause)
			}) {
				continue
			}
			r.Violate(p.proof(r, e), "%s: %s went from %s to %s%s, which may not be: %s", entry(log, e),
				thing(e), e.Before, e.State, because(e), p.allowed(e))
		}
		return nil
	})
}

// allowed says where a cause leads, or what may follow a state.
func (p Path) allowed(e *Fact) string {
	for _, m := range p.Moves {
		if e.Cause != "" && m.Cause == e.Cause {
			return fmt.Sprintf("%s leads from %s to %s", m.Cause, m.From, m.To)
		}
	}
	var next []string
	for _, m := range p.Moves {
		if m.From == e.Before && !slices.Contains(next, m.To) {
			next = append(next, m.To)
		}
	}
	return e.Before + " may be followed by " + allowed(next)
}

// entry names an entry of a log, thing what it is about.
func entry(log *Table, e *Fact) string { return fmt.Sprintf("%s %d", log.Name, e.Seq) }
func thing(e *Fact) string {
	return Group{Name: e.Name, Key: e.Key, Thing: e.Thing}.String()
}

func because(e *Fact) string {
	if e.Cause == "" {
		return ""
	}
	return fmt.Sprintf(" because of %q", e.Cause)
}

// proof are the operations behind entries of the log.
func (p Path) proof(r *Run, entries ...*Fact) (ops []uint64) {
	for _, e := range entries {
		op := e.Op
		if p.Owners != "" && op == 0 {
			if t := r.Table(p.Owners); t != nil && t.Named(e.Name) != nil {
				op = t.Named(e.Name).Op
			}
		}
		if op != 0 && !slices.Contains(ops, op) {
			ops = append(ops, op)
		}
	}
	return ops
}

// Track is one way to follow a log: by what, and what more must be so.
type Track struct {
	By By
	// Counts says which entries are about something; nil is all.
	Counts func(*Fact) bool
	// Once: what has come back to the start does not leave it again.
	Once bool
	// Held: only the Name that took a thing away from the start changes it, and each change
	// counts its Version up by one, if log and rows have versions.
	Held bool
	// Rows is the table of where things are at the end, "" if there is none. Ends says what a
	// state of its rows is in the log where that is another word.
	Rows string
	Ends map[string]string
	// Strict: rows and log have the same things. Otherwise what is at the start may be in one
	// of them only.
	Strict bool

	versions bool
}

// versioned says whether any row has a version.
func (t *Table) versioned() bool {
	return slices.ContainsFunc(t.Rows, func(f Fact) bool { return f.Version != 0 })
}

// Follow is the clause that each entry of the log starts where the one before it of the same
// thing ended, and that the rows are where the log left them. It is left out where the audit
// has no such rows, because a design may keep none.
func (p Path) Follow(by Track) Clause {
	return On(p.Log, func(r *Run, log *Table) func() {
		by, rows := by, r.optional(by.Rows)
		if by.Rows != "" && rows == nil && by.Strict {
			r.Table(by.Rows) // says that it is missing
			return nil
		}
		by.versions = by.Held && log.versioned()
		last := make(map[Group]*Fact)
		for i := range log.Rows {
			e := &log.Rows[i]
			if by.Counts != nil && !by.Counts(e) {
				continue
			}
			r.Checked(1)
			g := by.By.Of(e)
			was, known := last[g]
			last[g] = e
			if by.Strict && rows != nil && !known && !rows.hasGroup(by.By, g) {
				r.Violate(p.proof(r, e), "%s is about %v, which does not exist", entry(log, e), g)
			}
			if why := p.wrong(by, was, e); why != "" {
				r.Violate(p.proof(r, before(was, e)...), "%v: %s leads from %s to %s%s, but %s", g,
					entry(log, e), e.Before, e.State, because(e), why)
			}
		}
		if rows != nil {
			for i := range rows.Rows {
				p.end(r, by, log, rows, &rows.Rows[i], last)
			}
		}
		return nil
	})
}

// before are the entries that prove what is wrong with the last of them.
func before(was, e *Fact) []*Fact {
	if was == nil {
		return []*Fact{e}
	}
	return []*Fact{was, e}
}

// wrong says why an entry may not follow the one before it, nil if it is the first.
func (p Path) wrong(by Track, was, e *Fact) string {
	if was == nil {
		if e.Before != p.Start {
			return fmt.Sprintf("nothing had happened to it, so that it was %s", p.Start)
		}
		return ""
	}
	switch {
	case e.Before != was.State:
		return fmt.Sprintf("it was %s since %d", was.State, was.Seq)
	case by.Once && was.State == p.Start:
		return fmt.Sprintf("it had come back to %s at %d", p.Start, was.Seq)
	case by.Held && e.Before != p.Start && was.Name != e.Name:
		return fmt.Sprintf("%s had it since %d", was.Name, was.Seq)
	case by.versions && e.Version != was.Version+1:
		return fmt.Sprintf("it made version %d of version %d", e.Version, was.Version)
	}
	return ""
}

// end compares a row with where the log left it.
func (p Path) end(r *Run, by Track, log, rows *Table, row *Fact, ends map[Group]*Fact) {
	want := row.State
	if word, other := by.Ends[row.State]; other {
		want = word
	}
	last, known := ends[by.By.Of(row)]
	var text string
	switch {
	case !known && (by.Strict || want != p.Start):
		text = fmt.Sprintf("no %s mentions it", log.Name)
	case !known:
		return
	case last.State != want:
		text = fmt.Sprintf("%s left it %s", entry(log, last), last.State)
	case by.versions && rows.versioned() && last.Version != row.Version:
		text = fmt.Sprintf("its version is %d and %s left it at %d", row.Version, entry(log, last),
			last.Version)
	default:
		return
	}
	proof := []uint64{row.Op}
	if row.Op == 0 {
		proof = p.proof(r, before(last, row)...)
	}
	r.Violate(proof, "%s is %s at the end, but %s", rows.Label(row), row.State, text)
}

// hasGroup says whether a table has a row of a group; by name that takes no search.
func (t *Table) hasGroup(by By, g Group) bool {
	if by == ByName {
		return t.Named(g.Name) != nil
	}
	return slices.ContainsFunc(t.Rows, func(f Fact) bool { return by.Of(&f) == g })
}
