package run

import (
	"testing"
	"time"

	"stampede/harness/rundir"
)

// TestRetries: what the machine interfered with runs again, in its order, while the machine
// is quiet, the time lasts and it helps.
func TestRetries(t *testing.T) {
	const noisy, clean, none = rundir.Noisy, rundir.Clean, rundir.NoTimes
	// eight repeats of which the first ones are as said.
	eight := func(first ...string) []string {
		for len(first) < 8 {
			first = append(first, clean)
		}
		return first
	}
	for name, test := range map[string]struct {
		most   int
		before []string
		after  []string // in the order of the attempts
		waits  time.Duration
		busy   bool
		want   []int
	}{
		"nothing to do": {most: 1, before: eight()},
		"not asked":     {most: 0, before: eight(noisy)},
		"one": {most: 1, before: eight(clean, noisy), after: []string{clean},
			want: []int{1}},
		"without times": {most: 1, before: eight(none), after: []string{clean},
			want: []int{0}},
		"no better": {most: 1, before: eight(noisy, noisy), after: []string{noisy},
			want: []int{0}},
		"never quiet":     {most: 1, before: eight(noisy), busy: true},
		"quiet too late":  {most: 1, before: eight(noisy), waits: 15 * time.Second},
		"too few repeats": {most: 1, before: []string{noisy, clean}},
		"a quarter of the time": {most: 1, before: eight(noisy, noisy, noisy),
			after: []string{clean, clean, clean}, want: []int{0, 1}},
		"another design after one that is no better": {most: 1,
			before: eight(noisy, clean, noisy), after: []string{noisy, clean}, want: []int{0, 2}},
		"better the second time": {most: 2, before: eight(noisy), after: []string{noisy, clean},
			want: []int{0, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			var slots []rundir.Slot
			for i := range test.before {
				slots = append(slots, rundir.Slot{Order: i, Variant: string(rune('a' + i/2))})
			}
			var got []int
			took := time.Duration(len(slots)) * 10 * time.Second
			r := retries{most: test.most, took: took, left: againFor(took, took, took),
				timing: func(s rundir.Slot) string { return test.before[s.Order] },
				quiet: func(most time.Duration) (time.Duration, bool) {
					return test.waits, !test.busy && test.waits <= most
				},
				once: func(s rundir.Slot) (string, error) {
					got = append(got, s.Order)
					return test.after[len(got)-1], nil
				}}
			if err := r.run(slots); err != nil {
				t.Fatal(err)
			}
			if len(got) != len(test.want) {
				t.Fatalf("%v ran again, want %v", got, test.want)
			}
			for i := range got {
				if got[i] != test.want[i] {
					t.Errorf("%v ran again, want %v", got, test.want)
				}
			}
		})
	}
}

// TestAgainFor: repeats run again for a quarter of the time, and a run that is planned for
// four minutes at most stays within them.
func TestAgainFor(t *testing.T) {
	const s = time.Second
	for _, c := range []struct{ took, planned, ago, want time.Duration }{
		{100 * s, 110 * s, 105 * s, 25 * s},
		{200 * s, 235 * s, 205 * s, 35 * s},
		{230 * s, 235 * s, 235 * s, 5 * s},
		{250 * s, 235 * s, 255 * s, -15 * s},
		{400 * s, 380 * s, 405 * s, 100 * s},
	} {
		if got := againFor(c.took, c.planned, c.ago); got != c.want {
			t.Errorf("a run that took %s, planned for %s: %s, want %s", c.took, c.planned, got, c.want)
		}
	}
}

// TestARepeatThatRunsAgain: all runs of a repeat are kept and judged, and the times are
// those of the best; the baseline's second run is the noise floor's.
func TestARepeatThatRunsAgain(t *testing.T) {
	b := newBench(t, []string{"provokes=[load]"}, design{name: "good"}, design{name: "other"})
	b.opts.Control = true
	e := b.finish(t)
	slots := e.stored.Manifest.Slots
	last := slots[len(slots)-1]
	if len(slots) != 3 || last.Variant != "good" || !last.Control || last.Repeat != 1 {
		t.Fatalf("the slots are %+v", slots)
	}
	v := e.variant(t, "good")
	if len(v.Repeats) != 2 || !v.Repeats[0].Used || v.Repeats[1].Used || !v.Repeats[1].Control ||
		v.Load != v.Repeats[0].Load {
		t.Errorf("the repeats of the baseline: %+v", v.Repeats)
	}
	if e.summary.NoiseFloor == nil || e.summary.NoiseFloor.P99 < 1 {
		t.Errorf("the noise floor is %+v", e.summary.NoiseFloor)
	}
	again := rundir.WithAgain(slots, slots[1])
	if s := again[3]; s.Variant != "other" || s.Repeat != 1 || s.Order != 3 || *s.Again != 0 {
		t.Errorf("again: %+v", s)
	}
	if !rundir.Interleaved(again) {
		t.Error("what was added at the end is not out of order")
	}
}
