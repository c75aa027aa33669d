package autocomplete

import (
	"context"

	"stampede/systems/internal/prefix"
)

// linearScan looks at every phrase, to compare.
//
// The idea: all phrases in a list, which each suggestion reads from end to end.
//
// The guarantee: that of trie_top_k, with no memory but for the phrases.
//
// It gives up: time in proportion to the number of phrases, and changes wait for suggestions.
func linearScan() variant {
	return variant{Name: "linear_scan",
		Idea:       "all phrases in a list in each API, which a suggestion reads from end to end",
		Guarantees: "the exact top of one version; blocked phrases are gone at once",
		GivesUp:    "time in proportion to the number of phrases; changes wait for suggestions",
		Open: func(_ context.Context, st *opened) (Suggester, error) {
			return inMemory(st, &scan{at: map[string]int{}}, byLease), nil
		},
	}
}

// scan is a list in no order.
type scan struct {
	list []prefix.Phrase
	at   map[string]int
}

// Prepare changes nothing yet.
func (s *scan) Prepare(list []prefix.Phrase) (publish func()) {
	return func() {
		for _, c := range list {
			s.put(c)
		}
	}
}

func (s *scan) put(c prefix.Phrase) {
	at, is := s.at[c.Text]
	switch {
	case c.Score > 0 && is:
		s.list[at] = c
	case c.Score > 0:
		s.at[c.Text] = len(s.list)
		s.list = append(s.list, c)
	case is:
		last := s.list[len(s.list)-1]
		s.list[at], s.at[last.Text] = last, at
		s.list = s.list[:len(s.list)-1]
		delete(s.at, c.Text)
	}
}

// Best looks at all.
func (s *scan) Best(q prefix.Typed) []prefix.Phrase {
	var top prefix.Top
	for i := range s.list {
		p := &s.list[i]
		if (len(top) < most || prefix.Better(p, top[most-1]) < 0) && q.Fits(p.Text) {
			top.Add(p)
		}
	}
	return top.List()
}

// Get finds a phrase.
func (s *scan) Get(phrase string) (prefix.Phrase, bool) {
	if at, is := s.at[phrase]; is {
		return s.list[at], true
	}
	return prefix.Phrase{}, false
}

// Bytes counts the list, and about two words and a half for each entry of the map.
func (s *scan) Bytes() (sum int64) {
	for i := range s.list {
		const mapped = 40
		sum += s.list[i].Bytes() + mapped
	}
	return sum
}
