package positions

import "stampede/harness/sut"

// latePingRewinds shows riders the ping that came last. It is wrong as soon as one comes late.
//
// The idea: crypto_shred, whose hot path overwrites what it shows, as a plain HSET does.
//
// The guarantee: the history is right.
//
// It gives up: that the newest position is the newest. A ping from a tunnel comes after newer ones,
// and the driver jumps back.
func latePingRewinds() variant {
	d := shredding()
	d.rewinds = true
	return twoPaths(variant{Name: "late_ping_rewinds",
		Idea:       "crypto_shred, whose newest position is the one that came last",
		Guarantees: "the history is right",
		GivesUp: "that drivers never jump back when a ping comes late; if it was the last one, the old " +
			"position stays",
		Breaks: []sut.Break{{Invariant: LatestNeverFalls, Under: sut.Load},
			{Invariant: NewestAsHistory, Under: sut.Load, Shows: sut.AtTimes}},
	}, d)
}
