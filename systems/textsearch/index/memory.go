package index

import (
	"slices"
	"sync"

	"stampede/systems/textsearch/analysis"
)

// memory has the newest changes, in the order in which they came. One goroutine adds to it, and any
// number read: what a reader sees of a list is the length that it had when the reader looked, and
// what it takes of that ends with the entries of its snapshot.
type memory struct {
	terms sync.Map // from a term to its *postings, of which what is published does not change
	// What only the goroutine that adds has: all entries, and the newest of each document.
	rows   []row
	newest map[uint64]uint32
	bytes  int // in logs
}

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
		var p postings
		if before, is := m.terms.Load(o.term); is {
			p = *before.(*postings)
		}
		p.ats, p.tfs = append(p.ats, at), append(p.tfs, o.tf)
		p.positions = append(p.positions, o.positions)
		m.terms.Store(o.term, &p)
	}
}

// cursor opens the postings of a term in the first so many entries; nil if there are none.
func (m *memory) cursor(term string, entries int) *cursor {
	found, is := m.terms.Load(term)
	if !is {
		return nil
	}
	p := found.(*postings)
	n, _ := slices.BinarySearch(p.ats, uint32(entries))
	if n == 0 {
		return nil
	}
	return &cursor{n: n, ats: p.ats[:n], tfs: p.tfs[:n], positions: p.positions[:n]}
}
