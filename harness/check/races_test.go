package check_test

import (
	"testing"
	"time"

	"stampede/harness/check"
	"stampede/harness/history"
)

func TestOverlap(t *testing.T) {
	const buy = "buy"
	rec := func(kind, key string, start, end time.Duration, outcome history.Outcome) history.Record {
		return history.Record{Op: history.Op{Kind: kind, Key: key}, Outcome: outcome,
			Intended: start, Start: start, End: end}
	}
	got := func(n int64, start, end time.Duration) history.Record {
		r := rec(buy, "a", start, end, history.OK)
		r.Reply.Value = n
		return r
	}
	again := func(r history.Record) history.Record {
		r.Op.ID = 99
		return r
	}
	nothing := func(r history.Reply) bool { return r.Value < 0 }
	for name, test := range map[string]struct {
		records []history.Record
		want    check.Overlaps
	}{
		"nothing": {nil, check.Overlaps{}},
		"one after the other": {[]history.Record{rec(buy, "a", 0, 5, history.OK),
			rec(buy, "a", 5, 9, history.OK)}, check.Overlaps{Successful: 2, Peak: 1}},
		"two at once": {[]history.Record{rec(buy, "a", 4, 9, history.OK),
			rec(buy, "a", 0, 5, history.OK)}, check.Overlaps{Successful: 2, Raced: 2, Peak: 2}},
		"on other keys": {[]history.Record{rec(buy, "a", 0, 5, history.OK),
			rec(buy, "b", 0, 5, history.OK)}, check.Overlaps{Successful: 2, Peak: 1}},
		"with another kind": {[]history.Record{rec(buy, "a", 0, 5, history.OK),
			rec("look", "a", 0, 5, history.OK)}, check.Overlaps{Successful: 1, Peak: 1}},
		"with one that was refused": {[]history.Record{rec(buy, "a", 0, 5, history.OK),
			rec(buy, "a", 1, 2, history.Refused)}, check.Overlaps{Successful: 1, Raced: 1, Peak: 2}},
		"within a long one, after a short one": {[]history.Record{rec(buy, "a", 0, 9, history.OK),
			rec(buy, "a", 1, 2, history.OK), rec(buy, "a", 5, 6, history.OK)},
			check.Overlaps{Successful: 3, Raced: 3, Peak: 2}},
		"one that never ended": {[]history.Record{rec(buy, "a", 0, history.Never, history.Unknown),
			rec(buy, "a", 5, 6, history.OK)}, check.Overlaps{Successful: 1, Peak: 1}},
		"with itself, sent again": {[]history.Record{again(rec(buy, "a", 0, 9, history.OK)),
			again(rec(buy, "a", 1, 5, history.OK))}, check.Overlaps{Successful: 2, Peak: 2}},
		"with itself and another": {[]history.Record{again(rec(buy, "a", 0, 9, history.OK)),
			again(rec(buy, "a", 1, 12, history.OK)), rec(buy, "a", 10, 11, history.OK),
			again(rec(buy, "a", 20, 21, history.OK))},
			check.Overlaps{Successful: 4, Raced: 2, Peak: 2}},
		"dropped": {[]history.Record{rec(buy, "a", history.Never, history.Never, history.Dropped),
			rec(buy, "a", 5, 6, history.OK)}, check.Overlaps{Successful: 1, Peak: 1}},
		"idle ones": {[]history.Record{got(-1, 0, 9), got(-1, 0, 9), got(-1, 1, 9)}, check.Overlaps{}},
		"with idle ones only": {[]history.Record{got(-1, 0, 9), got(1, 1, 5), got(1, 5, 7)},
			check.Overlaps{Successful: 2, Peak: 1}},
		"beside an idle one": {[]history.Record{got(-1, 0, 9), got(1, 1, 5), got(2, 2, 5)},
			check.Overlaps{Successful: 2, Raced: 2, Peak: 2}},
	} {
		for i := range test.records {
			if test.records[i].Op.ID == 0 {
				test.records[i].Op.ID = uint64(i + 1)
			}
		}
		got, err := check.Overlap(history.Slice(test.records), []string{buy}, nothing)
		if err != nil || got != test.want {
			t.Errorf("%s: %+v, %v, want %+v", name, got, err, test.want)
		}
	}
}

// TestTogether: who works on several things at once does not compete with themselves.
func TestTogether(t *testing.T) {
	for name, test := range map[string]struct {
		spans []check.Span
		want  check.Overlaps
	}{
		"nobody":    {nil, check.Overlaps{}},
		"one alone": {[]check.Span{{"a", 1, 9}, {"a", 2, 8}}, check.Overlaps{Successful: 2, Peak: 2}},
		"two in turn": {[]check.Span{{"a", 1, 3}, {"b", 3, 5}, {"a", 5, 7}},
			check.Overlaps{Successful: 3, Peak: 1}},
		"two at once": {[]check.Span{{"a", 1, 3}, {"b", 2, 5}, {"b", 3, 5}},
			check.Overlaps{Successful: 3, Raced: 2, Peak: 2}},
	} {
		if got := check.Together(test.spans); got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}
