package writeheavy

import "stampede/systems/internal/shed"

// shedAtDepth sheds when too many adds wait.
//
// The idea: a short queue before the store, and a shorter one for what is less important.
//
// The guarantee: that of row_at_a_time, and a wait that is bounded by the queue's length.
//
// It gives up: adds in each burst that is longer than the queue, also where the store would soon
// have had time for them.
func shedAtDepth() variant {
	return shedding(variant{Name: "shed_at_depth",
		Idea:    "adds beyond a short queue are refused, those of a low class first",
		GivesUp: "adds in any burst that is longer than the queue",
	}, none, func(p Params) *shed.Gate {
		return shed.Depth(p.ShedLimit, p.ShedQueue, p.ShedQueue/2, p.ShedQueue/4)
	})
}
