package check_test

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"stampede/harness/check"
)

// TestBurstOf: of all spans it finds the one with the most passes above the rate.
func TestBurstOf(t *testing.T) {
	if b := check.BurstOf(nil, 1); b.Above != 0 || b.Passes != 0 {
		t.Errorf("without passes there is a burst: %+v", b)
	}
	rapid.Check(t, func(t *rapid.T) {
		rate := rapid.Float64Range(0, 3).Draw(t, "rate")
		list := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) check.Pass {
			from := rapid.Int64Range(0, 20).Draw(t, "from")
			return check.Pass{Op: 1, From: from * int64(time.Second),
				To: (from + rapid.Int64Range(0, 3).Draw(t, "long")) * int64(time.Second)}
		}), 1, 30).Draw(t, "passes")
		most := 0.0
		for _, first := range list {
			for _, last := range list {
				n := 0
				for _, p := range list {
					if p.From >= first.From && p.To <= last.To {
						n++
					}
				}
				if n > 0 {
					most = max(most, float64(n)-rate*time.Duration(last.To-first.From).Seconds())
				}
			}
		}
		b := check.BurstOf(list, rate)
		if math.Abs(b.Above-most) > 1e-6 {
			t.Fatalf("%v above the rate, want %v", b.Above, most)
		}
		if said := float64(b.Passes) - rate*b.Span.Seconds(); most > 0 && math.Abs(said-most) > 1e-6 {
			t.Fatalf("%d passes in %v are %v above the rate, want %v", b.Passes, b.Span, said, most)
		}
	})
}
