package recentsearches

import (
	"context"
	"fmt"
	"time"

	"stampede/harness/design"
	"stampede/harness/stores"
	"stampede/harness/sut"
)

// relayByID lets a relay remember the last row that it has shown. It is wrong as soon as
// transactions commit in another order than they took their numbers.
//
// The idea: the outbox is a log; the relay reads rows with higher numbers than the last one, and
// notes the last of them. Nothing is deleted.
//
// The guarantee: what is acknowledged is in Postgres.
//
// It gives up: rows with a number below the last one that are committed after it was read.
func relayByID() variant {
	return inPostgres(variant{Name: "relay_by_id",
		Idea:       "outbox_relay, whose relay reads rows with a higher number than the last one",
		Guarantees: "what is acknowledged is kept",
		GivesUp:    "changes that are committed after one with a higher number was read",
		Needs:      []sut.Service{sut.Redis},
		Breaks: append(lostByRedis(), sut.Break{Invariant: Settled, Under: sut.Load},
			sut.Break{Invariant: SeenByAll, Under: sut.Load, Shows: sut.AtTimes}),
		Roles: []role{{Name: "relay", Summary: "brings new rows of the outbox to the lists",
			Places: []string{placeTaken, placeShown}, Step: relayNext}},
		State: design.State[Params]{
			Schema: `CREATE TABLE relayed (last bigint NOT NULL); INSERT INTO relayed VALUES (0);`,
			Pending: func(ctx context.Context, st *opened) (n int64, what string, err error) {
				err = st.DB.Row(ctx, `SELECT count(*) FROM outbox WHERE id > (SELECT last FROM relayed)`,
					nil, &n)
				return n, fmt.Sprintf("%d changes are not relayed", n), err
			}},
	}, plan{beside: toOutbox, then: later})
}

// relayNext shows the rows after the last one.
func relayNext(ctx context.Context, st *opened) (time.Duration, error) {
	list, err := stores.Collect[entry](ctx, st.DB, `SELECT id, user_id AS user, version, term,
			forgotten, terms FROM outbox WHERE id > (SELECT last FROM relayed) ORDER BY id LIMIT $1`,
		relayedAtOnce)
	if err == nil && len(list) > 0 {
		st.Config.Passed(placeTaken)
		if err = showAll(ctx, st, list); err == nil {
			st.Config.Passed(placeShown)
			_, err = st.DB.Exec(ctx, `UPDATE relayed SET last = greatest(last, $1)`, list[len(list)-1].ID)
		}
	}
	return st.Params.RelayEvery.D(), stores.Failed("relaying changes", err)
}
