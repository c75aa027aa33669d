package views

import (
	"context"
	"sync"
	"time"
)

// preaggregated gathers at the producer, so that a hot video is many heartbeats in few records.
// A heartbeat is acknowledged only when its record is in the log, and keeps its identity in it.
// The hot video's partition is still one.
func preaggregated() variant {
	return pipelined(variant{
		Name: "preaggregated",
		Idea: "the API gathers a video's heartbeats for 10 ms and writes them as one record, to " +
			"the partition of the video",
		Guarantees: "as video_key, with few records for a hot video",
		GivesUp:    "10 ms for each heartbeat; one lost answer leaves many heartbeats unknown",
		Open: func(_ context.Context, st *opened) (Pipeline, error) {
			return newGathering(st, database{st.DB}), nil
		},
	}, nil)
}

const (
	// gatherFor is how long heartbeats are gathered: long enough for the hot video to share
	// records, short beside the seconds between heartbeats.
	gatherFor = 10 * time.Millisecond
	// gatherAtMost bounds the heartbeats of one record.
	gatherAtMost = 512
)

// gathering is a pipeline that gathers heartbeats of one video into one record.
type gathering struct {
	*pipeline
	mu      sync.Mutex
	records map[string]*gathered // by video
}

func newGathering(st *opened, b books) *gathering {
	return &gathering{pipeline: newPipeline(st, b), records: make(map[string]*gathered)}
}

// gathered is a record in the making, with who waits for it, in the order of its events.
type gathered struct {
	events  []Event
	waiting []func(Position, error)
}

// Watch writes a heartbeat into its video's next record.
func (g *gathering) Watch(ctx context.Context, req WatchRequest) (WatchReply, error) {
	return g.watch(ctx, req, g.gather)
}

// gather adds an event to a record, which is sent after a while or when it is full.
func (g *gathering) gather(e Event, tell func(Position, error)) {
	g.mu.Lock()
	r := g.records[e.Video]
	if r == nil {
		r = &gathered{}
		g.records[e.Video] = r
		time.AfterFunc(gatherFor, func() { g.dispatch(e.Video, r) })
	}
	r.events, r.waiting = append(r.events, e), append(r.waiting, tell)
	full := len(r.events) >= gatherAtMost
	g.mu.Unlock()
	if full {
		g.dispatch(e.Video, r)
	}
}

// dispatch sends a record unless it was sent.
func (g *gathering) dispatch(video string, r *gathered) {
	g.mu.Lock()
	pending := g.records[video] == r
	if pending {
		delete(g.records, video)
	}
	g.mu.Unlock()
	if !pending {
		return
	}
	g.send(video, r.events, func(at Position, err error) {
		for i, tell := range r.waiting {
			at.Index = i
			tell(at, err)
		}
	})
}
