// Package partitions reads a topic of Kafka as a member of a group whose results and offsets are
// in a store of their own, in one transaction. So a record has its effect once, whoever crashes or
// sleeps: where a partition goes on is what that store says, and not what Kafka was told.
package partitions

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"stampede/harness/stores"
	"stampede/harness/sut"
	"stampede/harness/topics"
)

// ErrMoved says that a partition is not at the offset at which it should be: another member has it,
// or the store has lost its memory. What was read of it since is to be read again.
var ErrMoved = errors.New("the partition has another reader, or was stored further")

// Shard is what was read of a partition and is not stored. It is used by one goroutine at a time.
type Shard interface {
	// Read takes a record in.
	Read(ctx context.Context, r *kgo.Record) error
	// Store stores what was read, and that the partition is now at to, if it is at from. If it is
	// not, it stores nothing and returns ErrMoved.
	Store(ctx context.Context, from, to int64) error
}

// Reader reads partitions.
type Reader struct {
	Config sut.Config
	// Topic and Group are names without the prefix.
	Topic, Group string
	// Session is how long the reader may be silent, Every how often it stores.
	Session, Every time.Duration
	// Start says where each partition is, 0 if it does not say. It is asked when partitions come
	// and before each storing.
	Start func(context.Context) (map[int32]int64, error)
	// Open makes the shard of a partition that has come.
	Open func(partition int32) Shard

	topic string
	mu    sync.Mutex // of what rebalances change between two polls
	held  map[int32]*held
	lost  error // while partitions came
}

// held is a partition in hand: read up to an offset, and stored up to another one.
type held struct {
	Shard
	stored, next int64
}

const (
	// PollMost is how many records are read at once.
	PollMost = 2000
	// PollWait is how long one is waited for.
	PollWait = 100 * time.Millisecond
)

// Run reads until ctx is cancelled, and then stores what it has read. After an error it forgets
// what it has, leaves the group and returns.
func (r *Reader) Run(ctx context.Context) error {
	r.topic, r.held = topics.Name(r.Config, r.Topic), map[int32]*held{}
	group := topics.Name(r.Config, r.Group)
	gone := func(orderly bool) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(ctx context.Context, _ *kgo.Client, list map[string][]int32) {
			r.leave(ctx, list[r.topic], orderly)
		}
	}
	client, err := topics.Open(r.Config, append(topics.InGroup(group, r.topic, r.Session),
		kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(), kgo.AdjustFetchOffsetsFn(r.come),
		kgo.OnPartitionsRevoked(gone(true)), kgo.OnPartitionsLost(gone(false)))...)
	if err != nil {
		return err
	}
	defer client.CloseAllowingRebalance()
	member := topics.NewMember(client, group)
	for stored := time.Now(); ctx.Err() == nil; {
		err := r.step(ctx, client, &stored)
		client.AllowRebalance()
		if err != nil && ctx.Err() == nil {
			r.mu.Lock()
			clear(r.held) // so that leaving stores nothing
			r.mu.Unlock()
			return err
		}
		if err == nil && member.Joined(ctx) {
			r.Config.Worked()
		}
	}
	return nil
}

// come goes on with partitions where the store says that they are.
func (r *Reader) come(
	ctx context.Context, offsets map[string]map[int32]kgo.Offset,
) (map[string]map[int32]kgo.Offset, error) {
	ctx, cancel := context.WithTimeout(ctx, stores.Timeout(r.Config))
	defer cancel()
	starts, err := r.Start(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.lost = err
		return nil, err
	}
	for id := range offsets[r.topic] {
		r.held[id] = &held{Shard: r.Open(id), stored: starts[id], next: starts[id]}
		offsets[r.topic][id] = kgo.NewOffset().At(starts[id])
	}
	return offsets, nil
}

// leave gives partitions up. In good order what was read of them is stored, so that their next
// reader need not read it again.
func (r *Reader) leave(ctx context.Context, gone []int32, orderly bool) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stores.Timeout(r.Config))
	defer cancel()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range gone {
		if h := r.held[id]; h != nil && orderly {
			if err := h.store(ctx); err != nil {
				r.Config.Warn("the next reader reads some records again", err)
			}
		}
		delete(r.held, id)
	}
}

// step reads what one poll brings, and stores it if it is time.
func (r *Reader) step(ctx context.Context, client *kgo.Client, stored *time.Time) error {
	waiting, cancel := context.WithTimeout(ctx, min(PollWait, r.Every))
	defer cancel()
	fetches := client.PollRecords(waiting, PollMost)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range fetches.Errors() {
		if waiting.Err() == nil || !errors.Is(f.Err, waiting.Err()) {
			return fmt.Errorf("reading %s: %w", r.topic, f.Err)
		}
	}
	err := r.lost
	r.lost = nil
	fetches.EachRecord(func(record *kgo.Record) {
		h := r.held[record.Partition]
		if h == nil || err != nil || record.Offset < h.next {
			return
		}
		if err = h.Read(ctx, record); err != nil {
			err = fmt.Errorf("at %s/%d/%d: %w", r.topic, record.Partition, record.Offset, err)
		}
		h.next = record.Offset + 1
	})
	if err != nil || time.Since(*stored) < r.Every {
		return err
	}
	*stored = time.Now()
	return r.storeAll(ctx)
}

// storeAll stores what was read. Partitions of which nothing came must be where they were.
func (r *Reader) storeAll(ctx context.Context) error {
	starts, err := r.Start(ctx)
	for id, h := range r.held {
		if err == nil && starts[id] != h.stored {
			err = fmt.Errorf("partition %d is at %d, not at %d: %w", id, starts[id], h.stored, ErrMoved)
		}
		if err == nil {
			err = h.store(ctx)
		}
	}
	return err
}

func (h *held) store(ctx context.Context) error {
	if h.next == h.stored {
		return nil
	}
	err := h.Store(ctx, h.stored, h.next)
	if err == nil {
		h.stored = h.next
	}
	return err
}
