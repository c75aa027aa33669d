package views

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// oracle decides again, from the logs alone, what the filter has decided. It
// shares the rules' data with the filter and none of its code.
//
// All that depends on one event or one session is a function of the log. Which of the candidates in
// a window pass depends on the order in which partitions were read; that as many as may pass do
// pass, and that whoever was turned away found the window full, does not.
//
// Where Redis lost its memory, every partition has one place at which its decisions begin anew: the
// filter decides a partition in its order, and stores what it decided before it goes on. So where a
// session was judged twice, or a window has more views of a partition than may pass, such a place
// lies between the two; and there are no more of them than losses. The other way round, an event
// may have been turned away for others that were decided anew afterwards, and were turned away
// themselves.
type oracle struct {
	*truth
	// losses is how often Redis lost its memory, lossEnd when that was over the
	// last time; sent is when each heartbeat was sent first, known when the history has been read.
	losses  int
	lossEnd time.Duration
	sent    map[uint64]time.Duration
	// over are views beyond the rules, under events that are turned away for
	// others that do not count; both only after losses.
	over, under int64
	// anew are the stretches in each of which a partition's decisions began anew.
	anew []stretch
	// expected counts, by video and reason, what must have been turned away
	// for that reason; repeat and ip-rate are not among them.
	expected map[videoReason]int64
	// candidates are the events that reach their session's judgement.
	candidates []*candidacy
	// repeats and rates are the windows of the two rules that many share.
	repeats, rates map[string]*allowance
	rejected       []*candidacy
	// again are views of sessions that were judged before.
	again []*candidacy
}

// stretch is where Redis lost its memory: after one place of a partition, and
// at another one at the latest.
type stretch struct {
	partition   int32
	after, upTo int64
	op          uint64
}

type videoReason struct{ video, reason string }

// place is an event's partition and its place there.
type place struct {
	partition int32
	in        int64
}

// candidacy is an event that no rule turns away by itself, the first one of its session.
type candidacy struct {
	place
	event        *Logged
	accepted     bool
	repeat, rate *allowance
	limit        int64 // of the address by this event's rules
	after        int64 // where its session was judged before, if it was
}

// allowance is a window of a rule: so many may pass.
type allowance struct {
	name     string
	limit    int64
	accepted []place
	events   []uint64
	// asked are all that may have been judged by it, also after a loss.
	asked []place
}

// join adds a place, counted or not.
func (a *allowance) join(at place, e *Logged, accepted bool) {
	a.asked = append(a.asked, at)
	if accepted {
		a.accepted, a.events = append(a.accepted, at), append(a.events, e.ID)
	}
}

// before counts those of a list that may have been decided before c: whoever
// comes later in its own partition was decided later.
func (c *candidacy) before(list []place) (n int64) {
	for _, p := range list {
		if p.partition != c.partition || p.in < c.in {
			n++
		}
	}
	return n
}

// consult decides everything, up to an event of rules that do not exist.
func consult(t *truth, losses int, lossEnd time.Duration) (o *oracle, unruled *Logged) {
	o = &oracle{truth: t, losses: losses, lossEnd: lossEnd,
		sent: make(map[uint64]time.Duration), expected: make(map[videoReason]int64),
		repeats: make(map[string]*allowance), rates: make(map[string]*allowance)}
	rules := make(map[int64]*ruleSet)
	for _, r := range t.Rules {
		rules[r.Version] = newRuleSet(r)
	}
	for p, list := range t.watch {
		sessions := make(map[string]*session)
		for i := range list {
			e := &list[i]
			if e.Offset >= t.next(stageFilter, 0, p) {
				break // it was not decided yet
			}
			r := rules[e.Rules]
			if r == nil {
				return o, e
			}
			o.event(int32(p), e, r, sessions)
		}
	}
	return o, nil
}

// event finds the reason of one event, or makes it a candidate.
func (o *oracle) event(partition int32, e *Logged, r *ruleSet, sessions map[string]*session) {
	s, watched := sessions[e.Session]
	reason := ""
	switch {
	case r.blocked[e.IP]:
		reason = Bot
	case r.Creators && o.Creators[e.Video] == e.User:
		reason = Creator
	case e.WatchedMS < r.MinWatchMS:
		reason = Short
	case watched && s.first.ID == e.ID:
		reason = Duplicate
	case watched:
		reason = Continued
	}
	if reason != "" {
		o.expected[videoReason{e.Video, reason}]++
	}
	c := &candidacy{place: place{partition, e.In()}, event: e, limit: r.IPViews}
	_, c.accepted = o.accepted[c.place]
	if judged := reason == Duplicate || reason == Continued; reason != "" &&
		(!judged || o.losses == 0 && !c.accepted) {
		return
	}
	c.repeat = window(o.repeats, fmt.Sprintf("user %s, %s, %d ms from %d", e.User, e.Video,
		r.RepeatWindowMS, e.TimeMS-e.TimeMS%r.RepeatWindowMS), 1)
	c.rate = window(o.rates, fmt.Sprintf("address %s, %d ms from %d", e.IP, r.IPWindowMS,
		e.TimeMS-e.TimeMS%r.IPWindowMS), r.IPViews)
	c.repeat.join(c.place, e, c.accepted)
	c.rate.join(c.place, e, c.accepted)
	switch {
	case watched && c.accepted:
		c.after = s.judged
		o.again = append(o.again, c)
		o.anew = append(o.anew, stretch{partition, c.after, c.in, e.ID})
		s.judged = c.in
	case watched:
	default:
		sessions[e.Session] = &session{first: e, judged: c.in}
		o.candidates = append(o.candidates, c)
		if !c.accepted {
			o.rejected = append(o.rejected, c)
		}
	}
}

// session is what a partition has of a session: the event that its judgement
// rests on, and the place at which it was judged last.
type session struct {
	first  *Logged
	judged int64
}

// window is the allowance of a name; its limit is the highest that any of its
// candidates' rules give.
func window(all map[string]*allowance, name string, limit int64) *allowance {
	a := all[name]
	if a == nil {
		a = &allowance{name: name}
		all[name] = a
	}
	a.limit = max(a.limit, limit)
	return a
}

// judge holds the filter's decisions against all that.
func (o *oracle) judge(j *judging) {
	j.Checked(len(o.candidates))
	o.judgeAccepted(j)
	o.judgeWindows(j)
	o.judgeAnew(j)
	least, most := o.judgeRejected(j)
	o.judgeReasons(j, least, most)
}

// judgeAccepted: every view in valid_events is a candidate in watch_events. One
// of a session that was judged before was judged before a loss.
func (o *oracle) judgeAccepted(j *judging) {
	known := make(map[place]bool, len(o.candidates))
	for _, c := range slices.Concat(o.candidates, o.again) {
		known[c.place] = true
	}
	for p, list := range o.valid {
		for i := range list {
			v, at := &list[i], place{int32(p), list[i].Source}
			switch e := o.logged(at); {
			case e == nil:
				j.Violate([]uint64{v.ID}, "%s has a view from %v of %s, where there is no event",
					topicValid, positionIn(at.partition, at.in), topicWatch)
			case e.Event != v.Event:
				j.Violate([]uint64{v.ID, e.ID}, "the view from %v is not the event that is there: %+v, "+
					"%+v", positionIn(at.partition, at.in), v.Event, e.Event)
			}
		}
	}
	for at, v := range o.accepted {
		e := o.logged(at)
		if e != nil && !known[at] && e.Offset < o.next(stageFilter, 0, int(at.partition)) {
			violateNoView(j, e, v)
		}
	}
	for _, c := range o.again {
		before := o.logged(place{c.partition, c.after})
		if o.losses == 0 || o.sent[before.ID] > o.lossEnd {
			violateNoView(j, c.event, c.event)
			continue
		}
		o.over++
	}
}

func violateNoView(j *judging, e, v *Logged) {
	j.Violate([]uint64{v.ID}, "event %d (session %s, %s, watched %d ms) counts as a view, but does "+
		"not by the rules", e.ID, e.Session, e.Video, e.WatchedMS)
}

// judgeWindows: no window has more views than may pass.
func (o *oracle) judgeWindows(j *judging) {
	for _, all := range []map[string]*allowance{o.repeats, o.rates} {
		for _, a := range all {
			n := int64(len(a.accepted))
			switch {
			case n <= a.limit:
			case n <= a.limit*int64(1+o.losses):
				o.over += n - a.limit
				o.overfull(a)
			default:
				j.Violate(a.events, "%s: %d views count; the limit is %d", a.name, n,
					a.limit*int64(1+o.losses))
			}
		}
	}
}

// overfull notes between which views of a partition the window was forgotten.
func (o *oracle) overfull(a *allowance) {
	in := make(map[int32][]int64)
	for _, at := range a.accepted {
		in[at.partition] = append(in[at.partition], at.in)
	}
	for p, list := range in {
		slices.Sort(list)
		for i := int(a.limit); i < len(list); i++ {
			o.anew = append(o.anew, stretch{p, list[i-int(a.limit)], list[i], a.events[0]})
		}
	}
}

// judgeAnew: no partition began anew more often than Redis lost its memory. It counts the fewest
// places that lie in all stretches, by taking the end of the first that has none yet (interval
// stabbing, as in Kleinberg and Tardos, Algorithm Design, 4.1).
func (o *oracle) judgeAnew(j *judging) {
	if o.losses == 0 {
		return // each of them is a violation already
	}
	slices.SortFunc(o.anew, func(a, b stretch) int {
		return cmp.Or(cmp.Compare(a.partition, b.partition), cmp.Compare(a.upTo, b.upTo))
	})
	var ops []uint64
	last := stretch{partition: -1}
	for i, s := range o.anew {
		if s.partition != last.partition {
			ops, last = nil, stretch{partition: s.partition, upTo: -1}
		}
		if s.after >= last.upTo {
			last, ops = s, append(ops, s.op)
		}
		ends := i == len(o.anew)-1 || o.anew[i+1].partition != s.partition
		if ends && len(ops) > o.losses {
			j.Violate(ops, "partition %d: decisions were forgotten %d times, but Redis lost its data %d "+
				"times", s.partition, len(ops), o.losses)
		}
	}
}

// judgeRejected: whoever was turned away found a window full. It returns how
// many must, and how many may, have been turned away as repeats, by video.
func (o *oracle) judgeRejected(j *judging) (least, most map[string]int64) {
	least, most = make(map[string]int64), make(map[string]int64)
	for _, c := range o.rejected {
		repeat := c.before(c.repeat.accepted) >= 1
		rate := c.before(c.rate.accepted) >= c.limit
		switch {
		case repeat && !rate:
			least[c.event.Video]++
			most[c.event.Video]++
		case repeat:
			most[c.event.Video]++
		case rate:
		case o.forOthers(c):
			o.under++
		default:
			j.wrong(o.filtered())(append([]uint64{c.event.ID}, c.rate.events...), "event %d (session "+
				"%s, %s, watched %d ms) is a view by the rules but does not count: %d of %d views of %s "+
				"count, and none before it of %s", c.event.ID, c.event.Session, c.event.Video,
				c.event.WatchedMS, len(c.rate.accepted), c.limit, c.rate.name, c.repeat.name)
		}
	}
	return least, most
}

// forOthers says whether an event may have been turned away for others that were
// decided anew afterwards: it was decided before a loss, and there are others.
func (o *oracle) forOthers(c *candidacy) bool {
	return o.losses > 0 && o.sent[c.event.ID] <= o.lossEnd &&
		(c.before(c.repeat.asked) >= 1 || c.before(c.rate.asked) >= c.limit)
}

// judgeReasons: what the filter says that it turned away, by video and reason, is what it had to.
func (o *oracle) judgeReasons(j *judging, least, most map[string]int64) {
	amiss := j.wrong(o.filtered())
	said, videos := make(map[videoReason]int64), make(map[string]bool)
	for _, d := range o.Drops {
		said[videoReason{d.Video, d.Reason}] += d.Events
		videos[d.Video] = true
	}
	for video := range o.some {
		videos[video] = true
	}
	rejected, again := make(map[string]int64), make(map[string]int64)
	for _, c := range o.rejected {
		rejected[c.event.Video]++
	}
	for _, c := range o.again {
		again[c.event.Video]++
	}
	for _, video := range slices.Sorted(maps.Keys(videos)) {
		ops := o.some[video]
		of := func(reason string) int64 { return said[videoReason{video, reason}] }
		exact := []string{Bot, Creator, Short}
		repeats, rates := of(Repeat), of(IPRate)
		full := repeats + rates
		if o.losses == 0 {
			exact = append(exact, Duplicate, Continued)
			if repeats < least[video] || repeats > most[video] || full != rejected[video] {
				amiss(ops, "%s: the filter rejected %d events as %s and %d as %s; by the rules it is %d to "+
					"%d and %d together", video, repeats, Repeat, rates, IPRate, least[video],
					most[video], rejected[video])
			}
		} else {
			// What was judged anew may have been turned away for another reason.
			later := o.expected[videoReason{video, Duplicate}] +
				o.expected[videoReason{video, Continued}] - again[video]
			judged := of(Duplicate) + of(Continued) + full
			if judged != later+rejected[video] || full < rejected[video] {
				amiss(ops, "%s: the filter rejected %d judged events, %d of them because a window was full; "+
					"by the rules it is %d, and at least %d", video, judged, full,
					later+rejected[video], rejected[video])
			}
		}
		for _, reason := range exact {
			k := videoReason{video, reason}
			if said[k] != o.expected[k] {
				amiss(ops, "%s: the filter rejected %d events as %s; by the rules it is %d",
					video, said[k], reason, o.expected[k])
			}
		}
	}
}

// filtered says whether the filter has come to the end of the log. Before, it may have
// decided more than it has noted: what it has turned away is stored first, what it has
// forwarded is in the log next, and how far it has come last.
func (t *truth) filtered() bool {
	for p, list := range t.watch {
		if n := len(list); n > 0 && t.next(stageFilter, 0, p) <= list[n-1].Offset {
			return false
		}
	}
	return true
}
