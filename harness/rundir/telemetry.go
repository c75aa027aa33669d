package rundir

import "fmt"

// Telemetry is what stores and roles said of themselves during one repeat, kept in
// a file of its own.
type Telemetry struct {
	// PeriodNS is how often each was asked, if it answered at once.
	PeriodNS int64             `json:"period_ns"`
	Sources  []TelemetrySource `json:"sources"`
}

// TelemetrySource is one that was asked.
type TelemetrySource struct {
	// Name is the service, such as "postgres", or "cpu".
	Name   string   `json:"name"`
	Series []Series `json:"series"`
	// Asked counts the questions, Missed those without an answer, of which Trouble
	// is the first.
	Asked   int    `json:"asked"`
	Missed  int    `json:"missed"`
	Trouble string `json:"trouble,omitempty"`
}

// Series is a quantity over time.
type Series struct {
	// Quantity is what it is, such as "commits"; Part of what, where there are
	// several, such as a partition or a role.
	Quantity string `json:"quantity"`
	Part     string `json:"part,omitempty"`
	// Unit is that of the values: "/s", "bytes", "sessions".
	Unit string `json:"unit"`
	// AtNS are the times since the run's base, ascending, and Values what was seen
	// then, one each. Where nothing was seen there is no point.
	AtNS   []int64   `json:"at_ns"`
	Values []float64 `json:"values"`
}

// TelemetryName is where the Telemetry goes (JSON).
func TelemetryName(variant string, repeat int) string {
	return fmt.Sprintf("telemetry/%s.%d.json", escape(variant), repeat)
}

// Telemetry reads a repeat's telemetry by its name.
func (r *Run) Telemetry(name string) (Telemetry, error) {
	var t Telemetry
	if err := r.decodeFile(name, &t); err != nil {
		return t, err
	}
	for _, source := range t.Sources {
		for _, s := range source.Series {
			if len(s.AtNS) != len(s.Values) {
				return t, fmt.Errorf("read run: %s: %s of %s has %d times and %d values", name,
					s.Quantity, source.Name, len(s.AtNS), len(s.Values))
			}
		}
	}
	return t, nil
}

// The series of the CPU that was taken from a run: Taken is their quantity, in cores, and
// the others are their parts.
const (
	Taken         = "taken"
	Hypervisor    = "hypervisor"
	OtherPrograms = "other programs"
)
