package flashsale

import (
	"stampede/harness/design"
	"stampede/harness/sut"
)

// The parts that designs declare, and the stores that are opened for them.
type (
	variant = design.Variant[Shop, Params]
	state   = design.State[Params]
	role    = design.Role[Params]
	opened  = design.Stores[Params]
)

// System returns the flash sale with all its designs.
func System() sut.System { return system(designs()...) }

func system(designs ...variant) sut.System {
	return design.System[Shop, Params]{
		Name:     "flashsale",
		Question: "far more buyers than units: which designs never sell more than N, and at what cost?",
		API:      API(), Defaults: DefaultParams, Workload: newWorkload,
		State: state{Schema: schema, Empty: []string{"orders", "payments", "order_log"}},
		Costs: assumedCosts, Calibration: calibration(),
		Designs: designs, Invariants: Invariants,
		Races: &sut.Races{Kinds: []string{KindBuy}, Least: 10,
			Invariants: []string{NoOversell, UnitExclusive}},
		Unseen: map[string]string{RedisDrift: "only the server's ledger is visible"},
	}.Sut()
}

func designs() []variant {
	return []variant{
		naiveReadWrite(), counterRowInPlace(), conditionalUpdate(), forUpdate(),
		optimisticVersion(), unitsSkipLocked(), unitsGrouped(), unitsAsyncCommit(),
		redisGetDecr(), redisLua(), redisLuaPipelined(), redisReservation(),
		redlock(), redisOnly(), redisLuaSilentRetry(), queueSerialized(),
	}
}
