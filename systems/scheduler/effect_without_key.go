package scheduler

import "stampede/harness/sut"

// effectWithoutKey does the work and says so afterwards.
//
// Idea: skip_locked whose effects have no key: that an occurrence has had its effect
// is known by that its run has ended.
//
// Guarantee: as skip_locked while no executor dies between the two.
//
// Gives up: that the world can tell a repetition. An executor that dies after the
// effect and before the end leaves a task that is taken back and has its effect
// again; no fencing token helps, for the token was right each time.
func effectWithoutKey() scheme {
	return scheme{variant{
		Name:       "effect_without_key",
		Idea:       "skip_locked whose effects have no idempotency key",
		Guarantees: "as skip_locked while no executor dies between effect and end",
		GivesUp:    "exactly one effect: after a crash between effect and end, the effect is repeated",
		Breaks:     []sut.Break{{Invariant: OneEffect, Under: sut.RoleCrash}},
	}, overrides{lock: skipLocked, salt: func(c claim) int64 { return c.fence }}}
}
