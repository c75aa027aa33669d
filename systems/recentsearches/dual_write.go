package recentsearches

import (
	"context"

	"stampede/harness/sut"
)

// dualWrite writes to two stores, and nobody remembers what the second one lacks. It is wrong as
// soon as a process dies in between.
//
// The idea: outbox_inline without an outbox.
//
// The guarantee: what is acknowledged is in Postgres, and on every device.
//
// It gives up: the list of a user whose change was kept when the process died, or when Redis did
// not answer: it lacks the change until the next one.
func dualWrite() variant {
	return inPostgres(variant{Name: "dual_write",
		Idea:       "a change goes to Postgres, and then to Redis",
		Guarantees: "what is acknowledged is kept, and at once on every device",
		GivesUp:    "the lists of those whose change was kept when a process died, or Redis was away",
		Needs:      []sut.Service{sut.Redis},
		Breaks:     append(lostByRedis(), sut.Break{Invariant: Settled, Under: sut.RoleCrash}),
	}, plan{then: func(ctx context.Context, st *opened, c *change) (int64, error) {
		return 0, show(ctx, st, c.User, c.list())
	}})
}
