package sqlbroker

import (
	"context"

	"stampede/harness/stores"
)

// permitted is the hash that a queue's token must have, if it has one, for its settings to
// be changed. It goes with the context of a request: between the permission and the change
// another token may have been set.
type permitted struct{}

// permittedBy is a context in which only queues without a token, or with this one, are
// changed.
func permittedBy(ctx context.Context, token string) context.Context {
	return context.WithValue(ctx, permitted{}, tokenHash(token))
}

// createSQL makes queue $1 or changes its settings, if $7 only where it has no token or $8.
const createSQL = `INSERT INTO queues
	VALUES ($1, $2 * 1000::bigint, $3, $4 * 1000::bigint, $5, $6)
	ON CONFLICT (queue) DO UPDATE SET visibility = excluded.visibility,
		max_receives = excluded.max_receives, retention = excluded.retention,
		rate_per_s = excluded.rate_per_s, token = coalesce(excluded.token, queues.token),
		retention_at = CASE WHEN queues.retention = excluded.retention THEN queues.retention_at
			ELSE clock_timestamp() END
	WHERE NOT $7 OR queues.token IS NULL OR queues.token = $8`

// Create makes a queue or changes its settings. It is forbidden where the queue has a token
// by now that the request, by its context, does not show.
func (t *table) Create(ctx context.Context, queue string, s QueueSettings) error {
	by, bound := ctx.Value(permitted{}).([]byte)
	n, err := t.DB.Exec(ctx, createSQL, append(s.args(queue), bound, by)...)
	if err != nil {
		return stores.Failed("making a queue", err)
	}
	if n == 0 {
		return ErrForbidden
	}
	return nil
}

// args are those of createSQL, but for the last two.
func (s QueueSettings) args(queue string) []any {
	var token []byte
	if s.Token != "" {
		token = tokenHash(s.Token)
	}
	return []any{queue, s.VisibilityMS, s.MaxReceives, s.RetentionMS, s.RatePerS, token}
}

// Purge deletes all that is in the queue, also what consumers have in hand: their
// receipts are good for nothing then.
func (t *table) Purge(ctx context.Context, queue string) (int, error) {
	return t.counted(ctx, "purging", `
		WITH gone AS (DELETE FROM messages WHERE queue = $1 AND state <> 'acked' RETURNING 1)
		SELECT (SELECT count(*) FROM gone), EXISTS (SELECT FROM queues WHERE queue = $1)`, queue)
}

// Redrive puts dead letters back: at the end of the queue, because what came after
// them in their groups has been delivered since. It waits for its turn as a publisher
// does.
func (t *table) Redrive(ctx context.Context, queue string) (int, error) {
	return t.counted(ctx, "redriving", `
		WITH turns AS MATERIALIZED (`+turnsOf+`dead_letters WHERE queue = $1 AND grp <> 0`+inTurn+`
		), risen AS (
			DELETE FROM dead_letters WHERE queue = $1 AND (SELECT count(*) FROM turns) >= 0
			RETURNING queue, op_id, idx, grp, priority, redrives, created_at, body, id
		), back AS (
			INSERT INTO messages (slot, queue, op_id, idx, grp, priority, state, redrives,
				created_at, visible_at, body)
			SELECT {slot}, queue, op_id, idx, grp, priority, 'ready', redrives + 1,
				clock_timestamp(), clock_timestamp(), body
			FROM risen ORDER BY id
			RETURNING 1
		)
		SELECT (SELECT count(*) FROM back), EXISTS (SELECT FROM queues WHERE queue = $1)`, queue)
}

// counted runs a statement that says how many messages it touched and whether there
// is the queue.
func (t *table) counted(ctx context.Context, doing, sql, queue string) (n int, err error) {
	if sql, err = t.narrow(ctx, sql); err != nil {
		return 0, stores.Failed(doing, err)
	}
	var known bool
	if err := t.DB.Row(ctx, sql, []any{queue}, &n, &known); err != nil {
		return 0, stores.Failed(doing, err)
	}
	if !known {
		return 0, ErrUnknownQueue
	}
	return n, nil
}

// List counts what is in the queues, by their indexes.
func (t *table) List(ctx context.Context) ([]QueueInfo, error) {
	list, err := stores.Collect[QueueInfo](ctx, t.DB, `
		SELECT queue, visibility / 1000, max_receives, retention / 1000, rate_per_s, '',
			(SELECT count(*) FROM messages m WHERE m.queue = q.queue AND state = 'ready'),
			(SELECT count(*) FROM messages m WHERE m.queue = q.queue AND state = 'delayed'),
			(SELECT count(*) FROM messages m WHERE m.queue = q.queue AND state = 'picked'),
			(SELECT count(*) FROM dead_letters d WHERE d.queue = q.queue)
		FROM queues q ORDER BY queue`)
	return list, stores.Failed("listing queues", err)
}
