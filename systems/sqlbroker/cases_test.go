package sqlbroker_test

import (
	"encoding/json"
	"slices"
	"time"

	"stampede/harness/history"
	"stampede/systems/sqlbroker"
)

func lossCases() []verdictCase {
	const inv = sqlbroker.NoLoss
	return []verdictCase{
		{inv, "gone and never delivered - fail", fail, func(e *evidence) { e.collect(1280, 0) },
			"message 1280.0 of queue-2 was published and is gone, but no consumer acknowledged it"},
		{inv, "gone, of unknown outcome - pass", pass, func(e *evidence) {
			e.collect(1280, 0)
			e.unknown(1280)
		}, ""},
		{inv, "acknowledged and collected - pass", pass, func(e *evidence) { e.collect(256, 0) }, ""},
		{inv, "acknowledged in an answer that was lost, and collected - pass", pass, func(e *evidence) {
			e.collect(256, 0)
			e.unknown(288)
		}, ""},
		{inv, "gone, and its acknowledgement was refused - fail", fail, func(e *evidence) {
			e.collect(256, 0)
			e.refuse(288)
		}, "message 256.0"},
		{inv, "acknowledged by nobody - fail", fail, func(e *evidence) { e.refuse(288) },
			"message 256.0 of queue-2 is acknowledged at the end, but no acknowledgement"},
		{inv, "worked off and collected - pass", pass, func(e *evidence) { e.collect(768, 1) }, ""},
		{inv, "gone from consumers without an effect - fail", fail, func(e *evidence) {
			e.collect(768, 1)
			e.audit.Effects = slices.Delete(e.audit.Effects, 1, 2)
		}, "message 768.1 of queue-1 was published and is gone without an effect"},
		{inv, "with a consumer - pass", pass, func(e *evidence) {
			e.row(1280, 0).State = sqlbroker.StatePicked
		}, ""},
		{inv, "dead - pass", pass, func(e *evidence) {
			e.collect(1280, 0)
			e.audit.Dead = append(e.audit.Dead, sqlbroker.DeadAudit{OpID: 1280, Queue: "queue-2",
				Reason: sqlbroker.DeadRetention, AgeNS: int64(2 * time.Hour)})
		}, ""},
		{inv, "purged - pass", pass, func(e *evidence) {
			e.collect(1280, 0)
			e.do(9000, sqlbroker.KindPurge, "queue-2", 3*time.Second, nil, 1, nil)
		}, ""},
		{inv, "purged in another queue - fail", fail, func(e *evidence) {
			e.collect(1280, 0)
			e.do(9000, sqlbroker.KindPurge, "queue-1", 3*time.Second, nil, 1, nil)
		}, "message 1280.0"},
		{inv, "nothing was published - undecided", maybe, func(e *evidence) { e.records = nil },
			"no message was published"},
	}
}

func phantomCases() []verdictCase {
	const inv = sqlbroker.NoPhantom
	return []verdictCase{
		{inv, "a message that nobody published - fail", fail, func(e *evidence) { e.forget(1280) },
			"a message of message 1280.0, which was never published"},
		{inv, "one too many of a publication - fail", fail, func(e *evidence) {
			e.row(1280, 0).Index = 1
		}, "message 1280.1, which was never published"},
		{inv, "of a publication of unknown outcome - pass", pass, func(e *evidence) {
			e.unknown(1280)
		}, ""},
		{inv, "of a publication that was refused - fail", fail, func(e *evidence) {
			e.op(1280).Outcome = history.Refused
		}, "whose publication was refused"},
		{inv, "in another queue - fail", fail, func(e *evidence) { e.row(1280, 0).Queue = "queue-1" },
			"a message of message 1280.0 in queue-1, published to queue-2"},
		{inv, "delivered with another body - fail", fail, func(e *evidence) {
			e.delivery(272, func(d *sqlbroker.Delivery) { d.Body = "another" })
		}, "message 256.0 was delivered with body \"another\""},
		{inv, "delivered in another group - fail", fail, func(e *evidence) {
			e.delivery(272, func(d *sqlbroker.Delivery) { d.Group = 8 })
		}, "group 8"},
		{inv, "delivered and never published - fail", fail, func(e *evidence) {
			e.delivery(272, func(d *sqlbroker.Delivery) { d.OpID = 77 })
		}, "a delivery of message 77.0"},
		{inv, "a dead letter that nobody published - fail", fail, func(e *evidence) {
			e.audit.Dead[0].OpID = 77
		}, "a dead letter of message 77.0"},
		{inv, "an effect that nobody published - fail", fail, func(e *evidence) {
			e.audit.Effects[0].OpID = 77
		}, "an effect of message 77.0"},
		{inv, "the same text with another space - pass", pass, func(e *evidence) {
			r := e.op(272)
			r.Reply.Body = append([]byte(" "), r.Reply.Body...)
		}, ""},
		{inv, "an answer that cannot be read - undecided", maybe, func(e *evidence) {
			e.op(272).Reply.Body = []byte("[")
		}, "the reply to operation 272 cannot be read"},
		{inv, "nothing was delivered - undecided", maybe, func(e *evidence) {
			e.forget(272, 273, 528, 529, 1040, 1041, 1042)
			e.audit.Effects = []sqlbroker.EffectAudit{}
		}, "no message was delivered"},
	}
}

func placeCases() []verdictCase {
	const places, worked = sqlbroker.OncePlaced, sqlbroker.WorkedOff
	putOff := func(e *evidence) {
		r := e.last(1536)
		r.Outcome, r.Err = history.Refused, sqlbroker.ErrRateLimited.Error()
	}
	return []verdictCase{
		{places, "stored twice - fail", fail, func(e *evidence) {
			e.audit.Messages = append(e.audit.Messages, *e.row(1280, 0))
		}, "message 1280.0 is in its queue 2 times"},
		{places, "in the queue and dead - fail", fail, func(e *evidence) {
			e.audit.Dead = append(e.audit.Dead, sqlbroker.DeadAudit{OpID: 1280, Queue: "queue-2",
				Reason: sqlbroker.DeadReceives, Receives: 3})
		}, "message 1280.0 is in its queue (ready) and among the dead letters"},
		{places, "dead twice - fail", fail, func(e *evidence) {
			e.audit.Dead = append(e.audit.Dead, e.audit.Dead[0])
		}, "message 1024.0 is among the dead letters 2 times"},
		{places, "worked off and dead - fail", fail, func(e *evidence) {
			e.collect(768, 1)
			e.audit.Dead = append(e.audit.Dead, sqlbroker.DeadAudit{OpID: 768, Index: 1,
				Queue: "queue-1", Reason: sqlbroker.DeadReceives, Receives: 3})
		}, "message 768.1 was processed and is among the dead letters"},
		{places, "worked off and collected - pass", pass, func(e *evidence) { e.collect(768, 1) }, ""},
		{places, "published again and denied - fail", fail, func(e *evidence) {
			r := e.last(1536)
			r.Outcome, r.Err = history.Refused, sqlbroker.ErrTaken.Error()
		}, "operation 1536 was acknowledged at 270ms, but denied when it was sent again at 280ms"},
		{places, "every repeated publication is put off - undecided", maybe, putOff,
			"no acknowledged publication was sent again and answered"},
		{places, "no repeated publication is asked for - pass", pass, func(e *evidence) {
			putOff(e)
			e.params.Resend = 0
		}, ""},
		{places, "nothing died - undecided", maybe, func(e *evidence) {
			e.audit.Dead = []sqlbroker.DeadAudit{}
		}, "no message became a dead letter"},

		{worked, "a message waits for consumers - fail", fail, func(e *evidence) {
			*e.row(768, 1) = sqlbroker.MessageAudit{OpID: 768, Index: 1, Queue: "queue-1",
				State: sqlbroker.StateReady}
		}, "message 768.1 still waits in queue-1 (ready)"},
		{worked, "one is still with a consumer - fail", fail, func(e *evidence) {
			e.row(768, 1).State = sqlbroker.StatePicked
		}, "message 768.1 still waits in queue-1 (picked)"},
		{worked, "a message waits for operations - pass", pass, func(*evidence) {}, ""},
		{worked, "consumers did nothing - undecided", maybe, func(e *evidence) {
			e.audit.Effects = []sqlbroker.EffectAudit{}
		}, "consumers processed no message"},
	}
}

func effectCases() []verdictCase {
	const inv = sqlbroker.EffectsOnce
	return []verdictCase{
		{inv, "two effects - fail", fail, func(e *evidence) {
			e.audit.Effects = append(e.audit.Effects, effect(768, 0, 2, 1500*ms, 1505*ms))
		}, "message 768.0 has 2 effects: one of delivery 1 and one of delivery 2"},
		{inv, "acknowledged without an effect - fail", fail, func(e *evidence) {
			e.audit.Effects = slices.Delete(e.audit.Effects, 1, 2)
		}, "message 768.1 of queue-1 was published and acknowledged by consumers, but has no effect"},
		{inv, "gone without an effect - fail", fail, func(e *evidence) {
			e.audit.Effects = slices.Delete(e.audit.Effects, 1, 2)
			e.collect(768, 1)
		}, "message 768.1"},
		{inv, "gone without an effect, of unknown outcome - pass", pass, func(e *evidence) {
			e.audit.Effects = slices.Delete(e.audit.Effects, 1, 2)
			e.collect(768, 1)
			e.unknown(768)
		}, ""},
		{inv, "waiting without an effect - pass", pass, func(e *evidence) {
			e.audit.Effects = slices.Delete(e.audit.Effects, 1, 2)
			e.row(768, 1).State = sqlbroker.StateReady
		}, ""},
		{inv, "waiting with an effect - fail", fail, func(e *evidence) {
			e.row(768, 1).State = sqlbroker.StateReady
		}, "message 768.1 has an effect but is not acknowledged (ready)"},
		{inv, "dead without an effect - pass", pass, func(e *evidence) {
			e.audit.Effects = slices.Delete(e.audit.Effects, 1, 2)
			e.collect(768, 1)
			e.audit.Dead = append(e.audit.Dead, sqlbroker.DeadAudit{OpID: 768, Index: 1,
				Queue: "queue-1", Receives: 3, Reason: sqlbroker.DeadReceives})
		}, ""},
		{inv, "no effects - undecided", maybe, func(e *evidence) {
			e.audit.Effects = []sqlbroker.EffectAudit{}
			e.forget(768, 1536)
		}, "consumers stored no effect"},
		{inv, "by one consumer - undecided", maybe, func(e *evidence) {
			for i := range e.audit.Effects {
				e.audit.Effects[i].Consumer = "consumer-1"
			}
		}, "0 of 12 effects were in work beside a message of another consumer's"},
		{inv, "by consumers that nobody names - undecided", maybe, func(e *evidence) {
			for i := range e.audit.Effects {
				e.audit.Effects[i].Consumer = ""
			}
		}, "0 of 12 effects"},
		{inv, "by two consumers in turn - undecided", maybe, func(e *evidence) {
			for i := range e.audit.Effects[2:] {
				at := time.Duration(i+1) * time.Second
				x := &e.audit.Effects[i+2]
				x.ReceivedNS, x.VisibleNS, x.StoredNS = clock(at), clock(at+time.Second), clock(at+5*ms)
			}
		}, "0 of 12 effects"},
		{inv, "by two consumers of other queues - undecided", maybe, func(e *evidence) {
			for i := range e.audit.Effects[2:] {
				e.audit.Effects[i+2].Queue = sqlbroker.QueueName(i%2 + 1)
			}
		}, "0 of 12 effects"},
	}
}

func visibilityCases() []verdictCase {
	const inv = sqlbroker.VisibilityKept
	early := func(e *evidence) {
		e.delivery(528, func(d *sqlbroker.Delivery) { d.ReceivedNS = clock(1504 * ms) })
	}
	return []verdictCase{
		{inv, "a moment before its time was over - fail", fail, early,
			"message 256.1 was delivered again 1ms before its visibility timeout was over"},
		{inv, "just when its time was over - pass", pass, func(e *evidence) {
			e.delivery(528, func(d *sqlbroker.Delivery) { d.ReceivedNS = clock(1505 * ms) })
		}, ""},
		{inv, "before, after it may have been given back - pass", pass, func(e *evidence) {
			early(e)
			e.settle(9000, sqlbroker.KindRelease, 1400*ms, "256.1#1")
			e.unknown(9000)
		}, ""},
		{inv, "before, and giving it back was refused - fail", fail, func(e *evidence) {
			early(e)
			e.settle(9000, sqlbroker.KindRelease, 1400*ms, "256.1#1")
			e.refuse(9000)
		}, "message 256.1"},
		{inv, "before an extension was over - fail", fail, func(e *evidence) {
			e.settle(9000, sqlbroker.KindExtend, 700*ms, "256.1#1")
			e.op(9000).Reply.Body = text(sqlbroker.Settled{Done: []string{"256.1#1"},
				VisibleNS: clock(1900 * ms)})
		}, "message 256.1 was delivered again 95ms before its visibility timeout was over"},
		{inv, "before an extension that was refused was over - pass", pass, func(e *evidence) {
			e.settle(9000, sqlbroker.KindExtend, 1000*ms, "256.1#1")
			e.refuse(9000)
		}, ""},
		{inv, "too soon after an extension, whatever the clock says - fail", fail, func(e *evidence) {
			e.settle(9000, sqlbroker.KindExtend, 1000*ms, "256.1#1")
			e.op(9000).Reply.Body = text(sqlbroker.Settled{Done: []string{"256.1#1"}})
		}, "message 256.1 was extended by 1s at 1s or later, but delivered again by 1.81s"},
		{inv, "too soon, whatever the clock says - fail", fail, func(e *evidence) {
			e.move(528, 1480*ms)
		}, "message 256.1 was delivered twice within 990ms; the visibility timeout is 1s"},
		{inv, "soon, in a queue that was briefer once - pass", pass, func(e *evidence) {
			e.move(528, 1480*ms)
			e.settings(500)
		}, ""},
		{inv, "the same receipt again - fail", fail, func(e *evidence) {
			e.delivery(528, func(d *sqlbroker.Delivery) { d.Receipt = "256.1#1" })
		}, "message 256.1 was delivered twice with one receipt"},
		{inv, "before its delay was over - fail", fail, func(e *evidence) { e.delay(256, 211*ms) },
			"message 256.0 was delivered by 310ms, but its publication began at 100ms with a delay of " +
				"211ms"},
		{inv, "when its delay may just be over - pass", pass, func(e *evidence) {
			e.delay(256, 210*ms)
		}, ""},
		{inv, "before its delay was over, counted from an earlier attempt - pass", pass,
			func(e *evidence) {
				e.delay(256, 211*ms)
				first := *e.op(256)
				first.Outcome, first.Reply, first.Start, first.End = history.Unknown, history.Reply{}, 99*ms,
					history.Never
				e.records = append(e.records, first)
			}, ""},
		{inv, "before its delay was over, counted from an attempt that was refused - fail", fail,
			func(e *evidence) {
				e.delay(256, 211*ms)
				first := *e.op(256)
				first.Outcome, first.Reply, first.Start = history.Refused, history.Reply{}, 0
				e.records = append(e.records, first)
			}, "message 256.0 was delivered by 310ms"},
		{inv, "before its delay was over, and maybe back from the dead - pass", pass,
			func(e *evidence) {
				e.delay(256, time.Hour)
				e.do(9000, sqlbroker.KindRedrive, "queue-2", 200*ms, nil, 1, nil)
				e.unknown(9000)
			}, ""},
		{inv, "before its delay was over, and another queue was redriven - fail", fail,
			func(e *evidence) {
				e.delay(256, time.Hour)
				e.do(9000, sqlbroker.KindRedrive, "queue-1", 200*ms, nil, 1, nil)
			}, "message 256.0 was delivered by 310ms"},
		{inv, "to two consumers at once - fail", fail, func(e *evidence) {
			e.audit.Effects = append(e.audit.Effects, effect(768, 0, 2, 1149*ms, 1200*ms))
		}, "message 768.0 was delivered to two consumers, the second time 1ms before its visibility " +
			"timeout was over"},
		{inv, "to two consumers one after the other - pass", pass, func(e *evidence) {
			e.audit.Effects = append(e.audit.Effects, effect(768, 0, 2, 1150*ms, 1200*ms))
		}, ""},
		{inv, "nothing was delivered twice - undecided", maybe, func(e *evidence) {
			e.forget(528, 1041, 1042)
		}, "no message was delivered more than once"},
	}
}

func ackCases() []verdictCase {
	const inv = sqlbroker.AckFinal
	return []verdictCase{
		{inv, "delivered after it was acknowledged - fail", fail, func(e *evidence) {
			e.receive(9000, 450*ms, 256, 0, 2)
		}, "message 256.0 was acknowledged at 410ms, but delivered by a receive that began at 450ms"},
		{inv, "delivered by a demand that had begun before - pass", pass, func(e *evidence) {
			e.receive(9000, 405*ms, 256, 0, 2)
		}, ""},
		{inv, "delivered after an acknowledgement of unknown outcome - pass", pass, func(e *evidence) {
			e.receive(9000, 450*ms, 256, 0, 2)
			e.unknown(288)
		}, ""},
		{inv, "delivered after an acknowledgement that was refused - pass", pass, func(e *evidence) {
			e.receive(9000, 450*ms, 256, 0, 2)
			e.refuse(288)
		}, ""},
		{inv, "waits although it was acknowledged - fail", fail, func(e *evidence) {
			e.row(256, 0).State = sqlbroker.StateReady
		}, "message 256.0 was acknowledged at 410ms, but is ready at the end"},
		{inv, "with a consumer although it was acknowledged - fail", fail, func(e *evidence) {
			e.row(256, 0).State = sqlbroker.StatePicked
		}, "message 256.0 was acknowledged at 410ms, but is picked at the end"},
		{inv, "dead although it was acknowledged - fail", fail, func(e *evidence) {
			e.collect(256, 0)
			e.audit.Dead = append(e.audit.Dead, sqlbroker.DeadAudit{OpID: 256, Queue: "queue-2",
				Receives: 3, Reason: sqlbroker.DeadReceives})
		}, "message 256.0 was acknowledged at 410ms, but is a dead letter at the end"},
		{inv, "waits, and its acknowledgement is of unknown outcome - pass", pass, func(e *evidence) {
			e.row(256, 0).State = sqlbroker.StateReady
			e.unknown(288)
		}, ""},
		{inv, "acknowledged and collected - pass", pass, func(e *evidence) { e.collect(256, 0) }, ""},
		{inv, "nothing was acknowledged - undecided", maybe, func(e *evidence) {
			e.forget(288, 544, 561)
		}, "no operation acknowledged a message"},
	}
}

func receiptCases() []verdictCase {
	const inv = sqlbroker.ReceiptFenced
	accept := func(e *evidence, id uint64, receipt string) {
		r := e.op(id)
		r.Outcome, r.Err = history.OK, ""
		r.Reply = history.Reply{Value: 1, Body: text(sqlbroker.Settled{Done: []string{receipt}})}
	}
	return []verdictCase{
		{inv, "accepted after another delivery - fail", fail, func(e *evidence) {
			accept(e, 289, "256.1#1")
		}, "an ack of message 256.1 that began at 2s was accepted, but its receipt had been replaced " +
			"by another delivery's by 1.81s"},
		{inv, "accepted after another delivery that overlaps - fail", fail, func(e *evidence) {
			accept(e, 289, "256.1#1")
			e.op(273).End = 1850 * ms
		}, "an ack of message 256.1 that began at 2s was accepted, but its receipt had been replaced " +
			"by another delivery's by 1.81s"},
		{inv, "accepted after a delivery whose clock was read late - pass", pass, func(e *evidence) {
			accept(e, 289, "256.1#1") // it is the second
			e.op(273).End = 1850 * ms
			e.delivery(273, func(d *sqlbroker.Delivery) { d.Receives = 2 })
			e.delivery(528, func(d *sqlbroker.Delivery) { d.Receives = 1 })
			e.forget(544)
			e.settle(9000, sqlbroker.KindRelease, 1820*ms, "256.1#2")
			e.settle(9001, sqlbroker.KindAck, 2000*ms, "256.1#2")
			e.refuse(9001)
		}, ""},
		{inv, "accepted while another delivery was under way - pass", pass, func(e *evidence) {
			accept(e, 289, "256.1#1")
			e.move(289, 1450*ms)
			e.settle(9000, sqlbroker.KindAck, 2000*ms, "256.1#1")
			e.refuse(9000)
		}, ""},
		{inv, "of unknown outcome after another delivery - pass", pass, func(e *evidence) {
			e.unknown(289)
			e.settle(9000, sqlbroker.KindAck, 2000*ms, "256.1#1")
			e.refuse(9000)
		}, ""},
		{inv, "accepted after its time - fail", fail, func(e *evidence) { e.move(288, 1500*ms) },
			"an ack of message 256.0 that began at 1.5s was accepted, but its receipt had expired by"},
		{inv, "accepted after its time, in a queue that was slower once - pass", pass,
			func(e *evidence) {
				e.move(288, 1500*ms)
				e.settings(1500)
			}, ""},
		{inv, "accepted shortly after its time, as far as clocks may be set - pass", pass,
			func(e *evidence) { e.move(288, 1400*ms) }, ""},
		{inv, "accepted after its time, within an extension - pass", pass, func(e *evidence) {
			e.move(561, 3200*ms)
		}, ""},
		{inv, "accepted after its extension - fail", fail, func(e *evidence) { e.move(561, 3300*ms) },
			"its receipt had expired by 3.16s"},
		{inv, "accepted after an extension of unknown outcome - pass", pass, func(e *evidence) {
			e.unknown(545)
			e.move(561, 9*time.Second)
		}, ""},
		{inv, "repeated after its time - pass", pass, func(e *evidence) {
			e.settle(9000, sqlbroker.KindAck, 5*time.Second, "256.0#1")
		}, ""},
		{inv, "accepted after it was given back - fail", fail, func(e *evidence) {
			e.settle(9000, sqlbroker.KindAck, 2600*ms, "1024.0#3")
		}, "its receipt had been released by 2.46s"},
		{inv, "a good receipt called stale - fail", fail, func(e *evidence) { e.refuse(288) },
			"the receipt of message 256.0 was called stale by 410ms, but is valid for at least 1s from " +
				"300ms"},
		{inv, "called stale in a queue that was briefer once - pass", pass, func(e *evidence) {
			e.refuse(288)
			e.settings(150)
		}, ""},
		{inv, "one of two good receipts called stale - fail", fail, func(e *evidence) {
			e.op(288).Reply.Body = text(sqlbroker.Settled{Done: []string{}, Stale: []string{"256.0#1"}})
		}, "the receipt of message 256.0 was called stale"},
		{inv, "called stale about when its time was over - pass", pass, func(e *evidence) {
			e.refuse(288)
			e.move(288, 1290*ms)
		}, ""},
		{inv, "called stale after an acknowledgement of unknown outcome - pass", pass,
			func(e *evidence) {
				e.settle(9000, sqlbroker.KindAck, 350*ms, "256.0#1")
				e.unknown(9000)
				e.refuse(288)
			}, ""},
		{inv, "refused for another reason - pass", pass, func(e *evidence) {
			e.refuse(288)
			e.op(288).Err = sqlbroker.ErrRateLimited.Error()
		}, ""},
		{inv, "nobody was late - undecided", maybe, func(e *evidence) { e.forget(289) },
			"no stale receipt was presented"},
		{inv, "nobody was in time - undecided", maybe, func(e *evidence) {
			e.forget(288, 544, 545, 561, 1056, 1057, 1058)
		}, "no receipt was accepted"},
	}
}

func countCases() []verdictCase {
	const inv = sqlbroker.ReceiveCount
	return []verdictCase{
		{inv, "fewer than were delivered - fail", fail, func(e *evidence) {
			e.row(256, 1).Receives = 1
		}, "message 256.1 has a delivery count of 1; 2 to 2 are possible"},
		{inv, "more than were delivered - fail", fail, func(e *evidence) {
			e.row(256, 1).Receives = 3
		}, "message 256.1 has a delivery count of 3; 2 to 2 are possible"},
		{inv, "one more, and an answer was lost - pass", pass, func(e *evidence) {
			e.row(256, 1).Receives = 3
			e.do(9000, sqlbroker.KindReceive, "queue-2", 600*ms, sqlbroker.Demand{Most: 1}, 0, nil)
			e.unknown(9000)
		}, ""},
		{inv, "one more, and an answer of another queue was lost - fail", fail, func(e *evidence) {
			e.row(256, 1).Receives = 3
			e.do(9000, sqlbroker.KindReceive, "queue-1", 600*ms, sqlbroker.Demand{Most: 1}, 0, nil)
			e.unknown(9000)
		}, "message 256.1"},
		{inv, "two with one number - fail", fail, func(e *evidence) {
			e.delivery(528, func(d *sqlbroker.Delivery) { d.Receives = 1 })
		}, "message 256.1 was delivered twice with delivery number 1"},
		{inv, "two with one number, back from the dead - pass", pass, func(e *evidence) {
			e.delivery(528, func(d *sqlbroker.Delivery) { d.Receives = 1 })
			e.row(256, 1).Receives, e.row(256, 1).Redrives = 1, 1
		}, ""},
		{inv, "dead with fewer - fail", fail, func(e *evidence) { e.audit.Dead[0].Receives = 2 },
			"message 1024.0 has a delivery count of 2"},
		{inv, "never delivered, and says that it was - fail", fail, func(e *evidence) {
			e.row(1280, 0).Receives = 1
		}, "message 1280.0 has a delivery count of 1; 0 to 0 are possible"},
		{inv, "never delivered, and dead of deliveries - fail", fail, func(e *evidence) {
			e.collect(1280, 0)
			e.audit.Dead = append(e.audit.Dead, sqlbroker.DeadAudit{OpID: 1280, Queue: "queue-2",
				Receives: 3, Reason: sqlbroker.DeadReceives})
		}, "message 1280.0 has a delivery count of 3; 0 to 0 are possible"},
		{inv, "never delivered but in answers that were lost - pass", pass, func(e *evidence) {
			e.row(1280, 0).Receives = 2
			for id := range uint64(2) {
				e.do(9000+id, sqlbroker.KindReceive, "queue-2", 600*ms, sqlbroker.Demand{Most: 1}, 0, nil)
				e.unknown(9000 + id)
			}
		}, ""},
		{inv, "never delivered since it is back from the dead - pass", pass, func(e *evidence) {
			e.row(1280, 0).Receives, e.row(1280, 0).Redrives = 2, 1
		}, ""},
		{inv, "delivered to consumers only - pass", pass, func(e *evidence) {
			e.row(768, 0).Receives = 3
		}, ""},
		{inv, "collected - pass", pass, func(e *evidence) { e.collect(256, 0) }, ""},
		{inv, "nothing came twice - undecided", maybe, func(e *evidence) {
			e.forget(528, 1041, 1042)
			e.row(256, 1).Receives = 1
			e.audit.Dead[0].Receives = 1
		}, "no message was delivered to operations more than once"},
	}
}

// change has somebody change queue-2 to die after so many receives, or of that age.
func (e *evidence) change(receives int, retention time.Duration) {
	e.do(9001, sqlbroker.KindCreate, "queue-2", 2600*ms, sqlbroker.QueueSettings{VisibilityMS: 1000,
		MaxReceives: receives, RetentionMS: retention.Milliseconds()}, 0, nil)
}

// wait has message 1280.0 wait at the end, so old and for so long, in a queue whose retention
// is so old.
func (e *evidence) wait(age, waits, retention time.Duration) {
	m := e.row(1280, 0)
	m.AgeNS, m.WaitsNS = int64(age), int64(waits)
	e.audit.Queues[1].RetentionAgeNS = int64(retention)
}

// delay has a publication of two messages to queue-2 ask for a delay.
func (e *evidence) delay(op uint64, d time.Duration) {
	e.op(op).Op.Body = text(sqlbroker.Publication{
		Make: &sqlbroker.Recipe{Messages: 2, Group: 7, DelayMS: d.Milliseconds()}})
}

// dies has a message of queue-1 die of deliveries, at an age.
func (e *evidence) dies(op uint64, index int, age time.Duration) {
	e.collect(op, index)
	e.audit.Dead = append(e.audit.Dead, sqlbroker.DeadAudit{OpID: op, Index: index,
		Queue: "queue-1", Receives: 3, Reason: sqlbroker.DeadReceives, AgeNS: int64(age)})
}

func deadCases() []verdictCase {
	const inv = sqlbroker.DeadLetters
	return []verdictCase{
		{inv, "dead too soon - fail", fail, func(e *evidence) { e.audit.Dead[0].Receives = 2 },
			"message 1024.0 is a dead letter of queue-2 after 2 deliveries, not 3"},
		{inv, "dead too late - fail", fail, func(e *evidence) { e.audit.Dead[0].Receives = 4 },
			"after 4 deliveries, not 3"},
		{inv, "dead of age - pass", pass, func(e *evidence) {
			e.audit.Dead[0].Reason, e.audit.Dead[0].AgeNS = sqlbroker.DeadRetention, int64(time.Hour)
			e.audit.Dead[0].Receives = 1
		}, ""},
		{inv, "dead of age too soon - fail", fail, func(e *evidence) {
			e.audit.Dead[0].Reason = sqlbroker.DeadRetention
		}, "message 1024.0 is a dead letter of queue-2 at the age of 2.2s, less than 1h0m0s"},
		{inv, "dead before its queue delivered more often - pass", pass, func(e *evidence) {
			e.change(5, time.Hour)
			e.audit.Queues[1].MaxReceives = 5
		}, ""},
		{inv, "dead after its queue delivered less often - pass", pass, func(e *evidence) {
			e.change(2, time.Hour)
			e.unknown(9001)
			e.audit.Queues[1].MaxReceives = 2
		}, ""},
		{inv, "dead by no setting that its queue ever had - fail", fail, func(e *evidence) {
			e.change(5, time.Hour)
			e.audit.Queues[1].MaxReceives, e.audit.Dead[0].Receives = 5, 2
		}, "message 1024.0 is a dead letter of queue-2 after 2 deliveries, not 3 to 5"},
		{inv, "dead as another queue would have it - fail", fail, func(e *evidence) {
			e.change(2, time.Hour)
			e.op(9001).Op.Key = "queue-1"
			e.audit.Dead[0].Receives = 2
		}, "message 1024.0 is a dead letter of queue-2 after 2 deliveries, not 3"},
		{inv, "dead by a change that was refused - fail", fail, func(e *evidence) {
			e.change(2, time.Hour)
			e.refuse(9001)
			e.audit.Dead[0].Receives = 2
		}, "message 1024.0 is a dead letter of queue-2 after 2 deliveries, not 3"},
		{inv, "dead of age before its queue kept messages longer - pass", pass, func(e *evidence) {
			e.change(3, time.Second)
			e.audit.Dead[0].Reason = sqlbroker.DeadRetention
		}, ""},
		{inv, "dead of less age than its queue ever had - fail", fail, func(e *evidence) {
			e.change(3, 3*time.Second)
			e.audit.Dead[0].Reason = sqlbroker.DeadRetention
		}, "message 1024.0 is a dead letter of queue-2 at the age of 2.2s, less than 3s"},
		{inv, "alive after more deliveries than its queue allows by now - pass", pass,
			func(e *evidence) {
				e.change(2, time.Hour)
				e.audit.Queues[1].MaxReceives, e.row(1280, 0).Receives = 2, 2
			}, ""},
		{inv, "alive after all deliveries - fail", fail, func(e *evidence) {
			e.row(1280, 0).Receives = 3
		}, "message 1280.0 was delivered 3 times and waits in queue-2; it should be a dead letter"},
		{inv, "alive and too old - fail", fail, func(e *evidence) {
			e.wait(time.Hour+5051*ms, time.Hour+5051*ms, 2*time.Hour)
		}, "message 1280.0 has waited in queue-2 for 5.051s although it is older than 1h0m0s; it " +
			"should be a dead letter"},
		{inv, "alive, and too old only just now - pass", pass, func(e *evidence) {
			e.wait(time.Hour+5050*ms, time.Hour+5050*ms, 2*time.Hour)
		}, ""},
		{inv, "too old, and back from its consumer for too long - fail", fail, func(e *evidence) {
			e.wait(2*time.Hour, 5051*ms, 2*time.Hour)
		}, "message 1280.0 has waited in queue-2 for 5.051s"},
		{inv, "too old, and back from its consumer only just now - pass", pass, func(e *evidence) {
			e.wait(2*time.Hour, 40*ms, 2*time.Hour)
		}, ""},
		{inv, "too old since its queue keeps messages for less, a while ago - fail", fail,
			func(e *evidence) { e.wait(2*time.Hour, 2*time.Hour, 5051*ms) },
			"message 1280.0 has waited in queue-2 for 5.051s"},
		{inv, "too old since its queue keeps messages for less, just now - pass", pass,
			func(e *evidence) { e.wait(2*time.Hour, 2*time.Hour, 40*ms) }, ""},
		{inv, "too old, and waiting for nobody says how long - pass", pass, func(e *evidence) {
			e.wait(2*time.Hour, 0, 2*time.Hour)
		}, ""},
		{inv, "too old, in a queue of which nobody says since when - pass", pass, func(e *evidence) {
			e.wait(2*time.Hour, 2*time.Hour, 0)
		}, ""},
		{inv, "too old and with a consumer, or acknowledged - pass", pass, func(e *evidence) {
			e.row(1280, 0).State, e.row(1280, 0).AgeNS = sqlbroker.StatePicked, int64(2*time.Hour)
			e.row(256, 0).AgeNS = int64(2 * time.Hour)
		}, ""},
		{inv, "with a consumer for the last time - pass", pass, func(e *evidence) {
			e.row(1280, 0).Receives, e.row(1280, 0).State = 3, sqlbroker.StatePicked
		}, ""},
		{inv, "acknowledged at the last delivery - pass", pass, func(e *evidence) {
			e.row(256, 1).Receives = 3
		}, ""},
		{inv, "dead of consumers that gave it back - fail", fail, func(e *evidence) {
			e.dies(768, 1, 2699*ms)
		}, "message 768.1 is a dead letter of queue-1 after 3 deliveries within 2.699s, but a delivery " +
			"lasts 1s: it was released"},
		{inv, "dead of consumers that slept over it - pass", pass, func(e *evidence) {
			e.dies(768, 1, 2700*ms) // as far as clocks may be set
		}, ""},
		{inv, "dead of consumers, in a queue that was briefer once - pass", pass, func(e *evidence) {
			e.dies(768, 1, 900*ms)
			e.settings(400)
		}, ""},
		{inv, "dead of consumers, at an age that nobody says - pass", pass, func(e *evidence) {
			e.dies(768, 1, 0)
		}, ""},
		{inv, "dead of consumers, back from the dead before - pass", pass, func(e *evidence) {
			e.dies(768, 1, 50*ms)
			e.audit.Dead[1].Redrives = 1
		}, ""},
		{inv, "dead of what operations may have given back - pass", pass, func(e *evidence) {
			e.dies(768, 1, 50*ms)
			e.receive(9000, 300*ms, 768, 1, 1)
			e.settle(9001, sqlbroker.KindRelease, 320*ms, "768.1#1")
			e.unknown(9001)
		}, ""},
		{inv, "dead of what nobody can work off - pass", pass, func(e *evidence) {
			e.dies(768, 1, 50*ms)
			e.op(768).Op.Body = text(sqlbroker.Publication{
				Make: &sqlbroker.Recipe{Messages: 2, Group: 3, Poison: 2}})
		}, ""},
		{inv, "dead of its neighbour, which nobody can work off - fail", fail, func(e *evidence) {
			e.dies(768, 1, 50*ms)
			e.op(768).Op.Body = text(sqlbroker.Publication{
				Make: &sqlbroker.Recipe{Messages: 2, Group: 3, Poison: 1}})
		}, "message 768.1 is a dead letter of queue-1 after 3 deliveries within 50ms"},
		{inv, "delivered once more than it may be - fail", fail, func(e *evidence) {
			e.delivery(528, func(d *sqlbroker.Delivery) { d.Receives = 4 })
		}, "message 256.1 has delivery number 4, but the most are 3"},
		{inv, "dead in a queue that does not exist - fail", fail, func(e *evidence) {
			e.audit.Dead[0].Queue = "queue-9"
		}, "is a dead letter of queue-9, which does not exist"},
		{inv, "nothing died - undecided", maybe, func(e *evidence) {
			e.audit.Dead = slices.Clip([]sqlbroker.DeadAudit{})
		}, "no message became a dead letter"},
	}
}

func groupCases() []verdictCase {
	const inv = sqlbroker.GroupOrder
	swap := func(e *evidence) { // 512.0 before 256.1 is acknowledged
		e.delivery(529, func(d *sqlbroker.Delivery) { d.ReceivedNS = clock(1904 * ms) })
	}
	first := func(e *evidence) { // 512.0 when 256.1 was not yet delivered, and 256.0 was done
		e.delivery(529, func(d *sqlbroker.Delivery) { d.ReceivedNS = clock(410 * ms) })
		e.row(512, 0).AckedNS = clock(490 * ms)
	}
	return []verdictCase{
		{inv, "before the earlier one is acknowledged - fail", fail, swap,
			"group 7 of queue-2: message 512.0 was delivered, but message 256.1, published before it, was " +
				"acknowledged only 1ms later"},
		{inv, "just after the earlier one is acknowledged - pass", pass, func(e *evidence) {
			e.delivery(529, func(d *sqlbroker.Delivery) { d.ReceivedNS = clock(1905 * ms) })
		}, ""},
		{inv, "before, and both were published at once - pass", pass, func(e *evidence) {
			first(e)
			e.op(256).End = 205 * ms
		}, ""},
		{inv, "before, and the earlier publication has an unknown outcome - pass", pass,
			func(e *evidence) {
				first(e)
				e.unknown(256)
			}, ""},
		{inv, "two at a time, and both were published at once - fail", fail, func(e *evidence) {
			swap(e)
			e.op(256).End = 205 * ms
		}, "group 7 of queue-2: message 512.0 was delivered while message 256.1 was with a consumer " +
			"for another 1ms"},
		{inv, "two in one answer - fail", fail, func(e *evidence) {
			e.op(256).End = 205 * ms
			e.delivery(529, func(d *sqlbroker.Delivery) { d.ReceivedNS = clock(1805 * ms) })
		}, "was delivered while message"},
		{inv, "while the other one is only given back - pass", pass, func(e *evidence) {
			e.op(256).End = 205 * ms
			e.op(289).Start = 600 * ms // before its time is over
			e.op(289).Op.Kind, e.op(289).Outcome = sqlbroker.KindRelease, history.Unknown
			e.delivery(529, func(d *sqlbroker.Delivery) { d.ReceivedNS = clock(700 * ms) })
			e.row(512, 0).AckedNS = clock(1700 * ms)
		}, ""},
		{inv, "while the other one is extended - fail", fail, func(e *evidence) {
			e.op(256).End = 205 * ms
			e.settle(9000, sqlbroker.KindExtend, 1400*ms, "256.1#1")
			e.delivery(529, func(d *sqlbroker.Delivery) { d.ReceivedNS = clock(1550 * ms) })
		}, "message 512.0 was delivered while message 256.1 was with a consumer"},
		{inv, "two consumers at a time - fail", fail, func(e *evidence) {
			e.audit.Effects[1].ReceivedNS = clock(151 * ms)
		}, "group 3 of queue-1: message 768.1 was delivered while message 768.0 was with a consumer"},
		{inv, "within a publication - fail", fail, func(e *evidence) {
			e.delivery(273, func(d *sqlbroker.Delivery) { d.ReceivedNS = clock(404 * ms) })
		}, "message 256.1 was delivered, but message 256.0, published before it, was acknowledged only " +
			"1ms later"},
		{inv, "while the earlier one waits at the end - fail", fail, func(e *evidence) {
			*e.row(256, 1) = sqlbroker.MessageAudit{OpID: 256, Index: 1, Queue: "queue-2", Group: 7,
				State: sqlbroker.StateReady, Receives: 2}
		}, "message 256.1, published before it, was never acknowledged"},
		{inv, "while the earlier one is dead - pass", pass, func(e *evidence) {
			e.collect(256, 1)
			e.audit.Dead = append(e.audit.Dead, sqlbroker.DeadAudit{OpID: 256, Index: 1,
				Queue: "queue-2", Receives: 3, Reason: sqlbroker.DeadReceives})
		}, ""},
		{inv, "while the earlier one is back from the dead - pass", pass, func(e *evidence) {
			*e.row(256, 1) = sqlbroker.MessageAudit{OpID: 256, Index: 1, Queue: "queue-2", Group: 7,
				State: sqlbroker.StateReady, Redrives: 1}
		}, ""},
		{inv, "before the earlier one, collected by now, was received - fail", fail,
			func(e *evidence) {
				e.collect(256, 1)
				e.delivery(529, func(d *sqlbroker.Delivery) { d.ReceivedNS = clock(1804 * ms) })
			}, "message 512.0 was delivered, but message 256.1"},
		{inv, "after the earlier one, collected by now, was received - pass", pass,
			func(e *evidence) {
				e.collect(256, 1)
				e.delivery(529, func(d *sqlbroker.Delivery) { d.ReceivedNS = clock(1806 * ms) })
			}, ""},
		{inv, "consumers out of order - fail", fail, func(e *evidence) {
			e.audit.Effects[1].ReceivedNS = clock(154 * ms)
		}, "group 3 of queue-1: message 768.1 was delivered, but message 768.0"},
		{inv, "no group - undecided", maybe, func(e *evidence) {
			for _, op := range []uint64{256, 512, 768} {
				r := e.op(op)
				var p sqlbroker.Publication
				if err := json.Unmarshal(r.Op.Body, &p); err != nil {
					panic(err) // it is of these tests
				}
				p.Make.Group = 0
				r.Op.Body = text(p)
			}
		}, "no two messages of a group were delivered in sequence"},
	}
}
