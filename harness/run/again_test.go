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
	for name, test := range map[string]struct {
		most   int
		before []string
		after  []string // in the order of the attempts
		waits  time.Duration
		busy   bool
		want   []int
	}{
		"nothing to do":          {1, []string{clean, clean}, nil, 0, false, nil},
		"not asked":              {0, []string{noisy, clean}, nil, 0, false, nil},
		"one":                    {1, []string{clean, noisy, clean, clean, clean}, []string{clean}, 0, false, []int{1}},
		"without times":          {1, []string{none, clean, clean, clean, clean}, []string{clean}, 0, false, []int{0}},
		"a quarter of the time":  {1, []string{noisy, noisy, noisy, clean, clean, clean, clean, clean}, []string{clean, clean, clean}, 0, false, []int{0, 1}},
		"no better":              {1, []string{noisy, noisy, clean, clean, clean, clean, clean, clean}, []string{noisy}, 0, false, []int{0}},
		"better the second time": {2, []string{noisy, clean, clean, clean, clean, clean, clean, clean}, []string{noisy, clean}, 0, false, []int{0, 0}},
		"never quiet":            {1, []string{noisy, clean, clean, clean, clean}, nil, 0, true, nil},
		"quiet too late":         {1, []string{noisy, clean, clean, clean, clean}, nil, 5 * time.Second, false, nil},
		"too few repeats":        {1, []string{noisy, clean}, nil, 0, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var slots []rundir.Slot
			for i := range test.before {
				slots = append(slots, rundir.Slot{Order: i})
			}
			var got []int
			r := retries{most: test.most, took: time.Duration(len(slots)) * 10 * time.Second,
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
	if e.summary.NoiseFloor == nil || e.summary.NoiseFloor.Factor() < 1 {
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
