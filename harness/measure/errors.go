package measure

import (
	"cmp"
	"slices"
	"strings"

	"stampede/harness/history"
	"stampede/harness/rundir"
)

const (
	// maxClasses bounds the classes of a kind: errors that all differ in
	// words would otherwise fill the memory.
	maxClasses = 50
	otherClass = "other"
)

// classes groups errors that have the same code or read alike.
type classes struct {
	byKey map[classKey]*rundir.ErrorClass
}

// classifier remembers the classes of errors, most of which are the same few texts.
type classifier map[string]string

// maxRemembered bounds it.
const maxRemembered = 1000

// of is the class of a record's error: its documented code, or what its text has in
// common with others.
func (c classifier) of(rec *history.Record) string {
	switch rec.Code {
	case "", "refused", "unknown_effect": // which say no more than the outcome
	default:
		return rec.Code
	}
	text := rec.Err
	class, known := c[text]
	if !known {
		class = ErrorClass(text)
		if len(c) < maxRemembered {
			c[text] = class
		}
	}
	return class
}

type classKey struct {
	outcome history.Outcome
	class   string
}

func newClasses() *classes { return &classes{byKey: map[classKey]*rundir.ErrorClass{}} }

func (c *classes) add(rec *history.Record, class string) {
	key := classKey{rec.Outcome, class}
	if c.byKey[key] == nil && len(c.byKey) >= maxClasses {
		key.class = otherClass
	}
	entry := c.byKey[key]
	if entry == nil {
		entry = &rundir.ErrorClass{Outcome: rec.Outcome.String(), Class: key.class}
		c.byKey[key] = entry
	}
	if at := rec.Intended.Nanoseconds(); entry.Count == 0 || at < entry.FirstNS {
		entry.Sample, entry.FirstNS = rec.Err, at
	}
	entry.Count++
}

// list is the classes, the most frequent first.
func (c *classes) list() []rundir.ErrorClass {
	var list []rundir.ErrorClass
	for _, entry := range c.byKey {
		list = append(list, *entry)
	}
	slices.SortFunc(list, func(a, b rundir.ErrorClass) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Outcome, b.Outcome),
			cmp.Compare(a.Class, b.Class))
	})
	return list
}

// ErrorClass replaces what differs between errors of one kind (numbers,
// identifiers, addresses) by "#". Numbers that are themselves a class stay:
// those after the words SQLSTATE, status and code, and the version in a path
// such as /v1/buy.
func ErrorClass(text string) string {
	var out strings.Builder
	keep, before := false, byte(0)
	for len(text) > 0 {
		n := wordLength(text)
		if n == 0 {
			out.WriteByte(text[0])
			keep = keep && strings.IndexByte(" :=(", text[0]) >= 0
			before, text = text[0], text[1:]
			continue
		}
		word := text[:n]
		if keep || before == '/' && isVersion(word) || !strings.ContainsAny(word, "0123456789") {
			out.WriteString(word)
		} else {
			out.WriteByte('#')
		}
		switch word {
		case "SQLSTATE", "status", "code":
			keep = true
		default:
			keep = false
		}
		before, text = 0, text[n:]
	}
	return collapse(out.String())
}

// isVersion says whether a word is v and a digit or two.
func isVersion(word string) bool {
	digits, ok := strings.CutPrefix(word, "v")
	return ok && (len(digits) == 1 || len(digits) == 2) && strings.Trim(digits, "0123456789") == ""
}

// wordLength is the length of the run of letters, digits and underscores that
// text begins with.
func wordLength(text string) int {
	for i := range len(text) {
		c := text[i]
		letter := c|0x20 >= 'a' && c|0x20 <= 'z' || c >= 0x80
		if !letter && !(c >= '0' && c <= '9') && c != '_' {
			return i
		}
	}
	return len(text)
}

// collapse makes one "#" of several that are joined as in addresses, times
// and UUIDs.
func collapse(text string) string {
	for _, joined := range []string{"#.#", "#:#", "#-#", "#/#"} {
		for strings.Contains(text, joined) {
			text = strings.ReplaceAll(text, joined, "#")
		}
	}
	return text
}
