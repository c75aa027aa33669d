package knee_test

import (
	"math"
	"testing"
	"time"

	"stampede/harness/knee"
	"stampede/harness/rundir"
)

// line is a timeline of 10 ms buckets, 4 s long, in which a bucket's operations
// are due and end as the functions say.
func line(due, ended func(i int) int64) rundir.Timeline {
	k := rundir.KindTimeline{Kind: "buy"}
	for i := range 400 {
		k.Buckets = append(k.Buckets, rundir.Bucket{Load: rundir.Load{Scheduled: due(i)},
			Ended: ended(i)})
	}
	other := rundir.KindTimeline{Kind: "pay", Buckets: k.Buckets[:10]} // ends early
	return rundir.Timeline{BucketNS: int64(10 * time.Millisecond),
		Kinds: []rundir.KindTimeline{k, other}}
}

func constant(n int64) func(int) int64 { return func(int) int64 { return n } }

func TestPace(t *testing.T) {
	for name, c := range map[string]struct {
		due, ended                func(int) int64
		offered, achieved, growth float64
		steady                    bool
	}{
		"serves all": {constant(5), constant(5), 500, 500, 0, true},
		// 200 operations wait from the beginning, but no more do.
		"works through a queue": {constant(5), func(i int) int64 { return min(5, int64(max(0, i-40))) },
			500, 500, 0, true},
		"falls behind":            {constant(5), constant(4), 500, 400, 100, false},
		"falls behind by 1 in 50": {constant(50), constant(49), 5000, 4900, 100, true},
		"by 2 in 50":              {constant(50), constant(48), 5000, 4800, 200, false},
		"stands still":            {constant(5), constant(0), 500, 0, 500, false},
		"catches up":              {constant(5), constant(6), 500, 600, -100, true},
		// Eight operations in two seconds are no trend.
		"too few to tell": {constant(1), func(i int) int64 { return min(1, int64(i%25)) },
			100, 96, 4, true},
	} {
		p, ok := knee.PaceOf(line(c.due, c.ended), 0, 4*time.Second)
		if !ok || p.OfferedPerS != c.offered || math.Abs(p.AchievedPerS-c.achieved) > 1e-9 ||
			math.Abs(p.GrowthPerS-c.growth) > 0.5 || p.Over != 2*time.Second {
			t.Errorf("%s: %+v, %v", name, p, ok)
		}
		if (p.Unsteady() == "") != c.steady {
			t.Errorf("%s: %q", name, p.Unsteady())
		}
	}
}

// What is dropped is not served, whoever else is.
func TestPaceCountsDropsAsUnserved(t *testing.T) {
	tl := line(constant(50), constant(45))
	for i := range tl.Kinds[0].Buckets {
		tl.Kinds[0].Buckets[i].Load.Dropped = 5
	}
	if p, ok := knee.PaceOf(tl, 0, 4*time.Second); !ok || p.Unsteady() == "" {
		t.Errorf("%+v, %v", p, ok)
	}
}

func TestPaceNeedsBuckets(t *testing.T) {
	for _, over := range []time.Duration{0, 10 * time.Millisecond, 70 * time.Millisecond} {
		if p, ok := knee.PaceOf(line(constant(1), constant(1)), 0, over); ok {
			t.Errorf("%s: %+v", over, p)
		}
	}
	if _, ok := knee.PaceOf(rundir.Timeline{}, 0, time.Second); ok {
		t.Error("there is no timeline")
	}
	// The load may end before its last bucket does, and the buckets before the load.
	if p, ok := knee.PaceOf(line(constant(5), constant(5)), 3*time.Second, 5*time.Second); !ok ||
		p.OfferedPerS != 0 {
		t.Errorf("%+v, %v", p, ok)
	}
}
