package check

import (
	"cmp"
	"container/heap"
	"fmt"
	"slices"
	"time"

	"stampede/harness/history"
)

// Capacity says that there are Most of what the columns By tell apart, such as the units of an
// item (ByKey), and that none is given away twice where Most is 1. Each of its clauses is an
// account of its own and a lower bound of what was given away: a row or an acknowledgement is
// proof, an unknown outcome is not.
type Capacity struct {
	Table string
	// Kind is by what one gets a unit. AtEnd and Spans need none.
	Kind Kind
	By   By
	Most int
	// Counts says which rows count; nil is all.
	Counts func(*Fact) bool
	// Live are the states in which a row still has its unit, whatever its To; Final are those
	// of them that never end.
	Live, Final []string
	// Slack names the promise by which spans of the store's clock may overlap (see Spans).
	Slack string
}

func (c Capacity) live(f *Fact) bool { return slices.Contains(c.Live, f.State) }

// crowds are, in the order of the table, the groups with more rows than there are units, of
// the rows that count and are wanted.
func (c Capacity) crowds(t *Table, wanted func(*Fact) bool) []*alike {
	list := t.groups(c.By, func(f *Fact) bool {
		return (c.Counts == nil || c.Counts(f)) && wanted(f)
	})
	return slices.DeleteFunc(list, func(d *alike) bool { return len(d.rows) <= c.Most })
}

// AtEnd is the clause that at the end no more rows have a unit than there are.
func (c Capacity) AtEnd() Clause {
	return On(c.Table, func(r *Run, t *Table) func() {
		r.Checked(len(t.Rows))
		for _, crowd := range c.crowds(t, c.live) {
			c.tooMany(r, t, crowd)
		}
		return nil
	})
}

// tooMany tells of a crowd: where there is one unit, of each row and the one before it.
func (c Capacity) tooMany(r *Run, t *Table, d *alike) {
	if c.Most == 1 {
		for i, f := range d.rows[1:] {
			r.Violate([]uint64{d.rows[i].Op, f.Op}, "%v: %s and %s both have it at the end", d.Group,
				t.Label(d.rows[i]), t.Label(f))
		}
		return
	}
	rows, what := d.rows, "have a unit"
	final := slices.DeleteFunc(slices.Clone(rows), func(f *Fact) bool {
		return !slices.Contains(c.Final, f.State)
	})
	if len(final) > c.Most {
		rows, what = final, "have one for good"
	}
	// The latest comers are those that should have been refused.
	var ops []uint64
	for _, f := range slices.Backward(rows) {
		if len(ops) < MaxProof {
			ops = append(ops, f.Op)
		}
	}
	r.Violate(ops, "%v: %d %s %s at the end, but only %d exist; e.g. %s", d.Group, len(rows),
		plural(t.Name), what, c.Most, t.Label(rows[len(rows)-1]))
}

// Held is the clause that at no moment of the driver's clock more units were certainly held,
// by the acknowledgements and by how long their rows lasted (see HoldFor).
func (c Capacity) Held() Clause {
	return On(c.Table, func(r *Run, t *Table) func() {
		r.Checked(len(t.Rows))
		ops := r.Operations(c.Kind, t)
		return func() {
			for _, d := range c.crowds(t, func(f *Fact) bool {
				// A second row of an operation may be one that nobody was told of.
				return t.Op(f.Op) == f && ops[f.Op].Outcome == history.OK
			}) {
				var o Occupancy
				for _, f := range d.rows {
					o.Add(HoldFor(ops[f.Op], f, c.live(f), 0))
				}
				o.AtMost(r.Collector, d.Group.String()+": units of acknowledged "+plural(t.Name), c.Most)
			}
		}
	})
}

// HoldFor is when an operation had its unit, on the driver's clock, if its row f is live or
// lasted for a time on the store's clock. The unit was taken after the operation was sent and
// before it was acknowledged, and given back as much later as the row lasted: no offset between
// the clocks is needed. It is known to be free a slack after. Without a row, or without an
// acknowledgement, nothing is certain.
func HoldFor(op Operation, f *Fact, live bool, slack time.Duration) Hold {
	h := Hold{Op: op.ID, MayFrom: op.Start, MayTo: history.Never}
	if f == nil || op.Outcome != history.OK {
		return h
	}
	h.MustFrom, h.MustTo = op.End, history.Never
	if !live {
		h.MayTo = op.End + f.Lasted() + slack
		h.MustTo = max(h.MustFrom, op.Start+f.Lasted())
	}
	return h
}

// Spans is the clause that never more than Most spans of the rows of a group overlap: nights
// of a room, or times of the store's clock, of rows in any state (see Counts). Rows that nobody
// was told of count too. An empty span overlaps nothing, and one that ends before it begins is
// a violation, unless it is of a clock, which may be set back.
//
// A store may read its clock before it waits for a lock, so that a correct span may begin a
// little before the one in its way ends. Where Slack names a promise only an overlap beyond it
// counts, beyond the slowest operation and beyond all time in which a fault may have held a
// lock.
func (c Capacity) Spans() Clause {
	return On(c.Table, func(r *Run, t *Table) func() {
		r.Checked(len(t.Rows))
		if c.Slack == "" {
			c.overlaps(r, t, 0)
			return nil
		}
		slack, granted := r.Promise(c.Slack)
		slowest := r.Slowest()
		return func() {
			if granted {
				c.overlaps(r, t, slack+*slowest+FaultTime(r.Faults(), 0, history.Never))
			}
		}
	})
}

// span is a row from when to when it has its unit, less the slack.
type span struct {
	*Fact
	from, to int64
}

func (c Capacity) span(f *Fact, slack time.Duration) span {
	to := int64(history.Never)
	if f.To != 0 && !c.live(f) {
		to = f.To
	}
	return span{f, f.From, to - int64(slack)}
}

// overlaps sweeps over the rows of each group by their beginning. Of more spans than there are
// units the one that ends first makes room for the next.
func (c Capacity) overlaps(r *Run, t *Table, slack time.Duration) {
	for _, d := range c.crowds(t, func(f *Fact) bool {
		if s := c.span(f, 0); c.Slack == "" && s.to < s.from {
			r.Violate([]uint64{f.Op}, "%s ends at %d, before it begins at %d", t.Label(f), s.to, s.from)
		}
		s := c.span(f, slack)
		return s.to > s.from
	}) {
		slices.SortStableFunc(d.rows, func(a, b *Fact) int {
			return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.Name, b.Name))
		})
		var active byEnd
		for _, f := range d.rows {
			for len(active) > 0 && active[0].to <= f.From {
				heap.Pop(&active)
			}
			heap.Push(&active, c.span(f, slack))
			if len(active) > c.Most {
				c.overlap(r, t, d.Group, active, f)
				heap.Pop(&active)
			}
		}
	}
}

// earliestTime tells times from numbers on a span's axis. Nights have smaller numbers, and every
// store's clock is more nanoseconds after 1970.
const earliestTime = int64(10 * 24 * time.Hour)

// overlap tells of a row that begins while others have all units.
func (c Capacity) overlap(r *Run, t *Table, g Group, active byEnd, f *Fact) {
	var ops []uint64
	var other *Fact // of the others, the last to begin
	for _, a := range active {
		if a.Fact == f {
			continue
		}
		if len(ops) < MaxProof-1 {
			ops = append(ops, a.Op)
		}
		if other == nil || a.From > other.From {
			other = a.Fact
		}
	}
	text := "for ever"
	if until := min(c.span(f, 0).to, c.span(other, 0).to); until != int64(history.Never) {
		text = fmt.Sprintf("from %d to %d", f.From, until)
		if c.Slack != "" || f.From >= earliestTime {
			text = "for " + TimeText(time.Duration(until-f.From))
		}
	}
	r.Violate(append(ops, f.Op), "%v: %d at once, of at most %d: %s and %s overlap %s", g,
		len(active), c.Most, t.Label(other), t.Label(f), text)
}

// byEnd is a heap of spans, the one that ends first on top.
type byEnd []span

func (h byEnd) Len() int           { return len(h) }
func (h byEnd) Less(i, k int) bool { return h[i].to < h[k].to }
func (h byEnd) Swap(i, k int)      { h[i], h[k] = h[k], h[i] }

// Push adds a span; see heap.Interface.
func (h *byEnd) Push(s any) { *h = append(*h, s.(span)) }

// Pop takes the last span off; see heap.Interface.
func (h *byEnd) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}
