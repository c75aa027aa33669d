// Package exact says by definition what a query finds: whether a document matches, and with which
// score. See analysis.Query and package index.
package exact

import (
	"math"
	"slices"

	"stampede/systems/textsearch/analysis"
)

// Doc is a document with its terms.
type Doc struct {
	places map[string][]spot
	// TF is the fields' weights for each time that a term is in one.
	TF map[string]int64
	// Length is the fields' weights for each of their terms.
	Length int64
}

// spot is where a term is.
type spot struct {
	field analysis.Field
	at    int
}

// Read finds the terms of a text; nil has none.
func Read(text *analysis.Text) *Doc {
	d := &Doc{places: map[string][]spot{}, TF: map[string]int64{}}
	if text == nil {
		return d
	}
	for _, t := range analysis.Tokens(text) {
		weight := int64(t.Field.Weight())
		d.places[t.Term] = append(d.places[t.Term], spot{t.Field, t.Position})
		d.TF[t.Term] += weight
		d.Length += weight
	}
	return d
}

// Says says whether a document has a phrase in one field.
func (d *Doc) Says(phrase []analysis.Placed) bool {
	first := phrase[0]
	return slices.ContainsFunc(d.places[first.Term], func(from spot) bool {
		return !slices.ContainsFunc(phrase, func(p analysis.Placed) bool {
			return !slices.Contains(d.places[p.Term], spot{from.field, from.at - first.Place + p.Place})
		})
	})
}

// Wanted is a query in terms: groups of which a document has one each, and a phrase.
type Wanted struct {
	Groups [][]string
	Phrase []analysis.Placed
	Terms  []string // all of them, in order
}

// Fits says whether a document matches.
func (w Wanted) Fits(d *Doc) bool {
	for _, g := range w.Groups {
		if !slices.ContainsFunc(g, func(term string) bool { return d.TF[term] > 0 }) {
			return false
		}
	}
	return len(w.Terms) > 0 && (len(w.Phrase) == 0 || d.Says(w.Phrase))
}

// Score is BM25F: of a document, among n of a mean length, of which df have each term.
func (w Wanted) Score(d *Doc, n int64, mean float64, df map[string]int64) (sum float64) {
	const k1, b = 1.2, 0.75
	for _, term := range w.Terms {
		tf := float64(d.TF[term])
		if tf == 0 {
			continue
		}
		with := float64(df[term])
		idf := math.Log(1 + (float64(n)-with+0.5)/(with+0.5))
		sum += idf * (k1 + 1) / (1 + k1*(1-b+b*float64(d.Length)/mean)/tf)
	}
	return sum
}
