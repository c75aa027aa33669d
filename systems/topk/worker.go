package topk

import (
	"context"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

	"stampede/systems/internal/partitions"
)

const (
	// topicEvents is the topic, and workers is the group of its readers.
	topicEvents = "events"
	workers     = "counters"
	// keepPanes is how many panes of a partition a worker keeps in memory. An older one is read
	// again if a late batch comes.
	keepPanes = 4
)

// The fail points of a worker.
const (
	placeCounted = "counted" // batches are counted in memory, and nothing is stored
	placeStored  = "stored"  // panes of a partition are stored
)

// ledger is where a design keeps its panes and how far its partitions are counted.
type ledger interface {
	// start is the offset at which each partition goes on.
	start(ctx context.Context) (map[int32]int64, error)
	// load reads a pane; that of a window without events is empty.
	load(ctx context.Context, shard int32, window int64) (*pane, error)
	// store stores the panes of a partition and that it is counted from one offset to another. If
	// it stands at a third one, that is partitions.ErrMoved, and nothing is stored.
	store(ctx context.Context, shard int32, from, to int64, panes []*pane) error
	// windows calls back with each window and its merged pane, and with how many shards that had,
	// in order.
	windows(ctx context.Context, see func(merged *pane, shards int) error) error
	// top are the most frequent keys of some windows, over all partitions, and how many events
	// those have.
	top(ctx context.Context, from, to int64, k int) ([]TopItem, int64, error)
}

// shard is a partition in the hands of a worker.
type shard struct {
	*opened
	ledger
	id int32
	// windowOf is the window of a batch, given the newest one that the partition has had.
	windowOf func(p Params, atMS, newest int64) int64
	newest   int64
	panes    map[int64]*pane
	buffer   []uint64
}

// work counts the partitions that a process has.
func work(ctx context.Context, st *opened, d plan) error {
	l := d.ledger(st, d.summary)
	r := &partitions.Reader{Config: st.Config, Topic: topicEvents, Group: workers,
		Session: st.Params.SessionTimeout.D(), Every: st.Params.FlushEvery.D(), Start: l.start,
		Open: func(id int32) partitions.Shard {
			return &shard{opened: st, ledger: l, id: id, windowOf: d.windowOf, panes: map[int64]*pane{}}
		}}
	return r.Run(ctx)
}

// Read adds a batch to the pane of its window.
func (s *shard) Read(ctx context.Context, r *kgo.Record) error {
	batch, err := decodeBatch(r.Value, s.buffer)
	if err != nil {
		return err
	}
	s.buffer = batch.Keys
	window := s.windowOf(s.Params, batch.AtMS, s.newest)
	s.newest = max(s.newest, window)
	p := s.panes[window]
	if p == nil {
		if p, err = s.load(ctx, s.id, window); err != nil {
			return err
		}
		s.panes[window] = p
	}
	p.add(batch.Keys)
	return nil
}

// Store stores the panes that have changed, and keeps the newest ones.
func (s *shard) Store(ctx context.Context, from, to int64) error {
	var list []*pane
	order := sortedKeys(s.panes)
	for _, window := range order {
		if p := s.panes[window]; !p.stored {
			list = append(list, p)
		}
	}
	s.Config.Passed(placeCounted)
	if err := s.store(ctx, s.id, from, to, list); err != nil {
		return err
	}
	for _, p := range list {
		p.stored = true
	}
	for _, window := range order[:max(0, len(order)-keepPanes)] {
		delete(s.panes, window)
	}
	return nil
}

func sortedKeys[V any](m map[int64]V) []int64 { return slices.Sorted(maps.Keys(m)) }
