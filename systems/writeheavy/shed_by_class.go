package writeheavy

import "stampede/systems/internal/shed"

// shedByClass sheds by token buckets, refilled in order of importance.
//
// The idea: so many adds a second are admitted. What a class leaves over, the next one may have.
//
// The guarantee: that of row_at_a_time, and an important add is refused only while less important
// ones live on what they had saved.
//
// It gives up: what the store could do beyond the rate that somebody set, and protection where it
// can do less.
func shedByClass() variant {
	return shedding(variant{Name: "shed_by_class",
		Idea:    "a token bucket for each class, which has what more important ones leave",
		GivesUp: "a rate that somebody must know",
	}, func(p Params) []int64 {
		burst := int64(p.shedBurst())
		return []int64{burst, burst, burst}
	}, func(p Params) *shed.Gate {
		burst := p.shedBurst()
		return shed.Buckets(p.ShedLimit, p.ShedQueue, float64(p.ShedRate), burst, burst, burst)
	})
}

// shedBurst is what the bucket of a class has room for: 50 ms of the rate.
func (p Params) shedBurst() int { return max(1, p.ShedRate/20) }
