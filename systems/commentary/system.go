package commentary

import (
	_ "embed" // the schema

	"stampede/harness/design"
	"stampede/harness/sut"
)

type (
	opened  = design.Stores[Params]
	role    = design.Role[Params]
	variant = design.Variant[Commentary, Params]
)

//go:embed schema.sql
var schema string

// System returns the commentary with all its designs.
func System() sut.System {
	return systemOf(postgresPoll(), redisETag(), edgeCache(), edgeSWR(), longPoll(), replicaBeat(),
		redisFirst(), replicaTrusted(), mtimeETag(), splitCache(), restartingSequence())
}

func systemOf(designs ...variant) sut.System {
	return design.System[Commentary, Params]{
		Name: "commentary",
		Question: "live commentary of matches: which designs keep viewers up to date when ten times as " +
			"many look, and what does a viewer cost?",
		API: API(), Defaults: DefaultParams, Workload: newWorkload,
		State:      design.State[Params]{Schema: schema, Empty: []string{"changes", "objects"}},
		Roles:      []role{archiver()},
		Designs:    designs,
		Invariants: invariants,
		Races: &sut.Races{Kinds: []string{KindPublish, KindLatest}, Least: 100,
			Invariants: []string{OneAnswer, VersionShown}},
	}.Sut()
}
