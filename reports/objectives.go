package reports

import (
	"math"
	"strconv"
	"strings"
	"time"

	"stampede/harness/check"
	"stampede/harness/rundir"
)

// sloMatrix has an objective per column and a variant per row.
type sloMatrix struct {
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
	Mark                            mark
	Actual, Margin, Samples, Reason string
	Absent                          bool
}

func slos(standings []standing) (m sloMatrix) {
	seen := map[string]bool{}
	for _, st := range standings {
		for _, slo := range st.SLOs {
			if !seen[slo.Name] {
				seen[slo.Name] = true
				m.Columns = append(m.Columns, sloColumnOf(slo))
			}
		}
	}
	for _, st := range standings {
		row := sloRow{Letter: st.Letter, Name: st.Name, Wrong: st.Group == wrong}
		for _, column := range m.Columns {
			cell := sloCellOf(st.SLOs, column.Name)
			if len(st.ExpectedBroken) > 0 && !cell.Absent {
				cell.Mark, cell.Margin = mark{Icon: none, Class: "na"}, "not asked of a known-wrong design"
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
		cell := sloCell{Mark: sloMark(v), Actual: atAGlance(v.Actual), Margin: marginText(v),
			Reason: v.Reason}
		if v.Samples > 0 {
			cell.Samples = "n = " + grouped(v.Samples)
		}
		return cell
	}
	return sloCell{Absent: true}
}

// marginText says how far a value that missed its objective is from the limit: "82× the
// limit", "12 % over the limit". It is empty where the objective was met or not judged, or
// where the value is infinite.
func marginText(v check.SLOVerdict) string {
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
		return "more than " + times(float64(check.MaxMargin)) + " the limit"
	case over >= 1 && side == "over":
		return times(1+over) + " the limit"
	}
	return percentage(math.Max(over, 0)*100) + " " + side + " the limit"
}

// never is the value of an objective among operations that were dropped or never ended.
const never = "never"

// atAGlance shows an actual value with as many digits as all numbers of a page have: a time,
// a share or a rate. Any other text stays as it is.
func atAGlance(actual string) string {
	if actual == never {
		return latency(rundir.Infinite)
	}
	if d, err := time.ParseDuration(actual); err == nil {
		return seconds(d.Seconds())
	}
	number, isShare := strings.CutSuffix(actual, "%")
	if x, err := strconv.ParseFloat(number, 64); err == nil && isShare {
		return percentage(x)
	}
	return actual
}

// sloMark is statusMark in the words of an objective.
func sloMark(v check.SLOVerdict) mark {
	if v.NotJudged {
		return mark{"≈", "not judged", "na"}
	}
	m := statusMark(v.Status)
	m.Word = strings.NewReplacer("held", "met", "broken", "missed").Replace(m.Word)
	return m
}
