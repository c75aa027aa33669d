package check

import (
	"cmp"
	"slices"
	"time"
)

// Counted is how a count that has a limit rose above it.
type Counted struct {
	// What is counted, such as "units of item-1 sold".
	What  string `json:"what"`
	Limit int    `json:"limit"`
	// Before is how many there were before the first of Steps.
	Before int `json:"before,omitempty"`
	// Steps are in the order in which they became certain. Each adds one.
	Steps []CountedStep `json:"steps"`
}

// CountedStep is an operation that certainly took one of what is counted.
type CountedStep struct {
	// Op is the operation's identity (Op.ID); it was sent at StartNS and answered at AtNS.
	Op      uint64 `json:"op"`
	StartNS int64  `json:"start_ns"`
	AtNS    int64  `json:"at_ns"`
}

// maxSteps bounds the steps that are kept on either side of the limit.
const maxSteps = 1000

// CountUp sorts steps and keeps those around the limit, which they must exceed.
func CountUp(what string, limit int, steps []CountedStep) *Counted {
	slices.SortFunc(steps, func(a, b CountedStep) int {
		return cmp.Or(cmp.Compare(a.AtNS, b.AtNS), cmp.Compare(a.Op, b.Op))
	})
	from := max(0, limit-maxSteps)
	to := min(len(steps), limit+1+maxSteps)
	return &Counted{What: what, Limit: limit, Before: from, Steps: steps[from:to:to]}
}

// Crossing is the step that went above the limit.
func (c *Counted) Crossing() CountedStep { return c.Steps[c.Limit-c.Before] }

// Race returns two of the operations that overlapped each other, in the order in which they
// were sent: the one that went above the limit with the one that was sent nearest to it, or,
// if that overlapped none, the last two before it that did. Without any it is false.
func (c *Counted) Race() (first, second CountedStep, raced bool) {
	for at := c.Limit - c.Before; at >= 0; at-- {
		one, best := c.Steps[at], CountedStep{}
		for i, other := range c.Steps {
			if i == at || other.AtNS < one.StartNS || one.AtNS < other.StartNS {
				continue
			}
			if !raced || apart(one, other) < apart(one, best) {
				best, raced = other, true
			}
		}
		if raced && best.StartNS < one.StartNS {
			return best, one, true
		}
		if raced {
			return one, best, true
		}
	}
	return first, second, false
}

// apart is how far from each other two operations were sent.
func apart(a, b CountedStep) int64 { return max(a.StartNS-b.StartNS, b.StartNS-a.StartNS) }

// ViolateCount is Violate for a count that rose above its limit: the violation is dated by
// the operation that went above it, which proves it together with the operation that it
// raced and with ops. Only the first violation of a verdict keeps the count.
func (c *Collector) ViolateCount(counted *Counted, ops []uint64, format string, args ...any) {
	proof := []uint64{counted.Crossing().Op}
	add := func(op uint64) {
		if len(proof) < MaxProof && !slices.Contains(proof, op) {
			proof = append(proof, op)
		}
	}
	if first, second, raced := counted.Race(); raced {
		add(first.Op)
		add(second.Op)
	}
	for _, op := range ops {
		add(op)
	}
	before := len(c.out.Violations)
	c.violate(nil, time.Duration(counted.Crossing().AtNS), proof, format, args)
	if before == 0 && len(c.out.Violations) == 1 {
		c.out.Violations[0].Counted = counted
	}
}
