package scheduler

import (
	"context"
	"fmt"

	"stampede/harness/stores"
	"stampede/harness/sut"
)

// unfencedReclaim knows tasks by their numbers.
//
// Idea: the rescuer reads which leases have ended and then takes those tasks back
// by their numbers; executors end tasks by their numbers.
//
// Guarantee: no task is lost with its executor.
//
// Gives up: who a task belongs to. A task that ends between the rescuer's look and
// its update is started again; an executor that slept beyond its lease ends a task
// that somebody else has by now. River's rescuer did the first until September 2026
// (riverqueue/river#1302).
func unfencedReclaim() scheme {
	return scheme{variant{
		Name: "unfenced_reclaim",
		Idea: "skip_locked whose rescuer and executors reclaim and end tasks by id, without a " +
			"token",
		Guarantees: "no task is lost with its executor",
		GivesUp:    "fencing: an executor frozen beyond its lease can still end the task",
		Breaks:     []sut.Break{{Invariant: FencedRuns, Under: sut.RolePause}},
	}, overrides{lock: skipLocked, rescue: (*tasks).rescueByID, renew: (*executor).renewOnly,
		// $2 is only named.
		mine: `SELECT id FROM tasks WHERE id = $1 AND $2::bigint IS NOT NULL FOR UPDATE`}}
}

// renewOnly renews leases and lets go of nothing: by its number a task is always one's own.
func (e *executor) renewOnly(ctx context.Context, list []claim) error {
	_, stopped, err := e.heartbeat(ctx, list)
	e.abandon(stopped, true)
	return err
}

// rescueByID takes back what it found, whatever has become of it.
func (t *tasks) rescueByID(ctx context.Context, found func()) (n int, err error) {
	list, err := stores.Collect[handed](ctx, t.DB, `SELECT id, fence FROM (`+expiredSQL+`) AS expired`,
		rescueBatch)
	if err == nil && len(list) > 0 {
		found()
		_, err = t.DB.Exec(ctx, `UPDATE tasks t SET `+takenBackSQL+` WHERE id = ANY ($1)`,
			column(list, func(h handed) int64 { return h.ID }), t.Params.MaxAttempts)
	}
	if err != nil {
		return 0, fmt.Errorf("taking tasks back: %w", err)
	}
	return len(list), nil
}
