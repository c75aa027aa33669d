package views

import "stampede/harness/sut"

// System returns the view pipeline with all its variants.
func System() sut.System {
	table := API()
	return sut.System{
		Name:       "views",
		Summary:    "what does a hot video do to a partitioned pipeline, and does the count stay exact?",
		Params:     func() any { p := DefaultParams(); return &p },
		Workload:   sut.WorkloadFrom(NewWorkload),
		Variants:   variants(),
		Invariants: Invariants,
		// Counts go wrong behind the log, but nothing competes there for what a heartbeat does
		// not compete for first. A partition has one reader in each stage, so that two effects of
		// one event cannot overlap, unless partitions change hands, which a fault has to prove. Two
		// events about one video meet as heartbeats in flight: in one record (preaggregated), or in
		// partitions that different readers add up at the same time (composite_key).
		Races: &sut.Races{Kinds: []string{KindHeartbeat}, Least: 10,
			Invariants: []string{ExactCounts, AckedInLog, OnceInEffect}},
		Target:  table.Target,
		Handler: table.Handler,
		TargetNotApplicable: map[string]string{
			Fresh: "a server's counts are not sampled between operations",
		},
	}
}

func variants() []sut.Variant {
	designs := []design{
		updatePerEvent(), videoKey(), compositeKey(), preaggregated(), countsBeforeOffsets(),
		noRevoke(),
	}
	list := make([]sut.Variant, len(designs))
	for i, d := range designs {
		list[i] = d.variant()
	}
	return list
}
