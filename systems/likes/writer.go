package likes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"stampede/harness/stores"
	"stampede/harness/topics"
)

// The ledger's worker.
const (
	// RoleLedger names it.
	RoleLedger = "ledger"
	// PlaceBetween is between the ledger and the commit of the offsets, whichever a
	// design has first.
	PlaceBetween = "between"

	// batchSize is how many events go to the ledger in one transaction, and
	// pollSize how many are read before their offsets are committed.
	batchSize = 100
	pollSize  = 10 * batchSize
	// session is how long a worker may be silent before another one takes its
	// partitions. One that is started again under its name has them at once.
	session = 2 * time.Second
)

// worker is what makes a difference in how the log is brought to the ledger.
type worker interface {
	// start says where in the log to go on, if not where the group is.
	start() []kgo.Opt
	// bring applies what was read and commits its offsets.
	bring(apply, commit func() error) error
	// first is the offset at which the ledger must be for a record to be the next one.
	first(*kgo.Record) int64
}

// ledgerWorker goes on where the ledger is, and commits what it has applied.
type ledgerWorker struct{ b *backend }

func (w ledgerWorker) start() []kgo.Opt {
	return []kgo.Opt{kgo.AdjustFetchOffsetsFn(w.b.resume)}
}

func (w ledgerWorker) bring(apply, commit func() error) error {
	if err := apply(); err != nil {
		return err
	}
	w.b.Config.Passed(PlaceBetween)
	return commit()
}

func (ledgerWorker) first(r *kgo.Record) int64 { return r.Offset }

// ledgerRole writes the log behind: it brings events from the log to the ledger.
//
// Where it goes on the ledger itself says, in the table applied, which the
// transaction that applies the events moves: whatever becomes of the one becomes of
// the other. The offsets that are committed afterwards are for those who look at
// lag. Events that are delivered again change nothing. An event of an earlier life
// of the counters, which may have missed their rebuild, is told to Redis as well.
func (c counted) ledgerRole(how func(*backend) worker) role {
	return role{
		Name:    RoleLedger,
		Summary: "writes the log of interactions to the ledger, in batches of 100",
		Places:  []string{PlaceBetween},
		Do: func(ctx context.Context, st *opened) error {
			b := c.on(st)
			return b.writeBehind(ctx, how(b))
		},
	}
}

func followLedger(b *backend) worker { return ledgerWorker{b} }

// writeBehind works until ctx is cancelled or something fails.
func (b *backend) writeBehind(ctx context.Context, w worker) error {
	name := RoleLedger + "-" + strconv.Itoa(b.Config.Replica)
	client, err := topics.Open(b.Config, append(append(w.start(),
		topics.InGroup(b.log.group, b.log.topic, session)...),
		kgo.InstanceID(name), kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll())...)
	if err != nil {
		return err
	}
	defer client.CloseAllowingRebalance()
	member := topics.NewMember(client, b.log.group)
	for ctx.Err() == nil {
		fetches, err := member.Poll(ctx, pollSize)
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			return fmt.Errorf("reading the log: %w", err)
		}
		if err := b.write(ctx, w, client, fetches.Records()); err != nil {
			return err
		}
		if member.Joined(ctx) {
			b.Config.Worked()
		}
		client.AllowRebalance()
	}
	leave(client, b, name)
	return nil
}

// resume goes on where the ledger is.
func (b *backend) resume(
	ctx context.Context, offsets map[string]map[int32]kgo.Offset,
) (map[string]map[int32]kgo.Offset, error) {
	applied, err := b.ledger.applied(ctx)
	if err != nil {
		return nil, err
	}
	for partition := range offsets[b.log.topic] {
		from := kgo.NewOffset().AtStart()
		if next := applied[partition]; next > 0 {
			from = kgo.NewOffset().At(next)
		}
		offsets[b.log.topic][partition] = from
	}
	return offsets, nil
}

// leave tells the group that the worker does not come back, so that nobody has
// to wait for the end of its session. Where that fails, they have to.
func leave(client *kgo.Client, b *backend, name string) {
	ctx, cancel := context.WithTimeout(context.Background(), stores.Timeout(b.Config))
	defer cancel()
	_, err := kadm.NewClient(client).LeaveGroup(ctx,
		kadm.LeaveGroup(b.log.group).Reason("stopped").InstanceIDs(name))
	if err != nil {
		b.Config.Warn("likes: the ledger's worker could not leave its group", err)
	}
}

// write brings the records to the ledger, batch by batch, and commits their
// offsets.
func (b *backend) write(
	ctx context.Context, w worker, client *kgo.Client, records []*kgo.Record,
) error {
	if len(records) == 0 {
		return nil
	}
	return w.bring(func() error {
		for batch := range slices.Chunk(records, batchSize) {
			if err := b.apply(ctx, w, batch); err != nil {
				return err
			}
		}
		return nil
	}, func() error {
		if err := client.CommitRecords(ctx, records...); err != nil {
			return fmt.Errorf("committing offsets: %w", err)
		}
		return nil
	})
}

// apply applies one batch. A record that is not an event stops the worker for
// good: skipping it would be a loss that nobody sees. A ledger that has fallen back
// behind the worker, which goes on in memory, refuses the batch; the worker starts
// anew, from where the ledger is.
func (b *backend) apply(ctx context.Context, w worker, records []*kgo.Record) error {
	batch, spans := make([]Event, len(records)), map[int32]span{}
	for i, r := range records {
		var err error
		if batch[i], err = parseEvent(r.Value); err != nil {
			return fmt.Errorf("partition %d, offset %d: %w", r.Partition, r.Offset, err)
		}
		s, begun := spans[r.Partition]
		if !begun {
			s.first = w.first(r)
		}
		s.next = r.Offset + 1
		spans[r.Partition] = s
	}
	epochs, err := b.ledger.apply(ctx, batch, spans)
	if err != nil {
		return err
	}
	for _, e := range batch {
		if e.epoch() >= epochs[e.Video] {
			continue
		}
		p := pair{user: e.User, liked: e.Liked, version: e.Version, op: e.OpID}
		if err := b.store.adopt(ctx, e.Video, p); err != nil && !errors.Is(err, ErrNotReady) {
			return err
		}
	}
	return nil
}
