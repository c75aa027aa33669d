package crawler

import (
	"context"

	"github.com/jackc/pgx/v5"

	"stampede/harness/design"
	"stampede/harness/stores"
	"stampede/harness/sut"
)

// seenThenAdd asks which pages are known, and adds the others.
//
// The idea: postgres_frontier, in which one statement asks and a later one adds, without a lock on
// the host or a unique key between them.
//
// The guarantee: each page once, as long as one process finds pages.
//
// It gives up: that. Two who find a page at the same time both see that it is new, and it is in the
// frontier twice: it is fetched twice.
func seenThenAdd() variant {
	return inStore(variant{Name: "seen_then_add",
		Idea:       "one statement asks whether a page is known, and a later one adds it",
		Guarantees: "each page once, as long as one process finds pages",
		GivesUp:    "that: two who find a page at the same time add it twice",
		Breaks:     []sut.Break{{Invariant: FetchedOnce, Under: sut.Load}},
		// There may be as many rows of a page as somebody adds.
		State: design.State[Params]{Schema: `ALTER TABLE pages DROP CONSTRAINT pages_pkey;
			CREATE INDEX pages_url ON pages (url);`},
	}, remembered, func(st *opened) frontier { return twoSteps{tables{st}} })
}

// twoSteps asks and then adds.
type twoSteps struct{ tables }

func (s twoSteps) add(ctx context.Context, list []found) error {
	var fresh []found
	err := s.DB.Transaction(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
		fresh, err = s.fresh(ctx, tx, list, "")
		return err
	})
	if err != nil {
		return stores.Failed("asking for pages", err)
	}
	err = s.DB.Transaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		return insert(ctx, tx, list, fresh)
	})
	return stores.Failed("adding pages", err)
}
