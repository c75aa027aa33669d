package sqlbroker

import (
	"cmp"
	"math"
	"slices"
	"time"

	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/sut"
)

// Names of the invariants, as variants list them in Breaks and NotApplicable.
const (
	NoLoss         = "no-loss"
	NoPhantom      = "no-phantom"
	OncePlaced     = "once-placed"
	WorkedOff      = "worked-off"
	EffectsOnce    = "effects-once"
	VisibilityKept = "visibility-kept"
	AckFinal       = "ack-final"
	ReceiptFenced  = "receipt-fenced"
	ReceiveCount   = "receive-count"
	DeadLetters    = "dead-letters"
	GroupOrder     = "group-order"
)

// Invariants returns the statements about a broker with the given parameters. Each judges
// from the history and the Audit alone, so that it says the same of a design here and of a
// server that somebody else wrote.
func Invariants(p Params) []check.Invariant {
	s := subject(p)
	reported := watch("age of the oldest snapshot", "ms", func(l Look) int64 {
		return time.Duration(l.SnapshotNS).Milliseconds()
	})
	if p.ReportFor == 0 {
		reported = nothing
	}
	return []check.Invariant{
		s.State(NoLoss, "every message whose publication was acknowledged is, at the end, in its queue, "+
			"with a consumer or among the dead letters, or was acknowledged by a consumer that had "+
			"received it", withMessages(judgeLoss), withMessages(needDelivery),
			watch("messages published in the last minute", "messages",
				func(l Look) int64 { return l.Published })),
		s.State(NoPhantom, "every message, delivery and effect belongs to a published message, with its "+
			"body and in its queue", withMessages(judgePhantoms), reported),
		s.State(OncePlaced, "every message is in one place only, however often it was published: once "+
			"in its queue, once among the dead letters, or processed; a repeated publication is not "+
			"denied, no queue that exists is called unknown, and nothing is refused for a rate, a token or "+
			"an identity that nobody has used", withMessages(judgePlaces), check.OnAudit(judgeRefusals),
			check.SameReply(check.Replies{Kind: check.Named(KindPublish), What: "publication",
				Sent: p.Resend > 0}), check.Known(check.Named(KindPublish, KindReceive, KindAck,
				KindExtend, KindRelease), "queue-", p.Queues, unknownQueue),
			watch("dead versions of rows", "rows", func(l Look) int64 { return l.DeadRows }),
			check.OnAudit(needDead), check.OnAudit(needSnapshot)),
		s.State(WorkedOff, "at rest, no message waits in a queue that consumers process",
			check.Quiescent(factMessage, StateReady, StateDelayed, StatePicked), check.OnAudit(judgeWork),
			watch("messages pending", "messages", func(l Look) int64 { return l.Pending })),
		s.State(EffectsOnce, "every message that consumers acknowledged has exactly one effect, and no "+
			"other message has one", check.AtMostOnce(factEffect, check.ByName),
			withMessages(judgeEffects), watchChange("messages processed by consumers", "messages/s",
				func(before, now Look, span time.Duration) (int64, bool) {
					return int64(float64(now.Consumed-before.Consumed) / span.Seconds()), true
				}), check.OnAudit(needCompetition)),
		s.State(VisibilityKept, "a message is not delivered before its delay is over, nor again before "+
			"its visibility timeout is over, unless it was released; at rest none is delayed or with a "+
			"consumer", withMessages(judgeVisibility),
			watch("messages with consumers for more than half of the visibility timeout", "messages",
				func(l Look) int64 { return l.Stuck })),
		s.State(AckFinal, "a message acknowledged with a valid receipt is never delivered again, and at "+
			"the end is neither waiting nor a dead letter", withMessages(judgeFinal),
			watch("mean time from publication to acknowledgement", "ms", func(l Look) int64 {
				return time.Duration(l.DeletionNS).Milliseconds()
			})),
		s.State(ReceiptFenced, "a receipt is accepted until it expires or is used, and refused from "+
			"then on", withMessages(judgeReceipts)),
		s.State(ReceiveCount, "the delivery count of a message is right, except for deliveries in lost "+
			"answers", withMessages(judgeReceives), watchChange("mean time of a consumer's claim", "µs",
			func(before, now Look, _ time.Duration) (int64, bool) {
				claims := now.Claims - before.Claims
				return (now.ClaimingUS - before.ClaimingUS) / max(claims, 1), claims > 0
			})),
		s.State(DeadLetters, "a message is a dead letter if and only if it reached its maximum of "+
			"deliveries or is older than its queue's retention; consumers release only messages that they "+
			"cannot process, and no others of the batch become dead letters; queues have the settings that "+
			"they were given", withMessages(judgeDead), withMessages(judgeSettings),
			watch("dead letters", "messages", func(l Look) int64 { return l.Dead }),
			check.OnAudit(needDead)),
		s.State(GroupOrder, "only one message of a group is with a consumer at a time, and none is "+
			"delivered before the earlier ones are acknowledged", withMessages(judgeTogether),
			withMessages(judgeHands), withMessages(judgeOrder)),
	}
}

func unknownQueue(rec *history.Record) bool { return sut.RefusedFor(rec, ErrUnknownQueue) }

// judgeLoss looks for each acknowledged message at the end. One that is not there any
// more must have been acknowledged by somebody who had received it: in a queue that
// consumers work off, they have stored its effect.
func judgeLoss(r *check.Run, f *final) {
	r.AllowedUnknown(f.unknown)
	published := false
	for _, m := range f.all {
		if !m.acknowledged() {
			continue
		}
		r.Checked(1)
		published = true
		queue, acked := m.of.queue, slices.ContainsFunc(m.deliveries, func(d *delivery) bool {
			return d.mayBe(KindAck)
		})
		switch {
		case m.open() != "" || f.purged[queue]:
		case f.p.worked(queue):
			if len(m.rows)+len(m.effects) == 0 {
				r.Violate(m.proof(), "%v of %s was published and is gone without an effect", m, queue)
			}
		case acked:
		case len(m.rows) == 0:
			r.Violate(m.proof(m.deliveries...), "%v of %s was published and is gone, but no consumer "+
				"acknowledged it", m, queue)
		default:
			r.Violate(m.proof(m.deliveries...), "%v of %s is acknowledged at the end, but no "+
				"acknowledgement had one of its receipts", m, queue)
		}
	}
	r.Need(published, "no message was published")
}

const (
	// recovery is for how long after a fault receives may be empty.
	recovery = 5 * time.Second
	// fewEmpty is how many receives may be empty for any reason.
	fewEmpty = 10
)

// needDelivery needs a broker that delivers: of the receives during which a message was certainly
// ready, few were empty. Such a message was acknowledged before, without a delay and a group, and
// its first delivery began afterwards, or it waits at the end and was never delivered.
// A single receive may miss it: somebody may just move it, or try in vain to claim it.
func needDelivery(r *check.Run, f *final) {
	ready := map[string][]hold{} // from the acknowledgement to the delivery, by the driver's clock
	for _, m := range f.all {
		if !m.acknowledged() || m.sent.Group != 0 || m.sent.DelayMS > 0 || f.purged[m.of.queue] ||
			f.redrove[m.of.queue] {
			continue
		}
		h := hold{from: int64(m.of.End)}
		i := slices.IndexFunc(m.deliveries, func(d *delivery) bool { return d.Receives == 1 })
		if i >= 0 {
			h.until = int64(m.deliveries[i].start)
		} else if len(m.rows) == 1 && m.rows[0].State == StateReady && m.rows[0].Receives == 0 {
			h.until = math.MaxInt64
		}
		ready[m.of.queue] = append(ready[m.of.queue], h)
	}
	for _, list := range ready { // each is ready as long as the longest of those before it
		slices.SortFunc(list, func(a, b hold) int { return cmp.Compare(a.from, b.from) })
		for i := range list[1:] {
			list[i+1].until = max(list[i].until, list[i+1].until)
		}
	}
	waited, empty, faults := 0, 0, r.Faults()
	for _, a := range f.received {
		list := ready[a.queue]
		n, _ := slices.BinarySearchFunc(list, int64(a.start), func(h hold, start int64) int {
			return cmp.Compare(h.from, start)
		})
		if n == 0 || list[n-1].until <= int64(a.end) ||
			check.Disturbed(faults, recovery, a.start, a.end) {
			continue
		}
		if waited++; a.empty {
			empty++
		}
	}
	r.Need(empty < fewEmpty || 4*empty <= waited,
		"of %d receives from queues in which a message was ready, %d got none", waited, empty)
}

// judgePhantoms looks for the publication of everything that there is.
func judgePhantoms(r *check.Run, f *final) {
	delivered := len(f.Effects) > 0
	for _, m := range f.all {
		saw := func(what, queue string, ops ...uint64) (asked bool) {
			r.Checked(1)
			switch ops = append(ops, m.op); {
			case m.of == nil:
				r.Violate(ops, "%s of %v, which was never published", what, m)
			case !m.of.May():
				r.Violate(ops, "%s of %v, whose publication was refused", what, m)
			case m.of.queue != queue:
				r.Violate(ops, "%s of %v in %s, published to %s", what, m, queue, m.of.queue)
			default:
				return true
			}
			return false
		}
		for _, d := range m.deliveries {
			delivered = true
			if sent := m.sent; saw("a delivery", d.queue, d.op) &&
				(sent.Body != d.Body || sent.Group != d.Group || sent.Priority != d.Priority) {
				r.Violate(m.proof(d), "%v was delivered with body %.60q, group %d and priority %d, but "+
					"published with %.60q, %d and %d", m, d.Body, d.Group, d.Priority, sent.Body, sent.Group,
					sent.Priority)
			}
		}
		for _, row := range m.rows {
			saw("a message", row.Queue)
		}
		for _, d := range m.dead {
			saw("a dead letter", d.Queue)
		}
		for _, e := range m.effects {
			saw("an effect", e.Queue)
		}
	}
	r.Need(delivered, "no message was delivered")
}

// judgePlaces counts the places of each message.
func judgePlaces(r *check.Run, f *final) {
	for _, m := range f.all {
		r.Checked(min(len(m.rows), 1) + min(len(m.dead), 1))
		if len(m.rows) > 1 {
			r.Violate(m.proof(), "%v is in its queue %d times: published %d times and stored each time", m,
				len(m.rows), len(m.rows))
		}
		if len(m.rows) > 0 && len(m.dead) > 0 {
			r.Violate(m.proof(), "%v is in its queue (%s) and among the dead letters", m, m.rows[0].State)
		}
		if len(m.dead) > 1 {
			r.Violate(m.proof(), "%v is among the dead letters %d times", m, len(m.dead))
		}
		if len(m.dead) > 0 && len(m.effects) > 0 {
			r.Violate(m.proof(), "%v was processed and is among the dead letters", m)
		}
	}
}

// judgeRefusals looks for refusals whose reason there cannot be: a rate or a token that nobody has
// set, or another publication with the same identity, which is never reused.
func judgeRefusals(r *check.Run, f *final) func() {
	var refused []*history.Record
	r.See(func(rec *history.Record) {
		if sut.RefusedFor(rec, ErrTaken) || sut.RefusedFor(rec, ErrForbidden) ||
			sut.RefusedFor(rec, ErrRateLimited) && f.p.RatePerS == 0 {
			refused = append(refused, &history.Record{Outcome: rec.Outcome, Code: rec.Code, Err: rec.Err,
				Op: history.Op{ID: rec.Op.ID, Kind: rec.Op.Kind, Key: rec.Op.Key}})
		}
	})
	return func() {
		for _, rec := range refused {
			if sut.RefusedFor(rec, ErrTaken) || len(f.changed[rec.Op.Key]) == 0 {
				r.Violate([]uint64{rec.Op.ID}, "the %s %d at %s was refused as %s, without any reason",
					rec.Op.Kind, rec.Op.ID, rec.Op.Key, rec.Code)
			}
		}
	}
}

// judgeWork counts what consumers worked off.
func judgeWork(r *check.Run, f *final) func() {
	effects := 0
	for _, e := range f.Effects {
		if f.p.worked(e.Queue) {
			effects++
		}
	}
	r.Checked(effects)
	r.Need(effects > 0, "consumers processed no message")
	return nil
}

// judgeEffects compares the effects with what is acknowledged, by its publication.
func judgeEffects(r *check.Run, f *final) {
	r.AllowedUnknown(f.unknown)
	for _, m := range f.all {
		waits := slices.IndexFunc(m.rows, func(row MessageAudit) bool { return row.State != StateAcked })
		if waits >= 0 && len(m.effects) > 0 {
			r.Violate(m.proof(), "%v has an effect but is not acknowledged (%s)", m, m.rows[waits].State)
		}
		if !m.acknowledged() || !f.p.worked(m.of.queue) || f.purged[m.of.queue] ||
			len(m.effects)+len(m.dead) > 0 {
			continue
		}
		if len(m.rows) == 0 || slices.ContainsFunc(m.rows, func(row MessageAudit) bool {
			return row.State == StateAcked
		}) {
			r.Violate(m.proof(), "%v of %s was published and acknowledged by consumers, but has no effect",
				m, m.of.queue)
		}
	}
}

// leastTogether is how many effects must have been in work beside a message of another
// consumer's, at least: consumers that take turns cannot take a message from each other.
const leastTogether = 10

// needCompetition counts the effects whose messages were in a consumer's hands, from their
// delivery until the effect was stored, while another consumer had messages of the same
// queue, and needs some. The messages of a batch are in the same hands.
func needCompetition(r *check.Run, f *final) func() {
	queues, together := map[string][]check.Span{}, int64(0)
	for _, e := range f.Effects {
		queues[e.Queue] = append(queues[e.Queue], check.Span{Who: e.Consumer,
			From: time.Duration(e.ReceivedNS), To: time.Duration(e.StoredNS)})
	}
	for _, spans := range queues {
		together += check.Together(spans).Raced
	}
	r.Need(together >= leastTogether, "%d of %d effects were in work beside a message of another "+
		"consumer's in their queue; at least %d are needed to say whether consumers take messages from "+
		"each other", together, len(f.Effects), leastTogether)
	r.Note("%d of %d effects were in work beside a message of another consumer's in their queue",
		together, len(f.Effects))
	return nil
}

// judgeFinal compares acknowledgements with later deliveries, and with where the messages are
// at the end: acknowledged or gone, and neither waiting nor dead.
func judgeFinal(r *check.Run, f *final) {
	acks := 0
	for _, m := range f.all {
		for _, d := range m.deliveries {
			for _, s := range d.settles {
				if s.kind != KindAck || !s.did(d.Receipt) {
					continue
				}
				acks++
				r.Checked(1)
				if where := m.open(); where != "" {
					r.Violate([]uint64{m.op, s.op}, "%v was acknowledged at %v, but is %s at the end", m,
						s.end, where)
				}
				later := slices.IndexFunc(m.deliveries, func(o *delivery) bool { return o.start > s.end })
				if later >= 0 {
					o := m.deliveries[later]
					r.Violate([]uint64{m.op, s.op, o.op}, "%v was acknowledged at %v, but delivered by a "+
						"receive that began at %v", m, s.end, o.start)
				}
			}
		}
	}
	r.Need(acks > 0, "no operation acknowledged a message")
}

// judgeReceives compares how often a message says that it was delivered with the
// deliveries that are known: of queues that operations alone consume, where none is known
// too. What nobody was given, and was not in an answer that was lost, was not delivered. What
// has come back from the dead letters counts anew.
func judgeReceives(r *check.Run, f *final) {
	again := false
	for _, m := range f.all {
		known, numbers := map[string]bool{}, map[int]*delivery{}
		for _, d := range m.deliveries {
			known[d.Receipt] = true
			if other := numbers[d.Receives]; other != nil && other.Receipt != d.Receipt && !m.redriven() {
				r.Violate(m.proof(other, d), "%v was delivered twice with delivery number %d", m, d.Receives)
			}
			numbers[d.Receives] = d
		}
		again = again || len(known) > 1
		says := func(queue string, times int) {
			r.Checked(1)
			if low, high := len(known), len(known)+f.lost[queue]; !f.p.worked(queue) &&
				(times < low || times > high) {
				r.Violate(m.proof(m.deliveries...), "%v has a delivery count of %d; %d to %d are possible", m,
					times, low, high)
			}
		}
		if m.redriven() {
			continue
		}
		for _, row := range m.rows {
			says(row.Queue, row.Receives)
		}
		for _, d := range m.dead {
			says(d.Queue, d.Receives)
		}
	}
	for _, n := range f.lost {
		r.AllowedUnknown(n)
	}
	r.Need(again, "no message was delivered to operations more than once")
}
