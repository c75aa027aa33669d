// Package plain makes text of others fit to be printed: a store's answer, a foreign
// server's error, a name in a file that somebody sent. On a terminal a control character
// is an order, and in a CI system's log so is a line with a certain beginning.
package plain

import (
	"strconv"
	"strings"
	"unicode"
)

// Text replaces what has no place in a report: control characters (tabs and line ends
// become spaces), invalid UTF-8, and the marks that turn the direction of text around.
func Text(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t' || r == '\n' || r == '\r':
			return ' '
		case unicode.Is(unicode.Bidi_Control, r), r == 0xFFFE, r == 0xFFFF:
			return -1
		case unicode.IsControl(r):
			return unicode.ReplacementChar
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
}

// Line is Text for a terminal and a log, in which GitHub's runner takes "::" at the
// beginning of a line, whatever white space is before it, and "##[" anywhere in a line
// for the beginning of a command.
func Line(text string) string {
	text = strings.ReplaceAll(Text(text), "##[", "## [")
	if rest := strings.TrimLeftFunc(text, unicode.IsSpace); strings.HasPrefix(rest, "::") {
		at := len(text) - len(rest)
		text = text[:at] + ": " + text[at+1:]
	}
	return text
}

// Lines is Line for every line of a text.
func Lines(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = Line(strings.TrimSuffix(line, "\r"))
	}
	return strings.Join(lines, "\n")
}

// Block is Text for what is shown as it was written: line ends and tabs stay.
func Block(text string) string {
	var out strings.Builder
	for len(text) > 0 {
		end := strings.IndexAny(text, "\t\n")
		if end < 0 {
			out.WriteString(Text(text))
			break
		}
		out.WriteString(Text(text[:end]))
		out.WriteByte(text[end])
		text = text[end+1:]
	}
	return out.String()
}

// Word is a word as a shell takes it for one, quoted where it needs that.
func Word(word string) string {
	usual := func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"+
			"0123456789-_./:=,@%+", r)
	}
	if word != "" && !strings.ContainsFunc(word, usual) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// Count formats a number with commas between groups of three digits: "105,500", "−1,000".
func Count(n int64) string {
	digits := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, digits = "−", digits[1:]
	}
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return sign + digits
}

// Ordinal is 1st, 2nd, 3rd, 4th and so on.
func Ordinal(n int) string {
	suffix := "th"
	if n%100 < 11 || n%100 > 13 {
		switch n % 10 {
		case 1:
			suffix = "st"
		case 2:
			suffix = "nd"
		case 3:
			suffix = "rd"
		}
	}
	return strconv.Itoa(n) + suffix
}

// Wrap breaks a text at its words into lines of at most so many characters. A longer word
// is broken too. A text without words is one empty line.
func Wrap(text string, columns int) []string {
	lines, line := []string{}, []rune{}
	for _, field := range strings.Fields(text) {
		word := []rune(field)
		if len(line) > 0 && len(line)+1+len(word) > columns {
			lines, line = append(lines, string(line)), nil
		}
		if len(line) > 0 {
			line = append(line, ' ')
		}
		for line = append(line, word...); len(line) > columns; line = line[columns:] {
			lines = append(lines, string(line[:columns]))
		}
	}
	return append(lines, string(line))
}
