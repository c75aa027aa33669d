package answer

import (
	"fmt"
	"math"
	"strings"

	"stampede/harness/rundir"
	"stampede/reports/words"
)

// PredictionTable is what a simulation predicted beside what was measured.
type PredictionTable struct {
	// Of says which run was measured and how the costs are known.
	Of    string
	Rows  []PredictionRow
	Notes []string
}

// PredictionRow is one figure of a design.
type PredictionRow struct {
	Design, Quantity, Predicted, Measured, Error string
}

// PredictionOf is nil if nothing was predicted.
func PredictionOf(p *rundir.Prediction) *PredictionTable {
	if p == nil {
		return nil
	}
	t := &PredictionTable{Notes: p.Notes, Of: fmt.Sprintf("Models whose costs were measured on %s, "+
		"beside the run %s. The error is the absolute logarithm of predicted/measured: 0.10 is about "+
		"10 %%.", p.Calibrated, p.Run)}
	if p.Scaled {
		t.Of += " That load and that machine were simulated for this table alone; all else on this " +
			"page is of another load or machine."
	}
	for _, d := range p.Designs {
		for _, q := range d.Quantities {
			row := PredictionRow{Design: d.Design, Quantity: q.Name,
				Predicted: quantity(q.Unit, q.Predicted), Measured: quantity(q.Unit, q.Measured),
				Error: words.None}
			if e := q.Error(); !math.IsInf(e, 0) && !math.IsNaN(e) {
				row.Error = fmt.Sprintf("%.2f", e)
			}
			t.Rows = append(t.Rows, row)
		}
		row := PredictionRow{Design: d.Design, Quantity: "violations", Predicted: names(d.Predicted),
			Measured: names(d.Measured), Error: "the same"}
		if row.Predicted != row.Measured {
			row.Error = "differs"
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func names(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ", ")
}

// quantity is a figure with its unit.
func quantity(unit string, x float64) string {
	switch unit {
	case "ns":
		return words.Latency(int64(x))
	case "/s":
		return words.Rate(x)
	}
	return words.Significant(x)
}
