package views

import (
	"context"
	"errors"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"

	"stampede/harness/history"
	"stampede/harness/stores"
	"stampede/harness/sut"
	"stampede/harness/topics"
)

// RulesOf are the rules that are in force from the beginning.
func RulesOf(p Params) Rules { return p.rules() }

// HeartbeatOf is the heartbeat that an operation sends.
func HeartbeatOf(op history.Op) Heartbeat {
	h, _, err := heartbeatOf(op)
	if err != nil {
		panic(err)
	}
	return h
}

// fillBatch bounds a batch of Fill, in bytes: a dozen heartbeats, as many as
// gather in a partition while a producer lingers for 5 ms, if there are 25,000
// heartbeats a second on 12 partitions.
const fillBatch = 1 << 10

// Fill writes so many heartbeats of a workload into a prepared log, as an API would, and returns
// when they are there. Sessions follow each other, and are in the key if spread says so.
func Fill(
	ctx context.Context, cfg sut.Config, p Params, seed uint64, events int, spread bool,
) error {
	load, err := NewWorkload(seed, p)
	if err != nil {
		return err
	}
	client, err := topics.Open(cfg, kgo.ProducerBatchMaxBytes(fillBatch))
	if err != nil {
		return err
	}
	defer client.Close()
	var mu sync.Mutex
	var failed error
	left := events
	for session := uint64(0); left > 0; session++ {
		ops := []history.Op{load.Op(session)}
		for len(ops) > 0 && left > 0 {
			h, _, err := heartbeatOf(ops[0])
			if err != nil {
				return err
			}
			key := h.Video
			if spread {
				key = bySession(&h)
			}
			r := &kgo.Record{Topic: topics.Name(cfg, topicWatch), Key: []byte(key),
				Value: encodeEvents([]Event{{Heartbeat: h, Rules: 1}})}
			client.Produce(ctx, r, func(_ *kgo.Record, err error) {
				mu.Lock()
				defer mu.Unlock()
				failed = errors.Join(failed, err)
			})
			left--
			var next []history.Op
			for _, f := range load.Follow(ops[0], history.OK, history.Reply{}) {
				if f.Op.Kind == KindHeartbeat {
					next = append(next, f.Op)
				}
			}
			ops = next
		}
	}
	err = client.Flush(ctx)
	mu.Lock()
	defer mu.Unlock()
	return errors.Join(err, failed)
}

// TopicWatch is the name of watch_events in a run.
func TopicWatch(cfg sut.Config) string { return topics.Name(cfg, topicWatch) }

// ErrFenced is what a store says to whoever is not the owner any more.
var ErrFenced = errFenced

// Books are the books in Postgres.
type Books struct{ db database }

// Held is a partition that somebody took.
type Held struct{ stand }

// OpenBooks opens the books of a run.
func OpenBooks(ctx context.Context, cfg sut.Config) (Books, error) {
	db, err := stores.OpenPostgres(ctx, cfg, "views", nil)
	return Books{database{db}}, err
}

// Close closes them.
func (b Books) Close() { b.db.Close() }

// Take takes partition 0 for a stage.
func (b Books) Take(ctx context.Context, stage string) (Held, error) {
	generation := map[string]int64{stageFilter: 0, stageCounter: 1}[stage]
	list, err := b.db.take(ctx, station{stage, generation}, []int32{0})
	if err != nil {
		return Held{}, err
	}
	return Held{list[0]}, nil
}

// Count stores a view of each video, and moves on by as many records.
func (b Books) Count(ctx context.Context, h *Held, videos ...string) error {
	var sums []sum
	for _, video := range videos {
		sums = append(sums, sum{video, 0, 0, 1})
	}
	n := int64(len(videos))
	to := move{stand: h.stand, to: h.next + n, toSource: h.source + n}
	err := b.db.counted(ctx, station{stageCounter, 1}, []move{to}, sums)
	if err == nil {
		h.next, h.source = to.to, to.toSource
	}
	return err
}

// Decide stores what was decided up to an offset, beyond which all is forwarded,
// and one event that was turned away.
func (b Books) Decide(ctx context.Context, h *Held, forwarded, to int64, views ...int64) error {
	m := move{stand: h.stand, to: forwarded, toSource: -1, toDecided: to, toViews: views}
	err := b.db.filtered(ctx, []move{m}, []drop{{0, VideoKey(1), Short, 1}})
	if err == nil {
		h.next, h.decided, h.views = forwarded, to, views
	}
	return err
}

// Decided says what is stored of a partition's decisions.
func (h Held) Decided() (next, to int64, views []int64) { return h.next, h.decided, h.views }
