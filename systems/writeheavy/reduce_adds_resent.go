package writeheavy

import "stampede/harness/sut"

// reduceAddsResent adds a partial sum that is sent again once more. It is wrong if a reply is lost.
//
// The idea: reduce_tree, whose middle takes in whatever is sent to it. An edge that has no reply
// sends its window again, under the same sequence, at which nobody looks.
//
// The guarantee: nothing that left its edge is lost.
//
// It gives up: that a sum is counted once.
func reduceAddsResent() variant {
	return treeOf(variant{Name: "reduce_adds_resent",
		Idea:       "reduce_tree, whose middle does not look whether it had a partial sum before",
		Guarantees: "what left its edge is not lost",
		GivesUp:    "that a partial sum is counted once, when its reply was lost",
		Breaks:     []sut.Break{{Invariant: OncePerOp, Under: sut.LostAck}},
		Model:      modelled(func(m *countersModel) { m.reduces(false) }),
	}, luaTake)
}
