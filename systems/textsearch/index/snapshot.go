package index

import (
	"runtime"
	"slices"

	"github.com/blevesearch/vellum"
)

// leaf is a part of a snapshot: the entries of a segment, or the first of a memory. It does not
// change; but the goroutine that writes has a copy that does, until it publishes that.
type leaf struct {
	seg *segment
	mem *memory
	// rows are the entries of a memory, in a slice to which later ones are added behind its end.
	rows []row
	// old has a bit for each entry that is not its document's newest one.
	old    []uint64
	marked int    // how many these are
	live   int64  // entries that are not old and do not say that a document is deleted
	length uint64 // the sum of their len
	owned  bool   // old is not published yet
}

// leafOf is a segment of which no entry is old.
func leafOf(s *segment) leaf {
	l := leaf{seg: s}
	for i := range uint32(s.entries) {
		if !s.entry(i).gone {
			l.live++
			l.length += uint64(s.len(i))
		}
	}
	return l
}

func (l *leaf) entries() int {
	if l.seg != nil {
		return l.seg.entries
	}
	return len(l.rows)
}

func (l *leaf) row(i uint32) row {
	if l.seg != nil {
		return row{l.seg.doc(i), l.seg.entry(i), l.seg.len(i)}
	}
	return l.rows[i]
}

func (l *leaf) len(i uint32) uint32 {
	if l.seg != nil {
		return l.seg.len(i)
	}
	return l.rows[i].len
}

// isOld says whether a document has a newer entry.
func (l *leaf) isOld(i uint32) bool {
	return int(i>>6) < len(l.old) && l.old[i>>6]>>(i&63)&1 != 0
}

// mark makes an entry old.
func (l *leaf) mark(i uint32) {
	if l.isOld(i) {
		return
	}
	if !l.owned {
		l.old, l.owned = slices.Clone(l.old), true
	}
	if need := int(i>>6) + 1; need > len(l.old) {
		l.old = append(l.old, make([]uint64, need-len(l.old))...)
	}
	l.old[i>>6] |= 1 << (i & 63)
	l.marked++
	if r := l.row(i); !r.gone {
		l.live--
		l.length -= uint64(r.len)
	}
}

// find finds the newest entry that the leaf has of a document. In a memory it is found among all
// entries, by the goroutine that adds to it.
func (l *leaf) find(doc uint64) (uint32, bool) {
	if l.seg != nil {
		return l.seg.find(doc)
	}
	i, is := l.mem.newest[doc]
	return i, is
}

// terms calls a function with the terms of a segment that an automaton accepts, in the order of
// their bytes, or with all terms of a memory, in no order and of later entries as well. Without an
// automaton it does so with all terms of either.
func (l *leaf) terms(a vellum.Automaton, f func(term string)) {
	if l.seg == nil {
		l.mem.terms.Range(func(term, _ any) bool {
			f(term.(string))
			return true
		})
		return
	}
	it, err := l.seg.terms.Search(a, nil, nil)
	for ; err == nil; err = it.Next() {
		term, _ := it.Current()
		f(string(term))
	}
}

// cursor opens the postings of a term; nil if the leaf has none.
func (l *leaf) cursor(term string) *cursor {
	if l.seg != nil {
		return l.seg.cursor(term)
	}
	return l.mem.cursor(term, len(l.rows))
}

// Snapshot is an index at one generation, whatever is changed or merged meanwhile. Files that were
// merged are on disk until the garbage collector has found that no snapshot has them. So methods
// that read files keep the snapshot alive until they end.
type Snapshot struct {
	x          *Index
	generation uint64
	leaves     []leaf // segments, and then memories
	missing    []uint64
	docs       int64
	length     uint64
}

// Generation is the highest sequence number that the snapshot reflects; it reflects none above.
func (s *Snapshot) Generation() uint64 { return s.generation }

// Gone is how many versions that are deleted or replaced may still count in a document frequency.
func (s *Snapshot) Gone() (n int64) {
	for i := range s.leaves {
		n += int64(s.leaves[i].marked)
	}
	return n
}

// Each calls a function with each document, in no order.
func (s *Snapshot) Each(f func(doc, version uint64)) {
	defer runtime.KeepAlive(s)
	for i := range s.leaves {
		l := &s.leaves[i]
		for at := range uint32(l.entries()) {
			if r := l.row(at); !r.gone && !l.isOld(at) {
				f(r.doc, r.Version)
			}
		}
	}
}

// Segments describes the segments that the manifest lists.
func (s *Snapshot) Segments() (list []Segment) {
	defer runtime.KeepAlive(s)
	for i := range s.leaves {
		if l := &s.leaves[i]; l.seg != nil {
			b := l.seg.file.bytes
			list = append(list, Segment{l.seg.id, l.live, int64(len(b)), whole(b)})
		}
	}
	for _, id := range s.missing {
		list = append(list, Segment{ID: id})
	}
	return list
}
