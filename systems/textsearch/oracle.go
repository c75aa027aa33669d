package textsearch

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"stampede/systems/textsearch/analysis"
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
	until  int64 // the document's next change, exclusive
	places map[string][]spot
	tf     map[string]int64 // the fields' weights for each time that a term is in one
	length int64
}

// spot is where a term is.
type spot struct {
	field analysis.Field
	at    int
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
		v := read(row, texts[row.Version])
		if n := len(o.docs[row.Doc]); n > 0 {
			before := o.docs[row.Doc][n-1]
			before.until = row.Seq
			if !before.Deleted {
				live, length = live-1, length-before.length
			}
		}
		if !row.Deleted {
			live, length = live+1, length+v.length
		}
		o.docs[row.Doc], o.of[row.Version] = append(o.docs[row.Doc], v), v
		o.log = append(o.log, v)
		o.live, o.lengths = append(o.live, live), append(o.lengths, length)
		for term := range v.tf {
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

// read is a version with the terms of its text, without any if there is none.
func read(row LogRow, text *analysis.Text) *version {
	v := &version{LogRow: row, until: math.MaxInt64, places: map[string][]spot{},
		tf: map[string]int64{}}
	if text == nil {
		return v
	}
	for _, t := range analysis.Tokens(text) {
		weight := int64(t.Field.Weight())
		v.places[t.Term] = append(v.places[t.Term], spot{t.Field, t.Position})
		v.tf[t.Term] += weight
		v.length += weight
	}
	return v
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
		if m.has(v) && v.says([]analysis.Placed{{Term: a}, {Term: b, Place: 1}}) {
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

// says says whether a version has a phrase in one field.
func (v *version) says(phrase []analysis.Placed) bool {
	first := phrase[0]
	for _, from := range v.places[first.Term] {
		all := true
		for _, p := range phrase {
			all = all && slices.Contains(v.places[p.Term], spot{from.field, from.at - first.Place + p.Place})
		}
		if all {
			return true
		}
	}
	return false
}

// wanted is a query in terms: groups of which a document has one each, and a phrase.
type wanted struct {
	groups [][]string
	phrase []analysis.Placed
	terms  []string // all of them, in order
}

// resolve makes the query's prefixes to terms that are there.
func (m moment) resolve(q analysis.Query) (w wanted) {
	w.phrase = q.Phrase
	for _, g := range q.Must {
		group := slices.Clone(g.Terms)
		if g.Prefix != "" {
			group = append(group, m.beginning(g.Prefix)...)
		}
		w.groups = append(w.groups, group)
		w.terms = append(w.terms, group...)
	}
	for _, p := range q.Phrase {
		w.terms = append(w.terms, p.Term)
	}
	slices.Sort(w.terms)
	w.terms = slices.Compact(w.terms)
	return w
}

// beginning are the terms with a prefix, as analysis.Group counts them.
func (m moment) beginning(prefix string) (list []string) {
	i, _ := slices.BinarySearch(m.terms, prefix)
	for ; i < len(m.terms) && strings.HasPrefix(m.terms[i], prefix); i++ {
		if m.Has(m.terms[i]) {
			list = append(list, m.terms[i])
		}
	}
	slices.SortStableFunc(list, func(a, b string) int { return cmp.Compare(len(a), len(b)) })
	return list[:min(analysis.MaxPrefixed, len(list))]
}

// fits says whether a version matches.
func (w wanted) fits(v *version) bool {
	for _, g := range w.groups {
		if !slices.ContainsFunc(g, func(term string) bool { return v.tf[term] > 0 }) {
			return false
		}
	}
	return len(w.terms) > 0 && (len(w.phrase) == 0 || v.says(w.phrase))
}

// all are the versions that match, by document.
func (m moment) all(w wanted) (list []*version) {
	if len(w.terms) == 0 {
		return nil
	}
	from := w.terms // the fewest terms of which each document has one
	for _, g := range w.groups {
		if len(g) < len(from) {
			from = g
		}
	}
	if len(w.phrase) > 0 {
		from = []string{w.phrase[0].Term}
	}
	seen := map[*version]bool{}
	for _, term := range from {
		for _, v := range m.having[term] {
			if !seen[v] && m.has(v) && w.fits(v) {
				list = append(list, v)
			}
			seen[v] = true
		}
	}
	slices.SortFunc(list, func(a, b *version) int { return cmp.Compare(a.Doc, b.Doc) })
	return list
}

// score is BM25F as package index says it, from the figures of an answer.
func (w wanted) score(v *version, n int64, mean float64, df map[string]int64) (sum float64) {
	const k1, b = 1.2, 0.75
	for _, term := range w.terms {
		tf := float64(v.tf[term])
		if tf == 0 {
			continue
		}
		with := float64(df[term])
		idf := math.Log(1 + (float64(n)-with+0.5)/(with+0.5))
		sum += idf * (k1 + 1) / (1 + k1*(1-b+b*float64(v.length)/mean)/tf)
	}
	return sum
}
