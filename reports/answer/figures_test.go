package answer_test

import (
	"reflect"
	"testing"

	"stampede/harness/check"
	"stampede/harness/rundir"
	"stampede/reports/answer"
)

// TestFigures: designs have a row each and figures a column each; of repeats the median is shown,
// and a design that was not measured has none.
func TestFigures(t *testing.T) {
	repeats := func(figures ...[]check.Figure) (list []rundir.Repeat) {
		for _, of := range figures {
			list = append(list, rundir.Repeat{
				Invariants: []check.Verdict{{Invariant: "bounded", Figures: of}}})
		}
		return list
	}
	memory := func(kB float64) check.Figure {
		return check.Figure{Name: "memory", Unit: "kB", Value: kB}
	}
	standings := []answer.Standing{
		{Letter: "A", Variant: rundir.Variant{Name: "first", Repeats: repeats(
			[]check.Figure{memory(7)}, []check.Figure{memory(1)},
			[]check.Figure{memory(5), {Name: "error", Unit: "%", Value: 0.25},
				{Name: "keys", Value: 11910.4}})}},
		{Letter: "B", Variant: rundir.Variant{Name: "second", Repeats: repeats(nil)}},
	}
	table := answer.FigureTableOf(standings)
	if want := []string{"memory, kB", "error, %", "keys"}; !reflect.DeepEqual(table.Columns, want) {
		t.Errorf("the columns are %q, want %q", table.Columns, want)
	}
	for i, want := range [][]string{{"5", "0.25", "11,910"}, {"–", "–", "–"}} {
		if got := table.Rows[i].Cells; !reflect.DeepEqual(got, want) {
			t.Errorf("the cells of %s are %q, want %q", table.Rows[i].Name, got, want)
		}
	}
	if none := answer.FigureTableOf(standings[1:]); len(none.Rows)+len(none.Columns) > 0 {
		t.Errorf("without figures there is a table: %v", none)
	}
}
