package sqlbroker

import (
	"slices"
)

// judgeLoss looks for each acknowledged message at the end. One that is not there any
// more must have been acknowledged by somebody who had received it: in a queue that
// consumers work off, they have stored its effect.
func judgeLoss(j *judging) {
	at, all := j.ends(), j.acknowledged()
	j.Need(len(all) > 0, "no message was published")
	for _, id := range all {
		j.Checked(1)
		queue := j.published[id.op].queue
		if len(at.dead[id]) > 0 || j.purged[queue] {
			continue
		}
		rows := at.rows[id]
		waits := slices.ContainsFunc(rows, func(m MessageAudit) bool { return m.State != StateAcked })
		if waits {
			continue
		}
		switch {
		case j.asked(queue) && len(rows) == 0 && !j.mayBeAcked(id):
			j.Violate(proof(id, j.deliveries[id]...), "%v of %s was published, and is gone although nobody "+
				"has acknowledged it", id, queue)
		case j.asked(queue) && !j.mayBeAcked(id):
			j.Violate(proof(id, j.deliveries[id]...), "%v of %s is acknowledged at the end, and nobody has "+
				"done that with one of its receipts", id, queue)
		case !j.asked(queue) && len(rows) == 0 && len(at.effects[id]) == 0:
			j.Violate(proof(id), "%v of %s was published, and is gone without an effect", id, queue)
		}
	}
}

// mayBeAcked says that somebody may have acknowledged a message with a receipt of its.
func (j *judging) mayBeAcked(id messageID) bool {
	for _, d := range j.deliveries[id] {
		for _, s := range d.settles {
			if s.kind == KindAck && s.may(d.Receipt) {
				return true
			}
		}
	}
	return false
}

// judgePhantoms looks for the publication of everything that there is.
func judgePhantoms(j *judging) {
	saw := func(what string, id messageID, queue string, ops ...uint64) *publication {
		j.Checked(1)
		p := j.published[id.op]
		switch {
		case p == nil || id.index < 0 || id.index >= len(p.messages):
			j.Violate(append(ops, id.op), "%s of %v, which nobody has published", what, id)
			return nil
		case !p.May():
			j.Violate(append(ops, id.op), "%s of %v, whose publication was refused", what, id)
			return nil
		case p.queue != queue:
			j.Violate(append(ops, id.op), "%s of %v in %s, published to %s", what, id, queue, p.queue)
			return nil
		}
		return p
	}
	for id, list := range j.deliveries {
		for _, d := range list {
			p := saw("a delivery", id, d.queue, d.op)
			if p == nil {
				continue
			}
			if sent := p.messages[id.index]; sent.Body != d.Body || sent.Group != d.Group ||
				sent.Priority != d.Priority {
				j.Violate([]uint64{id.op, d.op}, "%v was delivered with body %.60q, group %d and priority "+
					"%d, and published with %.60q, %d and %d", id, d.Body, d.Group, d.Priority, sent.Body,
					sent.Group, sent.Priority)
			}
		}
	}
	for _, m := range j.a.Messages {
		saw("a message", messageID{m.OpID, m.Index}, m.Queue)
	}
	for _, d := range j.a.Dead {
		saw("a dead letter", messageID{d.OpID, d.Index}, d.Queue)
	}
	for _, e := range j.a.Effects {
		saw("an effect", messageID{e.OpID, e.Index}, e.Queue)
	}
	j.Need(len(j.deliveries)+len(j.a.Effects) > 0, "no message was delivered")
}

// judgePlaces counts the places of each message.
func judgePlaces(j *judging) {
	at := j.ends()
	for id, rows := range at.rows {
		j.Checked(1)
		if len(rows) > 1 {
			j.Violate(proof(id), "%v is in its queue %d times: published %d times and stored each time",
				id, len(rows), len(rows))
		}
		if len(at.dead[id]) > 0 {
			j.Violate(proof(id), "%v is in its queue (%s) and among the dead letters", id, rows[0].State)
		}
	}
	for id, dead := range at.dead {
		j.Checked(1)
		if len(dead) > 1 {
			j.Violate(proof(id), "%v is among the dead letters %d times", id, len(dead))
		}
		if len(at.effects[id]) > 0 {
			j.Violate(proof(id), "%v was worked off and is among the dead letters", id)
		}
	}
	j.Need(len(at.dead) > 0, "there is no dead letter")
}

// judgeWork looks at what waits in queues that consumers work off, at rest.
func judgeWork(j *judging) {
	effects := 0
	for _, e := range j.a.Effects {
		if j.p.worked(e.Queue) {
			effects++
		}
	}
	j.Need(effects > 0, "consumers have worked nothing off")
	j.Checked(effects)
	for _, m := range j.a.Messages {
		if j.asked(m.Queue) {
			continue
		}
		j.Checked(1)
		if m.State != StateAcked {
			id := messageID{m.OpID, m.Index}
			j.Violate(proof(id), "%v waits in %s (%s) although consumers have nothing else to do", id,
				m.Queue, m.State)
		}
	}
}

// judgeEffects counts the effects of each message, by its publication.
func judgeEffects(j *judging) {
	at := j.ends()
	for id, effects := range at.effects {
		j.Checked(1)
		if len(effects) > 1 {
			j.Violate(proof(id), "%v has %d effects: one of delivery %d and one of delivery %d", id,
				len(effects), effects[0].Receives, effects[1].Receives)
		}
		for _, m := range at.rows[id] {
			if m.State != StateAcked {
				j.Violate(proof(id), "%v has an effect and is not acknowledged (%s)", id, m.State)
			}
		}
	}
	for _, id := range j.acknowledged() {
		p := j.published[id.op]
		if j.asked(p.queue) || j.purged[p.queue] || len(at.effects[id])+len(at.dead[id]) > 0 {
			continue
		}
		rows := at.rows[id]
		if len(rows) == 0 || slices.ContainsFunc(rows, func(m MessageAudit) bool {
			return m.State == StateAcked
		}) {
			j.Violate(proof(id), "%v of %s was published and acknowledged by consumers, and has no effect",
				id, p.queue)
		}
	}
	j.Need(len(at.effects) > 0, "consumers have stored no effect")
}

// judgeFinal compares acknowledgements with later deliveries.
func judgeFinal(j *judging) {
	acks := 0
	for id, list := range j.deliveries {
		for _, d := range list {
			for _, s := range d.settles {
				if s.kind != KindAck || !s.did(d.Receipt) {
					continue
				}
				acks++
				j.Checked(1)
				for _, later := range list {
					if later.start > s.end {
						j.Violate([]uint64{id.op, s.op, later.op}, "%v was acknowledged at %v, and delivered "+
							"by a demand that began at %v", id, s.end, later.start)
						break
					}
				}
			}
		}
	}
	j.Need(acks > 0, "no operation has acknowledged a message")
}

// judgeReceives compares how often a message says that it was delivered with the
// deliveries that are known.
func judgeReceives(j *judging) {
	at, again := j.ends(), 0
	for id, list := range j.deliveries {
		known := map[string]bool{}
		numbers := map[int]*delivery{}
		for _, d := range list {
			known[d.Receipt] = true
			if other := numbers[d.Receives]; other != nil && other.Receipt != d.Receipt &&
				!j.redriven(at, id) {
				j.Violate(proof(id, other, d), "%v was delivered twice as delivery %d", id, d.Receives)
			}
			numbers[d.Receives] = d
		}
		if len(known) > 1 {
			again++
		}
		queue := list[0].queue
		for _, says := range j.says(at, id) {
			j.Checked(1)
			if low, high := len(known), len(known)+j.lost[queue]; j.asked(queue) &&
				(says < low || says > high) {
				j.Violate(proof(id, list...), "%v says that it was delivered %d times; %d to %d times are "+
					"possible", id, says, low, high)
			}
		}
	}
	for _, n := range j.lost {
		j.AllowedUnknown(n)
	}
	j.Need(again > 0, "no message was delivered to operations twice")
}

// redriven says that a message has come back from the dead letters, and counts anew.
func (j *judging) redriven(at ends, id messageID) bool {
	for _, m := range at.rows[id] {
		if m.Redrives > 0 {
			return true
		}
	}
	for _, d := range at.dead[id] {
		if d.Redrives > 0 {
			return true
		}
	}
	return false
}

// says are the numbers of deliveries that a message has at the end, if it is still
// there and has not begun to count anew.
func (j *judging) says(at ends, id messageID) (list []int) {
	if j.redriven(at, id) {
		return nil
	}
	for _, m := range at.rows[id] {
		list = append(list, m.Receives)
	}
	for _, d := range at.dead[id] {
		list = append(list, d.Receives)
	}
	return list
}

// judgeDead holds dead letters against the settings of their queues, and what is no
// dead letter too.
func judgeDead(j *judging) {
	for _, d := range j.a.Dead {
		j.Checked(1)
		id := messageID{d.OpID, d.Index}
		q, known := j.queue(d.Queue)
		switch {
		case !known:
			j.Violate(proof(id), "%v is a dead letter of %s, which does not exist", id, d.Queue)
		case d.Reason == DeadReceives && d.Receives != q.MaxReceives:
			j.Violate(proof(id), "%v is a dead letter of %s after %d deliveries, not %d", id, d.Queue,
				d.Receives, q.MaxReceives)
		case d.Reason == DeadRetention && d.AgeNS < q.RetentionNS:
			j.Violate(proof(id), "%v is a dead letter of %s for its age of %dns, less than %dns", id,
				d.Queue, d.AgeNS, q.RetentionNS)
		}
	}
	for _, m := range j.a.Messages {
		q, known := j.queue(m.Queue)
		if m.State == StateAcked || m.State == StatePicked || !known {
			continue // in the hands of its consumer the last delivery may still succeed
		}
		j.Checked(1)
		if m.Receives >= q.MaxReceives {
			j.Violate([]uint64{m.OpID}, "%v was delivered %d times, waits in %s, and is no dead letter",
				messageID{m.OpID, m.Index}, m.Receives, m.Queue)
		}
	}
	for id, list := range j.deliveries {
		for _, d := range list {
			if q, known := j.queue(d.queue); known && d.Receives > q.MaxReceives {
				j.Violate(proof(id, d), "%v was delivered for the %d. time, and dies after %d", id, d.Receives,
					q.MaxReceives)
			}
		}
	}
	j.Need(len(j.a.Dead) > 0, "no message became a dead letter")
}
