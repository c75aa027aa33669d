package sqlbroker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sync/errgroup"

	"stampede/harness/stores"
	"stampede/harness/sut"
)

// The places of a consumer at which a fault may end it.
const (
	// PlaceReceived is after a batch was received and before anything is done with it.
	PlaceReceived = "received"
	// PlaceBetween is between the effects of a batch and its acknowledgement, whichever
	// comes first.
	PlaceBetween = "between"
)

// work stores the effects of a batch and acknowledges it. What it returns
// errIndigestible for has had no effect.
type work func(ctx context.Context, b *backend, queue string, batch []Delivery) error

// consumer is the role that works queues off: it receives a batch, works on it,
// stores what came of it and acknowledges it.
//
// What it stores is in the same database as the queue. So an effect and the
// acknowledgement can be one transaction, with a receipt that is looked at under the
// row's lock: the effect is there if and only if the message is acknowledged, by this
// delivery and no other. Whoever wakes up too late finds the receipt gone and leaves
// no effect.
func (d design) consumer() sut.Role {
	return sut.Role{
		Name:    RoleConsumer,
		Summary: "receives messages, stores their effects and acknowledges them",
		Places:  []string{PlaceReceived, PlaceBetween},
		Run: func(ctx context.Context, cfg sut.Config) error {
			params, err := sut.ParamsOf[Params](cfg.Params)
			if err != nil {
				return err
			}
			work := func(ctx context.Context, b *backend) error {
				group, ctx := errgroup.WithContext(ctx)
				for worker := range params.Workers {
					group.Go(func() error { return d.consume(ctx, b, worker) })
				}
				group.Go(func() error { return b.tell(ctx) })
				return group.Wait()
			}
			return d.run(ctx, cfg, RoleConsumer, params.Workers+1, work)
		},
	}
}

// restEvery bounds how long a worker without messages is silent.
const restEvery = time.Second

// consume works until ctx is cancelled or something fails. The workers begin with
// different queues.
func (d design) consume(ctx context.Context, b *backend, worker int) error {
	if b.params.Worked == 0 {
		return b.cfg.Every(ctx, restEvery, func() error { return nil })
	}
	name := fmt.Sprintf("%s-%d.%d", RoleConsumer, b.cfg.Replica, worker)
	for turn := worker; ; turn++ {
		queue := QueueName(turn%b.params.Worked + 1)
		batch, err := b.broker.Receive(ctx, queue, Demand{Most: b.params.ReceiveBatch,
			WaitMS: b.wait().Milliseconds()})
		if ctx.Err() != nil {
			return nil //nolint:nilerr // it was told to stop
		}
		if err != nil {
			return err
		}
		for i := range batch {
			batch[i].consumer = name
		}
		if len(batch) > 0 {
			b.cfg.Passed(PlaceReceived)
			if !sut.Pause(ctx, b.params.Handle.D()) {
				return nil
			}
			if err := d.digest(ctx, b, queue, batch); err != nil {
				return err
			}
		}
		b.cfg.Worked()
	}
}

// wait is how long a worker waits for one queue before it looks at the next.
func (b *backend) wait() time.Duration {
	if b.params.Worked > 1 {
		return b.params.PollEvery.D()
	}
	return restEvery
}

// digest works a batch off. If that fails because of one of its messages, it goes on
// with each half: of n messages with one that cannot be worked off, the others are
// done after about 2 log n attempts. That one is given back until it is a dead letter.
func (d design) digest(ctx context.Context, b *backend, queue string, batch []Delivery) error {
	err := d.work(ctx, b, queue, batch)
	if !errors.Is(err, errIndigestible) {
		return err
	}
	if len(batch) > 1 {
		half := len(batch) / 2
		return errors.Join(d.digest(ctx, b, queue, batch[:half]), d.digest(ctx, b, queue, batch[half:]))
	}
	_, err = b.broker.Settle(ctx, queue, KindRelease, Settlement{Receipts: receiptsOf(batch)})
	if errors.Is(err, ErrStaleReceipt) {
		return nil // somebody else has it already
	}
	return err
}

func receiptsOf(batch []Delivery) []string {
	list := make([]string, len(batch))
	for i, d := range batch {
		list[i] = d.Receipt
	}
	return list
}

// effectAndAck is the right way: the acknowledgement says which of the receipts are
// good, and the effects of just these are stored with it.
func effectAndAck(ctx context.Context, b *backend, queue string, batch []Delivery) error {
	var good []Delivery
	err := b.db.Transaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		done, err := b.ack(ctx, tx, queue, parseReceipts(receiptsOf(batch)))
		if err != nil {
			return err
		}
		for _, s := range done {
			if s.fresh {
				good = append(good, batch[s.at])
			}
		}
		b.cfg.Passed(PlaceBetween)
		return storeEffects(ctx, tx, queue, good)
	})
	if err == nil {
		b.tally.consume(len(good))
	}
	return workError(err)
}

// ack acknowledges in a transaction.
func (b *backend) ack(
	ctx context.Context, tx pgx.Tx, queue string, r receipts,
) ([]settled, error) {
	if b.river != nil {
		return b.river.settle(ctx, tx, queue, KindAck, r, 0)
	}
	return b.table.settle(ctx, tx, b.table.sql.ack, queue, r)
}

// oneByOne gives each message of a batch a transaction of its own.
func oneByOne(each work) work {
	return func(ctx context.Context, b *backend, queue string, batch []Delivery) error {
		if len(batch) == 1 {
			return each(ctx, b, queue, batch)
		}
		for i := range batch {
			err := each(ctx, b, queue, batch[i:i+1])
			if errors.Is(err, errIndigestible) {
				_, err = b.broker.Settle(ctx, queue, KindRelease,
					Settlement{Receipts: receiptsOf(batch[i : i+1])})
			}
			if err != nil && !errors.Is(err, ErrStaleReceipt) {
				return err
			}
		}
		return nil
	}
}

// executor is what a connection and a transaction have in common.
type executor interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// storeEffects writes the effects of deliveries.
func storeEffects(ctx context.Context, on executor, queue string, batch []Delivery) error {
	if len(batch) == 0 {
		return nil
	}
	n := len(batch)
	ops, groups := make([]int64, n), make([]int64, n)
	indexes, receives := make([]int32, n), make([]int32, n)
	received, visible := make([]time.Time, n), make([]time.Time, n)
	bodies, consumers := make([]string, n), make([]string, n)
	for i, d := range batch {
		ops[i], groups[i], indexes[i] = int64(d.OpID), int64(d.Group), int32(d.Index)
		receives[i], bodies[i], consumers[i] = int32(d.Receives), d.Body, d.consumer
		received[i], visible[i] = time.Unix(0, d.ReceivedNS), time.Unix(0, d.VisibleNS)
	}
	_, err := on.Exec(ctx, effectSQL, queue, ops, indexes, groups, receives, received, visible,
		bodies, consumers)
	return err
}

const effectSQL = `
INSERT INTO effects (queue, op_id, idx, grp, receives, received_at, visible_at, body, consumer)
SELECT $1, e.* FROM unnest($2::bigint[], $3::int[], $4::bigint[], $5::int[], $6::timestamptz[],
    $7::timestamptz[], $8::text[], $9::text[]) AS e`

// workError tells a batch that cannot be worked off from other failures.
func workError(err error) error {
	switch {
	case err == nil:
		return nil
	case stores.Constraint(err) == "digestible":
		return errors.Join(errIndigestible, err)
	}
	return stores.Failed("storing effects and acknowledging", err)
}
