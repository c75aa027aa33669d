package sqlbroker

import "stampede/harness/sut"

// asyncCommit: batched without waiting for the disk. Wrong when Postgres dies.
//
// Idea: with synchronous_commit off a commit is answered before its record is in the
// log, which is written a moment later for many at once: no publication and no
// acknowledgement costs a flush.
//
// Guarantee: that of batched while Postgres lives, and always a state that once was: what
// is lost is the end of the log.
//
// Gives up: what it answered in the last moments, up to three times wal_writer_delay (200
// ms), when Postgres or its machine dies. Messages that were published are gone, at times with
// their acknowledgements; those that were acknowledged are back, and so are those that were
// claimed, before their time is over and out of the order of their groups: that is seen too
// seldom to be what it must be caught at.
func asyncCommit() variant {
	return inTable(variant{
		Name: "async_commit",
		Idea: "batched with synchronous_commit off: a commit does not wait for the disk",
		Guarantees: "what batched guarantees while Postgres runs; after a crash, an earlier, " +
			"consistent state",
		GivesUp: "publications, claims and acknowledgements of the last half second or so when " +
			"Postgres crashes",
		Breaks: append(sut.Breaks(sut.PostgresCrash, sut.Alone, NoLoss), sut.Breaks(sut.PostgresCrash,
			sut.AtTimes, VisibilityKept, AckFinal, ReceiptFenced, ReceiveCount, DeadLetters, GroupOrder,
			EffectsOnce)...),
		Settings: map[string]string{"synchronous_commit": "off"},
	}, plain)
}
