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
func applicationClock() scheme {
	return scheme{variant{
		Name:       "application_clock",
		Idea:       "skip_locked that compares due times with its own machine's clock",
		Guarantees: "as skip_locked while all clocks agree",
		GivesUp:    "the shared clock: a machine whose clock is ahead starts tasks early",
		Breaks:     []sut.Break{{Invariant: NeverEarly, Under: sut.ClockSkew}},
		Model:      simulated(overrides{}, func(m *taskModel) { m.skew = m.p.ClockSkew.D() }),
	}, overrides{
		lock:  skipLocked,
		clock: func(p Params) time.Time { return time.Now().Add(p.ClockSkew.D()) },
	}}
}
