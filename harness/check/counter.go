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
// A number may be counted in regions that learn of each other's changes later.
// What a reader is told of another region than its own may have been true at
// any earlier moment.
//
// It keeps up to 32 bytes for each change and 48 for each read.
type Counter struct {
	Initial int64
	// Stale is how old a number may be that is read: the read counts as sent so much earlier.
	Stale time.Duration

	regions []*region
	reads   []reading
}

type reading struct {
	value      int64
	start, end time.Duration
	op         uint64
	region     int
}

// region is the changes that were made in one region.
type region struct {
	certainUp, certainDown, maybeUp, maybeDown changes
	// lowest and highest are the extremes of what the number may have been so far.
	lowest, highest changes
}

// Add adds an operation that changes the number by delta in a region, from 0. An operation of
// several attempts that takes effect once must be added once; see Operations.
func (n *Counter) Add(region int, delta int64, o Operation) {
	if !o.May() {
		return
	}
	in := n.region(region)
	certain, maybe := &in.certainUp, &in.maybeUp
	if delta < 0 {
		certain, maybe = &in.certainDown, &in.maybeDown
	}
	*maybe = append(*maybe, change{o.Start, delta})
	if o.Outcome == history.OK {
		*certain = append(*certain, change{o.End, delta})
	}
}

func (n *Counter) region(i int) *region {
	for len(n.regions) <= i {
		n.regions = append(n.regions, &region{})
	}
	return n.regions[i]
}

// Read adds a record that read value in a region; one that is not OK read nothing.
func (n *Counter) Read(region int, value int64, r *history.Record) {
	if r.Outcome == history.OK {
		n.reads = append(n.reads, reading{value, r.Start, r.End, r.Op.ID, region})
	}
}

// Check judges all reads, once. It returns how many of them had to see a change.
func (n *Counter) Check(c *Collector, object string) (bound int) {
	c.Checked(len(n.reads))
	for _, in := range n.regions {
		in.sum()
	}
	for _, r := range n.reads {
		low, high := n.bounds(r)
		if low > n.Initial {
			bound++
		}
		if r.value < low || r.value > high {
			c.Violate([]uint64{r.op}, "%s: read %d between %v and %v, %d to %d are possible",
				object, r.value, r.start, r.end, low, high)
		}
	}
	return bound
}

// bounds are the least and the most that a read may say.
func (n *Counter) bounds(r reading) (low, high int64) {
	low, high = n.Initial, n.Initial
	sent := r.start - n.Stale - 1 // equal times are concurrent
	for i, in := range n.regions {
		if i == r.region {
			low += in.certainUp.until(sent) + in.maybeDown.until(r.end)
			high += in.maybeUp.until(r.end) + in.certainDown.until(sent)
			continue
		}
		low += in.lowest.until(r.end)
		high += in.highest.until(r.end)
	}
	return low, high
}

// sum sums the changes up.
func (in *region) sum() {
	for _, cs := range []changes{in.certainUp, in.certainDown, in.maybeUp, in.maybeDown} {
		slices.SortFunc(cs, func(a, b change) int { return cmp.Compare(a.at, b.at) })
		for i := 1; i < len(cs); i++ {
			cs[i].delta += cs[i-1].delta
		}
	}
	in.lowest, in.highest = slices.Clone(in.maybeDown), slices.Clone(in.maybeUp)
	least, most := int64(0), int64(0)
	for i, c := range in.lowest {
		least = min(least, in.certainUp.until(c.at-1)+c.delta)
		in.lowest[i].delta = least
	}
	for i, c := range in.highest {
		most = max(most, in.certainDown.until(c.at-1)+c.delta)
		in.highest[i].delta = most
	}
}

// change is one change of a sum, or the sum after it.
type change struct {
	at    time.Duration
	delta int64
}

type changes []change

// until is the sum up to a time, inclusive.
func (cs changes) until(t time.Duration) int64 {
	i, _ := slices.BinarySearchFunc(cs, t, func(c change, t time.Duration) int {
		if c.at <= t {
			return -1
		}
		return 1
	})
	if i == 0 {
		return 0
	}
	return cs[i-1].delta
}
