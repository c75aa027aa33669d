package history

import (
	"encoding/json"
	"errors"
	"time"
)

// Sample is what a gauge saw of the inside of the system under test while the
// load went on.
type Sample struct {
	// From is when the gauge was asked and To when it had answered, as offsets
	// from the run's base on one monotonic clock. What it saw was so at some
	// moment between the two.
	From time.Duration `json:"from_ns"`
	To   time.Duration `json:"to_ns"`
	// Body is what was seen, in the system's own encoding. Without one, Err
	// says why nothing was.
	Body json.RawMessage `json:"body,omitempty"`
	Err  string          `json:"err,omitempty"`
}

// Seen says whether the gauge saw anything.
func (s Sample) Seen() bool { return s.Err == "" }

// validate says how a sample contradicts itself, or nil.
func (s Sample) validate() error {
	switch {
	case s.From < 0 || s.To < s.From:
		return errors.New("a sample ends before it begins")
	case s.Seen() == (len(s.Body) == 0):
		return errors.New("expected one of body and err in a sample")
	}
	return nil
}
