package topk

import (
	"stampede/harness/design"
	"stampede/harness/sut"
)

// System returns the counter of heavy hitters with all its designs.
func System() sut.System {
	return systemOf(exactMap(), misraGries(), spaceSaving(), countMinHeap(), heavyKeeper(),
		redisSortedSet(), arrivalTime(), heapsMerged(), offsetsApart())
}

func systemOf(designs ...variant) sut.System {
	return design.System[Counter, Params]{
		Name: "topk",
		Question: "which keys of a stream are the most frequent: who finds them in fixed memory, " +
			"within its bound?",
		API: API(), Defaults: DefaultParams, Workload: newWorkload, State: state(),
		Designs:    designs,
		Invariants: invariants,
		NoRaces: "batches add up whatever their order, and clients compete for nothing; workers " +
			"compete for partitions, and merged-as-one-pass needs windows of several",
		Unseen: map[string]string{MergedAsOne: "how a server adds up its log in one pass is unknown"},
	}.Sut()
}
