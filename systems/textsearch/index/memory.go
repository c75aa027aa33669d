package index

import (
	"slices"
	"sync"
	"sync/atomic"

	"stampede/systems/textsearch/analysis"
)

// memory has the newest changes, in the order in which they came. One goroutine adds to it, and any
// number read: what a reader sees of a list is the length that it had when the reader looked, and
// what it takes of that ends with the entries of its snapshot.
type memory struct {
	terms sync.Map // from a term to its *growing
	// What only the goroutine that adds has: all entries, and the newest of each document.
	rows   []row
	newest map[uint64]uint32
	bytes  int // in logs
}

// growing is a list of postings, of which what has been published does not change.
type growing struct{ now atomic.Pointer[postings] }

// postings are a list of postings, as cursors have them.
type postings struct {
	ats, tfs  []uint32
	positions [][]uint32
}

func newMemory() *memory { return &memory{newest: map[uint64]uint32{}} }

// occurrence is a term of a document.
type occurrence struct {
	term string
	posting
}

// occurrences are the terms of a document, and its len. Positions are on one line: a field begins
// MaxPlace after the last position of the one before, so no phrase is in two.
func occurrences(text *analysis.Text) (list []occurrence, long uint32) {
	at := map[string]int{}
	field, base, last := analysis.Title, 0, 0
	for _, t := range analysis.Tokens(text) {
		if t.Field != field {
			field, base = t.Field, last+analysis.MaxPlace
		}
		last = base + t.Position
		i, is := at[t.Term]
		if !is {
			i = len(list)
			at[t.Term] = i
			list = append(list, occurrence{term: t.Term})
		}
		weight := uint32(t.Field.Weight())
		list[i].tf += weight
		long += weight
		list[i].positions = append(list[i].positions, uint32(last))
	}
	return list, long
}

// add adds an entry.
func (m *memory) add(r row, list []occurrence) {
	at := uint32(len(m.rows))
	m.rows = append(m.rows, r)
	m.newest[r.doc] = at
	for _, o := range list {
		var g *growing
		if found, is := m.terms.Load(o.term); is {
			g = found.(*growing)
		} else {
			g = &growing{}
			g.now.Store(&postings{})
			m.terms.Store(o.term, g)
		}
		p := *g.now.Load()
		p.ats, p.tfs = append(p.ats, at), append(p.tfs, o.tf)
		p.positions = append(p.positions, o.positions)
		g.now.Store(&p)
	}
}

// list is the postings of a term in the first so many entries; nil if there are none.
func (m *memory) list(term string, entries int) *postings {
	found, is := m.terms.Load(term)
	if !is {
		return nil
	}
	p := *found.(*growing).now.Load()
	n, _ := slices.BinarySearch(p.ats, uint32(entries))
	if n == 0 {
		return nil
	}
	return &postings{p.ats[:n], p.tfs[:n], p.positions[:n]}
}

// each calls a function with each term, of later entries as well.
func (m *memory) each(f func(term string)) {
	m.terms.Range(func(term, _ any) bool {
		f(term.(string))
		return true
	})
}

// sorted are all terms, in the order of their bytes.
func (m *memory) sorted() (all []string) {
	m.each(func(term string) { all = append(all, term) })
	slices.Sort(all)
	return all
}
