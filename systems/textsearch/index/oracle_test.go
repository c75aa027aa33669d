package index

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"stampede/systems/textsearch/analysis"
)

// oracle is the documents of an index, which it goes through for each question: the definitions of
// analysis.Query, analysis.Vocabulary and of the package, and nothing else.
type oracle map[uint64]kept

type kept struct {
	version uint64
	gone    bool
	tokens  []analysis.Token
}

// change makes a change, if it is not stale; no text deletes.
func (s oracle) change(doc, version uint64, text *analysis.Text) bool {
	if known, is := s[doc]; is && known.version >= version {
		return false
	}
	k := kept{version: version, gone: text == nil}
	if text != nil {
		k.tokens = analysis.Tokens(text)
	}
	s[doc] = k
	return true
}

func (s oracle) terms() map[string]int64 {
	all := map[string]int64{}
	for _, k := range s {
		once := map[string]bool{}
		for _, t := range k.tokens {
			once[t.Term] = true
		}
		for term := range once {
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
		if slices.ContainsFunc(k.tokens, func(t analysis.Token) bool { return t.Term == term }) {
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
		if has(k.tokens, []analysis.Placed{{Term: a}, {Term: b, Place: 1}}) {
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

// has says whether tokens have a phrase.
func has(tokens []analysis.Token, phrase []analysis.Placed) bool {
	at := map[analysis.Token]bool{}
	for _, t := range tokens {
		at[t] = true
	}
	return slices.ContainsFunc(tokens, func(first analysis.Token) bool {
		return !slices.ContainsFunc(phrase, func(p analysis.Placed) bool {
			return !at[analysis.Token{Term: p.Term, Field: first.Field,
				Position: first.Position - phrase[0].Place + p.Place}]
		})
	})
}

// search finds the best n documents, with the df that an index has used.
func (s oracle) search(q analysis.Query, n int, df map[string]int64) Result {
	r := Result{Hits: []Hit{}, DF: df}
	groups := s.resolved(q)
	lengths := map[uint64]int{}
	var all int
	for doc, k := range s {
		for _, t := range k.tokens {
			lengths[doc] += t.Field.Weight()
		}
		if !k.gone {
			r.N++
			all += lengths[doc]
		}
	}
	if r.N > 0 {
		r.Length = float64(all) / float64(r.N)
	}
	for doc, k := range s {
		tf := map[string]int{}
		for _, t := range k.tokens {
			tf[t.Term] += t.Field.Weight()
		}
		if len(groups)+len(q.Phrase) == 0 || len(q.Phrase) > 0 && !has(k.tokens, q.Phrase) ||
			slices.ContainsFunc(groups, func(g []string) bool {
				return !slices.ContainsFunc(g, func(t string) bool { return tf[t] > 0 })
			}) {
			continue
		}
		var score float64
		for _, t := range slices.Sorted(maps.Keys(df)) {
			if tf[t] > 0 {
				df := float64(df[t])
				idf := math.Log(1 + (float64(r.N)-df+0.5)/(df+0.5))
				long := K1 * (1 - B + B*float64(lengths[doc])/r.Length)
				score += idf * (K1 + 1) / (1 + long/float64(tf[t]))
			}
		}
		r.Hits = append(r.Hits, Hit{doc, k.version, score})
	}
	slices.SortFunc(r.Hits, func(a, b Hit) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Doc, b.Doc))
	})
	r.Hits = r.Hits[:min(n, len(r.Hits))]
	return r
}

// resolved are the groups of a query with the terms of their prefixes.
func (s oracle) resolved(q analysis.Query) (groups [][]string) {
	for _, g := range q.Must {
		terms := slices.Clone(g.Terms)
		var ordered []string
		if g.Prefix != "" {
			ordered = slices.SortedFunc(maps.Keys(s.terms()), func(a, b string) int {
				return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
			})
		}
		left := analysis.MaxPrefixed
		for _, t := range ordered {
			if left > 0 && strings.HasPrefix(t, g.Prefix) {
				terms = append(terms, t)
				left--
			}
		}
		groups = append(groups, terms)
	}
	return groups
}

// terms are those of a query.
func (s oracle) termsOf(q analysis.Query) (all []string) {
	all = slices.Concat(s.resolved(q)...)
	for _, p := range q.Phrase {
		all = append(all, p.Term)
	}
	slices.Sort(all)
	return slices.Compact(all)
}
