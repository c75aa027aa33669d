package adclicks

import (
	"time"

	"stampede/harness/sut"
)

// processingTime counts a click in the window in which it is processed. It is wrong.
//
// The idea: no watermark is needed, nothing is ever late, and windows are closed by the clock.
//
// The guarantee: the sum over all windows is right, as long as nobody stands still.
//
// It gives up: what a window means. A consumer that is behind counts the clicks of an hour in one
// minute, and no replay or recount comes to the same windows.
func processingTime() variant {
	return streaming(variant{
		Name:       "processing_time",
		Idea:       "a click counts in the window in which the consumer sees it",
		Guarantees: "nothing is late",
		GivesUp:    "correctness: a window has what was processed in it, which no recount finds again",
		Breaks: []sut.Break{{Invariant: RecountAgrees, Under: sut.Load},
			{Invariant: ReplaySame, Under: sut.Load},
			{Invariant: DashboardTrue, Under: sut.Load, Shows: sut.AtTimes}},
		NotApplicable: map[string]string{
			ClosedStays: "by the clock nothing is late, so that no closed window is corrected"},
	}, aggregatorRole(func(a *aggregator) {
		a.load = deciders(loadAll, func(d *decider) {
			d.when = func(*event) int64 { return time.Now().UnixMilli() }
		})
	}))
}
