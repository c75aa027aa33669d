package likes

import (
	"cmp"
	"slices"
	"sort"
	"time"

	"stampede/harness/history"
)

// judgeCounts is Jepsen's counter checker (jepsen.checker/counter) with
// decrements: a read lies between what was certainly added before it was sent
// less what may have been taken back until it returned, and the reverse. What
// changed the count is what the replies say; that they say it once for each
// user, one-like judges.
//
// A read that may be stale was sent that much earlier. What it says of regions
// other than the reader's may be true of any earlier moment.
func judgeCounts(j *judging) {
	videos := map[uint64]*activity{}
	of := func(video uint64) *activity {
		if videos[video] == nil {
			videos[video] = newActivity(j.a.Contract.Regions)
		}
		return videos[video]
	}
	first := j.firstAnswers()
	j.changes(func(rec *history.Record, who pairID) {
		certain := rec.Outcome == history.OK && first[rec.Op.ID] == rec.Seq
		of(who.video).change(rec, certain, home(who.user, j.a.Contract.Regions))
	})
	reads := 0
	for _, v := range videos {
		v.sort()
	}
	stale := time.Duration(j.a.Contract.StalenessNS)
	j.interactions(func(rec *history.Record, who pairID) {
		if rec.Outcome != history.OK {
			return
		}
		reads++
		j.Checked(1)
		low, high := of(who.video).bounds(home(who.user, j.a.Contract.Regions), rec.Start-stale, rec.End)
		if rec.Reply.Value < low || rec.Reply.Value > high {
			j.Violate([]uint64{rec.Op.ID}, "%s: read %d between %v and %v; %d to %d are possible",
				rec.Op.Key, rec.Reply.Value, rec.Start, rec.End, low, high)
		}
	}, KindCount)
	j.Need(reads > 0 || j.p.Reads == 0, "no count was read")
}

// activity is what was done to a video, by region.
type activity struct{ regions []*changeTimes }

func newActivity(regions int) *activity {
	a := &activity{}
	for range regions {
		a.regions = append(a.regions, &changeTimes{})
	}
	return a
}

// changeTimes are the moments from which changes were certain, and from which
// they were possible.
type changeTimes struct {
	certainUp, certainDown, maybeUp, maybeDown []time.Duration
	// lowest and highest are, for each entry of maybeDown and maybeUp, the
	// extremes of what the count may have been until then.
	lowest, highest []int64
}

func (a *activity) change(rec *history.Record, certain bool, region int) {
	c := a.regions[region]
	up := rec.Op.Kind == KindLike
	switch {
	case rec.Outcome == history.Refused, rec.Outcome == history.OK && rec.Reply.Value == 0:
		return
	case up:
		c.maybeUp = append(c.maybeUp, rec.Start)
	default:
		c.maybeDown = append(c.maybeDown, rec.Start)
	}
	switch {
	case !certain:
	case up:
		c.certainUp = append(c.certainUp, rec.End)
	default:
		c.certainDown = append(c.certainDown, rec.End)
	}
}

func (a *activity) sort() {
	for _, c := range a.regions {
		for _, times := range [][]time.Duration{c.certainUp, c.certainDown, c.maybeUp, c.maybeDown} {
			slices.Sort(times)
		}
		least, most := int64(0), int64(0)
		for i, t := range c.maybeDown {
			least = min(least, before(c.certainUp, t)-int64(i+1))
			c.lowest = append(c.lowest, least)
		}
		for i, t := range c.maybeUp {
			most = max(most, int64(i+1)-before(c.certainDown, t))
			c.highest = append(c.highest, most)
		}
	}
}

// bounds are the least and the most that a reader of a region may be told between
// two moments.
func (a *activity) bounds(region int, from, to time.Duration) (low, high int64) {
	for i, c := range a.regions {
		if i == region {
			low += before(c.certainUp, from) - until(c.maybeDown, to)
			high += until(c.maybeUp, to) - before(c.certainDown, from)
			continue
		}
		low += at(c.lowest, until(c.maybeDown, to))
		high += at(c.highest, until(c.maybeUp, to))
	}
	return low, high
}

// at is the n-th of the extremes, from 1; before the first it is 0.
func at(extremes []int64, n int64) int64 {
	if n == 0 {
		return 0
	}
	return extremes[n-1]
}

// before counts the times before t; equal times are concurrent.
func before(times []time.Duration, t time.Duration) int64 {
	i, _ := slices.BinarySearchFunc(times, t, cmp.Compare[time.Duration])
	return int64(i)
}

// until counts the times up to t, inclusive.
func until(times []time.Duration, t time.Duration) int64 {
	return int64(sort.Search(len(times), func(i int) bool { return times[i] > t }))
}
