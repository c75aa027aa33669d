package textsearch

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"stampede/systems/textsearch/analysis"
	"stampede/systems/textsearch/exact"
)

// oracle says what any generation has. It knows every version of every document and when it was
// there, and shares nothing with the designs but the analysis of texts.
type oracle struct {
	log    []*version            // in order
	of     map[uint64]*version   // by version
	docs   map[uint64][]*version // of each document, in order
	having map[string][]*version
	terms  []string            // in order
	sounds map[string][]string // terms, by code
	near   map[string][]string // terms within two characters, once they were asked for

	live    []int64 // documents after each change
	lengths []int64 // and the sum of their lengths
}

// version is one of a document, and the span of generations in which it is there.
type version struct {
	LogRow
	until int64 // the document's next change, exclusive
	text  *exact.Doc
}

// newOracle takes the changes, and the text of each version that was asked for.
func newOracle(log []LogRow, texts map[uint64]*analysis.Text) *oracle {
	o := &oracle{of: map[uint64]*version{}, docs: map[uint64][]*version{},
		having: map[string][]*version{},
		sounds: map[string][]string{}, near: map[string][]string{}}
	rows := slices.SortedFunc(slices.Values(log), func(a, b LogRow) int {
		return cmp.Compare(a.Seq, b.Seq)
	})
	var live, length int64
	for _, row := range rows {
		v := &version{row, math.MaxInt64, exact.Read(texts[row.Version])}
		if n := len(o.docs[row.Doc]); n > 0 {
			before := o.docs[row.Doc][n-1]
			before.until = row.Seq
			if !before.Deleted {
				live, length = live-1, length-before.text.Length
			}
		}
		if !row.Deleted {
			live, length = live+1, length+v.text.Length
		}
		o.docs[row.Doc], o.of[row.Version] = append(o.docs[row.Doc], v), v
		o.log = append(o.log, v)
		o.live, o.lengths = append(o.live, live), append(o.lengths, length)
		for term := range v.text.TF {
			o.having[term] = append(o.having[term], v)
		}
	}
	o.terms = slices.Sorted(maps.Keys(o.having))
	for _, term := range o.terms {
		for _, code := range analysis.Codes(term) {
			o.sounds[code] = append(o.sounds[code], term)
		}
	}
	return o
}

// moment is the corpus at one generation. It is an analysis.Vocabulary.
type moment struct {
	*oracle
	generation int64
}

// last is the newest generation.
func (o *oracle) last() int64 {
	if len(o.log) == 0 {
		return 0
	}
	return o.log[len(o.log)-1].Seq
}

// upTo is the last change of a generation; nil if there is none.
func (m moment) upTo() (i int, v *version) {
	i, _ = slices.BinarySearchFunc(m.log, m.generation+1, func(v *version, seq int64) int {
		return cmp.Compare(v.Seq, seq)
	})
	if i == 0 {
		return -1, nil
	}
	return i - 1, m.log[i-1]
}

// size is how many documents there are, and their mean length.
func (m moment) size() (n int64, mean float64) {
	i, _ := m.upTo()
	if i < 0 || m.live[i] == 0 {
		return 0, 0
	}
	return m.live[i], float64(m.lengths[i]) / float64(m.live[i])
}

// has says whether a version is there.
func (m moment) has(v *version) bool {
	return !v.Deleted && v.Seq <= m.generation && m.generation < v.until
}

// Has implements analysis.Vocabulary, and so do the others.
func (m moment) Has(term string) bool { return slices.ContainsFunc(m.having[term], m.has) }

// Frequency counts.
func (m moment) Frequency(term string) (n int64) {
	for _, v := range m.having[term] {
		if m.has(v) {
			n++
		}
	}
	return n
}

// most is the highest that a document frequency may be: versions that are gone may count.
func (m moment) most(term string) (n int64) {
	for _, v := range m.having[term] {
		if v.Seq <= m.generation {
			n++
		}
	}
	return n
}

// Fuzzy looks at all terms.
func (m moment) Fuzzy(term string, distance int) (list []string) {
	const furthest = 2
	near, asked := m.near[term]
	if !asked {
		for _, t := range m.terms {
			if analysis.Distance(t, term) <= furthest {
				near = append(near, t)
			}
		}
		m.near[term] = near
	}
	for _, t := range near {
		if m.Has(t) && analysis.Distance(t, term) <= distance {
			list = append(list, t)
		}
	}
	return list
}

// Pair counts.
func (m moment) Pair(a, b string) (n int64) {
	for _, v := range m.having[a] {
		if m.has(v) && v.text.Says([]analysis.Placed{{Term: a}, {Term: b, Place: 1}}) {
			n++
		}
	}
	return n
}

// Sounds looks at all terms with a code.
func (m moment) Sounds(code string) (list []string) {
	for _, term := range m.sounds[code] {
		if m.Has(term) {
			list = append(list, term)
		}
	}
	return list
}

// resolve makes the query's prefixes to terms that are there.
func (m moment) resolve(q analysis.Query) exact.Wanted { return exact.Resolve(q, m.beginning) }

// beginning are the terms with a prefix.
func (m moment) beginning(prefix string) (list []string) {
	i, _ := slices.BinarySearch(m.terms, prefix)
	for ; i < len(m.terms) && strings.HasPrefix(m.terms[i], prefix); i++ {
		if m.Has(m.terms[i]) {
			list = append(list, m.terms[i])
		}
	}
	return list
}

// all are the versions that match, by document.
func (m moment) all(w exact.Wanted) (list []*version) {
	if len(w.Terms) == 0 {
		return nil
	}
	from := w.Terms // the fewest terms of which each document has one
	for _, g := range w.Groups {
		if len(g) < len(from) {
			from = g
		}
	}
	if len(w.Phrase) > 0 {
		from = []string{w.Phrase[0].Term}
	}
	seen := map[*version]bool{}
	for _, term := range from {
		for _, v := range m.having[term] {
			if !seen[v] && m.has(v) && w.Fits(v.text) {
				list = append(list, v)
			}
			seen[v] = true
		}
	}
	slices.SortFunc(list, func(a, b *version) int { return cmp.Compare(a.Doc, b.Doc) })
	return list
}
