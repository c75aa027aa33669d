package judge

import (
	"slices"
	"testing"
	"time"

	"stampede/harness/measure"
	"stampede/harness/rundir"
)

// TestTakenIn: a second counts from one sample to the next, each series by its own limit, and
// a machine of which only one of two known quantities was sampled was not, nor one that was
// asked too rarely.
func TestTakenIn(t *testing.T) {
	const sec = int64(time.Second)
	series := func(part string, values ...float64) rundir.Series {
		s := rundir.Series{Quantity: rundir.Taken, Part: part, Values: values}
		for i := range values {
			s.AtNS = append(s.AtNS, int64(i+1)*sec)
		}
		return s
	}
	stolen := series(rundir.Hypervisor, 0.05, 0.2, 0.1)
	others := series(rundir.OtherPrograms, 0.1, 0.4, 0.6)
	for name, test := range map[string]struct {
		series  []rundir.Series
		known   bool
		spans   []measure.Span
		sampled bool
	}{
		"nothing": {nil, true, nil, false},
		"both of two cores": {[]rundir.Series{stolen, others}, true, []measure.Span{
			{From: time.Second, To: 2 * time.Second}, {From: 2 * time.Second, To: 3 * time.Second}}, true},
		"others known and not sampled": {[]rundir.Series{stolen}, true,
			[]measure.Span{{From: time.Second, To: 2 * time.Second}}, false},
		"others not known": {[]rundir.Series{stolen}, false,
			[]measure.Span{{From: time.Second, To: 2 * time.Second}}, true},
	} {
		said := rundir.Telemetry{PeriodNS: sec,
			Sources: []rundir.TelemetrySource{{Name: "cpu", Series: test.series}}}
		spans, sampled := takenIn(said, 2, 3*time.Second, test.known)
		if !slices.Equal(spans, test.spans) || sampled != test.sampled {
			t.Errorf("%s: %v, sampled %v", name, spans, sampled)
		}
		if _, sampled := takenIn(said, 2, 8*time.Second, test.known); sampled {
			t.Errorf("%s: three samples in eight seconds are enough", name)
		}
	}
}
