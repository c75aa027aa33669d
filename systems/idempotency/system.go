package idempotency

import (
	"time"

	"stampede/harness/design"
	"stampede/harness/sut"
)

type (
	opened  = design.Stores[Params]
	role    = design.Role[Params]
	variant = design.Variant[Till, Params]
	state   = design.State[Params]
)

// System returns idempotency with all its variants.
func System() sut.System {
	return systemOf(postgresPoints(), postgresTransaction(), postgresWait(), redisLease(),
		redisBeforePostgres(), none(), checkThenInsert(), doneBeforeEffect())
}

func systemOf(designs ...variant) sut.System {
	return design.System[Till, Params]{
		Name: "idempotency",
		Question: "clients send a request again and servers crash in the middle: does a key mean one " +
			"charge?",
		API: API(), Defaults: DefaultParams, Workload: newWorkload,
		GoesOn:     func(p Params) time.Duration { return p.TTL.D() + p.ReapLag.D() },
		Designs:    designs,
		Invariants: invariants,
		NoRaces: "requests with one key are attempts of one operation; charged-once counts those that " +
			"overlap",
	}.Sut()
}
