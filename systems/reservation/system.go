package reservation

import (
	"time"

	"stampede/harness/design"
	"stampede/harness/sut"
)

type (
	opened  = design.Stores[Params]
	role    = design.Role[Params]
	variant = design.Variant[Desk, Params]
	state   = design.State[Params]
)

// System returns reservation with all its variants.
func System() sut.System {
	return design.System[Desk, Params]{
		Name: "reservation",
		Question: "many want the same places for some nights: are holds exact when they expire under " +
			"load?",
		API: API(), Defaults: DefaultParams, Workload: newWorkload,
		GoesOn: func(p Params) time.Duration { return p.HoldTTL.D() + p.ExpireLag.D() },
		Designs: []variant{
			rowPerNight(), counterPerNight(), exclusionRanges(), advisoryLock(), redisGate(), redisOnly(),
			readThenInsert(), confirmBlind(),
		},
		Costs:      assumedCosts,
		Invariants: invariants,
		Races: &sut.Races{Kinds: []string{KindHold}, Least: 10,
			Invariants: []string{NoDoubleBooking, ExpiredIsOver}},
	}.Sut()
}
