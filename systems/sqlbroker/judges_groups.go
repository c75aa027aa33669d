package sqlbroker

import (
	"cmp"
	"math"
	"slices"
	"time"

	"stampede/harness/check"
)

// groupKey is a group of a queue.
type groupKey struct {
	queue string
	group uint64
}

// member is a message of a group, as far as times are known.
type member struct {
	*message
	// first is when it was delivered first, 0 if that is not known; open is until when
	// it was certainly not acknowledged. Both by the store's clock, in nanoseconds.
	first, open int64
	by          uint64 // the operation that first is of
}

// judgeOrder looks, for each message that was delivered, for an earlier one of its group
// that was not acknowledged. Earlier is what is before it in its publication, and what was
// published and acknowledged as such before its publication began. Dead letters leave their
// groups, and who comes back from them comes last.
func judgeOrder(r *check.Run, f *final) {
	r.AllowedUnknown(f.unknown)
	groups, pairs := map[groupKey][]member{}, 0
	for _, m := range f.all {
		if m.acknowledged() && m.sent.Group != 0 && len(m.dead) == 0 && !m.redriven() &&
			!f.purged[m.of.queue] {
			key := groupKey{m.of.queue, m.sent.Group}
			groups[key] = append(groups[key], m.times())
		}
	}
	for key, list := range groups {
		// In the order of their ends, latest[i] has waited longest of the first i.
		byEnd := slices.SortedStableFunc(slices.Values(list), func(a, b member) int {
			return cmp.Compare(a.of.End, b.of.End)
		})
		latest := make([]member, len(byEnd)+1)
		for i, m := range byEnd {
			latest[i+1] = latest[i]
			if latest[i].message == nil || m.open > latest[i].open {
				latest[i+1] = m
			}
		}
		var before member // of the same publication, what has waited longest so far
		for _, m := range list {
			if before.message == nil || before.op != m.op {
				before = member{}
			}
			n, _ := slices.BinarySearchFunc(byEnd, m.of.Start, func(e member, start time.Duration) int {
				if e.of.End < start {
					return -1
				}
				return 1
			})
			for _, first := range []member{latest[n], before} {
				if m.first != 0 && first.message != nil {
					pairs++
					r.Checked(1)
					key.judgeBefore(r, first, m)
				}
			}
			if before.message == nil || m.open > before.open {
				before = m
			}
		}
	}
	r.Need(pairs > 0, "no two messages of a group were delivered in sequence")
}

// judgeBefore judges two messages of which the first is earlier.
func (key groupKey) judgeBefore(r *check.Run, first, second member) {
	if second.first >= first.open {
		return
	}
	until := "was never acknowledged"
	if first.open != math.MaxInt64 {
		until = "was acknowledged only " + time.Duration(first.open-second.first).String() + " later"
	}
	r.Violate([]uint64{first.op, second.op, second.by}, "group %d of %s: %v was delivered, but %v, "+
		"published before it, %s", key.group, key.queue, second.message, first.message, until)
}

// times are when a message was delivered first and until when it was certainly
// not acknowledged: whoever acknowledged it had received it before.
func (m *message) times() member {
	t := member{message: m}
	acked := int64(math.MaxInt64) // the earliest moment at which it may have been
	see := func(received int64, op uint64, mayAck bool) {
		if t.first == 0 || received < t.first {
			t.first, t.by = received, op
		}
		if mayAck {
			acked = min(acked, received)
		}
	}
	for _, d := range m.deliveries {
		see(d.ReceivedNS, d.op, d.mayBe(KindAck))
	}
	for _, e := range m.effects {
		see(e.ReceivedNS, 0, true)
	}
	t.open = acked
	if len(m.rows) == 1 {
		switch row := m.rows[0]; {
		case row.State != StateAcked:
			t.open = math.MaxInt64
		case row.AckedNS > 0:
			t.open = row.AckedNS
		}
	} else if acked == math.MaxInt64 {
		t.open = 0 // it is gone, and nobody knows since when: no-loss judges that
	}
	return t
}

// hold is a message of a group in the hands of a consumer.
type hold struct {
	*message
	// from is when it was delivered, until is how long it certainly was its consumer's: by
	// the store's clock, in nanoseconds, and the same as from if nobody knows.
	from, until int64
	by          uint64 // the operation that it was delivered to
}

// judgeTogether looks for messages of one group that were with consumers at a time.
func judgeTogether(r *check.Run, f *final) {
	holds := map[groupKey][]hold{}
	for _, m := range f.all {
		add := func(queue string, group uint64, h hold, given bool) {
			if group == 0 || f.purged[queue] {
				return
			}
			switch {
			case len(m.rows) == 1 && m.rows[0].AckedNS > 0:
				h.until = min(h.until, m.rows[0].AckedNS)
			case given:
				h.until = h.from
			}
			key := groupKey{queue, group}
			holds[key] = append(holds[key], h)
		}
		for _, d := range m.deliveries {
			h := hold{m, d.ReceivedNS, d.visibleUntil(), d.op}
			if m.mayEnd(d, KindRelease) {
				h.until = h.from
			}
			add(d.queue, d.Group, h, m.mayEnd(d, KindAck))
		}
		for _, e := range m.effects {
			add(e.Queue, e.Group, hold{m, e.ReceivedNS, e.VisibleNS, 0}, true)
		}
	}
	for key, list := range holds {
		key.judgeTogether(r, list)
	}
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

// mayEnd says that a settlement may have ended a delivery: of its receipt, or of another
// one of the same message, where receipts do not count.
func (m *message) mayEnd(d *delivery, kind string) bool {
	return slices.ContainsFunc(m.deliveries, func(other *delivery) bool {
		return slices.ContainsFunc(other.settles, func(s *settle) bool {
			return s.kind == kind && s.may(other.Receipt) && s.end >= d.start
		})
	})
}

// judgeHands looks by the driver's clock, whatever the broker says of times, for two messages of a
// group that are with consumers when the later one has certainly been delivered: until then neither
// may have been settled, and less than a visibility timeout has passed since the receives of both
// began. What was dead, or may have been, may have left its group.
func judgeHands(r *check.Run, f *final) {
	groups := map[groupKey][]*delivery{}
	for _, m := range f.all {
		for _, d := range m.deliveries {
			if d.Group != 0 && !f.p.worked(d.queue) && !f.purged[d.queue] && !f.redrove[d.queue] &&
				len(m.dead) == 0 && d.end-d.start < f.terms(d.queue).briefest-clockSlack {
				key := groupKey{d.queue, d.Group}
				groups[key] = append(groups[key], d)
			}
		}
	}
	for key, list := range groups {
		slices.SortStableFunc(list, func(a, b *delivery) int { return cmp.Compare(a.end, b.end) })
		var held []*delivery
		for _, d := range list {
			held = slices.DeleteFunc(append(held, d), func(h *delivery) bool {
				return d.end-h.start >= f.terms(key.queue).briefest-clockSlack || h.message.settledBy(d.end)
			})
			if slices.Contains(held, d) && held[0].message != d.message {
				r.Violate(d.message.proof(d, held[0]), "group %d of %s: %v was with a consumer at %v, and "+
					"so was %v", key.group, key.queue, d.message, d.end, held[0].message)
			}
		}
	}
}

// settledBy says that an acknowledgement or a release of a message may have begun before a moment.
func (m *message) settledBy(at time.Duration) bool {
	return slices.ContainsFunc(m.deliveries, func(d *delivery) bool {
		return slices.ContainsFunc(d.settles, func(s *settle) bool {
			return s.kind != KindExtend && s.may(d.Receipt) && s.start < at
		})
	})
}

func (key groupKey) judgeTogether(r *check.Run, list []hold) {
	slices.SortStableFunc(list, func(a, b hold) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(b.until, a.until),
			compareIDs(a.messageID, b.messageID))
	})
	// The two that were held for longest so far, of different messages.
	var longest, second hold
	for _, h := range list {
		other := longest
		if other.message == h.message {
			other = second
		}
		r.Checked(1)
		if h.from < other.until {
			r.Violate([]uint64{other.op, h.op, other.by, h.by}, "group %d of %s: %v was delivered while %v "+
				"was with a consumer for another %v", key.group, key.queue, h.message, other.message,
				time.Duration(other.until-h.from))
		}
		switch {
		case h.message == longest.message:
			longest.until = max(longest.until, h.until)
		case h.until > longest.until:
			longest, second = h, longest
		case h.message == second.message || h.until > second.until:
			h.until = max(h.until, second.until)
			second = h
		}
	}
}
