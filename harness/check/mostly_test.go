package check_test

import (
	"encoding/json"
	"math"
	"testing"

	"stampede/harness/check"
	"stampede/harness/history"
)

// TestAtMost: more than that happen about never, and much fewer would often be too few.
func TestAtMost(t *testing.T) {
	for _, c := range []struct {
		n           int
		share       float64
		least, most int
	}{{1000, 0, 0, 0}, {0, 0.5, 0, 0}, {5, 1, 5, 5}, {100, 0.01, 9, 12}, {10_000, 0.01, 160, 175},
		{3, 0.9, 3, 3}, {1_000_000, 1e-9, 1, 3}} {
		if got := check.AtMost(c.n, c.share); got < c.least || got > c.most {
			t.Errorf("of %d with probability %v at most %d happen, want %d to %d", c.n, c.share, got,
				c.least, c.most)
		}
	}
}

// TestMostly: misses are violations if chance does not explain them; figures are shown with a
// verdict, but for those that no JSON can have.
func TestMostly(t *testing.T) {
	judge := func(share float64, misses int, unfinished bool) check.Verdict {
		none := func(json.RawMessage) (check.Facts, error) { return check.Facts{}, nil }
		subject := check.Subject{Read: none}
		return subject.State("bounded", "", func(r *check.Run) func() {
			return func() {
				m := check.Mostly{Run: r, Share: share, Cases: 100}
				for range misses {
					m.Miss(nil, unfinished, "a case is %d too high", 7)
				}
				m.End()
				r.Figure("error", "%", 12.5)
				r.Figure("nothing", "%", math.NaN())
			}
		}).Check(t.Context(), history.Slice(nil), nil)
	}
	for _, c := range []struct {
		share      float64
		misses     int
		unfinished bool
		want       check.Status
	}{{0, 0, false, check.Held}, {0, 1, false, check.Broken}, {0.01, 5, false, check.Held},
		{0.01, 20, false, check.Broken}, {0, 2, true, check.Broken}} {
		v := judge(c.share, c.misses, c.unfinished)
		if v.Status != c.want || v.Checked != 100 || (v.Unfinished > 0) != c.unfinished {
			t.Errorf("%d misses of a share of %v: %+v, want %s", c.misses, c.share, v, c.want)
		}
		if want := (check.Figure{Name: "error", Unit: "%", Value: 12.5}); len(v.Figures) != 1 ||
			v.Figures[0] != want {
			t.Errorf("the figures are %v, want %v alone", v.Figures, want)
		}
	}
}
