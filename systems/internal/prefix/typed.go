package prefix

import (
	"strings"
	"sync"

	"github.com/blevesearch/vellum/levenshtein"
)

// MaxEdits is how many characters of a prefix may be wrong at most.
const MaxEdits = 2

// Typed is a prefix as an automaton over the bytes of phrases: they fit once it has matched,
// whatever follows.
type Typed struct {
	Prefix string
	// Edits is how many characters of it may be wrong, missing or too many.
	Edits int
	dfa   *levenshtein.DFA // nil: none may be
}

// The states of the automaton that are its own.
const (
	dead    = int(levenshtein.SinkState)
	matched = -1
)

// Automata make automata. What those with so many edits share takes milliseconds to make.
type Automata [MaxEdits]func() (*levenshtein.LevenshteinAutomatonBuilder, error)

// NewAutomata makes nothing yet.
func NewAutomata() (a Automata) {
	for i := range a {
		a[i] = sync.OnceValues(func() (*levenshtein.LevenshteinAutomatonBuilder, error) {
			return levenshtein.NewLevenshteinAutomatonBuilder(uint8(i+1), false)
		})
	}
	return a
}

// Of makes the automaton of a prefix, which has more characters than edits.
func (a Automata) Of(prefix string, edits int) (t Typed, err error) {
	t = Typed{Prefix: prefix, Edits: edits}
	if edits > 0 {
		builder, err := a[edits-1]()
		if err != nil {
			return t, err
		}
		t.dfa, err = builder.BuildDfa(prefix, uint8(edits))
		return t, err
	}
	return t, nil
}

// next is the state after another byte.
func (t Typed) next(state int, b byte) int {
	if state == matched || state == dead {
		return state
	}
	state = t.dfa.Accept(state, b)
	if state != dead && t.dfa.IsMatch(state) {
		return matched
	}
	return state
}

// along is the state after some bytes, or after those of them that have decided.
func (t Typed) along(state int, text string) int {
	for i := 0; i < len(text) && state != dead && state != matched; i++ {
		state = t.next(state, text[i])
	}
	return state
}

// Fits says whether a phrase begins with the prefix, or nearly so.
func (t Typed) Fits(phrase string) bool {
	if t.dfa == nil {
		return strings.HasPrefix(phrase, t.Prefix)
	}
	return t.along(t.dfa.Start(), phrase) == matched
}
