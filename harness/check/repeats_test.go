package check_test

import (
	"strings"
	"testing"
	"time"

	"stampede/harness/check"
	"stampede/harness/history"
)

// TestRepeats: a request that was acknowledged is not denied when it is sent again after
// that. What races with it may be, and what is refused for another reason may be asked again.
func TestRepeats(t *testing.T) {
	const ms = time.Millisecond
	rec := func(outcome history.Outcome, start, end time.Duration) history.Record {
		return history.Record{Op: history.Op{ID: 7, Kind: "buy"}, Outcome: outcome, Err: "no",
			Start: start, End: end}
	}
	ok, denied, busy := rec(history.OK, 0, 2*ms), rec(history.Refused, 3*ms, 4*ms),
		rec(history.Unknown, 3*ms, 4*ms)
	racing := rec(history.Refused, ms, 4*ms)
	early := rec(history.OK, 5*ms, 6*ms)
	for _, c := range []struct {
		name    string
		records []history.Record
		excused bool
		repeats int
		broken  bool
	}{
		{"once", []history.Record{ok}, false, 0, false},
		{"twice", []history.Record{ok, ok}, false, 1, false},
		{"denied", []history.Record{ok, denied}, false, 1, true},
		{"denied, in another order", []history.Record{denied, racing, ok}, false, 1, true},
		{"denied and excused", []history.Record{ok, denied}, true, 1, false},
		{"denied while under way", []history.Record{ok, racing}, false, 1, false},
		{"denied before", []history.Record{denied, early}, false, 1, false},
		{"denied only", []history.Record{denied, denied}, false, 0, false},
		{"unknown", []history.Record{ok, busy}, false, 0, false},
	} {
		var repeats check.Repeats
		for i := range c.records {
			repeats.See(&c.records[i], c.records[i].Outcome == history.Refused)
		}
		collector := check.Collect(t.Context(), "key", history.Slice(c.records))
		n := repeats.Judge(collector, func(uint64) bool { return c.excused })
		v := collector.Verdict()
		if n != c.repeats || (v.Status == check.Broken) != c.broken {
			t.Errorf("%s: %d repeats, %s %+v", c.name, n, v.Status, v.Violations)
		}
		if c.broken && !strings.Contains(v.Violations[0].Text, "acknowledged at 2ms, but denied") {
			t.Errorf("%s: %+v", c.name, v.Violations)
		}
	}
}
