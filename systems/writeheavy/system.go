package writeheavy

import (
	_ "embed" // the schema

	"stampede/harness/design"
	"stampede/harness/sut"
)

type (
	opened  = design.Stores[Params]
	role    = design.Role[Params]
	variant = design.Variant[Counters, Params]
)

//go:embed schema.sql
var schema string

// System returns the counters with all their designs.
func System() sut.System {
	return systemOf(rowAtATime(), rowAsyncCommit(), shardAndFlush(), logFirst(), queueAndBatch(),
		reduceTree(),
		shedAtDepth(), shedByDelay(), shedByClass(), shedAdaptively(),
		reshardOnline(), mapChangedUnmoved(), batchAckedEarly(), reduceAddsResent())
}

func systemOf(designs ...variant) sut.System {
	return design.System[Counters, Params]{
		Name: "writeheavy",
		Question: "counters under a heavy load of writes: shard, log, batch or reduce, and is every " +
			"write counted once?",
		API: API(), Defaults: DefaultParams, Workload: newWorkload,
		State: design.State[Params]{Schema: schema, Empty: []string{"ops", "counters", "partials"},
			Audit: audited(Contract{}, nil)},
		Designs:    designs,
		Costs:      assumedCosts,
		Invariants: invariants,
		NoRaces: "adds that are acknowledged from memory hardly overlap; counters-conserved counts " +
			"those of a counter that a process may write together",
	}.Sut()
}
