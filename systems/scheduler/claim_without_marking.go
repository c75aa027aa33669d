package scheduler

import (
	"context"

	"stampede/harness/sut"
)

// claimWithoutMarking locks and forgets.
//
// Idea: an executor selects due tasks with FOR UPDATE SKIP LOCKED and works on
// them; that they are done is written when they are.
//
// Guarantee: none. The locks end with the statement, and until a task is done it
// looks free to everybody else.
//
// Gives up: the one update that would have made it right.
func claimWithoutMarking() scheme {
	return scheme{variant{
		Name:       "claim_without_marking",
		Idea:       "executors select due tasks with SKIP LOCKED and mark them when they are done",
		Guarantees: "none: the locks end with the statement",
		GivesUp:    "starting a task once",
		Breaks:     []sut.Break{{Invariant: FencedRuns, Under: sut.Load}},
		Model: simulated(overrides{}, func(m *taskModel) {
			m.idle = true
			m.start = func(row taskRow, executor string) (taskRow, claim) {
				return row, m.run(row, row.Fence+1, executor)
			}
			m.mine = func(row taskRow, c claim) bool {
				return row.State == Picked && row.Fence == c.fence-1
			}
		}),
	}, overrides{
		lock: skipLocked,
		claim: func(args []any, hands []int64) (string, []any) {
			return unmarkedClaimSQL, append(args, hands)
		},
		mine:  `SELECT id FROM tasks WHERE id = $1 AND fence = $2 - 1 AND state = 'picked' FOR UPDATE`,
		renew: func(*executor, context.Context, []claim) error { return nil }, // there are no leases
	}}
}

// unmarkedClaimSQL starts due tasks that are not in the executor's own hands, $5.
const unmarkedClaimSQL = `WITH due AS MATERIALIZED (
    SELECT * FROM tasks
    WHERE state = 'picked' AND NOT paused
        AND scheduled_at <= coalesce($4::timestamptz, statement_timestamp())
        AND id <> ALL ($5::bigint[]) AND $2::bigint IS NOT NULL
    ORDER BY scheduled_at LIMIT $1 FOR UPDATE SKIP LOCKED
), run AS (
    INSERT INTO runs (series, occurrence, fence, queue, due, picked_at, started_at, executor)
    SELECT series, occurrence, fence + 1, queue, scheduled_at, picked_at, clock_timestamp(), $3
    FROM due RETURNING id, series, occurrence, fence, started_at, picked_at
)
SELECT d.id, d.series, d.occurrence, r.fence, r.id, d.scheduled_at, d.schedule, d.zone, d.times,
    d.work_ms, d.fails AND d.reruns = 0, r.started_at - d.scheduled_at, r.started_at - r.picked_at
FROM due d JOIN run r USING (series, occurrence)`
