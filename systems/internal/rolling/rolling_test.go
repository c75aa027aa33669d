package rolling_test

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"stampede/systems/internal/rolling"
)

// TestCounter: counts are those of somebody who has kept all that came and counts it anew, and what
// is said to have changed is all that has.
func TestCounter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := rolling.Windows{Recent: rapid.Int64Range(1, 5).Draw(t, "recent"),
			Baseline: rapid.Int64Range(1, 5).Draw(t, "baseline")}
		c := rolling.New(w)
		type event struct {
			slot int64
			key  string
		}
		var all []event
		seen := map[string]rolling.Counts{}
		clock := rapid.Int64Range(-3, 100).Draw(t, "begins")
		for range rapid.IntRange(0, 40).Draw(t, "events") {
			e := event{clock + rapid.Int64Range(-2, 8).Draw(t, "later"),
				rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "key")}
			c.Add(e.slot, e.key)
			if len(all) == 0 {
				clock = e.slot
			}
			clock = max(clock, e.slot)
			all = append(all, event{clock, e.key})
			want := map[string]rolling.Counts{}
			for _, e := range all {
				n := want[e.key]
				switch age := clock - e.slot; {
				case age < w.Recent:
					n.Recent++
				case age < w.Recent+w.Baseline:
					n.Before++
				}
				if n != (rolling.Counts{}) {
					want[e.key] = n
				}
			}
			if !maps.Equal(c.Counts(), want) {
				t.Fatalf("counted %v, want %v, of %v", c.Counts(), want, all)
			}
			changed := c.Changed()
			for _, key := range []string{"a", "b", "c"} {
				if want[key] != seen[key] && !slices.Contains(changed, key) {
					t.Fatalf("%s is %v and was %v, and changed are %v", key, want[key], seen[key], changed)
				}
			}
			seen = want
		}
	})
}
