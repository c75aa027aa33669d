package check

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// tokenKind says what a token of an objective is.
type tokenKind uint8

const (
	endToken  tokenKind = iota
	wordToken           // a name, a number or a limit: anything without space or mark
	markToken           // one of ( ) [ ] , < <= > >=
	badToken            // a character that belongs nowhere
)

// token is a piece of an objective. Its column counts characters from 1.
type token struct {
	kind   tokenKind
	text   string
	column int
}

// found names the token in an error.
func (t token) found() string {
	if t.kind == endToken {
		return "the end"
	}
	return `"` + t.text + `"`
}

// is reports whether the token is a mark.
func (t token) is(mark string) bool { return t.kind == markToken && t.text == mark }

const marks = "()[],<>"

// lex cuts an objective into tokens; the last one is an endToken.
func lex(text string) []token {
	var tokens []token
	column := 1
	for text != "" {
		r, size := utf8.DecodeRuneInString(text)
		switch {
		case unicode.IsSpace(r):
		case strings.ContainsRune(marks, r):
			size = markSize(text)
			tokens = append(tokens, token{markToken, text[:size], column})
		case wordRune(r):
			size = wordSize(text)
			tokens = append(tokens, token{wordToken, text[:size], column})
		default:
			tokens = append(tokens, token{badToken, text[:size], column})
		}
		column += utf8.RuneCountInString(text[:size])
		text = text[size:]
	}
	return append(tokens, token{kind: endToken, column: column})
}

// markSize is the length of the mark that text starts with.
func markSize(text string) int {
	if len(text) > 1 && strings.ContainsRune("<>", rune(text[0])) && text[1] == '=' {
		return 2
	}
	return 1
}

// wordSize is the length of the word that text starts with.
func wordSize(text string) int {
	end := strings.IndexFunc(text, func(r rune) bool { return !wordRune(r) })
	if end < 0 {
		return len(text)
	}
	return end
}

// wordRune reports whether r may be part of a name, a number or a unit.
func wordRune(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("_-.:%/+", r)
}
