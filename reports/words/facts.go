package words

import "slices"

// Fact is one line of a list of terms and values.
type Fact struct {
	Term, Value string
	Code        bool
}

// NonEmpty are the facts that have a value.
func NonEmpty(facts ...Fact) []Fact {
	return slices.DeleteFunc(facts, func(f Fact) bool { return f.Value == "" })
}
