package scheduler

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// listenNotify is told instead of asking.
//
// Idea: a new task notifies the pickers and a pick the executors; whoever has
// nothing to do sleeps until somebody rings, or until the next task is due. A slow
// poll behind it finds what a lost notification would have told.
//
// Guarantee: as skip_locked. A notification is a hint and nothing else.
//
// Gives up: a lock over all notifying commits, which Postgres makes one after the
// other, and a connection for each listener.
func listenNotify() scheme {
	return scheme{variant{
		Name: "listen_notify",
		Idea: "skip_locked that waits for NOTIFY or the next due time, with a slow poll as a " +
			"fallback",
		Guarantees: "as skip_locked; a lost notification costs one slow poll",
		GivesUp:    "commits that notify wait for each other, and each listener needs a connection",
	}, overrides{lock: skipLocked, tells: notify,
		scheduled: `pg_notify('` + channelTasks + `', '')::text`}}
}

func notify(ctx context.Context, tx pgx.Tx, channel string) error {
	_, err := tx.Exec(ctx, `SELECT pg_notify($1, '')`, channel)
	return err
}
