package views

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"stampede/harness/sut"
	"stampede/harness/topics"
)

// gateway is the watchtime service: it writes heartbeats into the log.
type gateway struct {
	client *kgo.Client
	topic  string
	rules  *ruleBook
	// bySession spreads a video over the partitions by its sessions.
	bySession bool
	// gather is how long heartbeats of one video are gathered into one record;
	// 0 means that each is a record of its own.
	gather time.Duration

	mu        sync.Mutex
	gathering map[string]*gathered
}

func newGateway(client *kgo.Client, cfg sut.Config, rules *ruleBook, d design) *gateway {
	return &gateway{client: client, topic: topics.Name(cfg, topicWatch), rules: rules,
		bySession: d.composite, gather: d.gather, gathering: make(map[string]*gathered)}
}

// watch writes a heartbeat and returns once it is in the log.
func (g *gateway) watch(ctx context.Context, h Heartbeat) (Position, error) {
	if text := h.check(); text != "" {
		return Position{}, fmt.Errorf("%s: %w", text, sut.ErrRefused)
	}
	if err := ctx.Err(); err != nil {
		return Position{}, fmt.Errorf("not sent: %w: %w", sut.ErrRefused, err)
	}
	rules, err := g.rules.latest(ctx)
	if err != nil {
		return Position{}, fmt.Errorf("nothing was sent, for want of rules: %w: %w",
			sut.ErrRefused, err)
	}
	if _, known := g.rules.creator(h.Video); !known {
		return Position{}, ErrUnknownVideo
	}
	e := Event{Heartbeat: h, Rules: rules.Version}
	if g.gather > 0 {
		return g.watchGathered(ctx, e)
	}
	key := h.Video
	if g.bySession {
		key += "|" + h.Session
	}
	done := make(chan Position, 1)
	failed := make(chan error, 1)
	g.send(key, []Event{e}, func(at Position, err error) {
		if err != nil {
			failed <- err
			return
		}
		done <- at
	})
	select {
	case at := <-done:
		return at, nil
	case err := <-failed:
		return Position{}, err
	case <-ctx.Done():
		return Position{}, fmt.Errorf("waiting for the log: %w", ctx.Err())
	}
}

// send writes a record and tells what became of it. A player who leaves does not
// take it back: the driver would fail with it what others have written beside it.
func (g *gateway) send(key string, events []Event, tell func(Position, error)) {
	r := &kgo.Record{Topic: g.topic, Key: []byte(key), Value: encodeEvents(events)}
	g.client.TryProduce(context.Background(), r, func(r *kgo.Record, err error) {
		tell(Position{Partition: r.Partition, Offset: r.Offset}, produced(err))
	})
}

// gathered is a record in the making, and what became of it.
type gathered struct {
	events []Event
	done   chan struct{}
	at     Position
	err    error
}

// gatherAtMost bounds the heartbeats of one record.
const gatherAtMost = 512

// watchGathered puts an event into its video's next record. Whoever begins a
// record sends it, after a while or when it is full.
func (g *gateway) watchGathered(ctx context.Context, e Event) (Position, error) {
	g.mu.Lock()
	mine := g.gathering[e.Video]
	if mine == nil {
		mine = &gathered{done: make(chan struct{})}
		g.gathering[e.Video] = mine
		time.AfterFunc(g.gather, func() { g.dispatch(e.Video, mine) })
	}
	index := len(mine.events)
	mine.events = append(mine.events, e)
	full := len(mine.events) >= gatherAtMost
	g.mu.Unlock()
	if full {
		g.dispatch(e.Video, mine)
	}
	select {
	case <-mine.done:
	case <-ctx.Done():
		return Position{}, fmt.Errorf("waiting for the log: %w", ctx.Err())
	}
	if mine.err != nil {
		return Position{}, mine.err
	}
	at := mine.at
	at.Index = index
	return at, nil
}

// dispatch sends a record unless it was sent.
func (g *gateway) dispatch(video string, r *gathered) {
	g.mu.Lock()
	pending := g.gathering[video] == r
	if pending {
		delete(g.gathering, video)
	}
	g.mu.Unlock()
	if !pending {
		return
	}
	g.send(video, r.events, func(at Position, err error) {
		r.at, r.err = at, err
		close(r.done)
	})
}
