package exact

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"stampede/systems/textsearch/analysis"
)

// Version is one of a document, and the span of generations in which it is there.
type Version struct {
	Doc, Version uint64
	Seq, Until   int64 // its change's number, and that of the document's next change
	Deleted      bool
	Text         *Doc
}

// Corpus has every version of every document, and finds what any generation has by going through
// them. It is no index: it keeps what was found once, and that is all.
type Corpus struct {
	Log  []*Version            // in order
	Docs map[uint64][]*Version // of each document, in order
	Of   map[uint64]*Version   // by version, the last one of it

	having  map[string][]*Version
	live    []int64 // documents after each change
	lengths []int64 // and the sum of their lengths

	// Of all terms, once they are asked about: in order, and those within two characters of one.
	terms []string
	near  map[string][]string
}

// NewCorpus is an empty one.
func NewCorpus() *Corpus {
	return &Corpus{Docs: map[uint64][]*Version{}, Of: map[uint64]*Version{},
		having: map[string][]*Version{}}
}

// Add adds a change with the terms of its text, which has a higher number than all before it.
func (c *Corpus) Add(v Version, text *analysis.Text) *Version {
	v.Until, v.Text = math.MaxInt64, Read(text)
	var live, length int64
	if n := len(c.Log); n > 0 {
		live, length = c.live[n-1], c.lengths[n-1]
	}
	if list := c.Docs[v.Doc]; len(list) > 0 {
		before := list[len(list)-1]
		if before.Until = v.Seq; !before.Deleted {
			live, length = live-1, length-before.Text.Length
		}
	}
	if !v.Deleted {
		live, length = live+1, length+v.Text.Length
	}
	c.Log, c.Docs[v.Doc], c.Of[v.Version] = append(c.Log, &v), append(c.Docs[v.Doc], &v), &v
	c.live, c.lengths = append(c.live, live), append(c.lengths, length)
	for term := range v.Text.TF {
		if c.having[term] = append(c.having[term], &v); len(c.having[term]) == 1 {
			c.terms = nil
		}
	}
	return &v
}

// all are all terms, in order.
func (c *Corpus) all() []string {
	if c.terms == nil {
		c.terms, c.near = slices.Sorted(maps.Keys(c.having)), map[string][]string{}
	}
	return c.terms
}

// At is the corpus at a generation, which is before that Until which is not known yet.
func (c *Corpus) At(generation int64) Moment { return Moment{c, min(generation, math.MaxInt64-1)} }

// Moment is a corpus at one generation. It is an analysis.Vocabulary.
type Moment struct {
	*Corpus
	Generation int64
}

// UpTo is the last change of the generation, and its place in the log; nil if there is none.
func (m Moment) UpTo() (i int, v *Version) {
	i, _ = slices.BinarySearchFunc(m.Log, m.Generation+1, func(v *Version, seq int64) int {
		return cmp.Compare(v.Seq, seq)
	})
	if i == 0 {
		return -1, nil
	}
	return i - 1, m.Log[i-1]
}

// Size is how many documents there are, and their mean length.
func (m Moment) Size() (n int64, mean float64) {
	i, _ := m.UpTo()
	if i < 0 || m.live[i] == 0 {
		return 0, 0
	}
	return m.live[i], float64(m.lengths[i]) / float64(m.live[i])
}

// There says whether a version is there.
func (m Moment) There(v *Version) bool {
	return !v.Deleted && v.Seq <= m.Generation && m.Generation < v.Until
}

// Gone says whether a document's last change deleted it.
func (m Moment) Gone(doc uint64) bool {
	return slices.ContainsFunc(m.Docs[doc], func(v *Version) bool {
		return v.Deleted && v.Seq <= m.Generation && m.Generation < v.Until
	})
}

// Having are the versions with a term, of any generation.
func (m Moment) Having(term string) []*Version { return m.having[term] }

// Has implements analysis.Vocabulary, and so do the others.
func (m Moment) Has(term string) bool { return slices.ContainsFunc(m.having[term], m.There) }

// Frequency counts.
func (m Moment) Frequency(term string) (n int64) { return count(m.having[term], m.There) }

// Most is the highest that a document frequency may be: versions that are gone may count.
func (m Moment) Most(term string) int64 {
	return count(m.having[term], func(v *Version) bool { return v.Seq <= m.Generation })
}

func count(list []*Version, is func(*Version) bool) (n int64) {
	for _, v := range list {
		if is(v) {
			n++
		}
	}
	return n
}

// that are those of some terms that are there, and for which a function is true.
func (m Moment) that(terms []string, is func(string) bool) (list []string) {
	for _, t := range terms {
		if is(t) && m.Has(t) {
			list = append(list, t)
		}
	}
	return list
}

// Fuzzy looks at all terms.
func (m Moment) Fuzzy(term string, distance int) []string {
	within := func(most int) func(string) bool {
		return func(t string) bool { return analysis.Distance(t, term) <= most }
	}
	const furthest = 2
	all := m.all()
	near, asked := m.near[term]
	if !asked {
		for _, t := range all {
			if within(furthest)(t) {
				near = append(near, t)
			}
		}
		m.near[term] = near
	}
	return m.that(near, within(distance))
}

// Pair counts.
func (m Moment) Pair(a, b string) int64 {
	return count(m.having[a], func(v *Version) bool {
		return m.There(v) && v.Text.Says([]analysis.Placed{{Term: a}, {Term: b, Place: 1}})
	})
}

// Sounds looks at all terms.
func (m Moment) Sounds(code string) []string {
	return m.that(m.all(), func(t string) bool { return analysis.SoundsLike(t, code) })
}

// Resolve makes the query's prefixes to terms that are there.
func (m Moment) Resolve(q analysis.Query) (w Wanted) {
	w.Phrase = q.Phrase
	for _, g := range q.Must {
		group := slices.Clone(g.Terms)
		if g.Prefix != "" {
			list := m.that(m.all(), func(t string) bool { return strings.HasPrefix(t, g.Prefix) })
			slices.SortStableFunc(list, func(a, b string) int { return cmp.Compare(len(a), len(b)) })
			group = append(group, list[:min(analysis.MaxPrefixed, len(list))]...)
		}
		w.Groups, w.Terms = append(w.Groups, group), append(w.Terms, group...)
	}
	for _, p := range q.Phrase {
		w.Terms = append(w.Terms, p.Term)
	}
	slices.Sort(w.Terms)
	w.Terms = slices.Compact(w.Terms)
	return w
}

// Matching are the versions that match, by document.
func (m Moment) Matching(w Wanted) (list []*Version) {
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
	seen := map[*Version]bool{}
	for _, term := range from {
		for _, v := range m.having[term] {
			if !seen[v] && m.There(v) && w.Fits(v.Text) {
				list = append(list, v)
			}
			seen[v] = true
		}
	}
	slices.SortFunc(list, func(a, b *Version) int { return cmp.Compare(a.Doc, b.Doc) })
	return list
}

// Search finds the best n documents, with the document frequencies that a function says.
func (m Moment) Search(w Wanted, n int, df func(term string) int64) []analysis.Hit {
	docs, mean := m.Size()
	hits := []analysis.Hit{}
	with := map[string]int64{}
	for _, term := range w.Terms {
		with[term] = df(term)
	}
	for _, v := range m.Matching(w) {
		hits = append(hits, analysis.Hit{Doc: v.Doc, Version: v.Version,
			Score: w.Score(v.Text, docs, mean, with)})
	}
	slices.SortStableFunc(hits, func(a, b analysis.Hit) int { return cmp.Compare(b.Score, a.Score) })
	return hits[:min(n, len(hits))]
}
