package sqlbroker

import (
	"context"
	"time"

	"stampede/harness/sut"
)

// remember is for how long a publication is remembered, so that it is not stored
// again when its publisher asks again.
const remember = 10 * time.Minute

// collector is the role that deletes acknowledged messages that were kept long enough, a bounded
// number in a transaction. Where there are partitions, it empties them as a whole; see slots.
func collector(of opener) role {
	return role{
		Name:    RoleCollector,
		Summary: "deletes acknowledged messages that were kept long enough",
		Step:    stepped(of, func(p Params) sut.Duration { return p.CollectEvery }, messages.collect),
	}
}

func (t *table) collect(ctx context.Context) error {
	if err := t.forget(ctx); err != nil {
		return err
	}
	return t.batches(ctx, collectSQL, t.Params.CollectBatch, t.Params.Keep.D().Microseconds())
}

// forget deletes publications that were remembered long enough.
func (t *table) forget(ctx context.Context) error {
	return t.batches(ctx, forgetSQL, t.Params.CollectBatch, remember.Microseconds())
}

// collectSQL deletes by messages_acked.
const collectSQL = `
WITH old AS MATERIALIZED (
    SELECT slot, id FROM messages
    WHERE state = 'acked' AND acked_at < clock_timestamp() - $2::bigint * interval '1 us'
    ORDER BY acked_at LIMIT $1 FOR UPDATE SKIP LOCKED
)
DELETE FROM messages m USING old WHERE m.slot = old.slot AND m.id = old.id`

// forgetSQL deletes by published_age.
const forgetSQL = `
WITH old AS MATERIALIZED (
    SELECT op_id FROM published
    WHERE published_at < clock_timestamp() - $2::bigint * interval '1 us'
    ORDER BY published_at LIMIT $1 FOR UPDATE SKIP LOCKED
)
DELETE FROM published p USING old WHERE p.op_id = old.op_id`
