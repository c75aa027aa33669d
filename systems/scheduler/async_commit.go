package scheduler

import "stampede/harness/sut"

// asyncCommit does not wait for the disk.
//
// Idea: skip_locked with synchronous_commit off: a commit is answered before its record
// is in the log, which is written some hundred milliseconds later.
//
// Guarantee: as skip_locked while Postgres lives. A crash takes the last of what was committed,
// as a whole: a run and its end go together, and what runs again has its effect once.
//
// Gives up: that what was acknowledged is there. A crash takes the tasks, changes, claims and
// ends of the last moments, at most three times wal_writer_delay: an acknowledged cancel does
// not rest (cancelled-never-starts), a token that a lost claim had is given again (fenced-runs), a
// task whose end is lost runs again or is late (final-states), and what a client saw run is of a
// task that was lost (no-phantom-runs).
func asyncCommit() scheme {
	return scheme{variant{
		Name:       "async_commit",
		Idea:       "skip_locked with synchronous_commit off: a commit does not wait for the disk",
		Guarantees: "as skip_locked while Postgres runs; a crash loses only the latest commits",
		GivesUp:    "what was acknowledged up to three times wal_writer_delay before a crash",
		Breaks: append(sut.Breaks(sut.PostgresCrash, sut.Alone, AllRun), sut.Breaks(sut.PostgresCrash,
			sut.AtTimes, CancelledRests, FencedRuns, FinalStates, NoPhantomRuns)...),
		Settings: map[string]string{"synchronous_commit": "off"},
	}, overrides{lock: skipLocked}}
}
