package index

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/blevesearch/vellum/levenshtein"
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
	for i := 0; i < len(s.v.leaves) && n < enough; i++ {
		l := &s.v.leaves[i]
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
	var r Result
	r.DF = map[string]int64{}
	f := s.finding(analysis.Query{Phrase: []analysis.Placed{{Term: a}, {Term: b, Place: 1}}}, &r)
	f.find(s.v.leaves)
	return f.count
}

// maxEdits is how many edits Fuzzy allows at most.
const maxEdits = 2

// Fuzzy are the terms that are like another; see analysis.Vocabulary. An automaton that accepts
// them goes through the transducers of the segments, and over each term in memory.
func (s *Snapshot) Fuzzy(term string, distance int) []string {
	if distance < 1 || distance > maxEdits {
		return nil
	}
	builder, err := s.x.automata[distance-1]()
	if err != nil {
		return nil
	}
	dfa, err := builder.BuildDfa(term, uint8(distance))
	if err != nil {
		return nil
	}
	return s.terms(
		func(g *segment, found func(string)) { g.accepted(dfa, found) },
		func(t string) bool { return accepts(dfa, t) })
}

// accepts runs an automaton over a term.
func accepts(dfa *levenshtein.DFA, term string) bool {
	state := dfa.Start()
	for i := 0; i < len(term) && dfa.CanMatch(state); i++ {
		state = dfa.Accept(state, term[i])
	}
	return dfa.IsMatch(state)
}

// Sounds are the terms with one of analysis.Codes; see analysis.Vocabulary. An automaton goes
// through the transducers to terms that are like the code: with the codes themselves these would
// make an index larger by a quarter.
func (s *Snapshot) Sounds(code string) []string {
	alike, err := regexp.New(analysis.SoundPattern(code))
	if err != nil {
		return nil
	}
	is := func(t string) bool { return analysis.SoundsLike(t, code) }
	return s.terms(func(g *segment, found func(string)) {
		g.accepted(alike, func(t string) {
			if is(t) {
				found(t)
			}
		})
	}, is)
}

// terms are the terms of documents that are found in segments and in memory, in the order of their
// bytes.
func (s *Snapshot) terms(in func(*segment, func(string)), is func(term string) bool) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(s.candidates(in, is))),
		func(t string) bool { return !s.Has(t) })
}

// candidates are terms that documents have or have had.
func (s *Snapshot) candidates(
	in func(*segment, func(string)), is func(term string) bool,
) map[string]bool {
	all := map[string]bool{}
	found := func(t string) { all[t] = true }
	for i := range s.v.leaves {
		if l := &s.v.leaves[i]; l.seg != nil {
			in(l.seg, found)
		} else {
			l.mem.each(func(t string) {
				if is(t) {
					found(t)
				}
			})
		}
	}
	return all
}

// prefixed are the terms that a prefix stands for; see analysis.Group.
func (s *Snapshot) prefixed(prefix string) (list []string) {
	all := slices.SortedFunc(maps.Keys(s.candidates(
		func(g *segment, found func(string)) { g.prefixed(prefix, found) },
		func(t string) bool { return strings.HasPrefix(t, prefix) })),
		func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	for _, t := range all {
		if len(list) == analysis.MaxPrefixed {
			break
		}
		if s.Has(t) {
			list = append(list, t)
		}
	}
	return list
}
