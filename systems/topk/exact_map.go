package topk

import "stampede/systems/internal/sketch"

// exactMap counts every key in a Go map.
//
// The idea: a map for each partition and window. It is what all others are compared with.
//
// The guarantee: exact counts.
//
// It gives up: memory, which grows with the number of keys, and the time to store all of a pane
// whenever something in it changed.
func exactMap() variant {
	return counted(variant{
		Name:       "exact_map",
		Idea:       "a map from each key to its count, stored as a whole",
		Guarantees: "exact counts",
		GivesUp:    "memory for each key, and time to store all of them",
	}, plan{summary: summary{
		empty:    func(Params) sketch.Sketch { return sketch.NewExact() },
		fold:     merging((*sketch.Exact).Merge),
		contract: func(Params) Contract { return Contract{} },
	}})
}
