package check

// Pair is two tables that say the same in some columns.
type Pair struct {
	A, B string
	// By are the columns that are compared. Rows that are equal in them are one.
	By By
	// Of says which rows of A, and which of B, are compared; nil is all.
	OfA, OfB func(*Fact) bool
	// Subset: B may have more than A.
	Subset bool
	// AtRest: one may be behind the other until the system is at rest; what differs then is
	// Unfinished.
	AtRest bool
}

// Agree is the clause that two tables say the same in some columns: what one has, the other
// has too.
func Agree(p Pair) Clause {
	return On(p.A, func(r *Run, a *Table) func() {
		b := r.Table(p.B)
		if b == nil {
			return nil
		}
		p.contained(r, a, b, p.OfA, p.OfB)
		if !p.Subset {
			p.contained(r, b, a, p.OfB, p.OfA)
		}
		return nil
	})
}

// contained requires that one table has what the other does.
func (p Pair) contained(r *Run, a, b *Table, ofA, ofB func(*Fact) bool) {
	there, told := b.first(p.By, ofB), make(map[Group]bool)
	violate := r.Violate
	if p.AtRest {
		violate = r.Unfinished
	}
	for i := range a.Rows {
		f := &a.Rows[i]
		if ofA != nil && !ofA(f) {
			continue
		}
		r.Checked(1)
		if g := p.By.Of(f); there(f) == nil && !told[g] {
			told[g] = true
			violate([]uint64{f.Op}, "%v: there is %s, but no such %s", g, a.Label(f), b.Name)
		}
	}
}
