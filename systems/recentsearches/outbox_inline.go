package recentsearches

import (
	"context"

	"github.com/jackc/pgx/v5"

	"stampede/harness/sut"
)

// outboxInline changes both stores before it answers, and notes in the first what the second lacks.
//
// The idea: a change goes to Postgres in a transaction that also writes to an outbox, and then to
// Redis. When Redis has confirmed it, the row of the outbox is deleted, and the change is answered.
// A relay does the same with rows that stay. The outbox holds the whole list after a change, and
// Redis keeps the one with the highest version: so it does not matter who comes first, or twice.
//
// The guarantee: what is acknowledged is in Postgres, and at once on every device. If Redis is
// away, a change is acknowledged all the same, and says that lists show it later.
//
// It gives up: two stores one after the other for each change. When Redis loses what it has
// confirmed (a second of it with appendfsync everysec), lists lack that until their users change
// them again, or the TTL is over.
func outboxInline() variant {
	return inPostgres(variant{Name: "outbox_inline",
		Idea: "a change goes to Postgres with a row in an outbox, then to Redis; then that row is " +
			"deleted, and a relay does what was left",
		Guarantees: "what is acknowledged is kept, and at once on every device",
		GivesUp: "two stores one after the other; what Redis loses after it has confirmed it is " +
			"missing in the list until the user's next change",
		Needs:  []sut.Service{sut.Redis},
		Breaks: lostByRedis(),
		Roles:  []role{relay(overdue)},
		State:  outboxPending(),
	}, inlinePlan())
}

// inlinePlan shows a change, and deletes its row of the outbox.
func inlinePlan() plan {
	return plan{beside: toOutbox, then: func(
		ctx context.Context, st *opened, c *change,
	) (within int64, err error) {
		err = show(ctx, st, c.User, c.list())
		if err == nil {
			st.Config.Passed(placeShown)
			_, err = st.DB.Exec(ctx, `DELETE FROM outbox WHERE id = $1`, c.outbox)
		}
		if err != nil {
			st.Config.Warn("the relay will show a change", err)
			return st.Params.within(), nil
		}
		return 0, nil
	}}
}

// lostByRedis is what a design breaks that never looks again at what Redis has confirmed.
func lostByRedis() []sut.Break {
	return []sut.Break{{Invariant: Settled, Under: sut.PowerLoss},
		{Invariant: SeenByAll, Under: sut.PowerLoss, Shows: sut.AtTimes},
		// A late relay, or a late reader, may put an older list where there is none.
		{Invariant: Settled, Under: sut.RedisLoss, Shows: sut.AtTimes},
		{Invariant: SeenByAll, Under: sut.RedisLoss, Shows: sut.AtTimes}}
}

// toOutbox adds a change, and the list after it, to the outbox.
func toOutbox(ctx context.Context, tx pgx.Tx, c *change) error {
	return tx.QueryRow(ctx, `INSERT INTO outbox (user_id, version, term, forgotten, terms)
		VALUES ($1, $2, $3, $4, $5) RETURNING id`, c.User, c.Version, c.Term, c.Forgotten, c.Terms).
		Scan(&c.outbox)
}
