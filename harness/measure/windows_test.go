package measure_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"stampede/harness/history"
	"stampede/harness/measure"
	"stampede/harness/rundir"
)

// TestWindowsHoldEveryOperation: each is counted once, in the window in which it was
// due, in the row of its response time.
func TestWindowsHoldEveryOperation(t *testing.T) {
	h := records{
		op("buy", history.OK, 0, 1*ms, 11*ms),
		op("buy", history.OK, 5*ms, 6*ms, 16*ms),
		op("buy", history.Unknown, 900*ms, 901*ms, history.Never),
		op("buy", history.Dropped, 950*ms, history.Never, history.Never),
		op("pay", history.Refused, 400*ms, 400*ms, 1400*ms),
	}
	w := summarise(t, h, measure.Options{}).Windows
	if w.WidthNS != int64(20*ms) || len(w.Kinds) != 2 || len(w.Kinds[0].Windows) != 71 {
		t.Fatalf("%d windows of %d ns", len(w.Kinds[0].Windows), w.WidthNS)
	}
	buy, pay := w.Kinds[0].Windows, w.Kinds[1].Windows
	row := rundir.LatencyRow(11 * ms)
	if buy[0].FirstRow != row || !slices.Equal(buy[0].Counts, []int64{2}) {
		t.Errorf("two of 11 ms, row %d: %+v", row, buy[0])
	}
	if buy[45].Infinite != 1 || buy[47].Infinite != 1 || len(buy[1].Counts) != 0 {
		t.Errorf("what never ended: %+v, %+v; nothing: %+v", buy[45], buy[47], buy[1])
	}
	if pay[20].FirstRow != rundir.LatencyRow(time.Second) || len(pay[20].Counts) != 1 {
		t.Errorf("one of 1 s: %+v", pay[20])
	}
	want := []rundir.ErrorLine{
		{Outcome: "unknown", Class: "some error", At: []int{45}, Counts: []int64{1}},
		{Outcome: "dropped", At: []int{47}, Counts: []int64{1}}}
	if got := w.Kinds[0].Errors; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("errors %+v", got)
	}
}

// TestWindowsAreBounded: neither time nor different errors make them long.
func TestWindowsAreBounded(t *testing.T) {
	h := records{}
	for i := range 400 {
		at := time.Duration(i) * time.Minute
		rec := op("buy", history.Unknown, at, at, at+time.Duration(i)*ms)
		rec.Err = "a" + string(rune('a'+i%26)) + string(rune('a'+i/26))
		h = append(h, rec)
	}
	k := summarise(t, h, measure.Options{}).Windows.Kinds[0]
	if n := len(k.Windows); n > 120 || n < 40 {
		t.Errorf("%d windows", n)
	}
	if len(k.Errors) != 9 || k.Errors[8].Class != "other" || k.Errors[0].Class != "other" {
		t.Errorf("%d lines: %+v", len(k.Errors), k.Errors)
	}
	sum := int64(0)
	for _, line := range k.Errors {
		for _, n := range line.Counts {
			sum += n
		}
	}
	if sum != 400 {
		t.Errorf("%d of 400 errors", sum)
	}
}

// TestTheFirstErrorIsTheEarliest: whoever was recorded first.
func TestTheFirstErrorIsTheEarliest(t *testing.T) {
	late := op("buy", history.Unknown, 50*ms, 50*ms, 60*ms)
	early := op("buy", history.Unknown, 20*ms, 20*ms, 70*ms)
	late.Err, early.Err = "timeout of 17 ms", "timeout of 40 ms"
	got := summarise(t, records{late, early}, measure.Options{}).Operations[0].Errors
	if len(got) != 1 || got[0].Sample != early.Err || got[0].FirstNS != int64(20*ms) ||
		got[0].Count != 2 {
		t.Errorf("got %+v", got)
	}
}

// TestRowsMeet: where a row begins, the one before it ends.
func TestRowsMeet(t *testing.T) {
	for row := 1; row < 90; row++ {
		start := time.Duration(math.Round(rundir.RowStart(row) * 1e9))
		if got := rundir.LatencyRow(start + 2); got != row {
			t.Errorf("%v is in row %d, want %d", start, got, row)
		}
		if got := rundir.LatencyRow(start - 2); got != row-1 {
			t.Errorf("just below %v is row %d, want %d", start, got, row-1)
		}
	}
	if rundir.LatencyRow(-1) != 0 || rundir.LatencyRow(0) != 0 {
		t.Error("what took no time is not in the first row")
	}
}
