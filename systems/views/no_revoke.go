package views

import "stampede/harness/sut"

// noRevoke is wrong.
//
// Idea: as counts_before_offsets, and when a rebalance takes a partition away,
// the counter takes no notice: it stores what it has read when its window is
// over, as ever.
//
// Guarantee: nothing is lost, and all is well while nobody comes or goes.
//
// Gives up: the new owner begins at the last commit and reads what the old one
// still holds. Both count it.
func noRevoke() design {
	return design{
		name: "no_revoke",
		idea: "after a rebalance, the counter still stores the buffered views of the partitions that " +
			"it lost",
		guarantees: "no view is lost",
		givesUp:    "a rebalance counts views twice: by the old owner and by the new one",
		breaks:     []sut.Break{{Invariant: ExactCounts, Under: sut.Rebalance}},
		counting:   counting{progress: afterCounts, deaf: true},
	}
}
