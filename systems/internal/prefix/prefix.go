// Package prefix finds the best phrases that begin with what was typed, or nearly so: in a trie
// that has them at each node, and in a transducer that is searched best first.
package prefix

import (
	"cmp"
	"slices"
)

// Most is how many phrases an index finds at most.
const Most = 10

// Phrase is a phrase in an index.
type Phrase struct {
	Text     string
	Score    int64 // 0: it is not in the index
	Trending bool
}

// Bytes is how much memory a phrase takes.
func (p *Phrase) Bytes() int64 { return size[Phrase]() + int64(len(p.Text)) }

// Better orders phrases: the higher score, and of equal ones the lower bytes.
func Better(a, b *Phrase) int {
	return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Text, b.Text))
}

// Top is the best of what was added to it.
type Top []*Phrase

// Add adds a phrase, and says whether it is among the best.
func (t *Top) Add(p *Phrase) bool {
	at, _ := slices.BinarySearchFunc(*t, p, Better)
	if at >= Most {
		return false
	}
	*t = slices.Insert(*t, at, p)
	*t = (*t)[:min(Most, len(*t))]
	return true
}

// addAll adds a list that is in order.
func (t *Top) addAll(list []*Phrase) {
	for _, p := range list {
		if !t.Add(p) {
			return
		}
	}
}

// List copies the phrases.
func (t Top) List() []Phrase {
	list := make([]Phrase, len(t))
	for i, p := range t {
		list[i] = *p
	}
	return list
}
