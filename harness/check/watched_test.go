package check_test

import (
	"reflect"
	"testing"
	"time"

	"stampede/harness/check"
)

// TestWatched: only bounds that are certain count, and looks at one moment
// make one point.
func TestWatched(t *testing.T) {
	var w check.Watched
	w.Look(1, 2, 4, false)
	w.Look(2, -3, 0, false)
	w.Look(2, 5, 6, true)
	w.Look(3, -2, -1, true)
	want := check.Watched{Judged: 2, Excused: 2, Lowest: -1, Highest: 5, Points: []check.WatchedPoint{
		{AtNS: 1, Low: 2, High: 4}, {AtNS: 2, Low: -3, High: 6, Excused: true},
		{AtNS: 3, Low: -2, High: -1, Excused: true}}}
	if !reflect.DeepEqual(w, want) {
		t.Errorf("got %+v, want %+v", w, want)
	}
}

// TestWatchedOver: runs are summed up, those that watched nothing as well.
func TestWatchedOver(t *testing.T) {
	watched := func(judged, gaps int, lowest, highest int64) check.Verdict {
		return check.Verdict{Watched: &check.Watched{Quantity: "drift", Unit: "units",
			Judged: judged, Gaps: gaps, Lowest: lowest, Highest: highest}}
	}
	tests := map[string]struct {
		verdicts []check.Verdict
		want     *check.Watched
	}{
		"nothing": {[]check.Verdict{{}, {}}, nil},
		"one":     {[]check.Verdict{{}, watched(3, 1, -1, 4), {}}, watched(3, 1, -1, 4).Watched},
		"two": {[]check.Verdict{watched(3, 1, 1, 4), watched(2, 0, -1, 2)},
			watched(5, 1, -1, 4).Watched},
		"gaps last": {[]check.Verdict{watched(3, 0, 1, 4), watched(0, 5, 0, 0)},
			watched(3, 5, 1, 4).Watched},
		"gaps first": {[]check.Verdict{watched(0, 5, 0, 0), watched(3, 0, 1, 4)},
			watched(3, 5, 1, 4).Watched},
	}
	for name, test := range tests {
		if got := check.WatchedOver(test.verdicts); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: got %+v, want %+v", name, got, test.want)
		}
	}
}

// TestViolateAt: a violation that no operation proves may have a time.
func TestViolateAt(t *testing.T) {
	c := check.Collect(t.Context(), "x", parse(t, ""))
	c.ViolateAt(time.Second, nil, "too high")
	v := c.Verdict()
	if v.Status != check.Broken || v.Violations[0].AtNS != int64(time.Second) {
		t.Errorf("got %+v", v)
	}
}
