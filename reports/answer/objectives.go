package answer

import (
	"math"
	"strconv"
	"strings"
	"time"

	"stampede/harness/check"
	"stampede/harness/rundir"
	"stampede/reports/words"
)

// SloMatrix has an objective per column and a variant per row.
type SloMatrix struct {
	Columns []sloColumn
	Rows    []sloRow
}

// sloColumn is one objective. Limit is empty where the objective itself says it.
type sloColumn struct{ Name, Objective, Limit string }

type sloRow struct {
	Letter, Name string
	Wrong        bool
	Cells        []sloCell
}

type sloCell struct {
	Mark                            words.Mark
	Actual, Margin, Samples, Reason string
	Absent                          bool
}

// Slos are the objectives by design.
func Slos(standings []Standing) (m SloMatrix) {
	for _, st := range standings {
		for _, slo := range st.SLOs {
			m.Columns = words.With(m.Columns, sloColumnOf(slo))
		}
	}
	for _, st := range standings {
		row := sloRow{Letter: st.Letter, Name: st.Name, Wrong: st.Group == Wrong}
		for _, column := range m.Columns {
			cell := sloCellOf(st.SLOs, column.Name)
			if len(st.ExpectedBroken) > 0 && !cell.Absent {
				cell.Mark, cell.Margin = words.Mark{Icon: words.None, Class: "na"},
					"not asked of a known-wrong design"
			}
			row.Cells = append(row.Cells, cell)
		}
		m.Rows = append(m.Rows, row)
	}
	return m
}

func sloColumnOf(slo check.SLOVerdict) sloColumn {
	c := sloColumn{Name: slo.Name, Objective: slo.Objective}
	if !strings.Contains(slo.Objective, slo.Limit) {
		c.Limit = slo.Limit
	}
	return c
}

func sloCellOf(verdicts []check.SLOVerdict, name string) sloCell {
	for _, v := range verdicts {
		if v.Name != name {
			continue
		}
		cell := sloCell{Mark: sloMark(v), Actual: AtAGlance(v.Actual), Margin: MarginText(v),
			Reason: v.Reason}
		if v.Samples > 0 {
			cell.Samples = "n = " + words.Grouped(v.Samples)
		}
		return cell
	}
	return sloCell{Absent: true}
}

// MarginText says how far a value that missed its objective is from the limit: "82× the
// limit", "12 % over the limit". It is empty where the objective was met or not judged, or
// where the value is infinite.
func MarginText(v check.SLOVerdict) string {
	o, err := check.ParseObjective(v.Objective)
	if v.Status != check.Broken || err != nil || o.Limit == 0 || v.Actual == never {
		return ""
	}
	over, side := -v.Margin, "over"
	if o.Op == ">" || o.Op == ">=" {
		side = "below"
	}
	switch {
	case over >= check.MaxMargin:
		return "more than " + words.Times(float64(check.MaxMargin)) + " the limit"
	case over >= 1 && side == "over":
		return words.Times(1+over) + " the limit"
	}
	return words.Percentage(math.Max(over, 0)*100) + " " + side + " the limit"
}

// never is the value of an objective among operations that were dropped or never ended.
const never = "never"

// AtAGlance shows an actual value with as many digits as all numbers of a page have: a time,
// a share or a rate. Any other text stays as it is.
func AtAGlance(actual string) string {
	if actual == never {
		return words.Latency(rundir.Infinite)
	}
	if d, err := time.ParseDuration(actual); err == nil {
		return words.Seconds(d.Seconds())
	}
	number, isShare := strings.CutSuffix(actual, "%")
	if x, err := strconv.ParseFloat(number, 64); err == nil && isShare {
		return words.Percentage(x)
	}
	return actual
}

// sloMark is statusMark in the words of an objective.
func sloMark(v check.SLOVerdict) words.Mark {
	if v.NotJudged {
		return words.Mark{Icon: "≈", Word: "not judged", Class: "na"}
	}
	m := statusMark(v.Status)
	m.Word = strings.NewReplacer("held", "met", "broken", "missed").Replace(m.Word)
	return m
}
