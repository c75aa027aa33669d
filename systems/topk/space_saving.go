package topk

import "stampede/systems/internal/sketch"

// spaceSaving counts with a fixed number of counters, of which a new key takes the least.
//
// The idea: sketch.SpaceSaving with 1/error counters.
//
// The guarantee: no estimate is too low, and none is more than error of the events too high.
//
// It gives up: exact counts. The estimate of a light key is that of the key whose counter it took.
func spaceSaving() variant {
	return counted(estimating(variant{
		Name:       "space_saving",
		Idea:       "1/error counters; a key without one takes the least one, and its count",
		Guarantees: "no estimate is too low, or too high by more than the error",
		GivesUp:    "exact counts",
	}), plan{summary: inSpaceSaving()})
}

func inSpaceSaving() summary {
	return summary{
		empty:    func(p Params) sketch.Sketch { return sketch.NewSpaceSaving(p.slots()) },
		fold:     merging((*sketch.SpaceSaving).Merge),
		contract: func(p Params) Contract { return Contract{Over: 1 / float64(p.slots())} },
	}
}
