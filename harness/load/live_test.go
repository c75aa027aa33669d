package load

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"stampede/harness/history"
)

func TestLiveBuckets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(0, math.MaxInt64).Draw(t, "d"))
		bucket := liveBucket(d)
		if bucket < 0 || bucket >= liveBuckets {
			t.Fatalf("%d has bucket %d of %d", d, bucket, liveBuckets)
		}
		top := liveValue(bucket)
		if top < d || float64(top-d) > 0.07*float64(d) {
			t.Fatalf("%d is in a bucket up to %d", d, top)
		}
		if liveBucket(top) != bucket || top < math.MaxInt64 && liveBucket(top+1) != bucket+1 {
			t.Fatalf("bucket %d does not end at %d", bucket, top)
		}
	})
}

func TestSnapshotsAreAboutTheLastSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		live := new(Live)
		if s := live.Snapshot(); s.Phase != Waiting || s.Elapsed != 0 {
			t.Errorf("before the start: %+v", s)
		}
		live.begun.Store(&moment{base: time.Now()})
		live.enter(Loading)
		second := func(ops int, response time.Duration) (last Snapshot) {
			for range 10 {
				for range ops / 10 {
					live.scheduled.Add(1)
					live.started.Add(1)
					live.finished(history.OK, response)
				}
				time.Sleep(time.Second / 10)
				last = live.Snapshot()
			}
			return last
		}
		for range 5 {
			second(1000, 50*time.Millisecond)
		}
		second(200, time.Millisecond)
		second(200, time.Millisecond)
		s := second(200, time.Millisecond)
		if math.Abs(s.Achieved-200) > 1 || math.Abs(s.Offered-200) > 1 {
			t.Errorf("offered %.0f/s, achieved %.0f/s, want 200/s", s.Offered, s.Achieved)
		}
		if s.P99Recent < time.Millisecond || s.P99Recent > 1100*time.Microsecond {
			t.Errorf("p99 %s of late, want 1ms", s.P99Recent)
		}
		if s.P99 < 50*time.Millisecond || s.P99 > 54*time.Millisecond {
			t.Errorf("p99 %s, want that of all, 50ms", s.P99)
		}
		if s.Load.OK != 5600 || s.Elapsed != 8*time.Second {
			t.Errorf("snapshot %+v", s)
		}
	})
}
