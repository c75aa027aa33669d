package scheduler

import (
	"time"

	"stampede/harness/sut"
)

// System returns the scheduler with all its variants.
func System() sut.System {
	table := API()
	return sut.System{
		Name: "scheduler",
		Summary: "10,000 tasks are due at nine: which design starts each of them once, in " +
			"time and never early?",
		Params:     func() any { p := DefaultParams(); return &p },
		Workload:   sut.WorkloadFrom(NewWorkload),
		GoesOn:     goesOn,
		Variants:   variants(),
		Invariants: Invariants,
		NoRaces:    "clients do not compete, executors do: see needCompetition",
		Target:     table.Target,
		Handler:    table.Handler,
	}
}

// goesOn is until the last task is due: one of the schedule, or the last occurrence of a
// recurring one.
func goesOn(params any) time.Duration {
	p := params.(*Params)
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

func designs() []design {
	return []design{
		pollForUpdate(), skipLockedPickers(), partitionedPickers(), listenNotify(), batched(),
		redisStreams(), kafkaTopic(), riverPeer(), scaleReactive(), scalePredictive(),
		claimWithoutMarking(), applicationClock(), unfencedReclaim(), effectWithoutKey(),
		asyncCommit(),
	}
}

func variants() (list []sut.Variant) {
	for _, d := range designs() {
		list = append(list, d.variant())
	}
	return list
}
