package checkout

import (
	"time"

	"stampede/harness/design"
	"stampede/harness/sut"
)

type (
	opened  = design.Stores[Params]
	role    = design.Role[Params]
	variant = design.Variant[Shop, Params]
	state   = design.State[Params]
)

// System returns checkout with all its variants.
func System() sut.System {
	return systemOf(rowLock(), optimisticVersion(), redisFirst(), kafkaQueue(), waitingRoom(),
		honourAndRestock(), cancelNewest(), keyPerRetry(), compensationForgotten(), offsetBeforeOrder())
}

func systemOf(designs ...variant) sut.System {
	return design.System[Shop, Params]{
		Name: "checkout",
		Question: "a crowd wants a few units: does each attempt end once, and is nothing sold twice or " +
			"paid for nothing?",
		API: API(), Defaults: DefaultParams, Workload: newWorkload,
		GoesOn: func(p Params) time.Duration {
			return time.Duration(p.PayTries+1)*p.PayRetry.D() + 2*p.SlowTime.D()
		},
		State:      common(),
		Designs:    designs,
		Costs:      assumedCosts,
		Invariants: invariants,
		Races: &sut.Races{Kinds: []string{KindJoin}, Least: 10,
			Invariants: []string{NoOversell, OneOrder}},
	}.Sut()
}
