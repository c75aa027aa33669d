package recentsearches

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/harness/stores"
	"stampede/harness/sut"
)

// relayedAtOnce bounds the rows of the outbox that a relay takes, and overdue is the age at which
// one takes what an API should have done.
const (
	relayedAtOnce = 500
	overdue       = 200 * time.Millisecond
)

// entry is a row of the outbox, or a message in its place.
type entry struct {
	ID, User, Version int64
	Term              string
	Forgotten         bool
	Terms             []string
}

// relay shows what is in the outbox, and deletes it once Redis has confirmed it. It leaves rows
// that are younger than an age.
func relay(age time.Duration) role {
	return role{Name: "relay", Summary: "brings what is in the outbox to the lists",
		Places: []string{placeTaken, placeShown},
		Step: func(ctx context.Context, st *opened) (time.Duration, error) {
			return st.Params.RelayEvery.D(), relayed(ctx, st, age,
				func(ctx context.Context, list []entry) error { return showAll(ctx, st, list) })
		}}
}

// placeTaken is when a relay has read rows, and shown nothing.
const placeTaken = "taken"

// relayed lets some rows be shown, and deletes them. Relays skip what another one has in hand.
func relayed(
	ctx context.Context, st *opened, age time.Duration, do func(context.Context, []entry) error,
) error {
	err := st.DB.Transaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		list, err := stores.CollectOn[entry](ctx, tx, `SELECT id, user_id AS user, version, term,
				forgotten, terms FROM outbox WHERE at <= clock_timestamp() - $1::interval
			ORDER BY id LIMIT $2 FOR UPDATE SKIP LOCKED`, age, relayedAtOnce)
		if err != nil || len(list) == 0 {
			return err
		}
		st.Config.Passed(placeTaken)
		if err := do(ctx, list); err != nil {
			return err
		}
		st.Config.Passed(placeShown)
		ids := make([]int64, len(list))
		for i, e := range list {
			ids[i] = e.ID
		}
		_, err = tx.Exec(ctx, `DELETE FROM outbox WHERE id = ANY ($1)`, ids)
		return err
	})
	return stores.Failed("relaying changes", err)
}

// showAll shows the lists after some changes, in one round trip.
func showAll(ctx context.Context, st *opened, list []entry) error {
	ctx, cancel := context.WithTimeout(ctx, stores.Timeout(st.Config))
	defer cancel()
	script := put()
	if err := script.Load(ctx, st.Redis).Err(); err != nil {
		return stores.Failed("showing lists", err)
	}
	pipe := st.Redis.Pipeline()
	for _, e := range list {
		l := List{e.Version, e.Terms}
		script.EvalSha(ctx, pipe, []string{listKey(st, uint64(e.User))}, l.Version, l.text(),
			st.Params.TTL.D().Milliseconds())
	}
	_, err := pipe.Exec(ctx)
	return stores.Failed("showing lists", err)
}

// later says that a relay will show a change.
func later(_ context.Context, st *opened, _ *change) (int64, error) {
	return st.Params.within(), nil
}

// outboxRelay answers before the list is changed.
//
// The idea: a change goes to Postgres in a transaction that also writes to an outbox, and is
// answered. A relay brings what is in the outbox to Redis, and deletes it after Redis has confirmed
// it. A list with a higher version is never replaced, so that relays may work side by side, and do
// a thing twice.
//
// The guarantee: what is acknowledged is in Postgres, and on every device soon.
//
// It gives up: that a device shows a change at once. What Redis loses after it has confirmed it is
// missing as in outbox_inline.
func outboxRelay() variant {
	return inPostgres(variant{Name: "outbox_relay",
		Idea: "a change goes to Postgres with a row in an outbox; a relay brings it to Redis, and " +
			"deletes the row once that has confirmed it",
		Guarantees: "what is acknowledged is kept, and on every device soon",
		GivesUp: "that a change is seen at once; what Redis loses after it has confirmed it is " +
			"missing in the list until the user's next change",
		Needs:  []sut.Service{sut.Redis},
		Breaks: lostByRedis(),
		Roles:  []role{relay(0)},
		State:  outboxPending(),
	}, plan{beside: toOutbox, then: later})
}
