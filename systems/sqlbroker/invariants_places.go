package sqlbroker

import (
	"slices"
	"time"

	"stampede/harness/check"
)

// judgeLoss looks for each acknowledged message at the end. One that is not there any
// more must have been acknowledged by somebody who had received it: in a queue that
// consumers work off, they have stored its effect.
func judgeLoss(j *judging) {
	at, all := j.ends(), j.acknowledged()
	j.Need(len(all) > 0, "no message was published")
	j.watch("messages published in the last minute", "messages",
		func(l Look) int64 { return l.Published })
	for _, id := range all {
		j.Checked(1)
		queue := j.published[id.op].queue
		if at.open(id) != "" || j.purged[queue] {
			continue
		}
		rows := at.rows[id]
		switch {
		case j.asked(queue) && len(rows) == 0 && !j.mayBeAcked(id):
			j.Violate(proof(id, j.deliveries[id]...), "%v of %s was published and is gone, but no "+
				"consumer acknowledged it", id, queue)
		case j.asked(queue) && !j.mayBeAcked(id):
			j.Violate(proof(id, j.deliveries[id]...), "%v of %s is acknowledged at the end, but no "+
				"acknowledgement had one of its receipts", id, queue)
		case !j.asked(queue) && len(rows) == 0 && len(at.effects[id]) == 0:
			j.Violate(proof(id), "%v of %s was published and is gone without an effect", id, queue)
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
			j.Violate(append(ops, id.op), "%s of %v, which was never published", what, id)
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
					"%d, but published with %.60q, %d and %d", id, d.Body, d.Group, d.Priority, sent.Body,
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
	if j.p.ReportFor > 0 {
		j.watch("age of the oldest snapshot", "ms", func(l Look) int64 {
			return time.Duration(l.SnapshotNS).Milliseconds()
		})
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
			j.Violate(proof(id), "%v was processed and is among the dead letters", id)
		}
	}
	n := j.repeats.Judge(j.Collector, func(op uint64) bool {
		p := j.published[op]
		return p == nil || j.purged[p.queue]
	})
	j.Note("%d acknowledged publications were sent again and answered again", n)
	j.watch("dead versions of rows", "rows", func(l Look) int64 { return l.DeadRows })
	j.Need(n > 0 || j.p.Resend == 0, "no acknowledged publication was sent again and answered")
	j.Need(len(at.dead) > 0, "no message became a dead letter")
	j.needSnapshot()
}

// judgeWork looks at what waits in queues that consumers work off, at rest.
func judgeWork(j *judging) {
	effects := 0
	for _, e := range j.a.Effects {
		if j.p.worked(e.Queue) {
			effects++
		}
	}
	j.watch("messages pending", "messages", func(l Look) int64 { return l.Pending })
	j.Need(effects > 0, "consumers processed no message")
	j.Checked(effects)
	for _, m := range j.a.Messages {
		if j.asked(m.Queue) {
			continue
		}
		j.Checked(1)
		if m.State != StateAcked {
			id := messageID{m.OpID, m.Index}
			j.Unfinished(proof(id), "%v still waits in %s (%s) although the consumers are idle", id,
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
				j.Violate(proof(id), "%v has an effect but is not acknowledged (%s)", id, m.State)
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
			j.Violate(proof(id), "%v of %s was published and acknowledged by consumers, but has no effect",
				id, p.queue)
		}
	}
	j.watchConsumption()
	j.Need(len(at.effects) > 0, "consumers stored no effect")
	j.needCompetition()
}

// leastTogether is how many effects must have been in work beside a message of another
// consumer's, at least: consumers that take turns cannot take a message from each other.
const leastTogether = 10

// needCompetition counts the effects whose messages were in a consumer's hands, from their
// delivery until the effect was stored, while another consumer had messages of the same
// queue, and needs some. The messages of a batch are in the same hands.
func (j *judging) needCompetition() {
	queues, together := map[string][]check.Span{}, int64(0)
	for _, e := range j.a.Effects {
		queues[e.Queue] = append(queues[e.Queue], check.Span{Who: e.Consumer,
			From: time.Duration(e.ReceivedNS), To: time.Duration(e.StoredNS)})
	}
	for _, spans := range queues {
		together += check.Together(spans).Raced
	}
	j.Need(together >= leastTogether, "%d of %d effects were in work beside a message of another "+
		"consumer's in their queue; at least %d are needed to say whether consumers take messages from "+
		"each other", together, len(j.a.Effects), leastTogether)
	j.Note("%d of %d effects were in work beside a message of another consumer's in their queue",
		together, len(j.a.Effects))
}

// judgeFinal compares acknowledgements with later deliveries, and with where the messages are
// at the end: acknowledged or gone, and neither waiting nor dead.
func judgeFinal(j *judging) {
	at, acks := j.ends(), 0
	for id, list := range j.deliveries {
		for _, d := range list {
			for _, s := range d.settles {
				if s.kind != KindAck || !s.did(d.Receipt) {
					continue
				}
				acks++
				j.Checked(1)
				if where := at.open(id); where != "" {
					j.Violate([]uint64{id.op, s.op}, "%v was acknowledged at %v, but is %s at the end", id,
						s.end, where)
				}
				for _, later := range list {
					if later.start > s.end {
						j.Violate([]uint64{id.op, s.op, later.op}, "%v was acknowledged at %v, but delivered by a "+
							"receive that began at %v", id, s.end, later.start)
						break
					}
				}
			}
		}
	}
	j.watch("mean time from publication to acknowledgement", "ms", func(l Look) int64 {
		return time.Duration(l.DeletionNS).Milliseconds()
	})
	j.Need(acks > 0, "no operation acknowledged a message")
}

// open says where a message is that somebody may still get, "" if nobody may.
func (e ends) open(id messageID) string {
	if len(e.dead[id]) > 0 {
		return "a dead letter"
	}
	for _, m := range e.rows[id] {
		if m.State != StateAcked {
			return m.State
		}
	}
	return ""
}

// judgeReceives compares how often a message says that it was delivered with the
// deliveries that are known: of queues that operations alone consume, where none is known
// too. What nobody was given, and was not in an answer that was lost, was not delivered.
func judgeReceives(j *judging) {
	at, again := j.ends(), 0
	counts := map[messageID]int{}
	for id, list := range j.deliveries {
		known := map[string]bool{}
		numbers := map[int]*delivery{}
		for _, d := range list {
			known[d.Receipt] = true
			if other := numbers[d.Receives]; other != nil && other.Receipt != d.Receipt &&
				!j.redriven(at, id) {
				j.Violate(proof(id, other, d), "%v was delivered twice with delivery number %d", id, d.Receives)
			}
			numbers[d.Receives] = d
		}
		if len(known) > 1 {
			again++
		}
		counts[id] = len(known)
	}
	for _, s := range j.says(at) {
		j.Checked(1)
		low, high := counts[s.id], counts[s.id]+j.lost[s.queue]
		if j.asked(s.queue) && (s.times < low || s.times > high) {
			j.Violate(proof(s.id, j.deliveries[s.id]...), "%v has a delivery count of %d; %d to %d are "+
				"possible", s.id, s.times, low, high)
		}
	}
	for _, n := range j.lost {
		j.AllowedUnknown(n)
	}
	j.watchClaims()
	j.Need(again > 0, "no message was delivered to operations more than once")
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

// saying is how often a message says that it was delivered.
type saying struct {
	id    messageID
	queue string
	times int
}

// says are the numbers of deliveries that messages have at the end, if they have not begun
// to count anew.
func (j *judging) says(at ends) (list []saying) {
	for _, m := range j.a.Messages {
		list = append(list, saying{messageID{m.OpID, m.Index}, m.Queue, m.Receives})
	}
	for _, d := range j.a.Dead {
		list = append(list, saying{messageID{d.OpID, d.Index}, d.Queue, d.Receives})
	}
	return slices.DeleteFunc(list, func(s saying) bool { return j.redriven(at, s.id) })
}

const (
	// ageSlack is for how long, after the sweeper's pause, a message that is too old may still
	// wait.
	ageSlack = 5 * time.Second
	// agePending is for how long it may before it is work that is left to do. At rest none has
	// waited longer than that, whatever had stopped the sweeper; the rest of ageSlack is for
	// what passes between rest and the audit.
	agePending = time.Second
)

// overdue is for how long a message has waited although it should have died of age. That
// begins when it is too old, and also waits, and its queue's retention is what it is: what is
// with a consumer may grow older than that and come back, and a retention may be lowered.
// What the audit does not say is taken for just now.
func overdue(m MessageAudit, q QueueAudit) time.Duration {
	return time.Duration(min(m.AgeNS-q.RetentionNS, m.WaitsNS, q.RetentionAgeNS))
}

// deadYoung says that a dead letter of a queue that consumers work off was certainly given
// back by them, although they could have worked it off: its neighbour in a batch could not be,
// and did not die alone. Consumers may die with a message and sleep over it, as often as it
// is delivered, and it dies without its fault. But each of these deliveries lasts until its
// time is over, so that all of them take as many visibility timeouts, whatever befalls the
// consumers and the stores; who dies younger was given back. Of what operations may have given
// back, or what began to count anew, nothing is said.
func (j *judging) deadYoung(d DeadAudit, t terms) bool {
	id := messageID{d.OpID, d.Index}
	p := j.published[id.op]
	if j.asked(d.Queue) || d.Redrives > 0 || d.AgeNS <= 0 || p == nil || id.index < 0 ||
		id.index >= len(p.messages) || poisonous(p.messages[id.index].Body) ||
		slices.ContainsFunc(j.deliveries[id], (*delivery).maybeReleased) {
		return false
	}
	return time.Duration(d.AgeNS) < time.Duration(d.Receives)*(t.briefest-clockSlack)
}

// judgeDead holds dead letters against the settings of their queues, and what is no
// dead letter too.
func judgeDead(j *judging) {
	for _, d := range j.a.Dead {
		j.Checked(1)
		id := messageID{d.OpID, d.Index}
		q, known := j.queue(d.Queue)
		t := j.terms(q)
		switch {
		case !known:
			j.Violate(proof(id), "%v is a dead letter of %s, which does not exist", id, d.Queue)
		case d.Reason == DeadReceives && (d.Receives < t.fewest || d.Receives > t.most):
			j.Violate(proof(id), "%v is a dead letter of %s after %d deliveries, not %v", id, d.Queue,
				d.Receives, t)
		case d.Reason == DeadRetention && time.Duration(d.AgeNS) < t.shortest:
			j.Violate(proof(id), "%v is a dead letter of %s at the age of %v, less than %v", id,
				d.Queue, time.Duration(d.AgeNS), t.shortest)
		case d.Reason == DeadReceives && j.deadYoung(d, t):
			j.Violate(proof(id), "%v is a dead letter of %s after %d deliveries within %v, but a delivery "+
				"lasts %v: it was released, although it can be processed", id, d.Queue,
				d.Receives, time.Duration(d.AgeNS), t.briefest)
		}
	}
	for _, m := range j.a.Messages {
		q, known := j.queue(m.Queue)
		if m.State == StateAcked || m.State == StatePicked || !known {
			continue // in the hands of its consumer the last delivery may still succeed
		}
		j.Checked(1)
		if m.Receives >= j.terms(q).most {
			j.Violate([]uint64{m.OpID}, "%v was delivered %d times and waits in %s; it should be a dead "+
				"letter",
				messageID{m.OpID, m.Index}, m.Receives, m.Queue)
		}
		if late := overdue(m, q); late > j.p.SweepEvery.D()+ageSlack {
			j.Unfinished([]uint64{m.OpID}, "%v has waited in %s for %v although it is older than %v; "+
				"it should be a dead letter", messageID{m.OpID, m.Index}, m.Queue, late,
				time.Duration(q.RetentionNS))
		}
	}
	for id, list := range j.deliveries {
		for _, d := range list {
			q, known := j.queue(d.queue)
			if t := j.terms(q); known && d.Receives > t.most {
				j.Violate(proof(id, d), "%v has delivery number %d, but the most are %v", id, d.Receives,
					t)
			}
		}
	}
	j.watch("dead letters", "messages", func(l Look) int64 { return l.Dead })
	j.Need(len(j.a.Dead) > 0, "no message became a dead letter")
}
