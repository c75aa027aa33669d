package sqlbroker

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// groupKey is a group of a queue.
type groupKey struct {
	queue string
	group uint64
}

// member is a message of a group, as far as times are known.
type member struct {
	id messageID
	// start and end are when its publication began and was acknowledged.
	start, end time.Duration
	// first is when it was delivered first, 0 if that is not known; open is until when
	// it was certainly not acknowledged. Both by the store's clock, in nanoseconds.
	first, open int64
	by          uint64 // the operation that first is of
}

// judgeGroups looks, for each message that was delivered, for another one of its group
// that a consumer had at that time, and for an earlier one that was not acknowledged.
// Earlier is what is before it in its publication, and what was published and
// acknowledged as such before its publication began. Dead letters leave their groups, and
// who comes back from them comes last.
func judgeGroups(j *judging) {
	pairs := 0
	for key, list := range j.holds() {
		j.judgeTogether(key, list)
	}
	for key, list := range j.groups() {
		// In the order of their ends, latest[i] has waited longest of the first i.
		byEnd := slices.SortedStableFunc(slices.Values(list), func(a, b member) int {
			return int(a.end - b.end)
		})
		latest := make([]member, len(byEnd)+1)
		for i, m := range byEnd {
			latest[i+1] = latest[i]
			if m.open > latest[i].open {
				latest[i+1] = m
			}
		}
		for _, m := range list {
			if m.first == 0 {
				continue
			}
			n, _ := slices.BinarySearchFunc(byEnd, m.start, func(e member, start time.Duration) int {
				if e.end < start {
					return -1
				}
				return 1
			})
			if n > 0 {
				pairs++
				j.Checked(1)
				j.judgeBefore(key, latest[n], m)
			}
		}
		pairs += j.judgeWithin(key, list)
	}
	j.Need(pairs > 0, "no two messages of a group were delivered in sequence")
}

// judgeWithin compares the messages of each publication.
func (j *judging) judgeWithin(key groupKey, list []member) (pairs int) {
	var before member
	for _, m := range list { // in the order of their identities
		if m.id.op != before.id.op {
			before = member{}
		}
		if m.first != 0 && before.id.op != 0 {
			pairs++
			j.Checked(1)
			j.judgeBefore(key, before, m)
		}
		if m.open > before.open {
			before = m
		}
		before.id.op = m.id.op
	}
	return pairs
}

// judgeBefore judges two messages of which the first is earlier.
func (j *judging) judgeBefore(key groupKey, first, second member) {
	if second.first >= first.open {
		return
	}
	until := "was never acknowledged"
	if first.open != math.MaxInt64 {
		until = "was acknowledged only " + time.Duration(first.open-second.first).String() + " later"
	}
	j.Violate([]uint64{first.id.op, second.id.op, second.by}, "group %d of %s: %v was delivered, "+
		"but %v, published before it, %s", key.group, key.queue, second.id, first.id, until)
}

// groups gathers the members of groups whose publications were acknowledged, in the
// order of their identities.
func (j *judging) groups() map[groupKey][]member {
	at, groups := j.ends(), map[groupKey][]member{}
	for _, id := range j.acknowledged() {
		p := j.published[id.op]
		group := p.messages[id.index].Group
		if group == 0 || len(at.dead[id]) > 0 || j.redriven(at, id) || j.purged[p.queue] {
			continue
		}
		m := member{id: id, start: p.Start, end: p.End}
		j.times(at, &m)
		key := groupKey{p.queue, group}
		groups[key] = append(groups[key], m)
	}
	return groups
}

// times fills in when a message was delivered first and until when it was certainly
// not acknowledged: whoever acknowledged it had received it before.
func (j *judging) times(at ends, m *member) {
	acked := int64(math.MaxInt64) // the earliest moment at which it may have been
	see := func(received int64, op uint64, mayAck bool) {
		if m.first == 0 || received < m.first {
			m.first, m.by = received, op
		}
		if mayAck {
			acked = min(acked, received)
		}
	}
	for _, d := range j.deliveries[m.id] {
		see(d.ReceivedNS, d.op, slices.ContainsFunc(d.settles, func(s *settle) bool {
			return s.kind == KindAck && s.may(d.Receipt)
		}))
	}
	for _, e := range at.effects[m.id] {
		see(e.ReceivedNS, 0, true)
	}
	m.open = acked
	if rows := at.rows[m.id]; len(rows) == 1 {
		switch {
		case rows[0].State != StateAcked:
			m.open = math.MaxInt64
		case rows[0].AckedNS > 0:
			m.open = rows[0].AckedNS
		}
	} else if acked == math.MaxInt64 {
		m.open = 0 // it is gone, and nobody knows since when: no-loss judges that
	}
}

// hold is a message of a group in the hands of a consumer.
type hold struct {
	id messageID
	// from is when it was delivered, until is how long it certainly was its consumer's: by
	// the store's clock, in nanoseconds, and the same as from if nobody knows.
	from, until int64
	by          uint64 // the operation that it was delivered to
}

// holds gathers what is known of deliveries of groups.
func (j *judging) holds() map[groupKey][]hold {
	at, holds := j.ends(), map[groupKey][]hold{}
	add := func(queue string, group uint64, h hold, given bool) {
		if group == 0 || j.purged[queue] {
			return
		}
		rows := at.rows[h.id]
		switch {
		case len(rows) == 1 && rows[0].AckedNS > 0:
			h.until = min(h.until, rows[0].AckedNS)
		case given:
			h.until = h.from
		}
		key := groupKey{queue, group}
		holds[key] = append(holds[key], h)
	}
	for id, list := range j.deliveries {
		for _, d := range list {
			h := hold{id: id, from: d.ReceivedNS, until: d.visibleUntil(), by: d.op}
			if givenBack(list, d) {
				h.until = h.from
			}
			add(d.queue, d.Group, h, mayEnd(list, d, KindAck))
		}
	}
	for id, list := range at.effects {
		for _, e := range list {
			add(e.Queue, e.Group, hold{id: id, from: e.ReceivedNS, until: e.VisibleNS}, true)
		}
	}
	return holds
}

// visibleUntil is when the time of a delivery is over, with its extensions.
func (d *delivery) visibleUntil() int64 {
	until := d.VisibleNS
	for _, s := range d.settles {
		if s.kind == KindExtend && s.did(d.Receipt) {
			until = max(until, s.visibleNS)
		}
	}
	return until
}

// givenBack says that a delivery may have ended by a release.
func givenBack(list []*delivery, d *delivery) bool { return mayEnd(list, d, KindRelease) }

// mayEnd says that a settlement may have ended a delivery: of its receipt, or of another
// one of the same message, where receipts do not count.
func mayEnd(list []*delivery, d *delivery, kind string) bool {
	return slices.ContainsFunc(list, func(other *delivery) bool {
		return slices.ContainsFunc(other.settles, func(s *settle) bool {
			return s.kind == kind && s.may(other.Receipt) && s.end >= d.start
		})
	})
}

// judgeTogether looks for messages of one group that were with consumers at a time.
func (j *judging) judgeTogether(key groupKey, list []hold) {
	slices.SortFunc(list, func(a, b hold) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(b.until, a.until),
			compareIDs(a.id, b.id))
	})
	// The two that were held for longest so far, of different messages.
	var longest, second hold
	for _, h := range list {
		other := longest
		if other.id == h.id {
			other = second
		}
		j.Checked(1)
		if h.from < other.until {
			j.Violate([]uint64{other.id.op, h.id.op, other.by, h.by}, "group %d of %s: %v was delivered "+
				"while %v was with a consumer for another %v", key.group, key.queue, h.id, other.id,
				time.Duration(other.until-h.from))
		}
		switch {
		case h.id == longest.id:
			longest.until = max(longest.until, h.until)
		case h.until > longest.until:
			longest, second = h, longest
		case h.id == second.id || h.until > second.until:
			h.until = max(h.until, second.until)
			second = h
		}
	}
}
