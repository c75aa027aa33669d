package answer

import (
	"math"
	"slices"

	"stampede/harness/check"
	"stampede/reports/words"
)

// Table has a row for each design and a column for each thing that some design has a value of.
type Table struct {
	Columns []string
	Rows    []tableRow
}

type tableRow struct {
	Letter, Name string
	Cells        []string
}

// tableOf has no rows if there are no columns.
func tableOf(
	standings []Standing, names func(Standing) []string, cell func(st Standing, name string) string,
) (t Table) {
	for _, st := range standings {
		for _, name := range names(st) {
			t.Columns = words.With(t.Columns, name)
		}
	}
	if len(t.Columns) == 0 {
		return t
	}
	for _, st := range standings {
		row := tableRow{Letter: st.Letter, Name: st.Name}
		for _, name := range t.Columns {
			row.Cells = append(row.Cells, cell(st, name))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// FigureTableOf has what checks measured of the designs. It has no rows if no check measured
// anything. Of several repeats a figure is the median.
func FigureTableOf(standings []Standing) Table { return tableOf(standings, figureNames, figureOf) }

// heading is a figure's column. A count has no unit.
func heading(f check.Figure) string {
	if f.Unit == "" {
		return f.Name
	}
	return f.Name + ", " + f.Unit
}

// figuresOf calls back with the figures of all repeats of a design.
func figuresOf(st Standing, see func(check.Figure)) {
	for _, r := range st.Repeats {
		for _, v := range r.Invariants {
			for _, f := range v.Figures {
				see(f)
			}
		}
	}
}

func figureNames(st Standing) (names []string) {
	figuresOf(st, func(f check.Figure) { names = words.With(names, heading(f)) })
	return names
}

// figureOf is the median of a figure, of an even number of values the lower one.
func figureOf(st Standing, name string) string {
	var values []float64
	figuresOf(st, func(f check.Figure) {
		if heading(f) == name {
			values = append(values, f.Value)
		}
	})
	if len(values) == 0 {
		return words.None
	}
	slices.Sort(values)
	median := values[(len(values)-1)/2]
	if math.Abs(median) >= 1000 { // the unit is the column's
		return words.Grouped(int64(math.Round(median)))
	}
	return words.PlainNumber(median)
}
