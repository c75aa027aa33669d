package check_test

import (
	"strings"
	"testing"
	"time"

	"stampede/harness/check"
	"stampede/harness/history"
)

// TestFreshness: what was promised for at once is never excused; what was promised for later is, by
// a fault and for a while, and never by a newer change.
func TestFreshness(t *testing.T) {
	const s = time.Second
	acked := func(version int64, at, within time.Duration) check.VersionChange {
		return check.VersionChange{Op: uint64(version), Start: at - s/10, End: at, Version: version,
			Within: within}
	}
	lost := check.VersionChange{Op: 9, Start: s, End: history.Never, Version: 9}
	fault := func(start, over time.Duration) history.Window {
		return history.Window{Kind: history.FaultWindow, Name: "f", Start: start, End: over,
			Recovered: over, Fault: "kill redis", Evidence: []string{"it was off"}}
	}
	for name, c := range map[string]struct {
		changes []check.VersionChange
		faults  []history.Window
		at      time.Duration
		shown   int64
		want    string // the violation, or "" for none
		late    bool
	}{
		"at once":               {[]check.VersionChange{acked(5, s, 0)}, nil, 2 * s, 5, "", false},
		"not at once":           {[]check.VersionChange{acked(5, s, 0)}, nil, 2 * s, 4, "5 was", false},
		"a look that began too": {[]check.VersionChange{acked(5, s, 0)}, nil, s, 4, "", false},
		"at once, in a fault": {[]check.VersionChange{acked(5, s, 0)},
			[]history.Window{fault(s/2, 3*s)}, 2 * s, 4, "5 was", false},
		"nobody was told": {[]check.VersionChange{lost}, nil, 60 * s, 4, "", false},
		"not yet due":     {[]check.VersionChange{acked(5, s, s)}, nil, 2 * s, 4, "", false},
		"overdue":         {[]check.VersionChange{acked(5, s, s)}, nil, 3 * s, 4, "5 was", true},
		"after its slack": {[]check.VersionChange{acked(5, s, s)}, nil, 2*s + s/4, 4, "", false},
		"a fault at a time": {[]check.VersionChange{acked(5, s, s)}, []history.Window{fault(s, 4*s)},
			5 * s, 4, "", false},
		"a replica that lags": {[]check.VersionChange{acked(5, s, s)},
			[]history.Window{{Kind: history.FaultWindow, Name: "l", Start: s, End: 4 * s,
				Fault: "lag replica", Evidence: []string{"it was behind"}}}, 3 * s, 4, "5 was", true},
		"soon after a fault": {[]check.VersionChange{acked(5, s, s)},
			[]history.Window{fault(s, 4*s)}, 10 * s, 4, "", false},
		"long after it": {[]check.VersionChange{acked(5, s, s)}, []history.Window{fault(s, 4*s)},
			11 * s, 4, "5 was", true},
		"gone in a later fault": {[]check.VersionChange{acked(5, s, s)},
			[]history.Window{fault(10*s, 12*s)}, 18 * s, 4, "", false},
		"gone for longer": {[]check.VersionChange{acked(5, s, s)},
			[]history.Window{fault(10*s, 12*s)}, 19 * s, 4, "5 was", true},
		"gone at once in a later fault": {[]check.VersionChange{acked(5, s, 0)},
			[]history.Window{fault(10*s, 12*s)}, 13 * s, 4, "5 was", false},
		"before a later fault": {[]check.VersionChange{acked(5, s, s)},
			[]history.Window{fault(10*s, 12*s)}, 9 * s, 4, "5 was", true},
		"one fault after another": {[]check.VersionChange{acked(5, s, s)},
			[]history.Window{fault(s, 4*s), fault(6*s, 12*s)}, 13 * s, 4, "", false},
		"hidden by a newer one": {[]check.VersionChange{acked(5, s, s), acked(6, 11*s, 5*s)},
			[]history.Window{fault(10*s, 12*s)}, 19 * s, 4, "5 was", true},
		"the newer one is excused": {[]check.VersionChange{acked(5, s, s), acked(6, 11*s, 5*s)},
			[]history.Window{fault(10*s, 12*s)}, 19 * s, 5, "", false},
	} {
		col := check.Collect(t.Context(), "fresh", history.Slice(nil, c.faults...))
		f := check.Freshness{Collector: col, Slack: s / 2}
		f.Look("x", c.changes, []check.VersionSight{{Op: 7, Start: c.at, End: c.at + s/10,
			Version: c.shown}})
		v := col.Verdict()
		switch {
		case c.want == "" && v.Count > 0:
			t.Errorf("%s: %+v", name, v.Violations)
		case c.want != "" && (v.Count != 1 || !strings.Contains(v.Violations[0].Text, c.want)):
			t.Errorf("%s: %+v; want %q", name, v.Violations, c.want)
		case (v.Late > 0) != c.late:
			t.Errorf("%s: %d late", name, v.Late)
		}
	}
}

// TestNeedMost: sights that have hardly any old change show nothing, whatever was promised.
func TestNeedMost(t *testing.T) {
	const s = time.Second
	for name, c := range map[string]struct {
		shown  []int64
		at     time.Duration
		reason string
	}{
		"all":                {[]int64{4, 4}, 4 * s, ""},
		"a quarter":          {[]int64{2, 0}, 4 * s, ""},
		"less":               {[]int64{1, 0}, 4 * s, "had 1 of the 8 changes"},
		"what is newer, too": {[]int64{9}, 4 * s, ""},
		"too young":          {[]int64{0}, 2*s + 10, ""},
	} {
		col := check.Collect(t.Context(), "fresh", history.Slice(nil))
		f := check.Freshness{Collector: col, Patience: 2 * s}
		var changes []check.VersionChange
		for v := range int64(5) { // nobody was told of the last
			changes = append(changes, check.VersionChange{Op: uint64(v), Start: s, End: s + 10,
				Version: v + 1, Within: 60 * s})
		}
		changes[4].End = history.Never
		for _, v := range c.shown {
			f.Look("x", changes, []check.VersionSight{{Op: 7, Start: c.at, End: c.at + s, Version: v}})
		}
		col.Checked(1)
		f.NeedMost()
		if v := col.Verdict(); v.Count > 0 || (c.reason == "") != (v.Reason == "") ||
			!strings.Contains(v.Reason, c.reason) {
			t.Errorf("%s: %+v; want %q", name, v, c.reason)
		}
	}
}

// TestVersionsInOrder: a change has a higher version than those acknowledged before it began.
func TestVersionsInOrder(t *testing.T) {
	change := func(op uint64, start, end time.Duration, version int64) check.VersionChange {
		return check.VersionChange{Op: op, Start: start, End: end, Version: version}
	}
	for name, c := range map[string]struct {
		changes []check.VersionChange
		pairs   int
		broken  bool
	}{
		"in order":         {[]check.VersionChange{change(1, 1, 2, 1), change(2, 3, 4, 2)}, 1, false},
		"the other way":    {[]check.VersionChange{change(1, 1, 2, 2), change(2, 3, 4, 1)}, 1, true},
		"the same":         {[]check.VersionChange{change(1, 1, 2, 1), change(2, 3, 4, 1)}, 1, true},
		"at the same time": {[]check.VersionChange{change(1, 1, 3, 2), change(2, 3, 4, 1)}, 0, false},
		"kept, and nobody was told": {[]check.VersionChange{change(1, 1, 2, 2),
			change(2, 3, history.Never, 1)}, 1, true},
		"of no version": {[]check.VersionChange{change(1, 1, 2, 2), change(2, 3, history.Never, 0)}, 0,
			false},
		"behind a later one": {[]check.VersionChange{change(1, 1, 2, 5), change(2, 3, 4, 6),
			change(3, 5, 6, 4)}, 2, true},
	} {
		col := check.Collect(t.Context(), "order", history.Slice(nil))
		pairs := col.VersionsInOrder("x", c.changes)
		if v := col.Verdict(); pairs != c.pairs || (v.Count > 0) != c.broken {
			t.Errorf("%s: %d pairs, %+v", name, pairs, v.Violations)
		}
	}
}
