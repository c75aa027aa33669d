package page

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"stampede/harness/rundir"
	"stampede/reports/chart"
)

// laneOf is a lane with the given windows of "buy".
func laneOf(width int64, windows ...rundir.Window) lane {
	return lane{windows: rundir.Windows{WidthNS: width,
		Kinds: []rundir.KindWindows{{Kind: "buy", Windows: windows}}}}
}

// TestDensityHoldsEveryOperation: however many lanes and windows there are, the cells of
// a lane add up to its operations, and so do the rows of its table.
func TestDensityHoldsEveryOperation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lanes, totals := []lane{}, []int64{}
		for range rapid.IntRange(1, 9).Draw(t, "lanes") {
			var windows []rundir.Window
			total := int64(0)
			for range rapid.IntRange(1, 120).Draw(t, "windows") {
				w := rundir.Window{FirstRow: rapid.IntRange(0, 60).Draw(t, "row"),
					Infinite: rapid.Int64Range(0, 3).Draw(t, "infinite")}
				total += w.Infinite
				for range rapid.IntRange(0, 6).Draw(t, "rows") {
					n := rapid.Int64Range(0, 2000).Draw(t, "count")
					w.Counts, total = append(w.Counts, n), total+n
				}
				windows = append(windows, w)
			}
			lanes = append(lanes, laneOf(rapid.SampledFrom([]int64{2e7, 1e9}).Draw(t, "width"), windows...))
			totals = append(totals, total)
		}
		d := densityOf("buy", lanes)
		for i, l := range lanes {
			if d == nil {
				if totals[i] > 0 {
					t.Fatalf("lane %d has %d operations and no density", i, totals[i])
				}
				continue
			}
			sum := 0.0
			for _, row := range append(d.grid(l), d.never(l)) {
				if len(row) > d.columns {
					t.Fatalf("%d columns, at most %d", len(row), d.columns)
				}
				for _, rate := range row {
					sum += rate * d.width(l)
				}
			}
			if math.Abs(sum-float64(totals[i])) > 1e-6*(sum+1) {
				t.Fatalf("lane %d: the cells have %v of %d", i, sum, totals[i])
			}
			if got := tableSum(t, d.table("", l)); got != totals[i] {
				t.Fatalf("lane %d: the table has %d of %d", i, got, totals[i])
			}
		}
	})
}

func tableSum(t *rapid.T, table chart.DataTable) (sum int64) {
	if len(table.Rows) > 20 {
		t.Fatalf("%d rows", len(table.Rows))
	}
	for _, row := range table.Rows {
		for _, cell := range row[1:] {
			n, err := strconv.ParseInt(strings.ReplaceAll(cell, ",", ""), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			sum += n
		}
	}
	return sum
}

func TestDensityFinding(t *testing.T) {
	ms := rundir.LatencyRow(1e6) // 1 ms to 1.33 ms
	of := func(infinite int64, counts ...int64) rundir.Window {
		return rundir.Window{FirstRow: ms, Counts: counts, Infinite: infinite}
	}
	for want, windows := range map[string][]rundir.Window{
		"nine of ten took 1 ms to 1.3 ms":                          {of(0, 95, 4, 1)},
		"nine of ten took 1 ms to 2.4 ms":                          {of(0, 50), of(0, 40, 4, 6)},
		"it took 1 ms or longer, and 10.0 % of them got no answer": {of(10, 90)},
		"nearly none of them was answered":                         {of(99, 1)},
	} {
		l := laneOf(1e8, windows...)
		if got := densityOf("buy", []lane{l}).finding(l); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	longest := laneOf(1e8, of(0, 50), of(0, 40, 4, 6)) // the last row is 1.78 ms to 2.37 ms
	for max, want := range map[int64]string{2e6: "nine of ten took 1 ms to 2 ms",
		3e6: "nine of ten took 1 ms to 2.4 ms", 1e6: "nine of ten took 1 ms to 2.4 ms"} {
		longest.repeat.Operations = []rundir.Operation{{Kind: "buy"}, {Kind: "pay"}}
		longest.repeat.Operations[0].Latency.Response.Max = max
		longest.repeat.Operations[1].Latency.Response.Max = 1_900_000
		if got := densityOf("buy", []lane{longest}).finding(longest); got != want {
			t.Errorf("with a maximum of %d ns: %q, want %q", max, got, want)
		}
	}
	if densityOf("buy", []lane{{}, laneOf(1e8, rundir.Window{})}) != nil {
		t.Error("nothing is drawn")
	}
}

// TestErrorsOverTime: the most frequent classes have a row each, the others one.
func TestErrorsOverTime(t *testing.T) {
	l := laneOf(1e8, rundir.Window{Infinite: 1}, rundir.Window{}, rundir.Window{})
	for i, class := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		l.windows.Kinds[0].Errors = append(l.windows.Kinds[0].Errors,
			rundir.ErrorLine{Outcome: "unknown", Class: class, At: []int{2}, Counts: []int64{int64(i + 1)}})
	}
	old := lane{} // of a repeat that has no windows
	d := densityOf("buy", []lane{old, l})
	if len(d.errors) != maxErrorRows || d.errors[0].name() != "buy: unknown: h" || !d.more {
		t.Fatalf("errors %+v, more %v", d.errors, d.more)
	}
	failed := d.failed(l)
	if len(failed) != 7 || !slices.Equal(failed[0], []int64{0, 0, 8}) ||
		!slices.Equal(failed[6], []int64{0, 0, 3}) {
		t.Errorf("failed %v", failed)
	}
	if d.errorName(0) != "buy: unknown: h" || d.errorName(6) != "all others" {
		t.Errorf("errors are called %q and %q", d.errorName(0), d.errorName(6))
	}
	if v := d.view([]lane{l}); v.Mistakes != "80/s" || v.Least != "10/s" {
		t.Errorf("view %+v", v)
	}
	if rows := d.grid(old); len(rows) > 0 && len(rows[0]) > 0 {
		t.Errorf("a lane without windows has %v", rows)
	}
}
