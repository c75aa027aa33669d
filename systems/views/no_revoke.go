package views

import (
	"context"

	"stampede/harness/sut"
)

// noRevoke is wrong: as counts_before_offsets, and when a rebalance takes a partition away, the
// counter stores what it has read when its window is over, as ever. The new owner begins at the
// last commit and reads what the old one still holds. Both count it.
func noRevoke() variant {
	return pipelined(variant{
		Name: "no_revoke",
		Idea: "after a rebalance, the counter still stores the buffered views of the partitions that " +
			"it lost",
		Guarantees: "no view is lost",
		GivesUp:    "a rebalance counts views twice: by the old owner and by the new one",
		Breaks:     []sut.Break{{Invariant: ExactCounts, Under: sut.Rebalance}},
	}, takeNoNotice)
}

// takeNoNotice lets a counter keep what it has read of partitions that go.
func takeNoNotice(c *counter) {
	commitAfterwards(c)
	c.leaving = func(context.Context, []int32, bool) {}
}
