package sqlbroker

import (
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

// judgeGroups looks, for each message that was delivered, for an earlier one of its
// group that was not acknowledged at that time. Earlier is what is before it in its
// publication, and what was published and acknowledged as such before its publication
// began. Dead letters leave their groups, and who comes back from them comes last.
func judgeGroups(j *judging) {
	pairs := 0
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
	j.Need(pairs > 0, "no two messages of a group came one after the other")
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
	until := "was not acknowledged even at the end"
	if first.open != math.MaxInt64 {
		until = "was not acknowledged until " + time.Duration(first.open-second.first).String() + " later"
	}
	j.Violate([]uint64{first.id.op, second.id.op, second.by}, "group %d of %s: %v was delivered, "+
		"and %v, published before it, %s", key.group, key.queue, second.id, first.id, until)
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
