package taskqueue

import (
	"stampede/harness/design"
	"stampede/harness/sut"
)

type (
	opened  = design.Stores[Params]
	role    = design.Role[Params]
	variant = design.Variant[Jobs, Params]
	state   = design.State[Params]
)

// System returns the task queue with all its designs.
func System() sut.System {
	return systemOf(postgresTable(), postgresBatch(), redisLists(), redisStreams(),
		kafkaRetryTopics(), riverPeer(), popWithoutLease(), ackBeforeHandler(), retryWithoutJitter())
}

func systemOf(designs ...variant) sut.System {
	return design.System[Jobs, Params]{
		Name: "taskqueue",
		Question: "jobs are retried, delayed and given up while workers die: is none lost, none done " +
			"twice and nobody starved?",
		API: API(), Defaults: DefaultParams, Workload: newWorkload,
		Designs:    designs,
		Invariants: invariants,
		NoRaces: "workers race for jobs, and not clients; priority-kept and tenants-fair count claims " +
			"that had a choice",
	}.Sut()
}
