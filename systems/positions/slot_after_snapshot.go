package positions

import "stampede/harness/sut"

// slotAfterSnapshot copies first and makes the slot then. It is wrong: nobody has seen what was
// written in between.
//
// The idea: migrate_by_cdc, with a plain SELECT in place of the slot's own snapshot.
//
// The guarantee: the new side looks complete.
//
// It gives up: what was written to a part of the table between its copy and the slot. Who was
// erased then comes back.
func slotAfterSnapshot() variant {
	return migrating(variant{Name: "slot_after_snapshot",
		Idea:       "migrate_by_cdc, whose slot is made when the table is copied",
		Guarantees: "every change after that is applied",
		GivesUp:    "changes between the copy and the slot: pings are lost, and the erased come back",
		Breaks: []sut.Break{{Invariant: AckedKept, Under: sut.Load},
			{Invariant: LatestNeverFalls, Under: sut.Load, Shows: sut.AtTimes}},
	}, move{late: true})
}
