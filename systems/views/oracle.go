package views

import (
	"fmt"
	"slices"
)

// oracle decides again, from the logs alone, what the filter has decided. It
// shares the rules' data with the filter and none of its code.
//
// All that depends on one event or one session is a function of the log. Which
// of the candidates in a window pass depends on the order in which partitions
// were read; that as many as may pass do pass, and that whoever was turned away
// found the window full, does not.
type oracle struct {
	*truth
	// losses is how often Redis forgot what it had, at most: each window and
	// each session may then be used that often once more.
	losses int
	// expected counts, by video and reason, what must have been turned away
	// for that reason; repeat and ip-rate are not among them.
	expected map[videoReason]int64
	// candidates are the events that reach their session's judgement.
	candidates []*candidacy
	// repeats and rates are the windows of the two rules that many share.
	repeats, rates map[string]*allowance
	rejected       []*candidacy
}

type videoReason struct{ video, reason string }

// place is an event's partition and its place there.
type place struct {
	partition int32
	in        int64
}

// candidacy is an event that no rule turns away by itself, the first one of
// its session.
type candidacy struct {
	place
	event        *Logged
	accepted     bool
	repeat, rate *allowance
	limit        int64 // of the address by this event's rules
}

// allowance is a window of a rule: so many may pass.
type allowance struct {
	name     string
	limit    int64
	accepted []place
	events   []uint64
}

// fullFor says whether so many passed as could have before c was decided:
// whoever comes later in its own partition was decided later.
func (a *allowance) fullFor(c *candidacy, limit int64) bool {
	before := int64(0)
	for _, p := range a.accepted {
		if p.partition != c.partition || p.in < c.in {
			before++
		}
	}
	return before >= limit
}

// consult decides everything. The error says what of the evidence cannot be.
func consult(t *truth, losses int) (*oracle, error) {
	o := &oracle{truth: t, losses: losses, expected: make(map[videoReason]int64),
		repeats: make(map[string]*allowance), rates: make(map[string]*allowance)}
	rules := make(map[int64]*Rules)
	blocked := make(map[int64]map[string]bool)
	for i := range t.Rules {
		r := &t.Rules[i]
		rules[r.Version], blocked[r.Version] = r, make(map[string]bool)
		for _, ip := range r.Blocked {
			blocked[r.Version][ip] = true
		}
	}
	for p, list := range t.watch {
		sessions := make(map[string]*Logged)
		for i := range list {
			e := &list[i]
			if e.Offset >= t.next(stageFilter, 0, p) {
				break // it was not decided yet
			}
			r := rules[e.Rules]
			if r == nil {
				return nil, fmt.Errorf("event %d names version %d of the rules, which is not in the audit",
					e.ID, e.Rules)
			}
			o.event(int32(p), e, r, blocked[e.Rules], sessions)
		}
	}
	return o, nil
}

// event finds the reason of one event, or makes it a candidate.
func (o *oracle) event(
	partition int32, e *Logged, r *Rules, blocked map[string]bool, sessions map[string]*Logged,
) {
	first, watched := sessions[e.Session]
	reason := ""
	switch {
	case blocked[e.IP]:
		reason = Bot
	case r.Creators && o.Creators[e.Video] == e.User:
		reason = Creator
	case e.WatchedMS < r.MinWatchMS:
		reason = Short
	case watched && first.ID == e.ID:
		reason = Duplicate
	case watched:
		reason = Continued
	}
	if reason != "" {
		o.expected[videoReason{e.Video, reason}]++
		return
	}
	sessions[e.Session] = e
	c := &candidacy{place: place{partition, e.In()}, event: e, limit: r.IPViews}
	c.repeat = window(o.repeats, fmt.Sprintf("user %s, %s, %d ms from %d", e.User, e.Video,
		r.RepeatWindowMS, e.TimeMS-e.TimeMS%r.RepeatWindowMS), 1)
	c.rate = window(o.rates, fmt.Sprintf("address %s, %d ms from %d", e.IP, r.IPWindowMS,
		e.TimeMS-e.TimeMS%r.IPWindowMS), r.IPViews)
	if _, c.accepted = o.accepted[c.place]; c.accepted {
		for _, a := range []*allowance{c.repeat, c.rate} {
			a.accepted, a.events = append(a.accepted, c.place), append(a.events, e.ID)
		}
	} else {
		o.rejected = append(o.rejected, c)
	}
	o.candidates = append(o.candidates, c)
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
	least, most := o.judgeRejected(j)
	o.judgeReasons(j, least, most)
}

// judgeAccepted: every view in valid_events is a candidate in watch_events.
func (o *oracle) judgeAccepted(j *judging) {
	known := make(map[place]bool, len(o.candidates))
	for _, c := range o.candidates {
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
	again := int64(0)
	for at, v := range o.accepted {
		e := o.logged(at)
		switch {
		case e == nil || known[at] || e.Offset >= o.next(stageFilter, 0, int(at.partition)):
		case o.losses > 0 && o.judgedBefore(e):
			again++
		default:
			j.Violate([]uint64{v.ID}, "event %d (session %s, %s, watched %d ms) counts as a view, and by "+
				"the rules it does not", e.ID, e.Session, e.Video, e.WatchedMS)
		}
	}
	o.declare(j, again, int64(o.losses)*int64(len(o.candidates)), "sessions")
}

// judgedBefore: only its session's judgement keeps an event from being a view.
func (o *oracle) judgedBefore(e *Logged) bool {
	for i := range o.Rules {
		if r := &o.Rules[i]; r.Version == e.Rules {
			return !slices.Contains(r.Blocked, e.IP) && e.WatchedMS >= r.MinWatchMS &&
				!(r.Creators && o.Creators[e.Video] == e.User)
		}
	}
	return false
}

// declare tells what was counted once more after Redis forgot it, which the
// design declares.
func (o *oracle) declare(j *judging, count, bound int64, what string) {
	if o.losses > 0 {
		j.overcounted += count
		j.Need(count <= bound, "after Redis forgot, %d %s were judged once more, at most %d can be",
			count, what, bound)
	}
}

// judgeWindows: no window has more views than may pass.
func (o *oracle) judgeWindows(j *judging) {
	over := int64(0)
	for _, all := range []map[string]*allowance{o.repeats, o.rates} {
		for _, a := range all {
			n := int64(len(a.accepted))
			switch {
			case n <= a.limit:
			case n <= a.limit*int64(1+o.losses):
				over += n - a.limit
			default:
				j.Violate(a.events, "%s: %d views count, at most %d may", a.name, n,
					a.limit*int64(1+o.losses))
			}
		}
	}
	j.overcounted += over
}

// judgeRejected: whoever was turned away found a window full. It returns how
// many must, and how many may, have been turned away as repeats, by video.
func (o *oracle) judgeRejected(j *judging) (least, most map[string]int64) {
	least, most = make(map[string]int64), make(map[string]int64)
	for _, c := range o.rejected {
		repeat, rate := c.repeat.fullFor(c, 1), c.rate.fullFor(c, c.limit)
		switch {
		case repeat && !rate:
			least[c.event.Video]++
			most[c.event.Video]++
		case repeat:
			most[c.event.Video]++
		case !rate:
			j.Violate(append([]uint64{c.event.ID}, c.rate.events...), "event %d (session %s, %s, watched "+
				"%d ms) is a view by the rules and does not count: %d of %d views of %s count, and none "+
				"before it of %s", c.event.ID, c.event.Session, c.event.Video, c.event.WatchedMS,
				len(c.rate.accepted), c.limit, c.rate.name, c.repeat.name)
		}
	}
	return least, most
}

// judgeReasons: what the filter says that it turned away, by video and reason,
// is what it had to.
func (o *oracle) judgeReasons(j *judging, least, most map[string]int64) {
	said := make(map[videoReason]int64)
	for _, d := range o.Drops {
		said[videoReason{d.Video, d.Reason}] += d.Events
	}
	rejected := make(map[string]int64)
	for _, c := range o.rejected {
		rejected[c.event.Video]++
	}
	for _, video := range o.videos() {
		ops := o.someOf(video)
		exact := []string{Bot, Creator, Short}
		if o.losses == 0 {
			exact = append(exact, Duplicate, Continued)
			repeats, rates := said[videoReason{video, Repeat}], said[videoReason{video, IPRate}]
			if repeats < least[video] || repeats > most[video] || repeats+rates != rejected[video] {
				j.Violate(ops, "%s: the filter turned %d events away as %s and %d as %s, by the rules it "+
					"is %d to %d and %d together", video, repeats, Repeat, rates, IPRate, least[video],
					most[video], rejected[video])
			}
		}
		for _, reason := range exact {
			k := videoReason{video, reason}
			if said[k] != o.expected[k] {
				j.Violate(ops, "%s: the filter turned %d events away as %s, by the rules it is %d",
					video, said[k], reason, o.expected[k])
			}
		}
	}
}
