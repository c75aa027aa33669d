package scheduler

import (
	"time"

	"stampede/harness/sut"
)

// applicationClock asks the wrong clock.
//
// Idea: skip_locked that compares due times with the clock of the machine it runs
// on.
//
// Guarantee: none that is not the clock's. One that is ahead starts tasks early,
// one that is behind starts them late, and replicas disagree.
//
// Gives up: the one clock that all of them share.
func applicationClock() design {
	return design{
		name:       "application_clock",
		idea:       "skip_locked that compares due times with its own machine's clock",
		guarantees: "as skip_locked while all clocks agree",
		givesUp:    "the shared clock: a machine whose clock is ahead starts tasks early",
		breaks:     []sut.Break{{Invariant: NeverEarly, Under: sut.ClockSkew}},
		lock:       skipLocked,
		own:        ways{clock: func(p Params) time.Time { return time.Now().Add(p.ClockSkew.D()) }},
	}
}
