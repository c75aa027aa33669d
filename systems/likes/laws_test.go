package likes

import (
	"testing"

	"pgregory.net/rapid"
)

// drawPN is a counter as one of three regions may have it.
func drawPN(t *rapid.T, name string) pnCounter {
	c := newPN(3)
	c.epoch = rapid.Int64Range(1, 3).Draw(t, name+" epoch")
	for i := range c.plus {
		c.plus[i] = rapid.Int64Range(0, 5).Draw(t, name+" likes")
		c.minus[i] = rapid.Int64Range(0, 5).Draw(t, name+" unlikes")
	}
	return c
}

// TestMergeLaws: merging is commutative, associative and idempotent, and never
// goes back, so that the order and the number of exchanges do not matter.
func TestMergeLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := drawPN(t, "a"), drawPN(t, "b"), drawPN(t, "c")
		if !merge(a, b).equal(merge(b, a)) {
			t.Fatalf("not commutative: %+v %+v", a, b)
		}
		if !merge(merge(a, b), c).equal(merge(a, merge(b, c))) {
			t.Fatalf("not associative: %+v %+v %+v", a, b, c)
		}
		if !merge(a, a).equal(a) || !merge(merge(a, b), b).equal(merge(a, b)) {
			t.Fatalf("not idempotent: %+v %+v", a, b)
		}
		if m := merge(a, b); !merge(m, a).equal(m) || !merge(m, b).equal(m) {
			t.Fatalf("%+v is no upper bound of %+v and %+v", m, a, b)
		}
	})
}

// TestRegionsConverge: regions that change their own entries and exchange in any
// order agree on the number of all changes once everybody has heard of everybody.
func TestRegionsConverge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const regions = 3
		all := make([]pnCounter, regions)
		for r := range all {
			all[r] = newPN(regions)
			all[r].epoch = 1
		}
		want, region := int64(0), rapid.IntRange(0, regions-1)
		t.Repeat(map[string]func(*rapid.T){
			"like": func(t *rapid.T) {
				r := region.Draw(t, "region")
				all[r].plus[r]++
				want++
			},
			"unlike": func(t *rapid.T) {
				r := region.Draw(t, "region")
				all[r].minus[r]++
				want--
			},
			"exchange": func(t *rapid.T) {
				from, to := region.Draw(t, "from"), region.Draw(t, "to")
				all[to] = merge(all[to], all[from])
			},
		})
		for range regions {
			for r := range all {
				all[(r+1)%regions] = merge(all[(r+1)%regions], all[r])
			}
		}
		for r := range all {
			if got := all[r].value(); got != want {
				t.Fatalf("region %d has %d, want %d", r, got, want)
			}
		}
	})
}
