package views

import (
	"context"
	"errors"
	"maps"
	"slices"

	"stampede/harness/sut"
)

// countsBeforeOffsets is wrong, as the manual of any client shows it: what was stored and not
// committed is counted again by whoever comes after a crash, because nothing knows that it was
// counted.
func countsBeforeOffsets() variant {
	return pipelined(variant{
		Name:       "counts_before_offsets",
		Idea:       "sums go to Postgres, then offsets to Kafka, without a common transaction",
		Guarantees: "no view is lost",
		GivesUp:    "a crash between the two counts views twice",
		Breaks: []sut.Break{
			{Invariant: ExactCounts, Under: sut.RoleCrash},
			{Invariant: OnceInEffect, Under: sut.RoleCrash},
		},
	}, commitAfterwards)
}

// commitAfterwards lets a counter store sums first and commit its offsets to Kafka then. It
// goes on where Kafka's commits say.
func commitAfterwards(c *counter) {
	// owed are the offsets up to which all is stored and Kafka does not know it. It may have
	// refused a commit because the group was just being joined.
	owed := make(map[int32]move)
	settle := func(ctx context.Context) error {
		if len(owed) == 0 {
			return nil
		}
		err := c.commit(ctx, slices.Collect(maps.Values(owed)))
		if err == nil {
			clear(owed)
		}
		return err
	}
	c.byCommits = true
	c.store = func(ctx context.Context, moves []move, sums []sum) error {
		if err := c.books.counts(ctx, c.who, sums); err != nil {
			return err
		}
		c.cfg.Passed(placeCounted)
		clear(c.buffers) // whatever becomes of the commit
		for _, m := range moves {
			owed[m.partition] = m
		}
		return errors.Join(settle(ctx), c.books.reports(ctx, c.who, moves))
	}
	c.leaving = func(ctx context.Context, gone []int32, orderly bool) {
		c.hand(ctx, gone, orderly)
		if orderly {
			if err := settle(ctx); err != nil {
				c.cfg.Logger.Warn("views counter: the next owner counts again", "error", err)
			}
		}
		for _, p := range gone {
			delete(owed, p)
		}
	}
}
