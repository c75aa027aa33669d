package writeheavy

import "stampede/systems/internal/shed"

// shedAdaptively finds out how many adds the store can work on at a time.
//
// The idea: as long as adds take no longer than a target, one more may be under way; when one takes
// longer, fewer may (AIMD). Beyond that it sheds at the depth of a queue.
//
// The guarantee: that of row_at_a_time. Nobody must know what the store can do, and it may change.
//
// It gives up: some throughput, as it keeps trying what is too much.
func shedAdaptively() variant {
	return shedding(variant{Name: "shed_adaptively",
		Idea:    "more and more adds are under way until they take longer than a target, and then fewer",
		GivesUp: "some throughput: it finds the limit by going over it",
	}, none, func(p Params) *shed.Gate {
		return shed.Adaptive(p.ShedLimit, 8*p.ShedLimit, p.ShedTarget.D(), p.ShedQueue, p.ShedQueue/2,
			p.ShedQueue/4)
	})
}
