package topk

import (
	"stampede/harness/sut"
	"stampede/systems/internal/sketch"
)

// heapsMerged merges the heaviest keys of the partitions without their sketches. It is wrong.
//
// The idea: count_min_heap; a reader adds up the heaps of the partitions, which are small.
//
// The guarantee: that of count_min_heap within one partition.
//
// It gives up: the count of a key in each partition where it is not among the heaviest. A key that
// is heavy in all may be in the heap of none.
func heapsMerged() variant {
	s := inCountMin()
	s.fold = func(p Params, parts []sketch.Sketch) (sketch.Sketch, error) {
		sum := sketch.NewExact()
		for _, part := range parts {
			for _, it := range part.Top(p.K) {
				sum.Raise(it.Key, it.Count)
			}
		}
		return sum, nil
	}
	return counted(estimating(variant{
		Name:       "heaps_merged",
		Idea:       "count_min_heap, of which a reader adds up the heaps without the sketches",
		Guarantees: "nothing about a key that is not in the heap of each partition",
		GivesUp:    "the counts of a key where it is not among the heaviest",
		Breaks: []sut.Break{{Invariant: EstimatesBounded, Under: sut.Load},
			{Invariant: MergedAsOne, Under: sut.Load},
			{Invariant: ReadsBounded, Under: sut.Load, Shows: sut.AtTimes}},
	}), plan{summary: s})
}
