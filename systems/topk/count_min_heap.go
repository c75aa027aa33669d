package topk

import (
	"math"

	"stampede/systems/internal/sketch"
)

// countMinHeap counts in cells that keys share, and keeps the heaviest keys.
//
// The idea: sketch.CountMin. Half of the error is for the cells, half for a key that is heavy in
// all partitions and among the heaviest of none.
//
// The guarantee: no estimate is too low, and few are more than error of the events too high.
//
// It gives up: memory. It needs more than counters do, and can estimate any key, also one that it
// does not keep.
func countMinHeap() variant {
	return counted(estimating(variant{
		Name:       "count_min_heap",
		Idea:       "rows of cells, of which the least of a key is its estimate, and the heaviest keys",
		Guarantees: "no estimate is too low, and few are too high by more than the error",
		GivesUp:    "memory: more than counters need",
	}), plan{summary: inCountMin()})
}

func inCountMin() summary {
	return summary{
		empty: func(p Params) sketch.Sketch {
			width := int(math.Ceil(2 * math.E / p.Error))
			rows := int(math.Ceil(-math.Log(p.Misses)))
			return sketch.NewCountMin(width, max(1, rows), 2*p.slots())
		},
		fold:     merging((*sketch.CountMin).Merge),
		contract: func(p Params) Contract { return Contract{Over: p.Error, Misses: p.Misses} },
	}
}
