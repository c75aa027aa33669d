package analysis

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Mode is how the words of a query belong together.
type Mode string

// The modes. Any other is And.
const (
	And    Mode = "and"    // a document has all words
	Or     Mode = "or"     // a document has one of the words at least
	Phrase Mode = "phrase" // a document has the words beside each other, in one field
	Prefix Mode = "prefix" // a document has all words, and one that begins like the last
)

// Query is what an index searches. A document matches if and only if it has for each group of Must
// one of the group's alternatives at least, in any field, and has the Phrase if there is one.
// A query without groups and phrase matches nothing.
type Query struct {
	Must []Group
	// Phrase are terms with their places, none twice at one place, and the lowest place is 0. It
	// occurs if and only if one field has, for some position p, each term at p + its place. A
	// phrase with a place of MaxPlace or more occurs nowhere.
	Phrase []Placed
}

// Group is a set of alternatives: Terms, and the terms that begin with Prefix if it is not "".
// Of these terms only the first MaxPrefixed count that are in a document at all, of which the
// shorter ones are before the longer ones (in bytes), and equally long ones in their bytes' order.
type Group struct {
	Terms  []string
	Prefix string
}

// Prefixed sorts terms that begin with a prefix, and returns those that the prefix stands for (see
// Group). has reports whether a document has a term.
func Prefixed(terms []string, has func(term string) bool) (list []string) {
	slices.SortFunc(terms, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
	})
	for _, t := range terms {
		if len(list) < MaxPrefixed && has(t) {
			list = append(list, t)
		}
	}
	return list
}

// Placed is a term of a phrase.
type Placed struct {
	Term  string
	Place int
}

// Limits of queries.
const (
	MaxWords    = 32 // words of a query that count, stop words included; Parse leaves out the rest
	MaxPlace    = 2 * MaxWords
	MaxPrefixed = 50 // alternatives that a prefix becomes
	MinPrefix   = 2  // characters of a prefix; a shorter one is a word only
)

// Vocabulary are the terms of an index: those that one of its documents has at least. All that it
// says is of one generation, and of documents that are not deleted.
type Vocabulary interface {
	// Has says whether a document has the term.
	Has(term string) bool
	// Frequency is how many documents have the term.
	Frequency(term string) int64
	// Fuzzy are the terms that differ from a term by so many characters at most (1 or 2), inserted,
	// deleted or replaced, in the order of their bytes.
	Fuzzy(term string, distance int) []string
	// Pair is how many documents have in one field the second term at the position after the
	// first.
	Pair(a, b string) int64
	// Sounds are the terms with one of Codes, in the order of their bytes.
	Sounds(code string) []string
}

// asked is a word of a query on its way through Parse.
type asked struct {
	word
	terms  []string // one, or the two of which it was joined
	others []string // synonyms of it
	known  bool
	// changed says that no document has the word, and that other terms are searched instead.
	changed bool
}

// Parse makes a query of what somebody typed. The words go through the steps of Terms; then, in
// this order:
//
//   - Spelling and segmentation, if no document has a word and it has no synonyms. The nearest term
//     replaces it: of those with the lowest distance the most frequent, and of equally frequent
//     ones the first in the order of their bytes. Terms of 3 to 5 characters may be wrong by 1,
//     longer ones by 2. If there is none with distance 1, the word is split into two whose terms
//     follow each other in the most documents, at the first such place; then distance 2.
//   - Synonyms are added as alternatives, but not in a phrase.
//   - Sound, for words that are still in no document: of the terms with the same Metaphone, or
//     else with the same Soundex, the one with the lowest distance, then the most frequent, then
//     the first in the order of their bytes.
//
// With Prefix the last word is not changed, even if it is a stop word: it is one group of its stem
// and of the terms that begin with it. A word that stays unknown stays: with And no document
// matches.
//
// didYouMean is the query in terms as it is searched, "" if no word was replaced. Terms are stems,
// which is why "houpe" becomes "hous".
//
// Without a vocabulary no word is replaced.
func Parse(text string, mode Mode, v Vocabulary) (q Query, didYouMean string) {
	list := split(text)
	list = list[:min(len(list), MaxWords)]
	var last string
	if mode == Prefix && len(list) > 0 {
		last = list[len(list)-1].normal
		list = list[:len(list)-1]
	}
	list = slices.DeleteFunc(list, func(w word) bool { return stopWord(w.normal) })
	all := make([]*asked, len(list))
	for i, w := range list {
		all[i] = &asked{word: w, terms: []string{stem(w.normal)}}
		all[i].correct(v)
	}
	var terms []string
	changed := false
	for _, a := range all {
		if !a.known {
			a.change(bestSound(a.terms[0], v))
		}
		terms, changed = append(terms, a.terms...), changed || a.changed
	}
	if changed {
		didYouMean = strings.TrimSpace(strings.Join(terms, " ") + " " + last)
	}
	return query(all, mode, last), didYouMean
}

// correct finds the terms of a word, and its synonyms.
func (a *asked) correct(v Vocabulary) {
	term := a.terms[0]
	if a.others = synonymsOf(term); a.others != nil || v == nil || v.Has(term) {
		a.known = true
		return
	}
	most := distanceOf(term)
	if most > 0 {
		a.change(frequent(v.Fuzzy(term, 1), v))
	}
	if !a.known {
		a.change(segmented(a.normal, v)...)
	}
	if !a.known && most > 1 {
		a.change(frequent(v.Fuzzy(term, 2), v))
	}
	if a.known && len(a.terms) == 1 {
		a.others = synonymsOf(a.terms[0])
	}
}

// change replaces a word if there is something to replace it by.
func (a *asked) change(terms ...string) {
	if len(terms) > 0 && terms[0] != "" {
		a.terms, a.known, a.changed = terms, true, true
	}
}

// query puts words together.
func query(all []*asked, mode Mode, last string) Query {
	var q Query
	shift := 0 // by words that were split
	for _, a := range all {
		for i, term := range a.terms {
			if mode == Phrase {
				q.Phrase = append(q.Phrase, Placed{term, a.position + shift + i})
			} else {
				q.Must = append(q.Must, Group{Terms: append([]string{term}, a.others...)})
			}
		}
		shift += len(a.terms) - 1
	}
	if len(q.Phrase) > 0 {
		for i, first := 0, q.Phrase[0].Place; i < len(q.Phrase); i++ {
			q.Phrase[i].Place -= first
		}
	}
	if mode == Or && len(q.Must) > 1 {
		var one Group
		for _, g := range q.Must {
			one.Terms = append(one.Terms, g.Terms...)
		}
		q.Must = []Group{one}
	}
	if last != "" {
		g := Group{Terms: []string{stem(last)}}
		if utf8.RuneCountInString(last) >= MinPrefix {
			g.Prefix = last
		}
		q.Must = append(q.Must, g)
	}
	return q
}

// distanceOf is by how much a term may be wrong.
func distanceOf(term string) int {
	switch n := utf8.RuneCountInString(term); {
	case n < 3:
		return 0
	case n < 6:
		return 1
	}
	return 2
}

// frequent is the most frequent of some terms, of equally frequent ones the first in the order of
// their bytes; "" if there are none.
func frequent(terms []string, v Vocabulary) (best string) {
	var most int64
	for _, term := range terms {
		n := v.Frequency(term)
		if best == "" || n > most || n == most && term < best {
			best, most = term, n
		}
	}
	return best
}

// segmented takes a word apart into two terms that often follow each other.
func segmented(w string, v Vocabulary) (best []string) {
	var most int64
	for at := range w {
		if at == 0 {
			continue
		}
		a, b := stem(w[:at]), stem(w[at:])
		if !v.Has(a) || !v.Has(b) {
			continue
		}
		if n := v.Pair(a, b); n > most {
			most, best = n, []string{a, b}
		}
	}
	return best
}

// bestSound is the term that sounds like another, "" if there is none.
func bestSound(term string, v Vocabulary) string {
	for _, code := range Codes(term) {
		var nearest []string
		best := MaxTerm
		for _, t := range v.Sounds(code) {
			switch d := Distance(t, term); {
			case d < best:
				nearest, best = []string{t}, d
			case d == best:
				nearest = append(nearest, t)
			}
		}
		if nearest != nil {
			return frequent(nearest, v)
		}
	}
	return ""
}

// Distance is Levenshtein's: the fewest insertions, deletions and replacements of a character that
// make one text of another (Wagner, Fischer 1974).
func Distance(a, b string) int {
	from, to := []rune(a), []rune(b)
	row := make([]int, len(to)+1)
	for j := range row {
		row[j] = j
	}
	for i, r := range from {
		before := row[0] // of the row above, to the left
		row[0] = i + 1
		for j, s := range to {
			change := before
			if r != s {
				change++
			}
			before = row[j+1]
			row[j+1] = min(change, row[j]+1, before+1)
		}
	}
	return row[len(to)]
}

// synonyms are groups of stems that mean the same.
var synonyms = []string{
	"home hous resid dwell", "car automobil vehicl", "happi joy cheer", "sad unhappi",
	"big larg huge", "small littl tini", "fast quick rapid", "begin start commenc", "end finish",
	"buy purchas", "error fault bug defect", "pictur imag photo", "film movi", "doctor physician",
	"child kid", "job work employ", "money cash", "trip journey travel", "shop store", "pizza pie",
}

// synonymsOf are the other terms of a term's group.
func synonymsOf(term string) []string {
	for _, group := range synonyms {
		if !strings.Contains(group, term) {
			continue
		}
		if list := strings.Fields(group); slices.Contains(list, term) {
			return slices.DeleteFunc(list, func(t string) bool { return t == term })
		}
	}
	return nil
}
