package scenario

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Where is a place that a problem points at: a position in a file, or the
// --set flag that brought the value.
type Where struct {
	File string
	// Line and Column count from 1; Column counts characters.
	Line, Column int
	// Flag is the flag as it was typed, for example
	// "--set load.arrival.rate=5"; empty for a place in the file.
	Flag string
}

// String formats w as file:line:column or as the flag.
func (w Where) String() string {
	if w.Flag != "" {
		return w.Flag
	}
	return fmt.Sprintf("%s:%d:%d", w.File, w.Line, w.Column)
}

// Problem is one thing that is wrong with a scenario.
type Problem struct {
	Where Where
	// What is wrong, Expected what would be right, and Suggestion the nearest
	// known name; the last two may be empty.
	What, Expected, Suggestion string
	// Profile is set when the problem shows only in that profile and the
	// profile is not the one that was asked for; "none" is the file without
	// any profile.
	Profile string
}

// String formats p as
// `file:line:column: what is wrong; expected ...; did you mean "..."?`.
func (p Problem) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", p.Where, p.What)
	if p.Profile != "" {
		fmt.Fprintf(&b, " (in profile %s)", p.Profile)
	}
	if p.Expected != "" {
		fmt.Fprintf(&b, "; expected %s", p.Expected)
	}
	if p.Suggestion != "" {
		fmt.Fprintf(&b, "; did you mean %q?", p.Suggestion)
	}
	return b.String()
}

// Errors are all the problems of a scenario, in the order of the file and
// those of flags last. It is the error type of Decode.
type Errors []Problem

// Error has one problem a line.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, p := range e {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// problems collects what is wrong, each thing once.
type problems struct {
	list []Problem
	// seen holds places that have a problem already, so that a value which
	// could not be decoded is not judged a second time.
	seen map[Where]bool
}

func (ps *problems) add(p Problem) {
	if ps.seen == nil {
		ps.seen = make(map[Where]bool)
	}
	ps.seen[p.Where] = true
	ps.list = append(ps.list, p)
}

// err returns the problems in order as Errors, or nil if there is none.
func (ps *problems) err() error {
	if len(ps.list) == 0 {
		return nil
	}
	list := slices.Clone(ps.list)
	slices.SortStableFunc(list, func(a, b Problem) int {
		return cmp.Or(
			cmp.Compare(a.Where.Flag, b.Where.Flag),
			cmp.Compare(a.Where.Line, b.Where.Line),
			cmp.Compare(a.Where.Column, b.Where.Column),
		)
	})
	return Errors(list)
}
