package likes

import (
	"stampede/harness/sut"
)

// System returns likes with all its variants.
func System() sut.System {
	table := API()
	return sut.System{
		Name: "likes",
		Summary: "everybody likes one video: which design takes the write load, and is its count " +
			"right?",
		Params:     func() any { p := DefaultParams(); return &p },
		Workload:   sut.WorkloadFrom(NewWorkload),
		Variants:   variants(),
		Invariants: Invariants,
		Races: &sut.Races{Kinds: []string{KindLike, KindUnlike}, Least: 10,
			Invariants: []string{CountInBounds, StoresAgree}},
		Target:  table.Target,
		Handler: table.Handler,
		TargetNotApplicable: map[string]string{
			LedgerIsLog:  "how a server carries interactions to its ledger is not visible",
			AppliedFirst: "how a server carries interactions to its ledger is not visible",
		},
	}
}

func designs() []design {
	return []design{
		lockedRowDesign(), redisKey(), shardsFixed(), shardsAdaptive(), redisPipelined(),
		regionsCRDT(), redisCheckThenSet(), redisCommitFirst(), regionsMax(),
	}
}

func variants() []sut.Variant {
	all := designs()
	list := make([]sut.Variant, len(all))
	for i, d := range all {
		list[i] = d.variant()
	}
	return list
}
