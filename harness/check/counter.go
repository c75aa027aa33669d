package check

import (
	"cmp"
	"slices"
	"time"

	"stampede/harness/history"
)

// Counter checks reads of a number that operations add to and subtract from
// while some of their outcomes are unknown: Jepsen's counter checker
// (jepsen.checker/counter) with decrements. A read must lie between
//
//	initial + added for certain before - possibly subtracted
//	initial + possibly added           - subtracted for certain before
//
// where "for certain before" was acknowledged before the read was sent, and
// "possibly" was sent before the read returned and not refused. It is sound
// but not complete: a wrong read within the bounds passes.
//
// It keeps up to 32 bytes for each change and each read.
type Counter struct {
	Initial int64

	certainUp, certainDown, maybeUp, maybeDown changes

	reads   []reading
	unknown int
}

type reading struct {
	value      int64
	start, end time.Duration
	op         uint64
}

// Add adds an operation that changes the number by delta. An operation of
// several attempts that takes effect once must be added once; see Operations.
func (n *Counter) Add(delta int64, o Operation) {
	if !o.May() {
		return
	}
	certain, maybe := &n.certainUp, &n.maybeUp
	if delta < 0 {
		certain, maybe = &n.certainDown, &n.maybeDown
	}
	*maybe = append(*maybe, change{o.Start, delta})
	if o.Outcome == history.OK {
		*certain = append(*certain, change{o.End, delta})
	} else {
		n.unknown++
	}
}

// Read adds a record that read value; one that is not OK read nothing.
func (n *Counter) Read(value int64, r *history.Record) {
	if r.Outcome == history.OK {
		n.reads = append(n.reads, reading{value, r.Start, r.End, r.Op.ID})
	}
}

// Check judges all reads.
func (n *Counter) Check(c *Collector, object string) {
	c.Checked(len(n.reads))
	c.AllowedUnknown(n.unknown)
	certainUp, certainDown := n.certainUp.cumulate(), n.certainDown.cumulate()
	maybeUp, maybeDown := n.maybeUp.cumulate(), n.maybeDown.cumulate()
	for _, r := range n.reads {
		before := r.start - 1 // equal times are concurrent
		low := n.Initial + certainUp.sum(before) + maybeDown.sum(r.end)
		high := n.Initial + maybeUp.sum(r.end) + certainDown.sum(before)
		if r.value < low || r.value > high {
			c.Violate([]uint64{r.op}, "%s: read %d between %v and %v, %d to %d are possible",
				object, r.value, r.start, r.end, low, high)
		}
	}
}

// change is one change of a sum.
type change struct {
	at    time.Duration
	delta int64
}

type changes []change

// cumulate sorts the changes by time and sums them up.
func (cs changes) cumulate() ramp {
	r := slices.SortedFunc(slices.Values(cs), func(a, b change) int { return cmp.Compare(a.at, b.at) })
	for i := 1; i < len(r); i++ {
		r[i].delta += r[i-1].delta
	}
	return r
}

// ramp is a sum over time: each delta is the sum of all changes up to it.
type ramp []change

// sum is the sum of all changes up to a time, inclusive.
func (r ramp) sum(until time.Duration) int64 {
	i, _ := slices.BinarySearchFunc(r, until, func(c change, t time.Duration) int {
		if c.at <= t {
			return -1
		}
		return 1
	})
	if i == 0 {
		return 0
	}
	return r[i-1].delta
}
