package sqlbroker

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/harness/stores"
)

// auditTimeout bounds an audit, which reads every row.
const auditTimeout = 2 * time.Minute

// waitsSince is when a message m that is ready or delayed began to wait: what has come
// back from a consumer, when it came back.
const waitsSince = `CASE WHEN m.receives = 0 THEN m.created_at ELSE m.visible_at END`

// audit reads the tables in one snapshot. Ages are those at its beginning, however long it
// takes to read.
func (b *backend) audit(ctx context.Context) (Audit, error) {
	a := Audit{Queues: []QueueAudit{}, Messages: []MessageAudit{}, Dead: []DeadAudit{},
		Effects: []EffectAudit{}}
	err := b.db.Within(ctx, auditTimeout, func(ctx context.Context, conn *pgx.Conn) error {
		return pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.RepeatableRead,
			AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, `SET LOCAL statement_timeout = 0`); err != nil {
				return err
			}
			for _, read := range []func(context.Context, pgx.Tx) error{
				a.readQueues, a.readMessages, a.readDead, a.readEffects,
			} {
				if err := read(ctx, tx); err != nil {
					return err
				}
			}
			return nil
		})
	})
	return a, err
}

// readQueues reads the queues. An audit at rest is always the same: how old a retention is,
// is told where a message waits.
func (a *Audit) readQueues(ctx context.Context, tx pgx.Tx) error {
	return stores.Each(ctx, tx, `SELECT queue, visibility * 1000, max_receives, retention * 1000,
		CASE WHEN EXISTS (SELECT FROM messages m WHERE m.queue = q.queue AND m.state <> 'acked')
			THEN (`+nanoseconds+`now() - retention_at))::bigint ELSE 0 END
		FROM queues q ORDER BY queue`, nil,
		func(row pgx.CollectableRow) error {
			var q QueueAudit
			err := row.Scan(&q.Queue, &q.VisibilityNS, &q.MaxReceives, &q.RetentionNS,
				&q.RetentionAgeNS)
			a.Queues = append(a.Queues, q)
			return err
		})
}

func (a *Audit) readMessages(ctx context.Context, tx pgx.Tx) error {
	return stores.Each(ctx, tx, `SELECT op_id, idx, queue, grp, state, receives, redrives,
		coalesce((`+nanoseconds+`acked_at))::bigint, 0),
		(`+nanoseconds+`now() - created_at))::bigint, CASE WHEN state IN ('ready', 'delayed')
			THEN (`+nanoseconds+`now() - `+waitsSince+`))::bigint ELSE 0 END
		FROM messages m ORDER BY op_id, idx, id`, nil,
		func(row pgx.CollectableRow) error {
			var m MessageAudit
			var op, group int64
			err := row.Scan(&op, &m.Index, &m.Queue, &group, &m.State, &m.Receives, &m.Redrives,
				&m.AckedNS, &m.AgeNS, &m.WaitsNS)
			m.OpID, m.Group = uint64(op), uint64(group)
			a.Messages = append(a.Messages, m)
			return err
		})
}

func (a *Audit) readDead(ctx context.Context, tx pgx.Tx) error {
	return stores.Each(ctx, tx, `SELECT op_id, idx, queue, receives, redrives, reason,
		(`+nanoseconds+`died_at - created_at))::bigint FROM dead_letters ORDER BY op_id, idx, id`, nil,
		func(row pgx.CollectableRow) error {
			var d DeadAudit
			var op int64
			err := row.Scan(&op, &d.Index, &d.Queue, &d.Receives, &d.Redrives, &d.Reason, &d.AgeNS)
			d.OpID = uint64(op)
			a.Dead = append(a.Dead, d)
			return err
		})
}

func (a *Audit) readEffects(ctx context.Context, tx pgx.Tx) error {
	return stores.Each(ctx, tx, `SELECT op_id, idx, queue, grp, receives,
		(`+nanoseconds+`received_at))::bigint, (`+nanoseconds+`visible_at))::bigint,
		(`+nanoseconds+`stored_at))::bigint, consumer FROM effects ORDER BY seq`, nil,
		func(row pgx.CollectableRow) error {
			var e EffectAudit
			var op, group int64
			err := row.Scan(&op, &e.Index, &e.Queue, &group, &e.Receives, &e.ReceivedNS, &e.VisibleNS,
				&e.StoredNS, &e.Consumer)
			e.OpID, e.Group = uint64(op), uint64(group)
			a.Effects = append(a.Effects, e)
			return err
		})
}
