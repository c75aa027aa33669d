package scheduler

import (
	"time"

	"stampede/harness/design"
	"stampede/harness/sut"
)

// System returns the scheduler with all its designs.
func System() sut.System {
	var designs []variant
	for _, d := range schemes() {
		designs = append(designs, d.built())
	}
	return design.System[Scheduler, Params]{
		Name: "scheduler",
		Question: "10,000 tasks are due at nine: which design starts each of them once, in " +
			"time and never early?",
		API:      API(),
		Defaults: DefaultParams,
		Workload: newWorkload,
		GoesOn:   goesOn,
		State: design.State[Params]{Schema: schema, Pending: pending,
			Empty: []string{"tasks", "runs", "effects"}},
		Designs:    designs,
		Costs:      assumedCosts,
		Invariants: Invariants,
		NoRaces:    "clients do not compete, executors do: see needCompetition",
	}.Sut()
}

// goesOn is until the last task is due: one of the schedule, or the last occurrence of a
// recurring one.
func goesOn(p Params) time.Duration {
	last := p.Ahead.D()
	for _, expression := range p.Crons {
		cron, err := parseCron(expression, "UTC")
		if err != nil || p.Recurring == 0 {
			continue
		}
		at := p.day()
		for range p.Times {
			if at, err = cron.next(at); err != nil {
				break // it has no more
			}
		}
		last = max(last, at.Sub(p.day()))
	}
	return p.clock(sut.Duration(last))
}

func schemes() []scheme {
	return []scheme{
		pollForUpdate(), skipLockedPickers(), partitionedPickers(), listenNotify(), batched(),
		redisStreams(), kafkaTopic(), riverPeer(), scaleReactive(), scalePredictive(),
		claimWithoutMarking(), applicationClock(), unfencedReclaim(), effectWithoutKey(),
		asyncCommit(),
	}
}
