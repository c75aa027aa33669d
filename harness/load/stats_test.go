package load_test

import (
	"sync"

	"github.com/HdrHistogram/hdrhistogram-go"

	"stampede/harness/history"
	"stampede/harness/load"
)

// stats is a history that keeps histograms only, one pair a worker.
type stats struct {
	mu     sync.Mutex
	shards []*statShard
}

type statShard struct{ lag, response *hdrhistogram.Histogram }

func newStats() *stats { return &stats{} }

func (s *stats) shard() load.Recorder {
	s.mu.Lock()
	defer s.mu.Unlock()
	shard := &statShard{newHistogram(), newHistogram()}
	s.shards = append(s.shards, shard)
	return shard
}

func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(1000, 60e9, 3) }

func (s *statShard) Append(r *history.Record) {
	if r.Outcome != history.Dropped {
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
