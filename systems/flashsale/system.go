package flashsale

import (
	"stampede/harness/sut"
)

// System returns the flash sale with all its variants.
func System() sut.System {
	table := API()
	return sut.System{
		Name:       "flashsale",
		Summary:    "far more buyers than units: which designs never sell more than N, and at what cost?",
		Params:     func() any { p := DefaultParams(); return &p },
		Workload:   sut.WorkloadFrom(NewWorkload),
		Variants:   variants(),
		Invariants: Invariants,
		Races: &sut.Races{Kinds: []string{KindBuy}, Least: 10,
			Invariants: []string{NoOversell, UnitExclusive}},
		Target:  table.Target,
		Handler: table.Handler,
		TargetNotApplicable: map[string]string{
			RedisDrift: "only the server's ledger is visible",
		},
	}
}

func variants() []sut.Variant {
	designs := []design{
		naiveReadWrite(), counterRowInPlace(), conditionalUpdate(), forUpdate(),
		optimisticVersion(), unitsSkipLocked(), unitsGrouped(), unitsAsyncCommit(),
		redisGetDecr(), redisLua(), redisLuaPipelined(), redisReservation(),
		redlock(), redisOnly(), redisLuaSilentRetry(), queueSerialized(),
	}
	list := make([]sut.Variant, len(designs))
	for i, d := range designs {
		list[i] = d.variant()
	}
	return list
}
