package recentsearches

import (
	"context"
	_ "embed" // the schema

	"stampede/harness/design"
	"stampede/harness/sut"
)

type (
	opened  = design.Stores[Params]
	role    = design.Role[Params]
	variant = design.Variant[Recents, Params]
)

//go:embed schema.sql
var schema string

// System returns the recent searches with all their designs.
func System() sut.System {
	return systemOf(outboxInline(), outboxRelay(), walMessage(), searchLog(), versionedCache(),
		dualWrite(), relayByID(), lateEventRevives())
}

func systemOf(designs ...variant) sut.System {
	return design.System[Recents, Params]{
		Name: "recentsearches",
		Question: "what users searched for: which designs show it on every device once it is " +
			"acknowledged, and never lose it?",
		API: API(), Defaults: DefaultParams, Workload: newWorkload,
		State: design.State[Params]{Schema: schema, Empty: []string{"changes", "objects", "outbox"},
			Audit: func(ctx context.Context, st *opened) (any, error) { return audit(ctx, st, cached) }},
		Roles:      []role{archiver()},
		Designs:    designs,
		Invariants: invariants,
		Races: &sut.Races{Kinds: []string{KindSearch, KindForget}, Least: 20,
			Invariants: []string{ListOfHistory}},
	}.Sut()
}
