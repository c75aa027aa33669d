package textsearch

import (
	_ "embed" // the schema

	"stampede/harness/design"
	"stampede/harness/sut"
)

type (
	opened  = design.Stores[Params]
	variant = design.Variant[Library, Params]
)

//go:embed schema.sql
var schema string

// System returns textsearch with all its designs.
func System() sut.System {
	return systemOf(diskSegments(), memory(), scan(), postgresFTS(), blevePeer(),
		mergeForgetsDeletes(), listedBeforeFlush(), staleReader())
}

func systemOf(designs ...variant) sut.System {
	return design.System[Library, Params]{
		Name: "textsearch",
		Question: "documents found by their words: which designs answer each search with exactly the " +
			"documents of one moment, through merges, crashes and restarts?",
		API: API(), Defaults: DefaultParams, Workload: newWorkload,
		State: design.State[Params]{Schema: schema, Seed: seed, Empty: []string{"changes"},
			Found: files},
		Designs:    designs,
		Invariants: invariants,
		Unseen:     map[string]string{SegmentsWhole: "nobody sees the files of a server"},
		Races: &sut.Races{Kinds: []string{KindIndex, KindDelete}, Least: 10,
			Invariants: []string{ChangesKept, OneGeneration, GoneForGood}},
	}.Sut()
}
