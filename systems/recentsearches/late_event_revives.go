package recentsearches

import (
	"context"
	_ "embed" // the script
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"stampede/harness/stores"
	"stampede/harness/sut"
)

//go:embed apply.lua
var applyLua string

// lateEventRevives sends events to Redis, and not lists. It is wrong as soon as two of a user's
// overtake each other.
//
// The idea: outbox_relay, whose relay has Redis do what the user did: put a term first, or remove
// it. The events of a batch are sent side by side, which is faster.
//
// The guarantee: what is acknowledged is in Postgres.
//
// It gives up: the order of events. A search that comes after the forgetting of its term brings it
// back.
func lateEventRevives() variant {
	return inPostgres(variant{Name: "late_event_revives",
		Idea:       "outbox_relay, whose relay sends events side by side, without looking at versions",
		Guarantees: "what is acknowledged is kept",
		GivesUp:    "the order of a user's changes: a forgotten term comes back",
		Needs:      []sut.Service{sut.Redis},
		Breaks: append(lostByRedis(), sut.Break{Invariant: ListOfHistory, Under: sut.Load},
			sut.Break{Invariant: Settled, Under: sut.Load},
			sut.Break{Invariant: SeenByAll, Under: sut.Load, Shows: sut.AtTimes}),
		Roles: []role{{Name: "relay", Summary: "sends what is in the outbox to the lists",
			Places: []string{placeTaken, placeShown}, Conns: revivers,
			Step: func(ctx context.Context, st *opened) (time.Duration, error) {
				return st.Params.RelayEvery.D(), relayed(ctx, st, 0,
					func(ctx context.Context, list []entry) error { return applyAll(ctx, st, list) })
			}}},
		State: outboxPending(),
	}, plan{beside: toOutbox, then: later})
}

// revivers is how many events are sent at the same time.
const revivers = 4

// applyAll sends events side by side.
func applyAll(ctx context.Context, st *opened, list []entry) error {
	ctx, cancel := context.WithTimeout(ctx, stores.Timeout(st.Config))
	defer cancel()
	apply := redis.NewScript(applyLua)
	var sending errgroup.Group
	sending.SetLimit(revivers)
	for _, e := range list {
		sending.Go(func() error {
			return apply.Run(ctx, st.Redis, []string{listKey(st, uint64(e.User))}, e.Version, e.Term,
				e.Forgotten, most, st.Params.TTL.D().Milliseconds()).Err()
		})
	}
	return stores.Failed("sending events", sending.Wait())
}
