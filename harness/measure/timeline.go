package measure

import (
	"time"

	"stampede/harness/history"
	"stampede/harness/rundir"
)

// timeline collects a history's numbers over time.
type timeline struct {
	width time.Duration
	// kinds[k][b] is kind k's bucket b.
	kinds [][]bucket
}

// bucket is one kind in one span of time.
type bucket struct {
	load           rundir.Load // by intended time
	times          *times      // by intended time, nil while empty
	started, ended int64       // by start and by end
}

func newTimeline(last time.Duration, limit, kinds int) *timeline {
	t := &timeline{width: bucketWidth(last, limit)}
	for range kinds {
		t.kinds = append(t.kinds, make([]bucket, last/t.width+1))
	}
	return t
}

// bucketWidth is the smallest round width, 1, 2 or 5 times a power of ten and
// at least a millisecond, with which the time from 0 to last takes no more
// buckets than the limit.
func bucketWidth(last time.Duration, limit int) time.Duration {
	for decade := time.Millisecond; ; decade *= 10 {
		for _, width := range []time.Duration{decade, 2 * decade, 5 * decade} {
			if last/width < time.Duration(limit) {
				return width
			}
		}
	}
}

func (t *timeline) add(kind int, rec *history.Record) {
	buckets := t.kinds[kind]
	b := &buckets[rec.Intended/t.width]
	if b.times == nil {
		rough := newTimes(newRoughHistogram)
		b.times = &rough
	}
	b.times.add(rec)
	count(&b.load, rec.Outcome)
	if rec.Start != history.Never {
		buckets[rec.Start/t.width].started++
	}
	if rec.End != history.Never {
		buckets[rec.End/t.width].ended++
	}
}

func (t *timeline) result(kinds []string) rundir.Timeline {
	out := rundir.Timeline{BucketNS: int64(t.width), Kinds: []rundir.KindTimeline{}}
	for k, name := range kinds {
		line := rundir.KindTimeline{Kind: name}
		inFlight := int64(0)
		for _, b := range t.kinds[k] {
			inFlight += b.started - b.ended
			one := rundir.Bucket{Load: b.load, Ended: b.ended, InFlight: inFlight}
			if b.times != nil {
				one.Response, one.Service = b.times.response.Percentiles(), b.times.service.Percentiles()
				one.Lag = b.times.lag.Percentiles()
			}
			line.Buckets = append(line.Buckets, one)
		}
		out.Kinds = append(out.Kinds, line)
	}
	return out
}
