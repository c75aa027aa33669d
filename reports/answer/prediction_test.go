package answer_test

import (
	"reflect"
	"strings"
	"testing"

	"stampede/harness/rundir"
	"stampede/reports/answer"
)

func TestPredictionOf(t *testing.T) {
	if got := answer.PredictionOf(nil); got != nil {
		t.Errorf("nothing was predicted, and the table is %+v", got)
	}
	got := answer.PredictionOf(&rundir.Prediction{Run: "7f3a", Calibrated: "2026-11-28", Scaled: true,
		Notes: []string{"busy"}, Designs: []rundir.PredictedDesign{{Design: "for_all",
			Measured: []string{"no-oversell"}, Quantities: []rundir.Quantity{
				{Name: "p50", Unit: "ns", Predicted: 2e6, Measured: 1e6},
				{Name: "throughput", Unit: "/s", Predicted: 0, Measured: 10}}}}})
	for _, part := range []string{"on 2026-11-28", "the run 7f3a", "simulated for this table alone"} {
		if !strings.Contains(got.Of, part) {
			t.Errorf("the table is said to be %q, without %q", got.Of, part)
		}
	}
	want := []answer.PredictionRow{
		{"for_all", "p50", "2.00 ms", "1.00 ms", "0.69"},
		{"for_all", "throughput", "0.00/s", "10.0/s", "–"},
		{"for_all", "violations", "none", "no-oversell", "differs"}}
	if !reflect.DeepEqual(got.Rows, want) {
		t.Errorf("the rows are %+v, not %+v", got.Rows, want)
	}
}
