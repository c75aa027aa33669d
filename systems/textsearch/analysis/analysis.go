// Package analysis makes terms of text, and queries of what somebody typed. It has no state: what
// it must know of an index it asks a Vocabulary.
//
// A term is the stem of a word. A text goes through the same steps whether it is a document's or a
// query's: words by UAX 29, NFKC, lower case, diacritics folded, stop words left out, stems by
// Porter 2. A query then goes through some more; see Parse.
package analysis

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/words"
	"github.com/kljensen/snowball/english"
	"golang.org/x/text/unicode/norm"
)

// Field is a part of a document.
type Field uint8

// The fields of a document, in the order in which Tokens goes through them.
const (
	Title Field = iota
	Tags
	Description
	Body
	Fields // how many there are
)

// Weight is how much a word counts in a field: 10, 5, 3 and 1.
func (f Field) Weight() int { return [Fields]int{10, 5, 3, 1}[f] }

// Text is a document.
type Text struct {
	Title       string `json:"title" max:"1000" form:"text" doc:"a word counts ten times here"`
	Tags        string `json:"tags" max:"1000" form:"text" doc:"words with spaces between them; each counts five times"`
	Description string `json:"description" max:"4000" form:"text" doc:"a word counts three times here"`
	Body        string `json:"body" max:"40000" form:"text" doc:"a word counts once here"`
}

// Hit is a document that was found.
type Hit struct {
	Doc     uint64  `json:"doc" min:"1"`
	Version uint64  `json:"version" min:"1"`
	Score   float64 `json:"score"`
}

// Of is the text of a field.
func (t *Text) Of(f Field) string {
	return [Fields]string{t.Title, t.Tags, t.Description, t.Body}[f]
}

// Token is an occurrence of a term in a document.
type Token struct {
	Term  string
	Field Field
	// Position counts the words of the field from 0. Stop words count, and are no tokens: they
	// leave gaps.
	Position int
}

// Tokens are the tokens of a document, field by field, in the order of their positions.
func Tokens(t *Text) []Token {
	var list []Token
	for f := range Fields {
		for _, w := range split(t.Of(f)) {
			if !stopWord(w.normal) {
				list = append(list, Token{stem(w.normal), f, w.position})
			}
		}
	}
	return list
}

// Terms are the terms of a text in its order, which may repeat.
func Terms(text string) (list []string) {
	for _, t := range Tokens(&Text{Title: text}) {
		list = append(list, t.Term)
	}
	return list
}

// word is a word of a text: normalised, and not yet a term.
type word struct {
	normal   string
	position int
}

// MaxTerm is how many bytes of a word count at most; the rest is cut off.
const MaxTerm = 64

// split finds the words of a text.
func split(text string) []word {
	var list []word
	for it := words.FromString(normal(text)); it.Next(); {
		if w := lettersOf(it.Value()); w != "" {
			list = append(list, word{w, len(list)})
		}
	}
	return list
}

// normal is a text in NFKC and in lower case, with Latin diacritics folded.
func normal(text string) string {
	if !strings.ContainsFunc(text, func(r rune) bool { return r >= utf8.RuneSelf }) {
		return strings.ToLower(text)
	}
	text = norm.NFD.String(strings.ToLower(norm.NFKC.String(text)))
	return norm.NFC.String(strings.Map(func(r rune) rune {
		if r >= 0x300 && r <= 0x36f { // combining diacritical marks
			return -1
		}
		return r
	}, ligatures().Replace(text)))
}

// ligatures are the letters that NFD does not take apart.
func ligatures() *strings.Replacer {
	return strings.NewReplacer("ß", "ss", "æ", "ae", "œ", "oe", "ø", "o", "ł", "l", "đ", "d", "ı", "i")
}

// lettersOf is what is left of a word: without the genitive's s, and without what is no letter,
// digit or mark. It is "" if there was no letter and no digit.
func lettersOf(w string) string {
	w = strings.TrimSuffix(strings.TrimSuffix(w, "'s"), "’s")
	w = strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) {
			return r
		}
		return -1
	}, w)
	w = strings.TrimLeftFunc(w, unicode.IsMark) // marks of a character that was left out
	if len(w) > MaxTerm {
		end := MaxTerm
		for !utf8.RuneStart(w[end]) {
			end--
		}
		w = w[:end]
	}
	return w
}

// stem is the term of a word: its stem by Porter's second algorithm
// (https://snowballstem.org/algorithms/english/stemmer.html) if it is written in ASCII letters.
func stem(w string) string {
	if !plain(w) {
		return w
	}
	return english.Stem(w, true)
}

// plain says whether a word has only the letters from a to z.
func plain(w string) bool {
	return !strings.ContainsFunc(w, func(r rune) bool { return r < 'a' || r > 'z' })
}

// stopWords are the English words that are no terms, in the order of their bytes, without
// apostrophes.
var stopWords = []string{
	"a", "about", "after", "again", "all", "also", "am", "an", "and", "any", "are", "as", "at",
	"be", "because", "been", "before", "being", "between", "both", "but", "by", "can", "could",
	"did", "do", "does", "doing", "down", "during", "each", "few", "for", "from", "further", "had",
	"has", "have", "having", "he", "her", "here", "hers", "him", "his", "how", "i", "if", "in",
	"into", "is", "it", "its", "just", "me", "more", "most", "my", "no", "nor", "not", "now", "of",
	"off", "on", "once", "only", "or", "other", "our", "ours", "out", "over", "own", "same", "she",
	"should", "so", "some", "such", "than", "that", "the", "their", "theirs", "them", "then",
	"there", "these", "they", "this", "those", "through", "to", "too", "under", "until", "up",
	"very", "was", "we", "were", "what", "when", "where", "which", "while", "who", "whom", "why",
	"will", "with", "would", "you", "your", "yours",
}

func stopWord(w string) bool {
	_, is := slices.BinarySearch(stopWords, w)
	return is
}
