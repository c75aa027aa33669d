package sqlbroker

import (
	"stampede/harness/history"
	"stampede/harness/sut"
)

// System returns the SQL broker with all its variants.
func System() sut.System {
	table := API()
	return sut.System{
		Name:       "sqlbroker",
		Summary:    "how far does a table go as a message broker, and what do its consumers see?",
		Params:     func() any { p := DefaultParams(); return &p },
		Workload:   sut.WorkloadFrom(NewWorkload),
		Variants:   variants(),
		Invariants: Invariants,
		// Receives show how operations compete. The role's consumers have queues of their own,
		// about which effects-once is: see needCompetition.
		Races: &sut.Races{Kinds: []string{KindReceive}, Idle: receivedNothing, Least: 10,
			Invariants: []string{VisibilityKept}},
		Target:  table.Target,
		Handler: table.Handler,
		TargetNotApplicable: map[string]string{
			EffectsOnce: "what a server's own consumers store is not visible",
			WorkedOff:   "what a server's own consumers store is not visible",
		},
	}
}

// receivedNothing says that a receive waited in vain.
func receivedNothing(reply history.Reply) bool { return reply.Value == 0 }

func designs() []design {
	return []design{
		rowAtATime(), batched(), partitioned(), listenNotify(), riverPeer(), unfencedDelete(),
		ackBeforeEffect(), claimWithoutMarking(), asyncCommit(),
	}
}

func variants() []sut.Variant {
	all := designs()
	list := make([]sut.Variant, len(all))
	for i, d := range all {
		list[i] = d.variant()
	}
	return list
}

// The triggers under which wrong designs show.
const (
	load  = sut.Load
	crash = sut.RoleCrash
	pause = sut.RolePause
)

// breaksUnder lists invariants that are broken under a trigger.
func breaksUnder(under sut.Trigger, invariants ...string) []sut.Break {
	list := make([]sut.Break, len(invariants))
	for i, name := range invariants {
		list[i] = sut.Break{Invariant: name, Under: under}
	}
	return list
}
