package check

import (
	"cmp"
	"slices"
	"time"

	"stampede/harness/history"
)

// VersionChange is an operation that made a new version of a thing.
type VersionChange struct {
	Op uint64
	// End is history.Never if it was not acknowledged.
	Start, End time.Duration
	// Version is what it made, 0 if nobody knows.
	Version int64
	// Within is how soon after its end everybody is promised to see it; 0 is at once.
	Within time.Duration
}

// Unanswered says that a change was not acknowledged.
func (v VersionChange) Unanswered() bool { return v.End == history.Never }

// VersionSight is an operation that was shown a version of a thing, 0 for one without changes.
type VersionSight struct {
	Op         uint64
	Start, End time.Duration
	Version    int64
}

// VersionsInOrder requires that a change of a thing has a higher version than those that were
// acknowledged before it began. It returns how many changes it could compare.
func (c *Collector) VersionsInOrder(thing string, changes []VersionChange) (pairs int) {
	began := slices.SortedFunc(slices.Values(changes), func(a, b VersionChange) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.Op, b.Op))
	})
	ended := slices.DeleteFunc(slices.Clone(changes), VersionChange.Unanswered)
	slices.SortFunc(ended, func(a, b VersionChange) int { return cmp.Compare(a.End, b.End) })
	var high VersionChange
	for _, v := range began {
		for len(ended) > 0 && ended[0].End < v.Start {
			if ended[0].Version > high.Version {
				high = ended[0]
			}
			ended = ended[1:]
		}
		if v.Version == 0 || high.Version == 0 {
			continue
		}
		pairs++
		c.Checked(1)
		if v.Version <= high.Version {
			c.Violate([]uint64{high.Op, v.Op}, "%s: a change of %v has version %d, and one that was "+
				"acknowledged at %v has %d", thing, v.Start, v.Version, high.End, high.Version)
		}
	}
	return pairs
}

// Freshness requires that changes are seen when it was promised. A promise of at once is kept
// whatever happens. A later one may be late, and what was seen may be gone for a while, because of
// a fault: until that is over, and for five seconds, Notice and the promised time after that;
// beyond, it is a promise of time: see LateAt. A replica that lags is no such fault: who promises
// must know how old its data is.
type Freshness struct {
	*Collector
	// Notice is how long readers of a log need to notice that one of them is gone.
	Notice time.Duration
	// Slack is added to each promise that is not of at once: no store is faster than it is.
	Slack time.Duration
	// Patience is how old changes are that NeedMost expects, whatever was promised.
	Patience time.Duration
	// Looks counts the sights after a change had to be seen.
	Looks int

	faults   []history.Window // by their start, once they are read
	had, old int              // changes older than Patience, over all sights
}

// NeedMost leaves runs open whose sights had hardly anything: a promise that is never due says
// nothing. A right server lacks the newest changes at most. A quarter is enough, because a fault
// may keep it from showing more for a long time.
func (f *Freshness) NeedMost() {
	f.Need(4*f.had >= f.old, "what was shown had %d of the %d changes that were acknowledged %v "+
		"before; a quarter is needed", f.had, f.old, f.Patience)
}

// count adds the changes that sights should have, and those that they have. Versions may be in
// another order than acknowledgements, so that these are no more than that.
func (f *Freshness) count(acked []promised, shown []VersionSight) {
	ends, versions := make([]time.Duration, len(acked)), make([]int64, len(acked))
	for i, v := range acked {
		ends[i], versions[i] = v.End, v.Version
	}
	slices.Sort(ends)
	slices.Sort(versions)
	for _, at := range shown {
		old, _ := slices.BinarySearch(ends, at.Start-f.Patience)
		had, _ := slices.BinarySearch(versions, at.Version+1)
		f.had, f.old = f.had+min(had, old), f.old+old
	}
}

// due is when a change must be seen.
func (f *Freshness) due(v VersionChange) time.Duration {
	if v.Within == 0 {
		return v.End
	}
	return v.End + v.Within + f.Slack
}

// excused is until when a change need not be seen because of a fault.
func (f *Freshness) excused(v VersionChange, w history.Window) time.Duration {
	return w.Over() + 5*time.Second + f.Notice + f.due(v) - v.End
}

// owed is from when on a change has to be seen, unless a fault comes after that.
func (f *Freshness) owed(v VersionChange) time.Duration {
	until := f.due(v)
	for _, w := range f.faults {
		if excused := f.excused(v, w); w.Start <= until && excused >= f.due(v) {
			until = max(until, excused)
		}
	}
	return until
}

// shaken says whether a change may be missing from what was shown because of a fault.
func (f *Freshness) shaken(v VersionChange, at VersionSight) bool {
	return slices.ContainsFunc(f.faults, func(w history.Window) bool {
		return w.Start <= at.End && at.Start <= f.excused(v, w)
	})
}

// promised is a change, and from when on it must be seen.
type promised struct {
	VersionChange
	from time.Duration
}

// Look compares what was shown of a thing with the changes of it that had to be seen by then.
func (f *Freshness) Look(thing string, changes []VersionChange, shown []VersionSight) {
	if f.faults == nil {
		f.faults = slices.DeleteFunc(slices.Clone(f.Faults()), func(w history.Window) bool {
			return Strikes(w, "replica", "lag")
		})
		slices.SortFunc(f.faults, func(a, b history.Window) int { return cmp.Compare(a.Start, b.Start) })
	}
	var acked []promised
	for _, v := range changes {
		switch {
		case v.Unanswered():
		case v.Within == 0:
			acked = append(acked, promised{v, v.End})
		default:
			acked = append(acked, promised{v, f.owed(v)})
		}
	}
	f.count(acked, shown)
	slices.SortFunc(acked, func(a, b promised) int { return cmp.Compare(a.from, b.from) })
	shown = slices.SortedFunc(slices.Values(shown), func(a, b VersionSight) int {
		return cmp.Compare(a.Start, b.Start)
	})
	var now, later promised // the highest of those promised for at once, and for later
	for _, at := range shown {
		for len(acked) > 0 && acked[0].from < at.Start {
			into := &later
			if acked[0].Within == 0 {
				into = &now
			}
			if acked[0].Version > into.Version {
				*into = acked[0]
			}
			acked = acked[1:]
		}
		if max(now.Version, later.Version) == 0 {
			continue
		}
		f.Looks++
		f.Checked(1)
		switch v := at.Version; {
		case v < now.Version:
			f.ViolateAt(at.End, []uint64{now.Op, at.Op}, "%s was shown version %d from %v on, and %d "+
				"was acknowledged at %v as visible", thing, v, at.Start, now.Version, now.End)
		case v < later.Version && !f.shaken(later.VersionChange, at):
			f.LateAt(at.End, []uint64{later.Op, at.Op}, "%s was shown version %d from %v on, and %d "+
				"was acknowledged at %v, to be visible within %v", thing, v, at.Start, later.Version,
				later.End, later.Within)
		}
	}
}
