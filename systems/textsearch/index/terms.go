package index

import (
	"maps"
	"math"
	"runtime"
	"slices"
	"strings"

	"github.com/blevesearch/vellum"
	"github.com/blevesearch/vellum/regexp"

	"stampede/systems/textsearch/analysis"
)

// The methods of a snapshot that make it an analysis.Vocabulary.
var _ analysis.Vocabulary = (*Snapshot)(nil)

// Has says whether a document has a term.
func (s *Snapshot) Has(term string) bool { return s.live(term, 1) > 0 }

// Frequency is how many documents have a term, exactly.
func (s *Snapshot) Frequency(term string) int64 { return s.live(term, math.MaxInt64) }

// live counts the documents that have a term, at least until there are so many.
func (s *Snapshot) live(term string, enough int64) (n int64) {
	defer runtime.KeepAlive(s)
	for i := 0; i < len(s.leaves) && n < enough; i++ {
		l := &s.leaves[i]
		c := l.cursor(term)
		if c == nil {
			continue
		}
		if l.old == nil {
			n += int64(c.n)
			continue
		}
		for at := c.seek(0); at != none && n < enough; at = c.seek(at + 1) {
			if !l.isOld(at) {
				n++
			}
		}
	}
	return n
}

// Pair is how many documents have two terms beside each other.
func (s *Snapshot) Pair(a, b string) int64 {
	defer runtime.KeepAlive(s)
	r := Result{DF: map[string]int64{}}
	f := s.finding(analysis.Query{Phrase: []analysis.Placed{{Term: a}, {Term: b, Place: 1}}}, &r)
	f.find(s.leaves)
	return f.count
}

// Fuzzy are the terms that are like another; see analysis.Vocabulary. An automaton that accepts
// them goes through the transducers of the segments, and over each term in memory.
func (s *Snapshot) Fuzzy(term string, distance int) []string {
	builder, err := s.x.automata[distance-1]()
	if err != nil {
		return nil
	}
	dfa, err := builder.BuildDfa(term, uint8(distance))
	if err != nil {
		return nil
	}
	return s.there(s.candidates(dfa, func(t string) bool {
		is, _ := dfa.MatchAndDistance(t)
		return is
	}))
}

// Sounds are the terms with one of analysis.Codes; see analysis.Vocabulary. An automaton goes
// through the transducers to terms that are like the code: with the codes themselves these would
// make an index larger by a quarter.
func (s *Snapshot) Sounds(code string) []string {
	return s.there(s.like(analysis.SoundPattern(code), func(t string) bool {
		return analysis.SoundsLike(t, code)
	}))
}

// there are those of some terms that documents have.
func (s *Snapshot) there(terms []string) []string {
	return slices.DeleteFunc(terms, func(t string) bool { return !s.Has(t) })
}

// candidates are terms that documents have or have had, in the order of their bytes: those that an
// automaton accepts, which leads through the transducers of segments, and a function too.
func (s *Snapshot) candidates(a vellum.Automaton, is func(term string) bool) []string {
	defer runtime.KeepAlive(s)
	all := map[string]bool{}
	for i := range s.leaves {
		s.leaves[i].terms(a, func(t string) {
			if is(t) {
				all[t] = true
			}
		})
	}
	return slices.Sorted(maps.Keys(all))
}

// like are candidates by a regular expression.
func (s *Snapshot) like(pattern string, is func(term string) bool) []string {
	a, err := regexp.New(pattern)
	if err != nil {
		return nil
	}
	return s.candidates(a, is)
}

// prefixed are the terms that a prefix stands for; see analysis.Group.
func (s *Snapshot) prefixed(prefix string) []string {
	return analysis.Prefixed(
		s.like(prefix+".*", func(t string) bool { return strings.HasPrefix(t, prefix) }), s.Has)
}
