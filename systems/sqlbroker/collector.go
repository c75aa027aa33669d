package sqlbroker

import (
	"context"
	"time"

	"stampede/harness/sut"
)

// remember is for how long a publication is remembered, so that it is not stored
// again when its publisher asks again.
const remember = 10 * time.Minute

// collector is the role that deletes acknowledged messages that were kept long enough, a
// bounded number of rows in a transaction: none holds up the others, and none leaves
// so much for a vacuum that it lags behind. Where there are partitions, it empties
// them as a whole; see slots.
func (d design) collector() sut.Role {
	return sut.Role{
		Name:    RoleCollector,
		Summary: "deletes acknowledged messages that were kept long enough",
		// Two would rotate partitions twice as fast.
		Single: d.partitioned,
		Run: func(ctx context.Context, cfg sut.Config) error {
			return d.run(ctx, cfg, RoleCollector, roleConns, func(ctx context.Context, b *backend) error {
				return b.cfg.Every(ctx, b.params.CollectEvery.D(), func() error { return b.collect(ctx) })
			})
		},
	}
}

// collect deletes what is due now.
func (b *backend) collect(ctx context.Context) error {
	err := b.repeat(ctx, forgetSQL, b.params.CollectBatch, remember.Microseconds())
	if err != nil {
		return err
	}
	if b.river != nil {
		return b.river.collect(ctx, b.params.Keep.D(), b.params.CollectBatch)
	}
	if b.table.slots != nil {
		return b.table.slots.turn(ctx, b.params)
	}
	return b.repeat(ctx, collectSQL, b.params.CollectBatch, b.params.Keep.D().Microseconds())
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
