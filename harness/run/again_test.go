package run

import (
	"slices"
	"testing"
	"time"

	"stampede/harness/judge"
	"stampede/harness/rundir"
	"stampede/harness/sut"
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
		gaveUp string
	}{
		"nothing to do": {most: 1, before: eight()},
		"not asked":     {most: 0, before: eight(noisy)},
		"one": {most: 1, before: eight(clean, noisy), after: []string{clean},
			want: []int{1}},
		"without times": {most: 1, before: eight(none), after: []string{clean},
			want: []int{0}},
		"no better": {most: 1, before: eight(noisy, noisy), after: []string{noisy},
			want: []int{0}},
		"never quiet": {most: 1, before: eight(noisy, clean, none), busy: true,
			gaveUp: "2 repeats without clean times were not run again: " +
				"no quiet machine within 10 s"},
		"quiet too late": {most: 1, before: eight(noisy), waits: 15 * time.Second,
			gaveUp: "1 repeat without clean times was not run again: " +
				"no quiet machine within 10 s"},
		"too few repeats": {most: 1, before: []string{noisy, clean},
			gaveUp: "1 repeat without clean times was not run again: " +
				"no time left within a quarter of the run's time"},
		"a quarter of the time": {most: 1, before: eight(noisy, noisy, noisy),
			after: []string{clean, clean, clean}, want: []int{0, 1},
			gaveUp: "1 repeat without clean times was not run again: " +
				"no time left within a quarter of the run's time"},
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
			r := retries{most: test.most, took: took,
				timing: func(s rundir.Slot) string { return test.before[s.Order] },
				quiet: func(most time.Duration) (time.Duration, bool) {
					return test.waits, !test.busy && test.waits <= most
				},
				once: func(s rundir.Slot) (string, error) {
					got = append(got, s.Order)
					return test.after[len(got)-1], nil
				}}
			r.left, r.bound = againFor(took, took, took)
			gaveUp, err := r.run(slots)
			if err != nil || gaveUp != test.gaveUp {
				t.Fatalf("gave up: %q, %v, want %q", gaveUp, err, test.gaveUp)
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
	const quarter, four = "a quarter of the run's time", "four minutes"
	for _, c := range []struct {
		took, planned, ago, want time.Duration
		bound                    string
	}{
		{100 * s, 110 * s, 105 * s, 25 * s, quarter},
		{200 * s, 235 * s, 205 * s, 25 * s, four},
		{220 * s, 235 * s, 225 * s, 5 * s, four},
		{250 * s, 235 * s, 255 * s, -25 * s, four},
		{400 * s, 380 * s, 405 * s, 100 * s, quarter},
	} {
		got, bound := againFor(c.took, c.planned, c.ago)
		if got != c.want || bound != c.bound {
			t.Errorf("a run that took %s, planned for %s: %s of %s, want %s of %s", c.took, c.planned,
				got, bound, c.want, c.bound)
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
}

// TestAKnownWrongDesignRunsAgain: until it is caught, twice at most, and not if nothing is to
// run again; one violation is enough.
func TestAKnownWrongDesignRunsAgain(t *testing.T) {
	for _, c := range []struct {
		again, caughtAt, runs int
		want                  string
	}{
		{1, 1, 1, rundir.Caught},
		{1, 2, 2, rundir.Caught},
		{1, 3, 3, rundir.Caught},
		{1, 4, 3, rundir.NotCaught},
		{0, 2, 1, rundir.NotCaught},
	} {
		run := 0
		b := newBench(t, []string{"provokes=[load]"}, design{name: "good"},
			design{name: "wrong", breaks: []sut.Break{{Invariant: "kept", Under: sut.Load}},
				prepare: func() error { run++; return nil },
				forgets: func(id uint64) bool { return run == c.caughtAt && id == 3 }})
		b.opts.Again = c.again
		e := b.finish(t)
		v := e.variant(t, "wrong")
		slots := e.stored.Manifest.Slots
		if v.Correctness != c.want || len(v.Repeats) < c.runs || run != len(v.Repeats) ||
			c.runs > 1 && slots[2].Again == nil {
			t.Errorf("caught in run %d, again %d: %s after %d runs, want %s after %d",
				c.caughtAt, c.again, v.Correctness, run, c.want, c.runs)
		}
	}
}

// TestGivingUpIsSaid: that a repeat without clean times was not run again, and why, is
// reported once, recorded, and in every summary.
func TestGivingUpIsSaid(t *testing.T) {
	b := newBench(t, nil, design{name: "good"}, design{name: "other"})
	e := b.finish(t)
	e.tamper(t, b.opts.System, func(trial *judge.Trial) {
		if trial.Variant == "other" {
			m := &rundir.Machine{SpanNS: 1e9, Cores: 1, OthersNS: 5e8}
			trial.Processor = &rundir.Processor{Machine: m}
		}
	})
	dir, err := rundir.Lock(e.path)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	j, err := judge.Open(e.path, b.opts.System)
	if err != nil {
		t.Fatal(err)
	}
	for _, slot := range e.stored.Manifest.Slots {
		if _, err := j.Repeat(t.Context(), dir, slot); err != nil {
			t.Fatal(err)
		}
	}
	r := &runner{Options: b.opts, dir: dir, soft: b.soft, judge: j}
	r.Again = 1
	began := time.Now().Add(-time.Second)
	if err := r.runAgain(e.stored.Manifest.Slots, began, began); err != nil {
		t.Fatal(err)
	}
	const want = "1 repeat without clean times was not run again: " +
		"no time left within a quarter of the run's time"
	if lines := b.watcher.lines; len(lines) == 0 || lines[len(lines)-1] != want {
		t.Errorf("reported %q, want %q", lines, want)
	}
	summary, err := judge.Directory(t.Context(), dir, b.opts.System, judge.End{})
	if err != nil || !slices.Equal(summary.Warnings, []string{want}) {
		t.Errorf("the summary warns of %q, %v", summary.Warnings, err)
	}
}
