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

// monotoneCounts compares every read with those that had returned before it was
// sent, and with what is there at the end.
func monotoneCounts(j *judging) func() {
	byVideo := make(map[string][]countRead)
	j.See(func(rec *history.Record) {
		switch rec.Outcome {
		case history.Unknown:
			j.AllowedUnknown(1)
		case history.OK:
			generation, err := strconv.ParseInt(rec.Reply.Key, 10, 64)
			if err != nil {
				j.Fail("a read of %s names the generation %q, which is no number", rec.Op.Key, rec.Reply.Key)
			}
			byVideo[rec.Op.Key] = append(byVideo[rec.Op.Key], countRead{rec.Start, rec.End,
				generation, rec.Reply.Value, rec.Op.ID})
		}
	}, KindViews)
	return func() {
		live := make(map[int64]bool)
		for _, g := range j.t.Generations {
			live[g.Generation] = g.Live
		}
		shown := make(map[Views]int64) // without the count
		for _, t := range j.t.Totals {
			shown[Views{Video: t.Video, Generation: t.Generation}] = t.Shown
		}
		highest, compared := int64(0), 0
		for video, reads := range byVideo {
			for _, r := range reads {
				highest = max(highest, r.views)
				if !live[r.generation] {
					j.Violate([]uint64{r.op}, "%s was read from generation %d, which never went live", video,
						r.generation)
				}
				if last := shown[Views{Video: video, Generation: r.generation}]; r.views > last {
					j.Violate([]uint64{r.op}, "%s: a read of generation %d gave %d, more than its final count "+
						"of %d", video, r.generation, r.views, last)
				}
			}
			compared += monotone(j, video, reads)
		}
		j.Need(highest > 0, "no read returned a view")
		j.Need(compared > 0, "no read followed another of the same video")
		j.Note("%d reads followed another of the same video, and none was lower", compared)
	}
}

// monotone compares the reads of one video; it returns how many it could.
func monotone(j *judging, video string, reads []countRead) (compared int) {
	slices.SortFunc(reads, func(a, b countRead) int { return cmp.Compare(a.start, b.start) })
	returned := slices.Clone(reads)
	slices.SortFunc(returned, func(a, b countRead) int { return cmp.Compare(a.end, b.end) })
	var before *countRead // the highest that had returned
	next := 0
	j.Checked(len(reads))
	for i := range reads {
		r := &reads[i]
		for ; next < len(returned) && returned[next].end < r.start; next++ {
			if before == nil || newer(&returned[next], before) {
				before = &returned[next]
			}
		}
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

// sightings are when each view that is in valid_events was first sent, and acknowledged,
// Never if it was not.
type sightings struct{ sent, acked map[uint64]time.Duration }

func (j *judging) sightings() sightings {
	s := sightings{make(map[uint64]time.Duration), make(map[uint64]time.Duration)}
	for _, v := range j.t.accepted {
		s.sent[v.ID] = history.Never
	}
	j.See(func(rec *history.Record) {
		sent, is := s.sent[rec.Op.ID]
		if !is {
			return
		}
		s.sent[rec.Op.ID] = min(sent, rec.Start)
		acked, before := s.acked[rec.Op.ID]
		if rec.Outcome == history.OK && (!before || rec.End < acked) {
			s.acked[rec.Op.ID] = rec.End
		}
	}, KindHeartbeat)
	return s
}

// moments are times in order, without Never.
func moments(of map[uint64]time.Duration) (list []time.Duration) {
	for _, at := range of {
		if at != history.Never {
			list = append(list, at)
		}
	}
	slices.Sort(list)
	return list
}

// until counts the moments up to one.
func until(moments []time.Duration, at time.Duration) int64 {
	n, _ := slices.BinarySearch(moments, at+1)
	return int64(n)
}

// looks shows what the gauge saw.
func (j *judging) looks(seen *check.Watched, see func(s history.Sample, l *Look)) {
	for _, s := range j.Samples() {
		if !s.Seen() {
			seen.Gaps++
			continue
		}
		var l Look
		if err := json.Unmarshal(s.Body, &l); err != nil {
			j.Fail("the sample taken at %v cannot be read: %v", s.From, err)
			break
		}
		see(s, &l)
	}
	if seen.Judged > 0 {
		j.Watched(seen)
	}
}

// freshCounts looks whether what was acknowledged long enough ago is in the
// counts. The promise is visible_within, however slow the run's operations were. A fault
// excuses what is late until its target has answered again; then a consumer may have to wait
// for its partitions, and what has piled up has the promised time once more.
func freshCounts(j *judging) func() {
	seen := j.sightings()
	return func() {
		acked, promised := moments(seen.acked), j.p.VisibleWithin.D()
		grace := j.p.SessionTimeout.D() + 2*promised
		lag := check.Watched{Quantity: "lag of the partitions, lowest and highest", Unit: "records"}
		due := int64(0)
		j.Watched(&lag)
		j.looks(&lag, func(s history.Sample, l *Look) {
			excused := check.Disturbed(j.Faults(), grace, s.From, s.To)
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
		j.Need(len(j.Samples()) > 0, "the counts were not sampled during the load")
		j.NeedTimely(due > 0, "outside faults, no view was acknowledged more than %v before a sample",
			promised)
		j.Note("%d samples had every view that was acknowledged %v before, %d within %v of a fault were "+
			"excused; the slowest partition was %d records behind", lag.Judged, promised, lag.Excused,
			grace, lag.Highest)
	}
}

// lagOf is how many records the least and the most belated partition have to
// go through, both stages together.
func lagOf(l *Look) (low, high int64) {
	for p, n := range l.FilterLag {
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

// accuracy draws what readers saw against the batch recount of what was in the log at that time.
func (s sightings) accuracy(j *judging) {
	sent, acked := moments(s.sent), moments(s.acked)
	seen := check.Watched{Quantity: "streamed counts as a share of the batch recount", Unit: "%"}
	j.looks(&seen, func(s history.Sample, l *Look) {
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
}
