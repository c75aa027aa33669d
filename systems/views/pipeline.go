package views

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"stampede/harness/stores"
	"stampede/harness/sut"
	"stampede/harness/topics"
)

// pipeline is the API of a design: it writes heartbeats into the log and reads counts.
type pipeline struct {
	*opened
	db    database
	rules *ruleBook
	topic string
	// key is that of a heartbeat's record: what has the same key goes to the same partition.
	key func(*Heartbeat) string
}

func newPipeline(st *opened, b books) *pipeline {
	return &pipeline{opened: st, db: database{st.DB},
		rules: newRuleBook(b, st.Params, st.Config.Logger),
		topic: topics.Name(st.Config, topicWatch), key: func(h *Heartbeat) string { return h.Video }}
}

// Watch writes a heartbeat as a record of its own.
func (p *pipeline) Watch(ctx context.Context, req WatchRequest) (WatchReply, error) {
	return p.watch(ctx, req, func(e Event, tell func(Position, error)) {
		p.send(p.key(&e.Heartbeat), []Event{e}, tell)
	})
}

// watch lets a heartbeat be written, if it may be, and returns once it is in the log.
func (p *pipeline) watch(
	ctx context.Context, req WatchRequest, write func(e Event, tell func(Position, error)),
) (WatchReply, error) {
	ctx, cancel := context.WithTimeout(ctx, stores.Timeout(p.Config))
	defer cancel()
	if err := ctx.Err(); err != nil {
		return WatchReply{}, fmt.Errorf("not sent: %w: %w", sut.ErrRefused, err)
	}
	rules, err := p.rules.latest(ctx)
	if err != nil {
		return WatchReply{}, fmt.Errorf("nothing was sent, for want of rules: %w: %w",
			sut.ErrRefused, err)
	}
	if _, known := p.rules.creator(req.Video); !known {
		return WatchReply{}, ErrUnknownVideo
	}
	type answer struct {
		at  Position
		err error
	}
	told := make(chan answer, 1)
	write(Event{Heartbeat: req.heartbeat(), Rules: rules.Version}, func(at Position, err error) {
		told <- answer{at, err}
	})
	select {
	case a := <-told:
		return WatchReply{PositionText(a.at.String())}, a.err
	case <-ctx.Done():
		return WatchReply{}, fmt.Errorf("waiting for the log: %w", ctx.Err())
	}
}

// send writes a record and tells what became of it. A player who leaves does not
// take it back: the driver would fail with it what others have written beside it.
func (p *pipeline) send(key string, events []Event, tell func(Position, error)) {
	r := &kgo.Record{Topic: p.topic, Key: []byte(key), Value: encodeEvents(events)}
	p.Kafka.TryProduce(context.Background(), r, func(r *kgo.Record, err error) {
		if err != nil {
			tell(Position{}, produced(err))
			return
		}
		tell(Position{Partition: r.Partition, Offset: r.Offset}, nil)
	})
}

// produced tells records that were certainly not written from those whose fate
// is unknown.
func produced(err error) error {
	switch {
	case errors.Is(err, kgo.ErrMaxBuffered):
		return fmt.Errorf("%w: %w", ErrOverloaded, err)
	case errors.Is(err, kerr.MessageTooLarge):
		return fmt.Errorf("%w: %w", sut.ErrRefused, err)
	}
	return fmt.Errorf("writing to the log: %w", err)
}

// Views reads a video's count in the live generation.
func (p *pipeline) Views(ctx context.Context, req VideoRequest) (Views, error) {
	return p.db.views(ctx, req.Video)
}

// SetRules adds a version.
func (p *pipeline) SetRules(ctx context.Context, rules Rules) (VersionReply, error) {
	version, err := p.db.addRules(ctx, rules)
	return VersionReply{version}, err
}

// Reprocess begins a generation.
func (p *pipeline) Reprocess(ctx context.Context, _ struct{}) (GenerationReply, error) {
	generation, err := p.db.addGeneration(ctx, p.Config.Kafka.Partitions)
	return GenerationReply{generation}, err
}
