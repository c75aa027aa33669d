package sqlbroker

import (
	"cmp"
	"slices"
	"time"

	"stampede/harness/history"
)

// clockSlack is by how much the store's clock may have been set during a delivery,
// where the end of its time is known by durations only.
const clockSlack = 100 * time.Millisecond

// judgeVisibility compares each delivery with the delay of its message, and with the next one
// of the same message. By the
// store's clock, the later one comes when the time of the earlier is over. That it
// says so itself is not believed alone: whatever its clock says, two deliveries cannot
// both fit into a span of the driver's clock that is shorter than the visibility
// timeout.
func judgeVisibility(j *judging) {
	again := 0
	for id, list := range j.deliveries {
		j.judgeDelay(id, list)
		for i, a := range list[:len(list)-1] {
			b := list[i+1]
			again++
			j.Checked(1)
			if a.Receipt == b.Receipt {
				j.Violate(proof(id, a, b), "%v was delivered twice with one receipt", id)
			} else if !a.maybeReleased() && !b.maybeReleased() {
				j.judgePair(id, a, b)
			}
		}
	}
	again += j.judgeEffectPairs()
	j.watch("messages with consumers for more than half of the visibility timeout", "messages",
		func(l Look) int64 { return l.Stuck })
	j.Need(again > 0, "no message was delivered more than once")
}

// judgeDelay looks for deliveries of a message before its delay was over. That began when
// somebody stored the message, which was not before the first attempt to publish it, and the
// delivery had been made when its demand was answered: by the driver's clock, one that was
// answered sooner than the delay after that came too early, however late the server was. What
// may be back from the dead letters is ready at once.
func (j *judging) judgeDelay(id messageID, list []*delivery) {
	p := j.published[id.op]
	if p == nil || !p.May() || id.index < 0 || id.index >= len(p.messages) || j.redrove[p.queue] {
		return // no-phantom judges what nobody has published
	}
	delay := time.Duration(p.messages[id.index].DelayMS) * time.Millisecond
	if delay <= 0 {
		return
	}
	for _, d := range list {
		j.Checked(1)
		if d.end < p.Start+delay {
			j.Violate(proof(id, d), "%v was delivered by %v, but its publication began at %v with a delay "+
				"of %v",
				id, d.end, p.Start, delay)
		}
	}
}

// maybeReleased says that somebody may have given a delivery back.
func (d *delivery) maybeReleased() bool {
	return slices.ContainsFunc(d.settles, func(s *settle) bool {
		return s.kind == KindRelease && s.may(d.Receipt)
	})
}

// judgePair judges two deliveries, of which the second came later.
func (j *judging) judgePair(id messageID, a, b *delivery) {
	deadline := a.VisibleNS
	for _, s := range a.settles {
		if s.kind != KindExtend || !s.did(a.Receipt) {
			continue
		}
		deadline = max(deadline, s.visibleNS)
		if b.end < s.start+s.by {
			j.Violate(append(proof(id, a, b), s.op), "%v was extended by %v at %v or later, but delivered "+
				"again by %v", id, s.by, s.start, b.end)
			return
		}
	}
	least := j.termsOf(a).briefest
	span := max(a.end, b.end) - min(a.start, b.start)
	switch {
	case b.ReceivedNS < deadline:
		j.Violate(proof(id, a, b), "%v was delivered again %v before its visibility timeout was over, "+
			"by the store's clock", id, time.Duration(deadline-b.ReceivedNS))
	case span < least:
		j.Violate(proof(id, a, b), "%v was delivered twice within %v; the visibility timeout is %v", id,
			span, least)
	}
}

// judgeEffectPairs is judgePair for the deliveries of which consumers have stored
// effects. Those were not given back.
func (j *judging) judgeEffectPairs() (pairs int) {
	for id, effects := range j.ends().effects {
		sorted := slices.SortedFunc(slices.Values(effects), func(a, b EffectAudit) int {
			return cmp.Compare(a.ReceivedNS, b.ReceivedNS)
		})
		for i, a := range sorted[:len(sorted)-1] {
			b := sorted[i+1]
			pairs++
			j.Checked(1)
			if b.ReceivedNS < a.VisibleNS {
				j.Violate(proof(id), "%v was delivered to two consumers, the second time %v before its "+
					"visibility timeout was over", id, time.Duration(a.VisibleNS-b.ReceivedNS))
			}
		}
	}
	return pairs
}

// judgeReceipts asks of each receipt that was accepted whether it was certainly stale,
// and of each that was called stale whether it was certainly good.
func judgeReceipts(j *judging) {
	accepted, stale := 0, 0
	for _, s := range j.settles {
		for _, receipt := range s.receipts {
			d := j.receipts[receipt]
			if d == nil || j.purged[d.queue] || !j.asked(d.queue) {
				continue
			}
			j.Checked(1)
			why := j.staleAt(s, d)
			if why != "" && s.outcome != history.Unknown {
				stale++
			}
			switch {
			case s.did(receipt):
				accepted++
				if why != "" {
					j.Violate(append(proof(d.id(), d), s.op), "an %s of %v that began at %v was accepted, but "+
						"its receipt %s", s.kind, d.id(), s.start, why)
				}
			case s.called(receipt) && j.goodAt(s, d):
				j.Violate(append(proof(d.id(), d), s.op), "the receipt of %v was called stale by %v, but is "+
					"valid for at least %v from %v", d.id(), s.end, j.termsOf(d).briefest, d.start)
			}
		}
	}
	j.Need(accepted > 0, "no receipt was accepted")
	j.Need(stale > 0, "no stale receipt was presented")
}

// termsOf are the terms of a delivery's queue.
func (j *judging) termsOf(d *delivery) terms {
	q, _ := j.queue(d.queue)
	return j.terms(q)
}

// staleAt says why a receipt was certainly stale before an attempt began, "" if it may
// have been good.
func (j *judging) staleAt(s *settle, d *delivery) string {
	list := j.deliveries[d.id()]
	for _, later := range list[slices.Index(list, d)+1:] {
		if later.end < s.start && later.Receipt != d.Receipt && later.follows(d) {
			return "had been replaced by another delivery's by " + later.end.String()
		}
	}
	latest, repeated := d.end+j.termsOf(d).longest, false
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
func (j *judging) goodAt(s *settle, d *delivery) bool {
	if s.end >= d.start+j.termsOf(d).briefest-clockSlack {
		return false
	}
	return !slices.ContainsFunc(d.settles, func(other *settle) bool {
		return other != s && other.kind != KindExtend && other.outcome != history.Refused &&
			other.start < s.end
	})
}
