package words

import "slices"

// Fact is one line of a list of terms and values.
type Fact struct {
	Term, Value string
	Code        bool
}

// Known are the facts that have a value.
func Known(facts ...Fact) []Fact {
	return slices.DeleteFunc(facts, func(f Fact) bool { return f.Value == "" })
}
