package views

import "stampede/harness/sut"

// countsBeforeOffsets is wrong.
//
// Idea: the counter stores sums in Postgres, then commits its offsets to Kafka,
// as the manual of any client shows it.
//
// Guarantee: nothing is lost, and all is well while nothing dies.
//
// Gives up: what was stored and not committed is counted again by whoever comes
// after a crash, because nothing knows that it was counted.
func countsBeforeOffsets() design {
	return design{
		name:       "counts_before_offsets",
		idea:       "sums go to Postgres, then offsets to Kafka, without a common transaction",
		guarantees: "no view is lost",
		givesUp:    "a crash between the two counts views twice",
		breaks: []sut.Break{
			{Invariant: ExactCounts, Under: sut.RoleCrash},
			{Invariant: OnceInEffect, Under: sut.RoleCrash},
		},
		counting: counting{progress: afterCounts},
	}
}
