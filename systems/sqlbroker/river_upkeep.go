package sqlbroker

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river/riverdriver"
	"github.com/riverqueue/river/rivertype"

	"stampede/harness/stores"
	"stampede/systems/internal/queue"
)

// sweep does what River's leader does, more often than it does: it looks for what is
// scheduled every 5 s and for what is stuck every 30 s, and neither can be set.
func (r *riverQueue) sweep(ctx context.Context) error {
	for _, step := range []func(context.Context, pgx.Tx) (int, error){
		r.schedule, r.rescue, r.expire,
	} {
		if err := r.batches(ctx, sweepBatch, step); err != nil {
			return err
		}
		r.Config.Passed(PlaceSwept)
	}
	return nil
}

// batches does a step, each time in a transaction, as long as it finds as much as it may.
func (r *riverQueue) batches(
	ctx context.Context, most int, step func(context.Context, pgx.Tx) (int, error),
) error {
	return queue.Batches(ctx, most, func(ctx context.Context) (n int, err error) {
		err = r.DB.Transaction(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
			n, err = step(ctx, tx)
			return err
		})
		return n, err
	})
}

// schedule makes delayed messages ready.
func (r *riverQueue) schedule(ctx context.Context, tx pgx.Tx) (int, error) {
	due, err := r.Driver.UnwrapExecutor(tx).JobSchedule(ctx,
		&riverdriver.JobScheduleParams{Max: sweepBatch})
	return len(due), err
}

// riverStuckSQL locks jobs whose consumers were silent for too long. River's own
// JobGetStuck has one time for all queues. Parameter: how many at most.
const riverStuckSQL = `
SELECT m.id, m.attempt, m.attempt >= m.max_attempts, clock_timestamp()
FROM river_job m JOIN queues q USING (queue)
WHERE m.state = 'running' AND m.attempted_at <= clock_timestamp() - q.visibility * interval '1 us'
ORDER BY m.id LIMIT $1 FOR UPDATE OF m SKIP LOCKED`

// rescue makes messages ready again, or dead letters of them. River would make them
// wait for a backoff.
func (r *riverQueue) rescue(ctx context.Context, tx pgx.Tx) (int, error) {
	p := &riverdriver.JobRescueManyParams{}
	err := stores.Each(ctx, tx, riverStuckSQL, []any{sweepBatch}, func(row pgx.CollectableRow) error {
		var job int64
		var isLast bool
		var now time.Time
		failure := rivertype.AttemptError{Error: "the consumer was silent for too long"}
		if err := row.Scan(&job, &failure.Attempt, &isLast, &now); err != nil {
			return err
		}
		failure.At = now
		text, err := json.Marshal(failure)
		if err != nil {
			return fmt.Errorf("encoding why job %d is rescued: %w", job, err)
		}
		state, ended := rivertype.JobStateAvailable, (*time.Time)(nil)
		if isLast {
			state, ended = rivertype.JobStateDiscarded, &now
		}
		p.ID, p.Error, p.State = append(p.ID, job), append(p.Error, text), append(p.State, string(state))
		p.FinalizedAt, p.ScheduledAt = append(p.FinalizedAt, ended), append(p.ScheduledAt, now)
		p.StuckHorizon = now
		return nil
	})
	if err != nil || len(p.ID) == 0 {
		return 0, err
	}
	_, err = r.Driver.UnwrapExecutor(tx).JobRescueMany(ctx, p)
	return len(p.ID), err
}

// riverExpireSQL cancels what nobody has received in time: River keeps jobs for ever.
// Parameter: how many at most.
const riverExpireSQL = `
WITH due AS MATERIALIZED (
    SELECT m.id FROM river_job m JOIN queues q USING (queue)
    WHERE m.state IN ('available', 'scheduled', 'retryable')
        AND m.created_at < clock_timestamp() - q.retention * interval '1 us'
    LIMIT $1 FOR UPDATE OF m SKIP LOCKED
)
UPDATE river_job m SET state = 'cancelled', finalized_at = clock_timestamp()
FROM due WHERE m.id = due.id`

func (r *riverQueue) expire(ctx context.Context, tx pgx.Tx) (int, error) {
	tag, err := tx.Exec(ctx, riverExpireSQL, sweepBatch)
	return int(tag.RowsAffected()), err
}

// collect deletes acknowledged messages that were kept long enough, as River's cleaner does.
func (r *riverQueue) collect(ctx context.Context) error {
	if err := r.forget(ctx); err != nil {
		return err
	}
	keep, most := r.Params.Keep.D(), r.Params.CollectBatch
	return r.batches(ctx, most, func(ctx context.Context, tx pgx.Tx) (int, error) {
		var horizon time.Time
		err := tx.QueryRow(ctx, `SELECT clock_timestamp() - $1::bigint * interval '1 us'`,
			keep.Microseconds()).Scan(&horizon)
		if err != nil {
			return 0, err
		}
		return r.Driver.UnwrapExecutor(tx).JobDeleteBefore(ctx, &riverdriver.JobDeleteBeforeParams{
			CompletedDoDelete: true, CompletedFinalizedAtHorizon: horizon, Max: most})
	})
}

// Purge deletes all that is in the queue, also what consumers have in hand.
func (r *riverQueue) Purge(ctx context.Context, queue string) (int, error) {
	return r.counted(ctx, "purging", `
		WITH gone AS (
			DELETE FROM river_job WHERE queue = $1
				AND state IN ('available', 'scheduled', 'retryable', 'running')
			RETURNING 1
		)
		SELECT (SELECT count(*) FROM gone), EXISTS (SELECT FROM queues WHERE queue = $1)`, queue)
}

// Redrive makes dead letters available, as if never delivered. River's JobRetry would
// leave them the attempts that they had.
func (r *riverQueue) Redrive(ctx context.Context, queue string) (int, error) {
	return r.counted(ctx, "redriving", `
		WITH back AS (
			UPDATE river_job m SET state = 'available', attempt = 0, errors = NULL,
				max_attempts = q.max_receives, finalized_at = NULL,
				scheduled_at = clock_timestamp(), created_at = clock_timestamp(),
				metadata = metadata || jsonb_build_object('redrives',
					coalesce(metadata->>'redrives', '0')::int + 1)
			FROM queues q
			WHERE m.queue = $1 AND q.queue = $1 AND m.state IN ('discarded', 'cancelled')
			RETURNING 1
		)
		SELECT (SELECT count(*) FROM back), EXISTS (SELECT FROM queues WHERE queue = $1)`, queue)
}

func (r *riverQueue) looks() (gauge, metrics string) {
	return lookSQL(`SELECT FROM river_job JOIN queues USING (queue) WHERE state = 'running'
			AND attempted_at < clock_timestamp() - visibility / 2 * interval '1 us'`, "river_job"),
		metricsSQL(riverMetricsSQL)
}

// riverMetricsSQL are the metrics that go by other indexes than those of messages do.
const riverMetricsSQL = `
SELECT 'delayed', q.queue, (SELECT count(*) FROM (SELECT FROM river_job m
        WHERE m.queue = q.queue AND m.state IN ('scheduled', 'retryable') LIMIT $1) AS m)::float8
    FROM first q
UNION ALL
SELECT 'with_consumers', q.queue, (SELECT count(*) FROM (SELECT FROM river_job m
        WHERE m.queue = q.queue AND m.state = 'running' LIMIT $1) AS m)::float8
    FROM first q
UNION ALL
SELECT 'stuck', q.queue, (SELECT count(*) FROM (SELECT FROM river_job m
        WHERE m.queue = q.queue AND m.state = 'running'
            AND attempted_at < statement_timestamp() - q.visibility / 2 * interval '1 us'
        LIMIT $1) AS m)::float8
    FROM first q`
