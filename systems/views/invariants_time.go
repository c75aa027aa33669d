package views

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"stampede/harness/check"
	"stampede/harness/history"
)

// countRead is a read of a count.
type countRead struct {
	start, end        time.Duration
	generation, views int64
	op                uint64
}

// judgeMonotone compares every read with those that had returned before it was
// sent.
func judgeMonotone(j *judging) {
	byVideo := make(map[string][]countRead)
	for rec := range j.Records(KindViews) {
		switch rec.Outcome {
		case history.Unknown:
			j.AllowedUnknown(1)
		case history.OK:
			generation, err := strconv.ParseInt(rec.Reply.Key, 10, 64)
			if err != nil {
				j.Fail("a read of %s names the generation %q, which is no number", rec.Op.Key, rec.Reply.Key)
				return
			}
			byVideo[rec.Op.Key] = append(byVideo[rec.Op.Key], countRead{rec.Start, rec.End,
				generation, rec.Reply.Value, rec.Op.ID})
		}
	}
	live := make(map[int64]bool)
	for _, g := range j.t.Generations {
		live[g.Generation] = g.Live
	}
	shown := make(map[string]map[int64]int64)
	for _, total := range j.t.Totals {
		if shown[total.Video] == nil {
			shown[total.Video] = make(map[int64]int64)
		}
		shown[total.Video][total.Generation] = total.Shown
	}
	highest, compared := int64(0), 0
	for video, reads := range byVideo {
		for _, r := range reads {
			highest = max(highest, r.views)
			if !live[r.generation] {
				j.Violate([]uint64{r.op}, "%s was read from generation %d, which never went live", video,
					r.generation)
			}
			if last := shown[video][r.generation]; r.views > last {
				j.Violate([]uint64{r.op}, "%s: a read of generation %d gave %d, more than its final count of "+
					"%d", video,
					r.generation, r.views, last)
			}
		}
		compared += monotone(j, video, reads)
	}
	j.Need(highest > 0, "no read returned a view")
	j.Need(compared > 0, "no read followed another of the same video")
	j.Note("%d reads followed another of the same video, and none was lower", compared)
}

// monotone compares the reads of one video; it returns how many it could.
func monotone(j *judging, video string, reads []countRead) (compared int) {
	slices.SortFunc(reads, func(a, b countRead) int { return cmp.Compare(a.start, b.start) })
	returned := slices.Clone(reads)
	slices.SortFunc(returned, func(a, b countRead) int { return cmp.Compare(a.end, b.end) })
	var before *countRead // the highest that had returned
	next := 0
	for i := range reads {
		r := &reads[i]
		for ; next < len(returned) && returned[next].end < r.start; next++ {
			if before == nil || newer(&returned[next], before) {
				before = &returned[next]
			}
		}
		j.Checked(1)
		if before == nil {
			continue
		}
		compared++
		switch {
		case r.generation < before.generation:
			j.Violate([]uint64{before.op, r.op}, "%s: a reader went back from generation %d to %d", video,
				before.generation, r.generation)
		case r.generation == before.generation && r.views < before.views:
			j.Violate([]uint64{before.op, r.op}, "%s was read as %d at %v and as %d at %v, in the same "+
				"generation", video, before.views, before.end, r.views, r.start)
		}
	}
	return compared
}

func newer(a, b *countRead) bool {
	return cmp.Or(cmp.Compare(a.generation, b.generation), cmp.Compare(a.views, b.views)) > 0
}

// sighting is when a view was first sent and when it was acknowledged.
type sighting struct{ sent, acked time.Duration }

// sightings are the moments at which views were sent, and acknowledged, in
// order: those that are in valid_events.
func (j *judging) sightings() (sent, acked []time.Duration) {
	views := make(map[uint64]bool, len(j.t.accepted))
	for _, v := range j.t.accepted {
		views[v.ID] = true
	}
	seen := make(map[uint64]sighting, len(views))
	for rec := range j.Records(KindHeartbeat) {
		if !views[rec.Op.ID] || rec.Outcome == history.Dropped {
			continue
		}
		s, known := seen[rec.Op.ID]
		if !known {
			s = sighting{history.Never, history.Never}
		}
		s.sent = min(s.sent, rec.Start)
		if rec.Outcome == history.OK {
			s.acked = min(s.acked, rec.End)
		}
		seen[rec.Op.ID] = s
	}
	for _, s := range seen {
		sent = append(sent, s.sent)
		if s.acked != history.Never {
			acked = append(acked, s.acked)
		}
	}
	slices.Sort(sent)
	slices.Sort(acked)
	return sent, acked
}

// until counts the moments up to one.
func until(moments []time.Duration, at time.Duration) int64 {
	n, _ := slices.BinarySearch(moments, at+1)
	return int64(n)
}

// looks yields what the gauge saw.
func (j *judging) looks(see func(s history.Sample, l *Look)) (gaps int) {
	for _, s := range j.Samples() {
		if !s.Seen() {
			gaps++
			continue
		}
		var l Look
		if err := json.Unmarshal(s.Body, &l); err != nil {
			j.Fail("the sample taken at %v cannot be read: %v", s.From, err)
			return gaps
		}
		see(s, &l)
	}
	return gaps
}

// excused says whether a look may be late because of a fault: the fault lasts
// until its target answered again; then a consumer may have to wait for its
// partitions, and what has piled up has the promised time once more.
func (j *judging) excused(s history.Sample) bool {
	grace := j.p.SessionTimeout.D() + 2*j.p.VisibleWithin.D()
	for _, f := range j.Faults() {
		if s.To >= f.Start && s.From <= max(f.End, f.Recovered)+grace {
			return true
		}
	}
	return false
}

// judgeFresh looks whether what was acknowledged long enough ago is in the
// counts. The promise is visible_within, however slow the run's operations were.
func judgeFresh(j *judging) {
	_, acked := j.sightings()
	promised := j.p.VisibleWithin.D()
	lag := check.Watched{Quantity: "lag of the partitions, lowest and highest",
		Unit: "records"}
	due := int64(0)
	lag.Gaps = j.looks(func(s history.Sample, l *Look) {
		excused := j.excused(s)
		low, high := lagOf(l)
		lag.Look(s.To, low, high, excused)
		if excused {
			return
		}
		j.Checked(1)
		should := until(acked, s.From-promised)
		due = max(due, should)
		if l.Shown < should {
			j.LateAt(s.To, nil, "at %v readers saw %d views, but %d had been acknowledged more than %v "+
				"before", s.To, l.Shown, should, promised)
		}
	})
	j.Watched(&lag)
	j.Need(len(j.Samples()) > 0, "the counts were not sampled during the load")
	j.NeedTimely(due > 0, "outside faults, no view was acknowledged more than %v before a sample",
		promised)
	j.Note("%d samples had every view that was acknowledged %v before, %d within %v of a fault were "+
		"excused; the slowest partition was %d records behind", lag.Judged,
		promised, lag.Excused,
		j.p.SessionTimeout.D()+2*j.p.VisibleWithin.D(), lag.Highest)
}

// lagOf is how many records the least and the most belated partition have to
// go through, both stages together.
func lagOf(l *Look) (low, high int64) {
	for p := range l.FilterLag {
		n := l.FilterLag[p]
		if p < len(l.CounterLag) {
			n += l.CounterLag[p]
		}
		if p == 0 {
			low = n
		}
		low, high = min(low, n), max(high, n)
	}
	return low, high
}

// accuracy draws what readers saw against the batch recount of what was in the
// log at that time.
func accuracy(j *judging) {
	sent, acked := j.sightings()
	seen := check.Watched{Quantity: "streamed counts as a share of the batch recount", Unit: "%"}
	seen.Gaps = j.looks(func(s history.Sample, l *Look) {
		least, most := until(acked, s.From), until(sent, s.To)
		if most == 0 {
			return
		}
		high := int64(100)
		if least > 0 {
			high = max(l.Shown*100/least, l.Shown*100/most)
		}
		seen.Look(s.To, l.Shown*100/most, high, false)
	})
	if seen.Judged > 0 {
		j.Watched(&seen)
	}
}

// dropsOverTime draws how many events were turned away.
func dropsOverTime(j *judging) {
	seen := check.Watched{Quantity: "rejected by the rules", Unit: "events"}
	seen.Gaps = j.looks(func(s history.Sample, l *Look) {
		n := int64(0)
		for _, events := range l.Dropped {
			n += events
		}
		seen.Look(s.To, n, n, false)
	})
	if seen.Judged > 0 {
		j.Watched(&seen)
	}
}
