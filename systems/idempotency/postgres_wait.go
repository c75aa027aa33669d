package idempotency

import "context"

// postgresWait makes a request wait for the first one with its key.
//
// The idea: the keys of postgres_points. A request whose key is in progress is not turned away
// but looks again, a hundred times a second, until the answer is there, or until a lease and the
// provider's time are over.
//
// The guarantee: that of postgres_points. A client that asks too early gets the answer all the
// same.
//
// It gives up: room. Every waiting request keeps its connection to the client and asks Postgres
// again and again.
func postgresWait() variant {
	return inPostgres(variant{
		Name:       "postgres_wait",
		Idea:       "postgres_points, but a request waits for the answer to the first one with its key",
		Guarantees: "one charge and one answer for each key, also for who asks too early",
		GivesUp:    "room: who waits keeps its connection and asks Postgres again and again",
		Roles:      []role{reaper(), completer()},
		Open: func(ctx context.Context, st *opened) (Till, error) {
			return newTill(ctx, st, st.Params.Lease.D()+st.Params.ProviderTimeout.D(), rows{st})
		},
	})
}
