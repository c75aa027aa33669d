package views

import "stampede/harness/sut"

// System returns the view pipeline with all its variants.
func System() sut.System {
	return sut.System{
		Name:       "views",
		Summary:    "what does a hot video do to a partitioned pipeline, and does the count stay exact?",
		Params:     func() any { p := DefaultParams(); return &p },
		Workload:   newWorkload,
		Variants:   variants(),
		Invariants: Invariants,
		Races: &sut.Races{Kinds: []string{KindHeartbeat}, Least: 10,
			Invariants: []string{ExactCounts, OnceInEffect}},
		Target:  NewTarget,
		Handler: NewHandler,
		OpenAPI: openAPI,
		TargetNotApplicable: map[string]string{
			Fresh: "a server's counts are not sampled between operations",
		},
	}
}

func newWorkload(seed uint64, params any) (sut.Workload, error) {
	p, err := paramsOf(params)
	if err != nil {
		return nil, err
	}
	return NewWorkload(seed, p)
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
