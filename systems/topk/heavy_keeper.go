package topk

import (
	"math"

	"stampede/systems/internal/sketch"
)

// heavyKeeper counts in buckets of one key each, from which other keys drive it out if it is light.
//
// The idea: sketch.HeavyKeeper with two rows of 4/error buckets.
//
// The guarantee: no estimate is too high, and few are more than error of the events too low.
//
// It gives up: light keys, of which it knows nothing.
func heavyKeeper() variant {
	return counted(estimating(variant{
		Name:       "heavy_keeper",
		Idea:       "buckets of one key each; others make its count decay, the faster the lower it is",
		Guarantees: "no estimate is too high, and few are too low by more than the error",
		GivesUp:    "light keys",
	}), plan{summary: summary{
		empty: func(p Params) sketch.Sketch {
			return sketch.NewHeavyKeeper(int(math.Ceil(4/p.Error)), 2, 2*p.slots())
		},
		fold:     merging((*sketch.HeavyKeeper).Merge),
		contract: func(p Params) Contract { return Contract{Under: p.Error, Misses: p.Misses} },
	}})
}
