package positions

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"stampede/harness/api"
	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/sut"
)

// The invariants.
const (
	AckedKept        = "acked-kept"
	NewestAsHistory  = "newest-as-history"
	LatestNeverFalls = "latest-never-falls"
	ShownInTime      = "shown-in-time"
	ErasedForGood    = "erased-for-good"
	OthersUntouched  = "others-untouched"
)

// leastTogether is how many operations must overlap an erasure of their driver.
const leastTogether = 10

// historyFact is the table of facts: the history.
const historyFact = "position"

// invariants are what must be true of every design. Of a driver whose erasure may have been asked
// for, nothing has to be there.
func invariants(p Params) []check.Invariant {
	s := check.Subject{Read: check.Audited(api.DecodeAudit[Audit], facts)}
	kept := check.Effects{Table: historyFact, Kind: check.Named(KindPing), AtRest: true,
		Excused: erasedAmong(p)}
	return []check.Invariant{
		s.State(AckedKept, "an acknowledged ping is in the history, once, with the position that was "+
			"sent, and nothing else is there", check.AckedDurable(kept), check.NoPhantom(kept),
			check.AtMostOnce(historyFact, check.ByKey|check.ByThing), knowing(p, asSent)),
		s.State(NewestAsHistory, "when all is at rest, the newest position of a driver is the one with "+
			"the highest number in the history", knowing(p, newestMatches)),
		s.State(LatestNeverFalls, "nobody is shown an older position than somebody was before, unless "+
			"Redis has lost its memory meanwhile, or one that was not sent; and a track lacks none that "+
			"one before it had", knowing(p, neverFalling)),
		s.State(ShownInTime, "what was acknowledged some time ago is shown to riders and in tracks",
			knowing(p, shownInTime)),
		s.State(ErasedForGood, "once an erasure is answered, no position of the driver is read any "+
			"more, and none can be read in any place", knowing(p, noneReadable)),
		s.State(OthersUntouched, "nobody is treated as erased, or as unknown, who is not, and each "+
			"place has the positions of all others", knowing(p, othersKept)),
	}
}

// facts reads an audit as tables.
func facts(a *Audit) check.Facts {
	a.seen = &seen{drivers: map[string]*seenDriver{}, api: API()}
	if a.History == nil {
		return check.Facts{}
	}
	rows := make([]check.Fact, len(a.History))
	for i, r := range a.History {
		rows[i] = check.Fact{Op: r.ID, Key: nameOf(r.Driver), Thing: r.Seq}
	}
	return check.Facts{Tables: []*check.Table{check.TableOf(historyFact, rows)}}
}

// nameOf is a driver as Op.Key has it, driverOf the driver of a name.
func nameOf(driver uint64) string { return fmt.Sprintf("driver-%d", driver) }

func driverOf(key string) (driver uint64) {
	_, _ = fmt.Sscanf(key, "driver-%d", &driver)
	return driver
}

// erasedAmong says which pings are of drivers whose erasure may have been asked for.
func erasedAmong(p Params) func(*check.Run) func(op uint64) bool {
	return func(r *check.Run) func(op uint64) bool {
		gone := map[string]bool{}
		r.See(func(rec *history.Record) {
			gone[rec.Op.Key] = gone[rec.Op.Key] || rec.Outcome != history.Refused
		}, KindErase)
		return func(op uint64) bool { return gone[nameOf(pingOf(op)%uint64(p.Drivers)+1)] }
	}
}

// seen is what the history says of each driver.
type seen struct {
	drivers map[string]*seenDriver
	api     *api.Table[Tracker]
	slowest *time.Duration // nil until it is read
}

// seenDriver is what the history says of a driver.
type seenDriver struct {
	// pings are those that may be kept.
	pings []sighting
	// latest and tracks are what was read.
	latest []sighting
	tracks []sighting
	// refused are the operations that were told that the driver is erased or unknown.
	refused []sighting
	erasure check.Operations
}

// sighting is a ping, or what was read of one.
type sighting struct {
	op         uint64
	seq        int64 // the highest of a track
	start, end time.Duration
	acked      bool
	wrong      string
	bare       Point   // the last one that was read without a number
	seqs       []int64 // all of what was read, the highest first
	most       int     // how many a track may have; 0 for what is none
}

// has says whether a read shows a ping, or a newer one. A track shows all, from the oldest that it
// has on if it is full.
func (at sighting) has(seq int64) bool {
	if at.most == 0 {
		return seq <= at.seq
	}
	return slices.Contains(at.seqs, seq) ||
		len(at.seqs) >= at.most && seq < at.seqs[len(at.seqs)-1]
}

// driver is that of an operation.
func (s *seen) driver(key string) *seenDriver {
	if s.drivers[key] == nil {
		s.drivers[key] = &seenDriver{erasure: check.Operations{}}
	}
	return s.drivers[key]
}

// see takes a record in.
func (s *seen) see(rec *history.Record) {
	d := s.driver(rec.Op.Key)
	at := sighting{op: rec.Op.ID, start: rec.Start, end: rec.End, acked: rec.Outcome == history.OK}
	if sut.RefusedFor(rec, ErrErased) || sut.RefusedFor(rec, ErrUnknownDriver) {
		d.refused = append(d.refused, at)
	}
	switch {
	case rec.Op.Kind == KindErase:
		d.erasure.Add(rec)
	case rec.Op.Kind == KindPing && rec.Outcome != history.Refused:
		at.seq = rec.Op.Arg
		if at.acked && rec.Reply.Value != at.seq {
			at.wrong = fmt.Sprintf("ping %d was answered as %d", at.seq, rec.Reply.Value)
		}
		d.pings = append(d.pings, at)
	case rec.Outcome != history.OK:
	case rec.Op.Kind == KindLatest:
		var reply Point
		at.wrong = check.Misread(rec, &reply)
		at.shows(rec.Op.Key, reply)
		d.latest = append(d.latest, at)
	default:
		var reply Track
		at.wrong = check.Misread(rec, &reply)
		for i, p := range reply.Points {
			at.shows(rec.Op.Key, p)
			if p.Seq == 0 {
				at.wrong = "a track has a position without a number"
			}
			if i > 0 && reply.Points[i-1].Seq <= p.Seq {
				at.wrong = fmt.Sprintf("position %d comes after %d in a track", p.Seq, reply.Points[i-1].Seq)
			}
		}
		req, err := api.RequestOf[TrackRequest](s.api, rec.Op)
		at.most = req.Most
		if n := len(reply.Points); at.wrong == "" && (err != nil || n != reply.Found || n > at.most) {
			at.wrong = fmt.Sprintf("a track of %d positions is said to have %d, of %d at most", n,
				reply.Found, at.most)
		}
		d.tracks = append(d.tracks, at)
	}
}

// shows notes a position, and whether it is not where the driver was.
func (at *sighting) shows(key string, p Point) {
	if p.Seq == 0 {
		at.bare = p
		return
	}
	at.seqs, at.seq = append(at.seqs, p.Seq), max(at.seq, p.Seq)
	if was := whereabouts(driverOf(key), p.Seq); p != was {
		at.wrong = fmt.Sprintf("%s was read at %d, %d with number %d, and was at %d, %d", key, p.Lat,
			p.Lon, p.Seq, was.Lat, was.Lon)
	}
}

// erased is when the driver was certainly erased, and when that may first have been asked for;
// history.Never if not.
func (d *seenDriver) erased() (certain, asked time.Duration, by []uint64) {
	certain, asked = history.Never, history.Never
	for _, o := range d.erasure {
		if o.May() {
			asked = min(asked, o.Start)
		}
		if o.End < certain {
			certain, by = o.End, []uint64{o.ID}
		}
	}
	return certain, asked, by
}

// judged is a run that is judged, and what its history says.
type judged struct {
	*check.Run
	*Audit
	p Params
}

// knowing is a clause about an audit, once the history is read.
func knowing(p Params, judge func(j judged)) check.Clause {
	return check.OnAudit(func(r *check.Run, a *Audit) func() {
		if a.seen.slowest == nil { // the first of the clauses, which share one reading
			a.seen.slowest = r.Slowest()
			r.See(a.seen.see)
		}
		return func() {
			whole := true
			for list, there := range map[string]bool{"history": a.History != nil,
				"newest": a.Newest != nil, "places": a.Places != nil, "copies": a.Copies != nil} {
				r.Need(there, "the audit has no %s", list)
				whole = whole && there
			}
			if whole {
				judge(judged{r, a, p})
			}
		}
	})
}

// asSent compares positions with what was sent.
func asSent(j judged) {
	same := func(ops []uint64, row NewestRow) {
		j.Checked(1)
		if was := whereabouts(row.Driver, row.Seq); row.Lat != was.Lat || row.Lon != was.Lon {
			j.Violate(ops, "position %d of driver %d is kept as %d, %d, and was sent as %d, %d",
				row.Seq, row.Driver, row.Lat, row.Lon, was.Lat, was.Lon)
		}
	}
	sent := map[uint64]int64{}
	for _, d := range j.seen.drivers {
		for _, p := range d.pings {
			sent[p.op] = p.seq
		}
	}
	for _, row := range j.History {
		same([]uint64{row.ID}, row.shown())
		if seq, known := sent[row.ID]; known && seq != row.Seq {
			j.Violate([]uint64{row.ID}, "ping %d of driver %d is kept as number %d", seq, row.Driver,
				row.Seq)
		}
	}
	for _, row := range j.Newest {
		same(nil, row)
	}
	for _, key := range slices.Sorted(maps.Keys(j.seen.drivers)) {
		for _, at := range j.seen.drivers[key].pings {
			if at.wrong != "" {
				j.Violate([]uint64{at.op}, "%s: %s", key, at.wrong)
			}
		}
	}
}

// newestMatches compares the newest positions with the history.
func newestMatches(j judged) {
	best := map[uint64]PingRow{}
	for _, row := range j.History {
		if row.Seq > best[row.Driver].Seq {
			best[row.Driver] = row
		}
	}
	shown := map[uint64]bool{}
	for _, row := range j.Newest {
		j.Checked(1)
		last := best[row.Driver]
		ops := []uint64{last.ID}
		switch _, asked, _ := j.seen.driver(nameOf(row.Driver)).erased(); {
		case shown[row.Driver]:
			j.Violate(ops, "driver %d has two newest positions", row.Driver)
		case asked != history.Never: // the two may have forgotten one after the other
		case row.Seq < last.Seq:
			j.Unfinished(ops, "the newest position of driver %d is %d, and the history has %d", row.Driver,
				row.Seq, last.Seq)
		case row.Seq > last.Seq:
			j.Unfinished(ops, "the newest position of driver %d is %d, and the history has none after %d",
				row.Driver, row.Seq, last.Seq)
		}
		shown[row.Driver] = true
	}
	for driver, last := range best {
		_, asked, _ := j.seen.driver(nameOf(driver)).erased()
		if !shown[driver] && asked == history.Never {
			j.Unfinished([]uint64{last.ID}, "driver %d has no newest position, and the history has %d",
				driver, last.Seq)
		}
	}
	j.Need(len(shown) > 0, "no driver has a newest position")
}

// neverFalling compares what was shown of each driver with what was shown before.
func neverFalling(j judged) {
	var losses []history.Window
	for _, w := range j.Faults() {
		if check.Strikes(w, "redis", "power-loss") {
			losses = append(losses, w)
		}
	}
	var ages []time.Duration
	rose, tracks, tracked := false, 0, false
	for _, key := range slices.Sorted(maps.Keys(j.seen.drivers)) {
		d := j.seen.drivers[key]
		j.sent(key, d)
		rose = j.falls(key, d.latest, losses) || rose
		j.shrinks(key, d.tracks)
		tracks += len(d.tracks)
		tracked = tracked || slices.ContainsFunc(d.tracks, func(at sighting) bool { return at.seq > 0 })
		for _, at := range d.latest {
			if _, age := d.lacks(at); at.seq > 0 {
				ages = append(ages, age)
			}
		}
	}
	j.Need(len(ages) > 0, "no position was shown")
	j.Need(rose, "nobody was shown a newer position than somebody was before")
	j.Need(tracked || tracks == 0, "no track had a position")
	if len(ages) > 0 {
		slices.Sort(ages)
		j.Figure("age of what is shown, p99", "ms", float64(ages[len(ages)*99/100].Milliseconds()))
	}
}

// sent looks whether what was shown had been sent, with that position.
func (j judged) sent(key string, d *seenDriver) {
	from := map[int64]time.Duration{}
	for _, p := range d.pings {
		if at, known := from[p.seq]; !known || p.start < at {
			from[p.seq] = p.start
		}
	}
	for _, at := range slices.Concat(d.latest, d.tracks) {
		j.Checked(1)
		if at.wrong != "" {
			j.Violate([]uint64{at.op}, "%s", at.wrong)
		}
		for _, seq := range at.seqs {
			if begun, known := from[seq]; !known || begun > at.end {
				j.Violate([]uint64{at.op}, "%s was shown at %d before that was sent", key, seq)
			}
		}
	}
}

// falls looks for a read that shows an older position than one that had ended before it began, and
// returns whether one showed a newer position.
func (j judged) falls(
	key string, reads []sighting, losses []history.Window,
) (rose bool) {
	began, ended := slices.Clone(reads), slices.Clone(reads)
	slices.SortFunc(began, func(a, b sighting) int { return cmp.Compare(a.start, b.start) })
	slices.SortFunc(ended, func(a, b sighting) int { return cmp.Compare(a.end, b.end) })
	_, asked, _ := j.seen.driver(key).erased()
	var most sighting
	for _, at := range began {
		for len(ended) > 0 && ended[0].end < at.start {
			if ended[0].seq > most.seq {
				most = ended[0]
			}
			ended = ended[1:]
		}
		rose = rose || most.seq > 0 && at.seq > most.seq
		for _, w := range losses {
			// What was shown before, or while Redis was away, may be forgotten from then on.
			if at.end >= w.Start && most.start < w.Over() {
				most = sighting{}
			}
		}
		if at.seq < most.seq && asked > at.end {
			j.Violate([]uint64{most.op, at.op}, "%s was shown at %d until %v, and at %d from %v on", key,
				most.seq, most.end, at.seq, at.start)
		}
	}
	return rose
}

// shrinks looks for a track that lacks a position which a track that had ended before it began
// has. A track has the newest positions: all of the history, or as many as were asked for, of
// which the oldest is the last.
func (j judged) shrinks(key string, tracks []sighting) {
	began, ended := slices.Clone(tracks), slices.Clone(tracks)
	slices.SortFunc(began, func(a, b sighting) int { return cmp.Compare(a.start, b.start) })
	slices.SortFunc(ended, func(a, b sighting) int { return cmp.Compare(a.end, b.end) })
	_, asked, _ := j.seen.driver(key).erased()
	var had []int64 // in order
	by := map[int64]uint64{}
	for _, at := range began {
		for ; len(ended) > 0 && ended[0].end < at.start; ended = ended[1:] {
			for _, seq := range ended[0].seqs {
				if i, known := slices.BinarySearch(had, seq); !known {
					had, by[seq] = slices.Insert(had, i, seq), ended[0].op
				}
			}
		}
		must := had
		if len(at.seqs) > 0 && len(at.seqs) >= at.most {
			from, _ := slices.BinarySearch(had, at.seqs[len(at.seqs)-1])
			must = had[from:]
		}
		for _, seq := range must {
			if asked > at.end && !slices.Contains(at.seqs, seq) {
				j.Violate([]uint64{by[seq], at.op}, "%s: a track from %v on lacks position %d, which one "+
					"before it had", key, at.start, seq)
				break
			}
		}
	}
}

// lacks is the first acknowledged ping that a read does not have, and how long before it that was.
func (d *seenDriver) lacks(at sighting) (first sighting, age time.Duration) {
	for _, p := range d.pings {
		if p.acked && at.start-p.end > age && !at.has(p.seq) {
			first, age = p, at.start-p.end
		}
	}
	return first, age
}

// shownInTime looks for reads that lack a ping which was acknowledged long before, but for those of
// drivers whose erasure may have been asked for, and those after faults: readers of the log have to
// notice that one of them is gone, and what has piled up may take the promised time once more.
func shownInTime(j judged) {
	within, occasion := j.p.FreshWithin.D()+*j.seen.slowest, false
	for _, key := range slices.Sorted(maps.Keys(j.seen.drivers)) {
		d := j.seen.drivers[key]
		_, asked, _ := d.erased()
		for _, at := range slices.Concat(d.latest, d.tracks) {
			if asked <= at.end ||
				check.Disturbed(j.Faults(), j.p.SessionTimeout.D()+2*within, at.start, at.end) {
				continue
			}
			j.Checked(1)
			_, longest := d.lacks(sighting{start: at.start})
			occasion = occasion || longest > within
			if first, age := d.lacks(at); age > within {
				j.LateAt(at.end, []uint64{first.op, at.op}, "%s was shown at %d from %v on, without ping %d, "+
					"acknowledged %v before", key, at.seq, at.start, first.seq, age)
			}
		}
	}
	j.NeedTimely(occasion, "nobody asked where a driver was %v after a ping, outside faults", within)
}

// noneReadable looks for positions of drivers whose erasure was answered.
func noneReadable(j judged) {
	exercised, asked, refused, together := false, 0, 0, 0
	copies := map[uint64][]CopyRow{}
	for _, row := range j.Copies {
		copies[row.Driver] = append(copies[row.Driver], row)
	}
	rows := map[uint64][]NewestRow{}
	for _, row := range j.History {
		rows[row.Driver] = append(rows[row.Driver], row.shown())
	}
	for _, row := range j.Newest {
		rows[row.Driver] = append(rows[row.Driver], row)
	}
	for driver := uint64(1); driver <= uint64(j.p.Drivers); driver++ {
		key := nameOf(driver)
		d := j.seen.driver(key)
		for _, o := range d.erasure {
			asked++
			if o.Outcome == history.Refused {
				refused++
			}
			for _, at := range slices.Concat(d.pings, d.latest, d.tracks, d.refused) {
				if at.start < o.End && at.end > o.Start && at.end < history.Never && o.End < history.Never {
					together++
				}
			}
		}
		certain, _, by := d.erased()
		if certain == history.Never {
			continue
		}
		j.Checked(1)
		for _, at := range slices.Concat(d.latest, d.tracks) {
			if at.start > certain && (at.seq > 0 || d.pinged(driver, at.bare)) {
				j.ViolateAt(at.end, append(slices.Clone(by), at.op), "%s was read at %d from %v on, and was "+
					"erased at %v", key, at.seq, at.start, certain)
			}
		}
		for _, row := range rows[driver] {
			j.Violate(by, "position %d of %s can be read in the history or "+
				"among the newest, and was erased at %v", row.Seq, key, certain)
		}
		for _, row := range copies[driver] {
			if row.Readable > 0 {
				j.Violate(by, "%d positions of %s can be read in the %s, and were erased at %v", row.Readable,
					key, row.Place, certain)
			}
		}
		exercised = exercised || slices.ContainsFunc(d.pings, func(p sighting) bool {
			return p.acked && p.end < certain
		})
	}
	j.Need(exercised, "no driver was erased who had a position")
	j.Need(together >= leastTogether, "%d operations overlapped an erasure of their driver; at least "+
		"%d are needed", together, leastTogether)
	j.Figure("erasures refused", "%", 100*float64(refused)/float64(asked))
}

// pinged says whether a position is one that the driver has sent.
func (d *seenDriver) pinged(driver uint64, at Point) bool {
	return slices.ContainsFunc(d.pings, func(p sighting) bool {
		was := whereabouts(driver, p.seq)
		return was.Lat == at.Lat && was.Lon == at.Lon
	})
}

// othersKept looks whether drivers who were not erased are treated as if they were.
func othersKept(j judged) {
	has := map[CopyRow]int64{}
	for _, row := range j.Copies {
		has[CopyRow{Place: row.Place, Driver: row.Driver}] += row.Readable
		if !slices.Contains(j.Places, row.Place) {
			j.Violate(nil, "the audit has copies in the %q, which is none of its places", row.Place)
		}
	}
	kept := map[uint64]int64{}
	for _, row := range j.History {
		kept[row.Driver]++
	}
	others, partly := 0, map[string]bool{}
	for driver := uint64(1); driver <= uint64(j.p.Drivers); driver++ {
		key := nameOf(driver)
		d := j.seen.driver(key)
		_, asked, _ := d.erased()
		for _, at := range d.refused {
			if at.end < asked {
				j.Violate([]uint64{at.op}, "%s was treated as erased or unknown at %v, and nobody had asked "+
					"for that", key, at.end)
			}
		}
		if asked != history.Never || kept[driver] == 0 {
			continue
		}
		others++
		j.Checked(1 + len(j.Places))
		for _, place := range j.Places {
			n := has[CopyRow{Place: place, Driver: driver}]
			if slices.Contains(j.Partial, place) && n <= max(kept[driver], d.mayBeKept()) {
				partly[place] = partly[place] || n > 0
				continue
			}
			if n != kept[driver] {
				j.Unfinished(d.someOps(), "%d positions of %s can be read in the %s, and %d in the history", n,
					key, place, kept[driver])
			}
		}
	}
	j.Need(others > 0, "no driver was left with positions")
	for _, place := range j.Partial {
		j.Need(partly[place], "nothing of a driver who was not erased can be read in the %s: what "+
			"cannot be read at all shows no erasure", place)
	}
}

// mayBeKept is how many of the driver's pings may be kept, each once.
func (d *seenDriver) mayBeKept() int64 {
	ops := map[uint64]bool{}
	for _, at := range d.pings {
		ops[at.op] = true
	}
	return int64(len(ops))
}

// someOps are some pings of a driver.
func (d *seenDriver) someOps() (ops []uint64) {
	for _, p := range d.pings[:min(3, len(d.pings))] {
		ops = append(ops, p.op)
	}
	return ops
}
