package sqlbroker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
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

// consumer is the role that works queues off: it receives a batch, works on it,
// stores what came of it and acknowledges it, in one transaction: the effect is there if and only
// if the message is acknowledged, by this delivery.
func consumer(of opener) role {
	return role{
		Name:    RoleConsumer,
		Summary: "receives messages, stores their effects and acknowledges them",
		Places:  []string{PlaceReceived, PlaceBetween},
		ConnsOf: func(p Params, _ int) int { return p.Workers + 1 },
		Do: func(ctx context.Context, st *opened) error {
			m, err := of(st)
			if err != nil {
				return err
			}
			group, ctx := errgroup.WithContext(ctx)
			for worker := range st.Params.Workers {
				group.Go(func() error { return consume(ctx, m, worker) })
			}
			group.Go(func() error { return m.base().tell(ctx) })
			return group.Wait()
		},
	}
}

// restEvery bounds how long a worker without messages is silent.
const restEvery = time.Second

// consume works until ctx is cancelled or something fails. The workers begin with
// different queues.
func consume(ctx context.Context, m messages, worker int) error {
	b := m.base()
	if b.Params.Worked == 0 {
		return b.Config.Every(ctx, restEvery, func() error { return nil })
	}
	name := fmt.Sprintf("%s-%d.%d", RoleConsumer, b.Config.Replica, worker)
	for turn := worker; ; turn++ {
		queue := QueueName(turn%b.Params.Worked + 1)
		batch, err := m.Receive(ctx, queue, Demand{Most: b.Params.ReceiveBatch,
			WaitMS: b.Params.turn().Milliseconds()})
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
			b.Config.Passed(PlaceReceived)
			if !sut.Pause(ctx, b.Params.Handle.D()) {
				return nil
			}
			if err := digest(ctx, m, queue, batch); err != nil {
				return err
			}
		}
		b.Config.Worked()
	}
}

// turn is how long a worker waits for one queue before it looks at the next.
func (p Params) turn() time.Duration {
	if p.Worked > 1 {
		return p.PollEvery.D()
	}
	return restEvery
}

// digester is what digest needs of messages.
type digester interface {
	work(ctx context.Context, queue string, batch []Delivery) error
	Settle(ctx context.Context, queue string, how string, s Settlement) (Settled, error)
}

// digest works a batch off. If that fails because of one of its messages, it goes on with each
// half, and gives that one back until it is a dead letter.
func digest(ctx context.Context, m digester, queue string, batch []Delivery) error {
	err := m.work(ctx, queue, batch)
	if !errors.Is(err, errIndigestible) {
		return err
	}
	if len(batch) > 1 {
		half := len(batch) / 2
		return errors.Join(digest(ctx, m, queue, batch[:half]), digest(ctx, m, queue, batch[half:]))
	}
	_, err = m.Settle(ctx, queue, KindRelease, Settlement{Receipts: receiptsOf(batch)})
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

// work says by the acknowledgement which of the receipts are good, and stores the effects of
// just these with it.
func (t *table) work(ctx context.Context, queue string, batch []Delivery) error {
	return t.effectAndAck(ctx, queue, batch, t.ack)
}

// effectAndAck is work with another acknowledgement.
func (t *table) effectAndAck(
	ctx context.Context, queue string, batch []Delivery,
	ack func(context.Context, pgx.Tx, string, receipts) ([]settled, error),
) error {
	var good []Delivery
	err := t.DB.Transaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		done, err := ack(ctx, tx, queue, parseReceipts(receiptsOf(batch)))
		if err != nil {
			return err
		}
		for _, s := range done {
			if s.fresh {
				good = append(good, batch[s.at])
			}
		}
		t.Config.Passed(PlaceBetween)
		return storeEffects(ctx, tx, queue, good)
	})
	if err == nil {
		t.tally.consumed.Add(int64(len(good)))
	}
	return workError(err)
}

// ack acknowledges in a transaction.
func (t *table) ack(
	ctx context.Context, tx pgx.Tx, queue string, r receipts,
) ([]settled, error) {
	return t.settle(ctx, tx, t.sql.ack, queue, r)
}

// storeEffects writes the effects of deliveries.
func storeEffects(ctx context.Context, tx pgx.Tx, queue string, batch []Delivery) error {
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
	_, err := tx.Exec(ctx, effectSQL, queue, ops, indexes, groups, receives, received, visible,
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
