package sim

import (
	"encoding/json"
	"fmt"
	"time"
)

// Duration is a time.Duration written as "1m30s" in scenarios, machines and JSON.
type Duration time.Duration

// D returns d as a time.Duration.
func (d Duration) D() time.Duration { return time.Duration(d) }

// String formats d as time.Duration does.
func (d Duration) String() string { return time.Duration(d).String() }

// MarshalJSON encodes d as a string such as "1m30s".
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(d.String()) }

// UnmarshalJSON decodes a string such as "1m30s". A number is an error,
// because it has no unit, and so is a negative duration.
func (d *Duration) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return fmt.Errorf("expected a duration with a unit such as \"500ms\" or \"2s\", got %s", data)
	}
	parsed, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("expected a duration such as \"500ms\" or \"2s\", got %q", text)
	}
	if parsed < 0 {
		return fmt.Errorf("expected a duration of zero or more, got %q", text)
	}
	*d = Duration(parsed)
	return nil
}
