package scheduler

import (
	"context"
	"fmt"
	"time"
)

// Look is what a gauge saw, and the body of its history.Sample. Times are
// microseconds.
type Look struct {
	// NowUS is the database's clock, Unix microseconds.
	NowUS int64 `json:"now_us"`
	// Waiting and Picked tasks have not started, Running ones have. Due counts
	// those of the first two that are due: the depth of the queue.
	Waiting int64 `json:"waiting"`
	Picked  int64 `json:"picked"`
	Running int64 `json:"running"`
	Due     int64 `json:"due"`
	// DueUS is how long ago the first of those was due, LeaseUS for how long the
	// first lease that has ended has done so, PickerLagUS for how long the first
	// task within the look-ahead has been there without being picked.
	DueUS       int64 `json:"due_us"`
	LeaseUS     int64 `json:"lease_us"`
	PickerLagUS int64 `json:"picker_lag_us"`
	// Executors is how many are up, of a process.
	Executors int64 `json:"executors"`
}

// watch reads a Look in one statement.
func (t *tasks) watch(ctx context.Context) (look Look, err error) {
	ahead := time.Duration(0)
	if t.picks() {
		ahead = t.Params.clock(t.Params.LookAhead)
	}
	err = t.DB.Row(ctx, `WITH at AS MATERIALIZED (SELECT statement_timestamp() AS now),
		open AS (
			SELECT state, state IN ('waiting', 'picked') AND NOT paused AND scheduled_at <= now AS due,
				now - greatest(scheduled_at, ready_at) AS late,
				CASE WHEN state = 'running' THEN now - lease_until END AS over,
				CASE WHEN state = 'waiting' AND NOT paused
					THEN now - greatest(scheduled_at - $1 * interval '1 us', ready_at) END AS lag
			FROM tasks, at WHERE state IN ('waiting', 'picked', 'running'))
		SELECT `+us("(SELECT now FROM at)")+`, count(*) FILTER (WHERE state = 'waiting'),
			count(*) FILTER (WHERE state = 'picked'), count(*) FILTER (WHERE state = 'running'),
			count(*) FILTER (WHERE due), greatest(0, `+us("max(late) FILTER (WHERE due)")+`),
			greatest(0, `+us("max(over)")+`), greatest(0, `+us("max(lag)")+`)
		FROM open`, []any{ahead.Microseconds()}, &look.NowUS, &look.Waiting, &look.Picked,
		&look.Running, &look.Due, &look.DueUS, &look.LeaseUS, &look.PickerLagUS)
	if err != nil {
		return look, fmt.Errorf("looking at the tasks: %w", err)
	}
	n, err := t.slots(ctx)
	look.Executors = int64(n)
	return look, err
}
