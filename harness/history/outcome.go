package history

import "fmt"

// ParseOutcome returns the outcome of a lower-case name.
func ParseOutcome(name string) (Outcome, error) {
	for i, known := range outcomes {
		if known == name {
			return Outcome(i), nil
		}
	}
	return Unknown, fmt.Errorf("expected an outcome (unknown, ok, refused or dropped), got %q", name)
}

// MarshalText encodes an outcome by its name; an invalid one is an error.
func (o Outcome) MarshalText() ([]byte, error) {
	if int(o) >= len(outcomes) {
		return nil, fmt.Errorf("history: invalid outcome %d", o)
	}
	return []byte(o.String()), nil
}

// UnmarshalText decodes an outcome's name.
func (o *Outcome) UnmarshalText(text []byte) error {
	parsed, err := ParseOutcome(string(text))
	if err == nil {
		*o = parsed
	}
	return err
}
