package analysis

import (
	"cmp"
	"slices"
	"strings"
)

// Codes are the ways in which a term sounds, the sharper one first: "M" with its Metaphone and "S"
// with its Soundex. Terms with anything but three ASCII letters or more have none.
func Codes(term string) []string {
	if len(term) < 3 || !plain(term) {
		return nil
	}
	return []string{"M" + metaphone(term), "S" + soundex(term)}
}

// SoundsLike says whether a term has one of Codes.
func SoundsLike(term, code string) bool { return slices.Contains(Codes(term), code) }

// SoundPattern is a regular expression for all terms that have one of Codes, and for others.
func SoundPattern(code string) string {
	if code[0] == 'S' {
		return strings.ToLower(code[1:2]) + "[a-z]*"
	}
	const silent = "[abcdeghikoptuwy]*" // at times
	letters := map[rune]string{'0': "t", 'F': "fpv", 'J': "djg", 'K': "cgkqx", 'S': "csxz", 'T': "dt",
		'X': "cstx"}
	pattern, before := silent, ' '
	for _, c := range code[1:] {
		many := "+"
		if before == 'K' && c == 'S' {
			many = "*" // x is both
		}
		pattern += "[" + cmp.Or(letters[c], strings.ToLower(string(c))) + "]" + many + silent
		before = c
	}
	return pattern
}

// soundex is the code of the United States' National Archives: the first letter and three digits.
// Letters of one group count once if they stand together, or with h or w between them.
func soundex(w string) string {
	code := []byte{w[0] - 'a' + 'A'}
	before := digits[w[0]-'a']
	for i := 1; i < len(w) && len(code) < 4; i++ {
		d := digits[w[i]-'a']
		if d != '0' && d != before {
			code = append(code, d)
		}
		if w[i] != 'h' && w[i] != 'w' {
			before = d
		}
	}
	return string(code) + "000"[:4-len(code)]
}

// digits are the groups of the letters from a to z in Soundex; 0 is none.
const digits = "01230120022455012623010202"

// metaphone is Lawrence Philips' Metaphone ("Hanging on the Metaphone", Computer Language 7(12),
// 1990), of a word in small ASCII letters: consonants as they sound, X for sh and 0 for th, and a
// vowel only if the word begins with it.
func metaphone(w string) string {
	switch {
	case strings.HasPrefix(w, "ae"), strings.HasPrefix(w, "gn"), strings.HasPrefix(w, "kn"),
		strings.HasPrefix(w, "pn"), strings.HasPrefix(w, "wr"):
		w = w[1:]
	case w[0] == 'x':
		w = "s" + w[1:]
	case strings.HasPrefix(w, "wh"):
		w = "w" + w[2:]
	}
	m := spoken{w: w}
	for m.i = 0; m.i < len(w); m.i++ {
		if c := w[m.i]; c != m.at(-1) || c == 'c' { // double letters sound once
			m.letter(c)
		}
	}
	return string(m.code)
}

// spoken is a word on its way through metaphone.
type spoken struct {
	w    string
	i    int
	code []byte
}

// at is the letter so many places on, 0 beyond the word.
func (m *spoken) at(by int) byte {
	if i := m.i + by; i >= 0 && i < len(m.w) {
		return m.w[i]
	}
	return 0
}

func (m *spoken) follows(s string) bool { return strings.HasPrefix(m.w[m.i+1:], s) }

func (m *spoken) say(code string) { m.code = append(m.code, code...) }

// either says one code if something is so, else the other.
func (m *spoken) either(is bool, code, other string) {
	if is {
		other = code
	}
	m.say(other)
}

func vowel(c byte) bool { return c != 0 && strings.IndexByte("aeiou", c) >= 0 }
func front(c byte) bool { return c != 0 && strings.IndexByte("eiy", c) >= 0 }

// letter adds how a letter sounds where it stands.
func (m *spoken) letter(c byte) {
	switch c {
	case 'a', 'e', 'i', 'o', 'u':
		if m.i == 0 {
			m.say(strings.ToUpper(string(c)))
		}
	case 'b':
		if m.at(-1) != 'm' || m.at(1) != 0 { // climb
			m.say("B")
		}
	case 'c':
		m.c()
	case 'd':
		m.either(m.at(1) == 'g' && front(m.at(2)), "J", "T") // edge
	case 'g':
		m.g()
	case 'h':
		if vowel(m.at(1)) && (m.at(-1) == 0 || strings.IndexByte("csptg", m.at(-1)) < 0) {
			m.say("H")
		}
	case 'k':
		if m.at(-1) != 'c' {
			m.say("K")
		}
	case 'p':
		m.either(m.at(1) == 'h', "F", "P")
	case 'q':
		m.say("K")
	case 's':
		m.either(m.at(1) == 'h' || m.follows("io") || m.follows("ia"), "X", "S")
	case 't':
		switch {
		case m.follows("io"), m.follows("ia"):
			m.say("X")
		case m.at(1) == 'h':
			m.say("0")
		case !m.follows("ch"):
			m.say("T")
		}
	case 'v':
		m.say("F")
	case 'w', 'y':
		if vowel(m.at(1)) {
			m.say(strings.ToUpper(string(c)))
		}
	case 'x':
		m.say("KS")
	case 'z':
		m.say("S")
	default: // f j l m n r
		m.say(strings.ToUpper(string(c)))
	}
}

func (m *spoken) c() {
	switch {
	case m.follows("ia"):
		m.say("X")
	case m.at(1) == 'h' && m.at(-1) != 's':
		m.say("X")
	case front(m.at(1)):
		if m.at(-1) != 's' { // science
			m.say("S")
		}
	default:
		m.say("K")
	}
}

func (m *spoken) g() {
	switch {
	case m.at(1) == 'h' && m.at(2) != 0 && !vowel(m.at(2)), m.at(1) == 'h' && m.at(2) == 0: // night
	case m.at(1) == 'n' && (m.at(2) == 0 || m.w[m.i+1:] == "ned"): // sign, signed
	case m.at(-1) == 'd' && front(m.at(1)): // said by d
	case front(m.at(1)) && m.at(-1) != 'g':
		m.say("J")
	default:
		m.say("K")
	}
}
