package topk

import "stampede/harness/sut"

// arrivalTime counts a batch in the window in which it arrives. It is wrong.
//
// The idea: space_saving, without the event's time: what is read is counted in the newest window,
// so that no older one has to be opened again.
//
// The guarantee: none about windows.
//
// It gives up: every window, once a batch is late or a worker behind.
func arrivalTime() variant {
	return counted(estimating(variant{
		Name:       "arrival_time",
		Idea:       "space_saving; a late batch is counted in the window that is open when it comes",
		Guarantees: "nothing about a window, once a batch is late",
		GivesUp:    "windows of event time: late batches are in the next one",
		Breaks: []sut.Break{{Invariant: WindowTotals, Under: sut.Load},
			{Invariant: ReadsBounded, Under: sut.Load, Shows: sut.AtTimes}},
	}), plan{summary: inSpaceSaving(), windowOf: func(p Params, atMS, newest int64) int64 {
		return max(newest, p.windowOf(atMS))
	}})
}
