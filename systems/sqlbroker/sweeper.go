package sqlbroker

import (
	"context"

	"stampede/harness/sut"
	"stampede/systems/internal/queue"
)

const (
	// PlaceSwept is after each step of a sweep.
	PlaceSwept = "swept"
	// sweepBatch bounds how many messages one statement of a sweep moves.
	sweepBatch = 1000
)

// sweeper is the role that moves what is due. It looks at each row under its lock and passes over
// locked ones, so that several sweepers do no harm.
func sweeper(of opener) role {
	return role{
		Name:    RoleSweeper,
		Summary: "makes messages visible again or turns them into dead letters",
		Places:  []string{PlaceSwept},
		Step:    stepped(of, func(p Params) sut.Duration { return p.SweepEvery }, messages.sweep),
	}
}

func (t *table) sweep(ctx context.Context) error {
	for _, sql := range []string{dueSQL, expiredSQL, wornSQL, agedSQL} {
		if err := t.batches(ctx, sql, sweepBatch); err != nil {
			return err
		}
		t.Config.Passed(PlaceSwept)
	}
	return nil
}

// batches runs a statement with a number of rows, as long as it touches that many.
func (t *table) batches(ctx context.Context, sql string, most int, args ...any) error {
	return queue.Batches(ctx, most, func(ctx context.Context) (int, error) {
		text, err := t.narrow(ctx, sql)
		if err != nil {
			return 0, err
		}
		n, err := t.DB.Exec(ctx, text, append([]any{most}, args...)...)
		return int(n), err
	})
}

// dueSQL makes delayed messages ready, by messages_due.
const dueSQL = `
WITH due AS MATERIALIZED (
    SELECT m.slot, m.id FROM messages m
    WHERE m.state = 'delayed' AND m.visible_at <= clock_timestamp() {slots}
    ORDER BY m.visible_at LIMIT $1 FOR UPDATE SKIP LOCKED
)
UPDATE messages m SET state = 'ready'
FROM due WHERE m.slot = due.slot AND m.id = due.id {taken slots}`

// expiredSQL makes messages ready whose consumers were silent too long: their receipt
// is good for nothing from now on. By messages_due.
const expiredSQL = `
WITH due AS MATERIALIZED (
    SELECT m.slot, m.id FROM messages m JOIN queues q USING (queue)
    WHERE m.state = 'picked' AND m.visible_at <= clock_timestamp() AND m.receives < q.max_receives
        {slots}
    ORDER BY m.visible_at LIMIT $1 FOR UPDATE OF m SKIP LOCKED
)
UPDATE messages m SET state = 'ready', receipt = NULL, visible_at = clock_timestamp()
FROM due WHERE m.slot = due.slot AND m.id = due.id {taken slots}`

// wornSQL makes dead letters of those that were delivered as often as they may be. A
// message leaves the queue and is a dead letter in one statement.
const wornSQL = `
WITH due AS MATERIALIZED (
    SELECT m.slot, m.id FROM messages m JOIN queues q USING (queue)
    WHERE m.state = 'picked' AND m.visible_at <= clock_timestamp() AND m.receives >= q.max_receives
        {slots}
    ORDER BY m.visible_at LIMIT $1 FOR UPDATE OF m SKIP LOCKED
)` + bury + `clock_timestamp(), 'receives'` + buried

// agedSQL makes dead letters of what nobody has received in time, by messages_age.
const agedSQL = `
WITH due AS MATERIALIZED (
    SELECT m.slot, m.id FROM messages m JOIN queues q USING (queue)
    WHERE m.state IN ('ready', 'delayed') {slots}
        AND m.created_at < clock_timestamp() - (SELECT min(retention) FROM queues) * interval '1 us'
        AND m.created_at < clock_timestamp() - q.retention * interval '1 us'
    ORDER BY m.created_at LIMIT $1 FOR UPDATE OF m SKIP LOCKED
)` + bury + `clock_timestamp(), 'retention'` + buried

// bury and buried make dead letters of the messages that are due.
const (
	bury = `, gone AS (
    DELETE FROM messages m USING due
    WHERE m.slot = due.slot AND m.id = due.id {taken slots}
    RETURNING m.*
)
INSERT INTO dead_letters (id, queue, op_id, idx, grp, priority, receives, redrives, created_at,
    body, died_at, reason)
SELECT id, queue, op_id, idx, grp, priority, receives, redrives, created_at, body, `
	buried = ` FROM gone`
)
