package sqlbroker

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/harness/sut"
)

// rowAtATime: one statement for each message.
//
// Idea: the loop that is written first: each message is inserted, claimed and
// acknowledged on its own, each claim and acknowledgement in a transaction of its own.
//
// Guarantee: that of batched, and a message that cannot be worked off spoils none of
// the others.
//
// Gives up: a round trip and a commit for each step of each message.
func rowAtATime() variant {
	return inTable(variant{
		Name:       "row_at_a_time",
		Idea:       "one statement and one commit for each message that is claimed or acknowledged",
		Guarantees: "what batched guarantees, for each message by itself",
		GivesUp:    "a round trip and a commit for each step of each message",
	}, func(t *table) messages { return oneByOne{t} })
}

type oneByOne struct{ *table }

// Receive claims messages one by one and waits for a first one if there is none.
func (t oneByOne) Receive(ctx context.Context, queue string, d Demand) ([]Delivery, error) {
	return t.await(ctx, queue, d, t.claim)
}

func (t oneByOne) claim(ctx context.Context, queue string, n int) (got []Delivery, err error) {
	for range n {
		next, err := t.table.claim(ctx, queue, 1)
		if errors.Is(err, sut.ErrRefused) && len(got) > 0 {
			break // what was claimed is delivered
		}
		if err != nil {
			return nil, err
		}
		if len(next) == 0 {
			break
		}
		got = append(got, next...)
	}
	return got, nil
}

// Settle settles each receipt by itself.
func (t oneByOne) Settle(
	ctx context.Context, queue string, how string, s Settlement,
) (Settled, error) {
	return t.settleBy(ctx, queue, how, s, receipts.each)
}

// each are the receipts one by one.
func (r receipts) each() []receipts {
	list := make([]receipts, len(r.at))
	for i := range r.at {
		list[i] = receipts{r.slots[i : i+1], r.ids[i : i+1], r.uuids[i : i+1], r.at[i : i+1]}
	}
	return list
}

// work gives each message of a batch a transaction of its own.
func (t oneByOne) work(ctx context.Context, queue string, batch []Delivery) error {
	if len(batch) == 1 {
		return t.table.work(ctx, queue, batch)
	}
	for i := range batch {
		if err := digest(ctx, t.table, queue, batch[i:i+1]); err != nil {
			return err
		}
	}
	return nil
}

// Publish stores messages one by one, in one transaction: a publication is stored
// or it is not.
func (t oneByOne) Publish(ctx context.Context, queue string, p Publication) (int, error) {
	var first begun
	err := t.DB.Transaction(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
		groups := make([]int64, len(p.Messages))
		for i, m := range p.Messages {
			groups[i] = int64(m.Group)
		}
		if first, err = begin(ctx, tx, queue, p, groups); err != nil || !first.fresh {
			return err
		}
		for i, m := range p.Messages {
			_, err := tx.Exec(ctx, publishNextSQL, queue, int64(p.OpID), i, int64(m.Group), m.Priority,
				m.DelayMS, m.Body)
			if err != nil {
				return err
			}
		}
		return nil
	})
	return t.published(ctx, queue, p, first.known, first.fresh, err)
}

// begun is what is known of a publication that begins: whether there is the queue, how often
// that delivers, whether the publication is new, and the time.
type begun struct {
	known, fresh bool
	most         int
	now          time.Time
}

// begin begins a publication in the transaction that stores its messages.
func begin(
	ctx context.Context, tx pgx.Tx, queue string, p Publication, groups []int64,
) (b begun, err error) {
	err = tx.QueryRow(ctx, publishFirstSQL, queue, int64(p.OpID), len(p.Messages), groups, p.digest()).
		Scan(&b.known, &b.fresh, &b.most, &b.now)
	return b, err
}

// publishFirstSQL begins a publication. Parameters: queue, op_id, how many messages, the groups
// in which it waits for its turn, the digest.
const publishFirstSQL = `
WITH turns AS MATERIALIZED (` + turnsOf + `unnest($4::bigint[]) AS grp WHERE grp <> 0` + inTurn + `
), known AS (
    SELECT queue, max_receives FROM queues WHERE queue = $1 AND (SELECT count(*) FROM turns) >= 0
), fresh AS (
    INSERT INTO published (op_id, queue, messages, digest, published_at)
    SELECT $2::bigint, queue, $3::int, $5::bigint, clock_timestamp() FROM known
    ON CONFLICT (op_id) DO NOTHING
    RETURNING op_id
)
SELECT EXISTS (SELECT FROM known), EXISTS (SELECT FROM fresh),
    coalesce((SELECT max_receives FROM known), 0), clock_timestamp()`

// publishNextSQL stores one message. Parameters: queue, op_id, index, group, priority,
// delay in milliseconds, body.
const publishNextSQL = `
INSERT INTO messages (queue, op_id, idx, grp, priority, state, created_at, visible_at, body)
VALUES ($1, $2, $3, $4, $5, CASE WHEN $6::bigint > 0 THEN 'delayed' ELSE 'ready' END,
    clock_timestamp(), clock_timestamp() + $6::bigint * interval '1 millisecond', $7)`
