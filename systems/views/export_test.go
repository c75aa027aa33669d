package views

import (
	"context"
	"encoding/json"
	"errors"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"

	"stampede/harness/history"
	"stampede/harness/sut"
	"stampede/harness/topics"
)

// ResetBody is a reset for the default parameters.
func ResetBody() string {
	text, err := json.Marshal(resetOf(DefaultParams()))
	if err != nil {
		panic(err)
	}
	return string(text)
}

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

// Fill writes so many heartbeats of a workload into the log of an instance, as
// its API would, and returns when they are there. Sessions follow each other.
func Fill(ctx context.Context, inst sut.Instance, seed uint64, events int) error {
	i := inst.(*instance)
	load, err := NewWorkload(seed, i.params)
	if err != nil {
		return err
	}
	if err := i.gate.rules.load(ctx); err != nil {
		return err
	}
	client, err := openKafka(ctx, i.cfg, kgo.ProducerBatchMaxBytes(fillBatch))
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
			if i.composite {
				key += "|" + h.Session
			}
			r := &kgo.Record{Topic: i.gate.topic, Key: []byte(key),
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
