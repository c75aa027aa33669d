package commentary

import (
	"context"

	"stampede/harness/sut"
)

// restartingSequence lets the versions of a match begin anew when Redis does.
//
// The idea: redis_first with epochs that all begin at 0.
//
// The guarantee: what is acknowledged is seen at once, and kept while Redis keeps it.
//
// It gives up: the order of what comes after a restart. Viewers who have a high version are told
// that there is nothing newer, and comments get ids that others have.
func restartingSequence() variant {
	return viaRedis(variant{Name: "restarting_sequence",
		Idea:       "as redis_first, with versions that begin at 0 after each restart of Redis",
		Guarantees: "what is acknowledged is seen at once, and kept while Redis keeps it",
		GivesUp:    "the order of what comes after a restart",
		Breaks: append(lostByRedis(), sut.Break{Invariant: CommitOrder, Under: sut.RedisLoss},
			sut.Break{Invariant: NeverBack, Under: sut.RedisLoss, Shows: sut.AtTimes},
			sut.Break{Invariant: CommitOrder, Under: sut.PowerLoss},
			sut.Break{Invariant: NeverBack, Under: sut.PowerLoss, Shows: sut.AtTimes}),
	}, func(context.Context, *opened, view) (int64, error) { return 0, nil })
}
