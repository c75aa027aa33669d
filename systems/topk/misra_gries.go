package topk

import "stampede/systems/internal/sketch"

// misraGries counts with a fixed number of counters that all lose one where a key finds none.
//
// The idea: sketch.MisraGries with 1/error counters.
//
// The guarantee: no estimate is too high, and none is more than error of the events too low.
//
// It gives up: exact counts. Where the keys are many and alike, counters come to nothing.
func misraGries() variant {
	return counted(estimating(variant{
		Name:       "misra_gries",
		Idea:       "1/error counters; where a key finds no free one, all lose one",
		Guarantees: "no estimate is too high, or too low by more than the error",
		GivesUp:    "exact counts",
	}), plan{summary: summary{
		empty:    func(p Params) sketch.Sketch { return sketch.NewMisraGries(p.slots()) },
		fold:     merging((*sketch.MisraGries).Merge),
		contract: func(p Params) Contract { return Contract{Under: 1 / float64(p.slots()+1)} },
	}})
}

// estimating completes a design that estimates.
func estimating(v variant) variant {
	v.NotApplicable = map[string]string{ExactAsSorted: "it estimates"}
	return v
}
