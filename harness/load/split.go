package load

import (
	"fmt"
	"time"

	"stampede/harness/history"
	"stampede/harness/sut"
)

// Part is one generator of several that offer one load together: operation i of the schedule is
// that of generator i mod Of, and what follows from an operation stays with it. The schedule is a
// pure function of the seed, so that each of them computes its part alone.
type Part struct {
	// Index counts from 0 and is below Of.
	Index, Of int
}

// String names the generator for people, "generator 3 of 4".
func (p Part) String() string { return fmt.Sprintf("generator %d of %d", p.Index+1, p.Of) }

// Plan is what this generator sends of a plan, in which Arrivals must be at its beginning: the
// same operations at the same times as in the whole, until the same end. It has its share of the
// operations that may be executed and of those that may wait. Closed-loop users have no schedule
// to split.
func (p Part) Plan(whole Plan) (Plan, error) {
	switch {
	case p.Of < 1 || p.Index < 0 || p.Index >= p.Of:
		return Plan{}, fmt.Errorf("load: there is no generator %d of %d, counted from 0", p.Index, p.Of)
	case whole.Arrivals == nil || whole.Workload == nil:
		return Plan{}, fmt.Errorf("load: %d generators need a schedule to split, and an operation "+
			"of a closed-loop user is due when the one before it has ended", p.Of)
	case whole.MaxInFlight < p.Of:
		return Plan{}, fmt.Errorf("load: %d operations in flight cannot be split among %d generators",
			whole.MaxInFlight, p.Of)
	}
	part := whole
	part.Arrivals = &everyNth{all: whole.Arrivals, part: p}
	part.MaxInFlight, part.Queue = p.share(whole.MaxInFlight), p.share(whole.Queue)
	own := ownOps{whole.Workload, p}
	part.Workload = own
	if resender, twice := whole.Workload.(sut.Resender); twice {
		part.Workload = resendingOps{own, resender}
	}
	return part, nil
}

// share is this generator's share of a number: all shares together are the number.
func (p Part) share(n int) int {
	share := n / p.Of
	if p.Index < n%p.Of {
		share++
	}
	return share
}

// ownOps are the operations of a workload that belong to a part.
type ownOps struct {
	sut.Workload
	part Part
}

func (w ownOps) Op(i uint64) history.Op {
	return w.Workload.Op(i*uint64(w.part.Of) + uint64(w.part.Index))
}

// resendingOps also sends some of them twice.
type resendingOps struct {
	ownOps
	sut.Resender
}

// everyNth are the arrivals of a part.
type everyNth struct {
	all   Arrivals
	part  Part
	begun bool
	last  time.Duration
}

// Next implements Arrivals.
func (e *everyNth) Next() (due time.Duration, ok bool) {
	others := e.part.Of - 1
	if !e.begun {
		e.begun, others = true, e.part.Index
	}
	for range others + 1 {
		if due, ok = e.all.Next(); !ok {
			return 0, false
		}
		e.last = due
	}
	return due, true
}

// ending is implemented by arrivals that are a part of a schedule, which ends later than they do.
type ending interface {
	// Last is the last due time of the whole schedule, after Next has returned false.
	Last() time.Duration
}

// Last implements ending.
func (e *everyNth) Last() time.Duration { return e.last }

// lastDue is the last due time of a schedule of which the last arrival was due at one time, and
// which began at another.
func lastDue(a Arrivals, start, own time.Duration) time.Duration {
	if e, part := a.(ending); part {
		return max(own, start+e.Last())
	}
	return own
}
