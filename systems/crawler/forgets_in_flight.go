package crawler

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/harness/stores"
	"stampede/harness/sut"
)

// forgetsInFlight takes pages out of the frontier when it takes them.
//
// The idea: postgres_frontier, in which what is taken waits no more: nobody else can take it.
//
// The guarantee: each page at most once, whatever happens.
//
// It gives up: pages. What a process was fetching when it died is in nobody's frontier: it is not
// fetched, and neither is what it leads to.
func forgetsInFlight() variant {
	return inStore(variant{Name: "forgets_in_flight",
		Idea:       "pages leave the frontier when they are taken, and not when they are stored",
		Guarantees: "each page at most once, whatever happens",
		GivesUp:    "what a process was fetching when it died, and what that leads to",
		Breaks: []sut.Break{{Invariant: AllFetched, Under: sut.RoleCrash},
			// Who looks is told of a page that is taken, which is no state.
			{Invariant: SeedsKept, Under: sut.Load, Shows: sut.AtTimes},
			{Invariant: SeedsKept, Under: sut.RoleCrash, Shows: sut.AtTimes}},
	}, remembered, func(st *opened) frontier { return taking{tables{st}} })
}

// taking marks pages as taken.
type taking struct{ tables }

func urlsOf(jobs ...*job) (list []string) {
	for _, j := range jobs {
		for _, t := range j.Pages {
			list = append(list, t.URL)
		}
	}
	return list
}

func (s taking) take(ctx context.Context, n int) ([]*job, time.Duration, error) {
	jobs, wait, err := s.tables.take(ctx, n)
	if err == nil && len(jobs) > 0 {
		_, err = s.DB.Exec(ctx, `UPDATE pages SET state = 'taken' WHERE url = ANY($1)
			AND state = 'waiting'`, urlsOf(jobs...))
	}
	return jobs, wait, stores.Failed("taking pages", err)
}

func (s taking) finish(ctx context.Context, j *job, r *result) error {
	err := s.DB.Transaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE pages SET state = 'waiting' WHERE url = ANY($1)
			AND state = 'taken'`, urlsOf(j))
		if err == nil {
			err = s.finishIn(ctx, tx, j, r)
		}
		return err
	})
	return stores.Failed("storing a page", err)
}
