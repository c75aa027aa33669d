package positions

import "stampede/harness/sut"

// confirmedEarly tells the slot before it has applied a change. It is wrong if the mover dies in
// between.
//
// The idea: migrate_by_cdc, which confirms what it has received, as a consumer does that commits
// its offset first.
//
// The guarantee: no change is applied twice.
//
// It gives up: what was confirmed and not applied. The slot has forgotten it.
func confirmedEarly() variant {
	return migrating(variant{Name: "confirmed_early",
		Idea:       "migrate_by_cdc, which confirms changes when it has received them",
		Guarantees: "no change is applied twice",
		GivesUp:    "changes that were confirmed and not applied when the mover dies",
		Breaks: []sut.Break{{Invariant: AckedKept, Under: sut.RoleCrash},
			{Invariant: LatestNeverFalls, Under: sut.RoleCrash, Shows: sut.AtTimes}},
	}, move{early: true})
}
