package check

import (
	"cmp"
	"slices"
	"sort"
	"time"

	"stampede/harness/history"
)

// Hold is what is known of when one unit of something was held, on the
// driver's clock: possibly from MayFrom to MayTo, both inclusive, and certainly
// from MustFrom, inclusive, to MustTo, exclusive. An end that is not known is
// Never; a hold that is nowhere certain has MustFrom = MustTo.
type Hold struct {
	Op               uint64
	MayFrom, MayTo   time.Duration
	MustFrom, MustTo time.Duration
}

// Occupancy bounds how many units of something were held at an instant, from
// above and from below. See Capacity.
type Occupancy struct {
	holds []Hold
	may   *skyline // of the possible holds; nil after Add
}

// Add adds a hold.
func (o *Occupancy) Add(h Hold) {
	o.holds = append(o.holds, h)
	o.may = nil
}

// MaxPossible is the most units that may have been held at an instant from
// from to to, both inclusive. It takes O(log n) after O(n log n) once.
func (o *Occupancy) MaxPossible(from, to time.Duration) int {
	if o.may == nil {
		o.may = newSkyline(o.holds)
	}
	return o.may.max(from, to)
}

// AtMost requires that never more than limit units were certainly held.
func (o *Occupancy) AtMost(c *Collector, object string, limit int) {
	c.Checked(len(o.holds))
	at, most := o.peak()
	if most <= limit {
		return
	}
	var ops []uint64
	for _, h := range slices.Backward(o.holds) {
		if h.MustFrom <= at && at < h.MustTo && len(ops) < MaxProof {
			ops = append(ops, h.Op)
		}
	}
	c.ViolateAt(at, ops, "%s: at %v %d were certainly held at once, but only %d exist",
		object, at, most, limit)
}

// edge is a change of how many are held.
type edge struct {
	at   time.Duration
	step int
}

// sortEdges sorts by time; where a hold ends as another begins, the end is
// first, because they do not meet.
func sortEdges(edges []edge) {
	slices.SortFunc(edges, func(a, b edge) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.step, b.step))
	})
}

// peak is the first instant at which the most units were certainly held.
func (o *Occupancy) peak() (at time.Duration, most int) {
	edges := make([]edge, 0, 2*len(o.holds))
	for _, h := range o.holds {
		if h.MustFrom < h.MustTo {
			edges = append(edges, edge{h.MustFrom, +1}, edge{h.MustTo, -1})
		}
	}
	sortEdges(edges)
	n := 0
	for _, e := range edges {
		if n += e.step; n > most {
			at, most = e.at, n
		}
	}
	return at, most
}

// skyline is the number of possible holds over time, with a segment tree of
// maxima: level[i] holds from at[i] to at[i+1], and node k of the tree is the
// maximum of nodes 2k and 2k+1, the leaves being its second half.
type skyline struct {
	at   []time.Duration
	tree []int
}

func newSkyline(holds []Hold) *skyline {
	edges := make([]edge, 0, 2*len(holds)+1)
	edges = append(edges, edge{at: -history.Never}) // before all of them, none
	for _, h := range holds {
		edges = append(edges, edge{h.MayFrom, +1})
		if h.MayTo < history.Never {
			edges = append(edges, edge{h.MayTo + 1, -1}) // the end is inclusive
		}
	}
	sortEdges(edges)
	s := &skyline{at: make([]time.Duration, len(edges)), tree: make([]int, 2*len(edges))}
	n := 0
	for i, e := range edges {
		n += e.step
		s.at[i], s.tree[len(edges)+i] = e.at, n
	}
	// Of edges at one instant only the last level is ever seen.
	for i := len(edges) - 1; i > 0; i-- {
		if s.at[i-1] == s.at[i] {
			s.tree[len(edges)+i-1] = s.tree[len(edges)+i]
		}
	}
	for k := len(edges) - 1; k > 0; k-- {
		s.tree[k] = max(s.tree[2*k], s.tree[2*k+1])
	}
	return s
}

// max is the highest level from from to to, both inclusive.
func (s *skyline) max(from, to time.Duration) int {
	upTo := func(t time.Duration) int { // the number of edges at or before t
		return sort.Search(len(s.at), func(i int) bool { return s.at[i] > t })
	}
	n := len(s.at)
	most := 0
	for lo, hi := n+upTo(from)-1, n+upTo(to); lo < hi; lo, hi = lo/2, hi/2 {
		if lo&1 == 1 {
			most = max(most, s.tree[lo])
			lo++
		}
		if hi&1 == 1 {
			hi--
			most = max(most, s.tree[hi])
		}
	}
	return most
}
