package adclicks

import (
	"context"

	"stampede/harness/sut"
)

// bloomOnly drops repeated clicks by a Bloom filter alone. It is wrong.
//
// The idea: a filter says at once, and from a few bits, that a click has come before. Nobody asks
// a database, and the aggregator remembers no clicks.
//
// The guarantee: one process of the API writes no click twice while it lives.
//
// It gives up: new clicks that the filter takes for known ones, which nobody pays for; and clicks
// that come to two processes, or to one that has been started again, which are paid for twice.
func bloomOnly() variant {
	return streaming(variant{
		Name:       "bloom_only",
		Idea:       "a Bloom filter in the API drops what it takes for known, and nothing else looks",
		Guarantees: "a process writes no click twice",
		GivesUp:    "correctness: new clicks are dropped, and those of two processes count twice",
		Breaks: []sut.Break{{Invariant: AcksInLog, Under: sut.Load},
			{Invariant: DashboardTrue, Under: sut.Load, Shows: sut.AtTimes}},
		Open: func(_ context.Context, st *opened) (Clicks, error) {
			e := newEdge(st)
			e.known = func(context.Context, string) (string, bool, error) { return "", true, nil }
			return e, nil
		},
	}, aggregatorRole(func(a *aggregator) {
		a.load = deciders(loadAll, func(d *decider) { d.forgets = true })
	}))
}
