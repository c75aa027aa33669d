package sqlbroker

import (
	"context"

	"github.com/jackc/pgx/v5"

	"stampede/harness/stores"
)

// waitsSince is when a message m that is ready or delayed began to wait: what has come
// back from a consumer, when it came back.
const waitsSince = `CASE WHEN m.receives = 0 THEN m.created_at ELSE m.visible_at END`

// audit reads an Audit in one snapshot. Ages are those at its beginning, however long it takes
// to read. An audit at rest is always the same: how old a retention is, is told where a message
// waits.
func audit(ctx context.Context, st *opened) (any, error) {
	var a Audit
	err := st.DB.Snapshot(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
		a.Queues, err = stores.CollectOn[QueueAudit](ctx, tx, `SELECT queue, visibility * 1000,
			max_receives, retention * 1000, CASE WHEN EXISTS (
				SELECT FROM messages m WHERE m.queue = q.queue AND m.state <> 'acked')
				THEN (`+nanoseconds+`now() - retention_at))::bigint ELSE 0 END
			FROM queues q ORDER BY queue`)
		if err != nil {
			return err
		}
		a.Messages, err = stores.CollectOn[MessageAudit](ctx, tx, `SELECT op_id, idx, queue, grp,
			state, receives, redrives, coalesce((`+nanoseconds+`acked_at))::bigint, 0),
			(`+nanoseconds+`now() - created_at))::bigint, CASE WHEN state IN ('ready', 'delayed')
				THEN (`+nanoseconds+`now() - `+waitsSince+`))::bigint ELSE 0 END
			FROM messages m ORDER BY op_id, idx, id`)
		if err != nil {
			return err
		}
		a.Dead, err = stores.CollectOn[DeadAudit](ctx, tx, `SELECT op_id, idx, queue, receives,
			redrives, reason, (`+nanoseconds+`died_at - created_at))::bigint
			FROM dead_letters ORDER BY op_id, idx, id`)
		if err != nil {
			return err
		}
		a.Effects, err = stores.CollectOn[EffectAudit](ctx, tx, `SELECT op_id, idx, queue, grp,
			receives, consumer, (`+nanoseconds+`received_at))::bigint,
			(`+nanoseconds+`visible_at))::bigint, (`+nanoseconds+`stored_at))::bigint
			FROM effects ORDER BY seq`)
		return err
	})
	return a, err
}
