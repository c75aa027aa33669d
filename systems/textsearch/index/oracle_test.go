package index

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"stampede/systems/textsearch/analysis"
	"stampede/systems/textsearch/exact"
)

// oracle is the documents of an index, which it goes through for each question: the definitions of
// analysis.Query, analysis.Vocabulary and of the package, and nothing else.
type oracle map[uint64]kept

type kept struct {
	version uint64
	gone    bool
	*exact.Doc
}

// change makes a change, if it is not stale; no text deletes.
func (s oracle) change(doc, version uint64, text *analysis.Text) bool {
	if known, is := s[doc]; is && known.version >= version {
		return false
	}
	s[doc] = kept{version, text == nil, exact.Read(text)}
	return true
}

func (s oracle) terms() map[string]int64 {
	all := map[string]int64{}
	for _, k := range s {
		for term := range k.TF {
			all[term]++
		}
	}
	return all
}

// Has says whether a document has a term.
func (s oracle) Has(term string) bool { return s.Frequency(term) > 0 }

// Frequency is how many documents have a term.
func (s oracle) Frequency(term string) (n int64) {
	for _, k := range s {
		if k.TF[term] > 0 {
			n++
		}
	}
	return n
}

// Fuzzy are the terms that are like another; see analysis.Vocabulary.
func (s oracle) Fuzzy(term string, distance int) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(s.terms())), func(t string) bool {
		return !within([]rune(t), []rune(term), distance)
	})
}

func within(a, b []rune, edits int) bool {
	if len(a) == 0 || len(b) == 0 {
		return len(a)+len(b) <= edits
	}
	if a[0] == b[0] && within(a[1:], b[1:], edits) {
		return true
	}
	return edits > 0 && (within(a[1:], b, edits-1) || within(a, b[1:], edits-1) ||
		within(a[1:], b[1:], edits-1))
}

// Pair is how many documents have two terms beside each other.
func (s oracle) Pair(a, b string) (n int64) {
	for _, k := range s {
		if k.Says([]analysis.Placed{{Term: a}, {Term: b, Place: 1}}) {
			n++
		}
	}
	return n
}

// Sounds are the terms that sound like a code; see analysis.Vocabulary.
func (s oracle) Sounds(code string) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(s.terms())), func(t string) bool {
		return !slices.Contains(analysis.Codes(t), code)
	})
}

// search finds the best n documents, with the df that an index has used.
func (s oracle) search(q analysis.Query, n int, df map[string]int64) Result {
	r := Result{Hits: []Hit{}, DF: df}
	w := s.wanted(q)
	var all int64
	for _, k := range s {
		if !k.gone {
			r.N++
			all += k.Length
		}
	}
	if r.N > 0 {
		r.Length = float64(all) / float64(r.N)
	}
	for doc, k := range s {
		if w.Fits(k.Doc) {
			r.Hits = append(r.Hits, Hit{doc, k.version, w.Score(k.Doc, r.N, r.Length, df)})
		}
	}
	slices.SortFunc(r.Hits, func(a, b Hit) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Doc, b.Doc))
	})
	r.Hits = r.Hits[:min(n, len(r.Hits))]
	return r
}

// wanted is a query in terms.
func (s oracle) wanted(q analysis.Query) exact.Wanted {
	return exact.Resolve(q, func(prefix string) []string {
		return slices.DeleteFunc(slices.Collect(maps.Keys(s.terms())), func(term string) bool {
			return !strings.HasPrefix(term, prefix)
		})
	})
}
