package commentary

import "stampede/harness/sut"

// replicaTrusted reads from a replica as if it were the primary. It is wrong while that is behind.
//
// The idea: replica_beat without the beats.
//
// The guarantee: what is acknowledged is kept.
//
// It gives up: that it is seen. A replica that is behind shows what was true a while ago, and tells
// who has that that nothing has changed.
func replicaTrusted() variant {
	return onReplica(variant{Name: "replica_trusted",
		Idea:       "looks go to a replica, which is taken to have everything",
		Guarantees: "what is acknowledged is kept",
		GivesUp:    "what the replica has not yet: it shows what was true a while ago",
		Breaks: []sut.Break{{Invariant: SeenInTime, Under: sut.ReplicaLag},
			{Invariant: SeenInTime, Under: sut.Load, Shows: sut.AtTimes}},
	}, replicaPlan())
}
