package sqlbroker

import (
	"cmp"
	"slices"
	"time"

	"stampede/harness/check"
	"stampede/harness/history"
)

// clockSlack is by how much the store's clock may have been set during a delivery,
// where the end of its time is known by durations only.
const clockSlack = 100 * time.Millisecond

// judgeVisibility compares each delivery with the delay of its message, and with the next one
// of the same message. By the store's clock, the later one comes when the time of the earlier
// is over. That it says so itself is not believed alone: whatever its clock says, two
// deliveries cannot both fit into a span of the driver's clock that is shorter than the
// visibility timeout.
func judgeVisibility(r *check.Run, f *final) {
	again := false
	for _, m := range f.all {
		f.judgeDelay(r, m)
		for _, row := range m.rows {
			if row.State == StatePicked || row.State == StateDelayed {
				r.Unfinished(m.proof(), "%v of %s is still %s at rest", m, row.Queue, row.State)
			}
		}
		for i := 1; i < len(m.deliveries); i++ {
			a, b := m.deliveries[i-1], m.deliveries[i]
			again = true
			r.Checked(1)
			if a.Receipt == b.Receipt {
				r.Violate(m.proof(a, b), "%v was delivered twice with one receipt", m)
			} else if !a.mayBe(KindRelease) && !b.mayBe(KindRelease) {
				f.judgePair(r, a, b)
			}
		}
	}
	for _, m := range f.all { // of what consumers have stored effects of, nothing was given back
		effects := slices.SortedFunc(slices.Values(m.effects), func(a, b EffectAudit) int {
			return cmp.Compare(a.ReceivedNS, b.ReceivedNS)
		})
		for i := 1; i < len(effects); i++ {
			again = true
			r.Checked(1)
			if early := effects[i-1].VisibleNS - effects[i].ReceivedNS; early > 0 {
				r.Violate(m.proof(), "%v was delivered to two consumers, the second time %v before its "+
					"visibility timeout was over", m, time.Duration(early))
			}
		}
	}
	r.Need(again, "no message was delivered more than once")
}

// judgeDelay looks for deliveries of a message before its delay was over. That began when
// somebody stored the message, which was not before the first attempt to publish it, and the
// delivery had been made when its demand was answered: by the driver's clock, one that was
// answered sooner than the delay after that came too early, however late the server was. What
// may be back from the dead letters is ready at once. What nobody has published is
// no-phantom's.
func (f *final) judgeDelay(r *check.Run, m *message) {
	if m.sent == nil || m.sent.DelayMS <= 0 || !m.of.May() || f.redrove[m.of.queue] {
		return
	}
	delay := time.Duration(m.sent.DelayMS) * time.Millisecond
	for _, d := range m.deliveries {
		r.Checked(1)
		if d.end < m.of.Start+delay {
			r.Violate(m.proof(d), "%v was delivered by %v, but its publication began at %v with a delay "+
				"of %v", m, d.end, m.of.Start, delay)
		}
	}
}

// judgePair judges two deliveries, of which the second came later.
func (f *final) judgePair(r *check.Run, a, b *delivery) {
	deadline, m := a.VisibleNS, a.message
	for _, s := range a.settles {
		if s.kind != KindExtend || !s.did(a.Receipt) {
			continue
		}
		deadline = max(deadline, s.visibleNS)
		if b.end < s.start+s.by {
			r.Violate(append(m.proof(a, b), s.op), "%v was extended by %v at %v or later, but delivered "+
				"again by %v", m, s.by, s.start, b.end)
			return
		}
	}
	least, span := f.terms(a.queue).briefest, max(a.end, b.end)-min(a.start, b.start)
	switch {
	case b.ReceivedNS < deadline:
		r.Violate(m.proof(a, b), "%v was delivered again %v before its visibility timeout was over, "+
			"by the store's clock", m, time.Duration(deadline-b.ReceivedNS))
	case span < least:
		r.Violate(m.proof(a, b), "%v was delivered twice within %v; the visibility timeout is %v", m,
			span, least)
	}
}

// judgeReceipts asks of each receipt that was accepted whether it was certainly stale,
// and of each that was called stale whether it was certainly good.
func judgeReceipts(r *check.Run, f *final) {
	accepted, stale := false, false
	for _, s := range f.settles {
		for _, receipt := range s.receipts {
			d := f.receipts[receipt]
			if d == nil || f.purged[d.queue] || f.p.worked(d.queue) {
				continue
			}
			r.Checked(1)
			why := f.staleAt(s, d)
			stale = stale || why != "" && s.outcome != history.Unknown
			switch {
			case s.did(receipt):
				accepted = true
				if why != "" {
					r.Violate(append(d.message.proof(d), s.op), "an %s of %v that began at %v was accepted, "+
						"but its receipt %s", s.kind, d.message, s.start, why)
				}
			case s.called(receipt) && f.goodAt(s, d):
				r.Violate(append(d.message.proof(d), s.op), "the receipt of %v was called stale by %v, but "+
					"is valid for at least %v from %v", d.message, s.end, f.terms(d.queue).briefest, d.start)
			}
		}
	}
	r.Need(accepted, "no receipt was accepted")
	r.Need(stale, "no stale receipt was presented")
}

// staleAt says why a receipt was certainly stale before an attempt began, "" if it may
// have been good.
func (f *final) staleAt(s *settle, d *delivery) string {
	list := d.message.deliveries
	for _, later := range list[slices.Index(list, d)+1:] {
		if later.end < s.start && later.Receipt != d.Receipt && later.follows(d) {
			return "had been replaced by another delivery's by " + later.end.String()
		}
	}
	latest, repeated := d.end+f.terms(d.queue).longest, false
	for _, other := range d.settles {
		if other == s || !other.may(d.Receipt) {
			continue
		}
		switch {
		case other.kind == KindRelease && other.did(d.Receipt) && other.end < s.start:
			return "had been released by " + other.end.String()
		case other.kind == KindExtend && other.outcome == history.Unknown:
			return "" // nobody knows until when
		case other.kind == KindExtend:
			latest = max(latest, other.end+other.by)
		case other.kind == KindAck && s.kind == KindAck && other.start < s.start:
			repeated = true // it may have been done in time
		}
	}
	if s.start > latest+clockSlack && !repeated {
		return "had expired by " + latest.String()
	}
	return ""
}

// follows says that a delivery certainly came after another one, which by the store's
// clock came before it. A store may look at its clock before it takes the message: while
// it is between the two, somebody else can be given the message and give it back.
func (d *delivery) follows(other *delivery) bool {
	return d.start > other.end || d.Receives > other.Receives
}

// goodAt says that a receipt was certainly good until an attempt ended.
func (f *final) goodAt(s *settle, d *delivery) bool {
	return s.end < d.start+f.terms(d.queue).briefest-clockSlack &&
		!slices.ContainsFunc(d.settles, func(other *settle) bool {
			return other != s && other.kind != KindExtend && other.outcome != history.Refused &&
				other.start < s.end
		})
}
