package load_test

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"stampede/harness/history"
	"stampede/harness/load"
)

// stats is a history that keeps two histograms for each worker, of what was
// due at or after a time.
type stats struct {
	from   time.Duration
	mu     sync.Mutex
	shards []*statShard
}

type statShard struct {
	from          time.Duration
	lag, response *hdrhistogram.Histogram
}

func newStats(from time.Duration) *stats { return &stats{from: from} }

func (s *stats) shard() load.Recorder {
	s.mu.Lock()
	defer s.mu.Unlock()
	shard := &statShard{s.from, newHistogram(), newHistogram()}
	s.shards = append(s.shards, shard)
	return shard
}

func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(1000, 60e9, 3) }

func (s *statShard) Append(r *history.Record) {
	if r.Outcome != history.Dropped && r.Intended >= s.from {
		_ = s.lag.RecordValue(int64(r.Start - r.Intended))
		_ = s.response.RecordValue(int64(r.End - r.Intended))
	}
}

func (s *stats) merged() (lag, response *hdrhistogram.Histogram) {
	lag, response = newHistogram(), newHistogram()
	for _, shard := range s.shards {
		lag.Merge(shard.lag)
		response.Merge(shard.response)
	}
	return lag, response
}
