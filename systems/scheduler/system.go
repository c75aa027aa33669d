package scheduler

import "stampede/harness/sut"

// System returns the scheduler with all its variants.
func System() sut.System {
	return sut.System{
		Name: "scheduler",
		Summary: "10,000 tasks are due at nine: which design starts each of them once, in " +
			"time and never early?",
		Params:     func() any { p := DefaultParams(); return &p },
		Workload:   newWorkload,
		Variants:   variants(),
		Invariants: Invariants,
		Target:     NewTarget,
		Handler:    NewHandler,
		OpenAPI:    openAPI,
	}
}

func newWorkload(seed uint64, params any) (sut.Workload, error) {
	p, err := paramsOf(params)
	if err != nil {
		return nil, err
	}
	return NewWorkload(seed, p)
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
