package idempotency

import "context"

// postgresPoints keeps keys with recovery points.
//
// The idea: a claim is a row with a lease and a fence, committed before anything happens. What
// the provider answered is noted in it before the answer is made and kept. Who takes a claim over
// goes on from the note; without one it asks the provider, under its own higher fence, whether
// the one before has charged. A role finishes what no client comes back for.
//
// The guarantee: one charge and one answer for each key, whoever crashes or sleeps when.
//
// It gives up: three commits for each charge, and time: a key whose server crashed is in progress
// until its lease is over.
func postgresPoints() variant {
	return inPostgres(variant{
		Name:       "postgres_points",
		Idea:       "a row with a lease, a fence and a note; who takes over asks the provider",
		Guarantees: "one charge and one answer for each key, whoever crashes or sleeps",
		GivesUp:    "three commits a charge; after a crash a key is in progress until its lease is over",
		Roles:      []role{reaper(), completer()},
		Open: func(ctx context.Context, st *opened) (Till, error) {
			return newTill(ctx, st, st.Params.Wait.D(), rows{st})
		},
	})
}
