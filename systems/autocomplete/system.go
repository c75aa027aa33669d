package autocomplete

import (
	_ "embed" // the schema

	"stampede/harness/design"
	"stampede/harness/sut"
)

type (
	opened  = design.Stores[Params]
	role    = design.Role[Params]
	variant = design.Variant[Suggester, Params]
)

//go:embed schema.sql
var schema string

// System returns autocomplete with all its designs.
func System() sut.System {
	return systemOf(trieTopK(), fstSegments(), redisZset(), postgresPrefix(), linearScan(),
		staleTopK(), twoStepSwap(), cachedBlocks())
}

func systemOf(designs ...variant) sut.System {
	for i := range designs {
		designs[i] = fed(designs[i])
	}
	return design.System[Suggester, Params]{
		Name: "autocomplete",
		Question: "what users may be about to type: which designs answer with the exact top of a " +
			"fresh index, and never with a blocked phrase?",
		API: API(), Defaults: DefaultParams, Workload: newWorkload,
		State:      design.State[Params]{Schema: schema, Empty: []string{"known", "objects"}},
		Designs:    designs,
		Invariants: invariants,
		Races: &sut.Races{Kinds: []string{KindQuery, KindSuggest}, Least: 20,
			Invariants: []string{TopOfVersion}},
	}.Sut()
}
