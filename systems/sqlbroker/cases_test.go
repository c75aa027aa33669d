package sqlbroker_test

import (
	"time"

	"stampede/harness/history"
	"stampede/systems/sqlbroker"
)

const (
	ack      = sqlbroker.KindAck
	extend   = sqlbroker.KindExtend
	release  = sqlbroker.KindRelease
	demand   = sqlbroker.KindReceive
	purge    = sqlbroker.KindPurge
	redrive  = sqlbroker.KindRedrive
	ready    = sqlbroker.StateReady
	picked   = sqlbroker.StatePicked
	tooSoon  = "message 256.0 was delivered by 310ms"
	together = "0 of 12 effects"
)

func lossCases() []verdictCase {
	return of(sqlbroker.NoLoss,
		breaks("gone and never delivered", "message 1280.0 of queue-2 was published and is gone, but "+
			"no consumer acknowledged it", collect(1280, 0)),
		holds("gone, of unknown outcome", collect(1280, 0), unknown(1280)),
		holds("acknowledged and collected", collect(256, 0)),
		holds("acknowledged in an answer that was lost, and collected", collect(256, 0), unknown(288)),
		breaks("gone, and its acknowledgement was refused", "message 256.0", collect(256, 0),
			refuse(288)),
		breaks("acknowledged by nobody", "message 256.0 of queue-2 is acknowledged at the end, but no "+
			"acknowledgement", refuse(288)),
		holds("worked off and collected", collect(768, 1)),
		breaks("gone from consumers without an effect", "message 768.1 of queue-1 was published and is "+
			"gone without an effect", collect(768, 1), ineffective),
		holds("with a consumer", state(1280, 0, picked)),
		holds("dead", dies(1280, 0, 2, time.Hour)),
		holds("purged", collect(1280, 0), asks(9000, purge, 2, 3*time.Second)),
		breaks("purged in another queue", "message 1280.0", collect(1280, 0),
			asks(9000, purge, 1, 3*time.Second)),
		open("nothing was published", "no message was published",
			func(e *evidence) { e.records = nil }),
	)
}

func phantomCases() []verdictCase {
	return of(sqlbroker.NoPhantom,
		breaks("a message that nobody published", "a message of message 1280.0, which was never "+
			"published", forget(1280)),
		breaks("one too many of a publication", "message 1280.1, which was never published",
			message(1280, 0, func(m *sqlbroker.MessageAudit) { m.Index = 1 })),
		holds("of a publication of unknown outcome", unknown(1280)),
		breaks("of a publication that was refused", "whose publication was refused", refuse(1280)),
		breaks("in another queue", "a message of message 1280.0 in queue-1, published to queue-2",
			message(1280, 0, func(m *sqlbroker.MessageAudit) { m.Queue = "queue-1" })),
		breaks("delivered with another body", `message 256.0 was delivered with body "another"`,
			delivery(272, func(d *sqlbroker.Delivery) { d.Body = "another" })),
		breaks("delivered in another group", "group 8",
			delivery(272, func(d *sqlbroker.Delivery) { d.Group = 8 })),
		breaks("delivered and never published", "a delivery of message 77.0",
			delivery(272, func(d *sqlbroker.Delivery) { d.OpID = 77 })),
		breaks("a dead letter that nobody published", "a dead letter of message 77.0",
			letter(func(d *sqlbroker.DeadAudit) { d.OpID = 77 })),
		breaks("an effect that nobody published", "an effect of message 77.0",
			done(0, func(x *sqlbroker.EffectAudit) { x.OpID = 77 })),
		holds("the same text with another space", record(272, func(r *history.Record) {
			r.Reply.Body = append([]byte(" "), r.Reply.Body...)
		})),
		open("an answer that cannot be read", "the reply to operation 272 cannot be read",
			record(272, func(r *history.Record) { r.Reply.Body = []byte("[") })),
		open("nothing was delivered", "no message was delivered",
			forget(272, 273, 528, 529, 1040, 1041, 1042), noEffects),
	)
}

func placeCases() []verdictCase {
	putOff := refuseFor(1536, sqlbroker.ErrRateLimited)
	return append(of(sqlbroker.OncePlaced,
		breaks("stored twice", "message 1280.0 is in its queue 2 times", func(e *evidence) {
			e.audit.Messages = append(e.audit.Messages, sqlbroker.MessageAudit{OpID: 1280,
				Queue: "queue-2", State: ready})
		}),
		breaks("in the queue and dead", "message 1280.0 is in its queue (ready) and among the dead "+
			"letters", dead(1280, 0, 2, 0)),
		breaks("dead twice", "message 1024.0 is among the dead letters 2 times", dead(1024, 0, 2, 0)),
		breaks("worked off and dead", "message 768.1 was processed and is among the dead letters",
			dies(768, 1, 1, 0)),
		holds("worked off and collected", collect(768, 1)),
		breaks("published again and denied", "operation 1536 was acknowledged at 270ms, but denied "+
			"when it was sent again at 280ms", refuseFor(1536, sqlbroker.ErrTaken)),
		open("every repeated publication is put off", "no publication was acknowledged again", putOff),
		holds("no repeated publication is asked for", putOff,
			func(e *evidence) { e.params.Resend = 0 }),
		open("nothing died", "no message became a dead letter", noDead),
	), of(sqlbroker.WorkedOff,
		breaks("a message waits for consumers", "message 768.1 of queue-1 (ready) is left",
			state(768, 1, ready)),
		holds("a message waits for operations"),
		open("consumers did nothing", "consumers processed no message", noEffects),
	)...)
}

func effectCases() []verdictCase {
	by := func(name, says string, does func(i int, x *sqlbroker.EffectAudit)) verdictCase {
		return open("by "+name, says, func(e *evidence) {
			for i := range e.audit.Effects {
				does(i, &e.audit.Effects[i])
			}
		})
	}
	return of(sqlbroker.EffectsOnce,
		breaks("two effects", "768.0: there are effect 768.0 (delivery 1) and effect 768.0 (delivery 2)",
			effect(768, 0, 2, 1500*ms, 1505*ms)),
		breaks("acknowledged without an effect", "message 768.1 of queue-1 was published and "+
			"acknowledged by consumers, but has no effect", ineffective),
		breaks("gone without an effect", "message 768.1", ineffective, collect(768, 1)),
		holds("gone without an effect, of unknown outcome", ineffective, collect(768, 1),
			unknown(768)),
		holds("waiting without an effect", ineffective, state(768, 1, ready)),
		breaks("waiting with an effect", "message 768.1 has an effect but is not acknowledged (ready)",
			state(768, 1, ready)),
		holds("dead without an effect", ineffective, dies(768, 1, 1, 0)),
		open("no effects", "there is no effect at the end", noEffects, forget(768, 1536)),
		by("one consumer", together+" were in work beside a message of another consumer's",
			func(_ int, x *sqlbroker.EffectAudit) { x.Consumer = "consumer-1" }),
		by("consumers that nobody names", together,
			func(_ int, x *sqlbroker.EffectAudit) { x.Consumer = "" }),
		by("two consumers in turn", together, func(i int, x *sqlbroker.EffectAudit) {
			at := time.Duration(i+1) * time.Second
			x.ReceivedNS, x.VisibleNS, x.StoredNS = clock(at), clock(at+time.Second), clock(at+5*ms)
		}),
		by("two consumers of other queues", together, func(i int, x *sqlbroker.EffectAudit) {
			x.Queue = sqlbroker.QueueName(i%2 + 1)
		}),
	)
}

func visibilityCases() []verdictCase {
	early := received(528, 1504*ms)
	// attempt is an earlier one at publishing 256, of some outcome.
	attempt := func(start time.Duration, outcome history.Outcome) change {
		return func(e *evidence) {
			publish(256, 2, 2, 7, start)(e)
			r := &e.records[len(e.records)-1]
			r.Outcome, r.Reply, r.End = outcome, history.Reply{}, history.Never
		}
	}
	return of(sqlbroker.VisibilityKept,
		breaks("a moment before its time was over", "message 256.1 was delivered again 1ms before its "+
			"visibility timeout was over", early),
		holds("just when its time was over", received(528, 1505*ms)),
		holds("before, after it may have been given back", early,
			settle(9000, release, 1400*ms, "256.1#1"), unknown(9000)),
		breaks("before, and giving it back was refused", "message 256.1", early,
			settle(9000, release, 1400*ms, "256.1#1"), refuse(9000)),
		breaks("before an extension was over", "message 256.1 was delivered again 95ms before its "+
			"visibility timeout was over", settle(9000, extend, 700*ms, "256.1#1"),
			replies(9000, sqlbroker.Settled{Done: []string{"256.1#1"}, VisibleNS: clock(1900 * ms)})),
		holds("before an extension that was refused was over",
			settle(9000, extend, 1000*ms, "256.1#1"), refuse(9000)),
		breaks("too soon after an extension, whatever the clock says", "message 256.1 was extended by "+
			"1s at 1s or later, but delivered again by 1.81s", settle(9000, extend, 1000*ms, "256.1#1"),
			replies(9000, sqlbroker.Settled{Done: []string{"256.1#1"}})),
		breaks("too soon, whatever the clock says", "message 256.1 was delivered twice within 990ms; "+
			"the visibility timeout is 1s", move(528, 1480*ms)),
		holds("soon, in a queue that was briefer once", move(528, 1480*ms),
			sets(2, 50*ms, 500, 3, time.Hour)),
		breaks("the same receipt again", "message 256.1 was delivered twice with one receipt",
			delivery(528, func(d *sqlbroker.Delivery) { d.Receipt = "256.1#1" })),
		breaks("before its delay was over", tooSoon+", but its publication began at 100ms with a delay "+
			"of 211ms", delay(256, 211*ms)),
		holds("when its delay may just be over", delay(256, 210*ms)),
		holds("before its delay was over, counted from an earlier attempt", delay(256, 211*ms),
			attempt(99*ms, history.Unknown)),
		breaks("before its delay was over, counted from an attempt that was refused", tooSoon,
			delay(256, 211*ms), attempt(0, history.Refused)),
		holds("before its delay was over, and maybe back from the dead", delay(256, time.Hour),
			asks(9000, redrive, 2, 200*ms), unknown(9000)),
		breaks("before its delay was over, and another queue was redriven", tooSoon,
			delay(256, time.Hour), asks(9000, redrive, 1, 200*ms)),
		breaks("to two consumers at once", "message 768.0 was delivered to two consumers, the second "+
			"time 1ms before its visibility timeout was over", effect(768, 0, 2, 1149*ms, 1200*ms)),
		holds("to two consumers one after the other", effect(768, 0, 2, 1150*ms, 1200*ms)),
		open("nothing was delivered twice", "no message was delivered more than once",
			forget(528, 1041, 1042)),
	)
}

func ackCases() []verdictCase {
	again, said := receive(9000, 450*ms, 256, 0, 2), "message 256.0 was acknowledged at 410ms, but "
	return of(sqlbroker.AckFinal,
		breaks("delivered after it was acknowledged", said+"delivered by a receive that began at 450ms",
			again),
		holds("delivered by a demand that had begun before", receive(9000, 405*ms, 256, 0, 2)),
		holds("delivered after an acknowledgement of unknown outcome", again, unknown(288)),
		holds("delivered after an acknowledgement that was refused", again, refuse(288)),
		breaks("waits although it was acknowledged", said+"is ready at the end", state(256, 0, ready)),
		breaks("with a consumer although it was acknowledged", said+"is picked at the end",
			state(256, 0, picked)),
		breaks("dead although it was acknowledged", said+"is a dead letter at the end",
			dies(256, 0, 2, 0)),
		holds("waits, and its acknowledgement is of unknown outcome", state(256, 0, ready),
			unknown(288)),
		holds("acknowledged and collected", collect(256, 0)),
		open("nothing was acknowledged", "no operation acknowledged a message", forget(288, 544, 561)),
	)
}

func receiptCases() []verdictCase {
	late := accept(289, "256.1#1")
	const replaced = "an ack of message 256.1 that began at 2s was accepted, but its receipt had " +
		"been replaced by another delivery's by 1.81s"
	refused := []change{settle(9000, ack, 2000*ms, "256.1#1"), refuse(9000)} // so that one is stale
	return of(sqlbroker.ReceiptFenced,
		breaks("accepted after another delivery", replaced, late),
		breaks("accepted after another delivery that overlaps", replaced, late, until(273, 1850*ms)),
		holds("accepted after a delivery whose clock was read late", late, until(273, 1850*ms),
			numbered(273, 2), numbered(528, 1), forget(544), settle(9000, release, 1820*ms, "256.1#2"),
			settle(9001, ack, 2000*ms, "256.1#2"), refuse(9001)),
		holds("accepted while another delivery was under way", append(refused, late,
			move(289, 1450*ms))...),
		holds("of unknown outcome after another delivery", append(refused, unknown(289))...),
		breaks("accepted after its time", "an ack of message 256.0 that began at 1.5s was accepted, but "+
			"its receipt had expired by", move(288, 1500*ms)),
		holds("accepted after its time, in a queue that was slower once", move(288, 1500*ms),
			sets(2, 50*ms, 1500, 3, time.Hour)),
		holds("accepted shortly after its time, as far as clocks may be set", move(288, 1400*ms)),
		holds("accepted after its time, within an extension", move(561, 3200*ms)),
		breaks("accepted after its extension", "its receipt had expired by 3.16s", move(561, 3300*ms)),
		holds("accepted after an extension of unknown outcome", unknown(545),
			move(561, 9*time.Second)),
		holds("repeated after its time", settle(9000, ack, 5*time.Second, "256.0#1")),
		breaks("accepted after it was given back", "its receipt had been released by 2.46s",
			settle(9000, ack, 2600*ms, "1024.0#3")),
		breaks("a good receipt called stale", "the receipt of message 256.0 was called stale by 410ms, "+
			"but is valid for at least 1s from 300ms", refuse(288)),
		holds("called stale in a queue that was briefer once", refuse(288),
			sets(2, 50*ms, 150, 3, time.Hour)),
		breaks("one of two good receipts called stale", "the receipt of message 256.0 was called stale",
			replies(288, sqlbroker.Settled{Done: []string{}, Stale: []string{"256.0#1"}})),
		holds("called stale about when its time was over", refuse(288), move(288, 1290*ms)),
		holds("called stale after an acknowledgement of unknown outcome",
			settle(9000, ack, 350*ms, "256.0#1"), unknown(9000), refuse(288)),
		holds("refused for another reason", refuseFor(288, sqlbroker.ErrRateLimited)),
		open("nobody was late", "no stale receipt was presented", forget(289)),
		open("nobody was in time", "no receipt was accepted",
			forget(288, 544, 545, 561, 1056, 1057, 1058)),
	)
}

func countCases() []verdictCase {
	lost := func(id uint64, queue int) change {
		return func(e *evidence) {
			asks(id, demand, queue, 600*ms)(e)
			unknown(id)(e)
		}
	}
	risen := func(op uint64, index, n int) change {
		return message(op, index, func(m *sqlbroker.MessageAudit) { m.Receives, m.Redrives = n, 1 })
	}
	return of(sqlbroker.ReceiveCount,
		breaks("fewer than were delivered", "message 256.1 has a delivery count of 1; 2 to 2 are "+
			"possible", receives(256, 1, 1)),
		breaks("more than were delivered", "message 256.1 has a delivery count of 3; 2 to 2 are "+
			"possible", receives(256, 1, 3)),
		holds("one more, and an answer was lost", receives(256, 1, 3), lost(9000, 2)),
		breaks("one more, and an answer of another queue was lost", "message 256.1",
			receives(256, 1, 3), lost(9000, 1)),
		breaks("two with one number", "message 256.1 was delivered twice with delivery number 1",
			numbered(528, 1)),
		holds("two with one number, back from the dead", numbered(528, 1), risen(256, 1, 1)),
		breaks("dead with fewer", "message 1024.0 has a delivery count of 2",
			letter(func(d *sqlbroker.DeadAudit) { d.Receives = 2 })),
		breaks("never delivered, and says that it was", "message 1280.0 has a delivery count of 1; 0 "+
			"to 0 are possible", receives(1280, 0, 1)),
		breaks("never delivered, and dead of deliveries", "message 1280.0 has a delivery count of 3; 0 "+
			"to 0 are possible", dies(1280, 0, 2, 0)),
		holds("never delivered but in answers that were lost", receives(1280, 0, 2), lost(9000, 2),
			lost(9001, 2)),
		holds("never delivered since it is back from the dead", risen(1280, 0, 2)),
		holds("delivered to consumers only", receives(768, 0, 3)),
		holds("collected", collect(256, 0)),
		open("nothing came twice", "no message was delivered to operations more than once",
			forget(528, 1041, 1042), receives(256, 1, 1),
			letter(func(d *sqlbroker.DeadAudit) { d.Receives = 1 })),
	)
}

// most has queue-2 deliver so often at the end; changed has a queue changed late in the run.
func most(n int) change { return func(e *evidence) { e.audit.Queues[1].MaxReceives = n } }

func changed(queue, receives int, retention time.Duration) change {
	return sets(queue, 2600*ms, 1000, receives, retention)
}

func deadCases() []verdictCase {
	died := func(receives int, reason string, age time.Duration) change {
		return letter(func(d *sqlbroker.DeadAudit) {
			d.Receives, d.Reason, d.AgeNS = receives, reason, int64(age)
		})
	}
	of2200 := func(receives int) change { return died(receives, sqlbroker.DeadReceives, 2200*ms) }
	aged := died(3, sqlbroker.DeadRetention, 2200*ms)
	poison := func(n int) change {
		return made(768, func(r *sqlbroker.Recipe) { r.Poison = n })
	}
	const two = "message 1024.0 is a dead letter of queue-2 after 2 deliveries, not 3"
	return of(sqlbroker.DeadLetters,
		breaks("dead too soon", two, of2200(2)),
		breaks("dead too late", "after 4 deliveries, not 3", of2200(4)),
		holds("dead of age", died(1, sqlbroker.DeadRetention, time.Hour)),
		breaks("dead of age too soon", "message 1024.0 is a dead letter of queue-2 at the age of 2.2s, "+
			"less than 1h0m0s", aged),
		holds("dead before its queue delivered more often", changed(2, 5, time.Hour), most(5)),
		holds("dead after its queue delivered less often", changed(2, 2, time.Hour), unknown(9001),
			most(2)),
		breaks("dead by no setting that its queue ever had", two+" to 5", changed(2, 5, time.Hour),
			most(5), of2200(2)),
		breaks("dead as another queue would have it", two, changed(1, 2, time.Hour), of2200(2)),
		breaks("dead by a change that was refused", two, changed(2, 2, time.Hour), refuse(9001),
			of2200(2)),
		holds("dead of age before its queue kept messages longer", changed(2, 3, time.Second), aged),
		breaks("dead of less age than its queue ever had", "message 1024.0 is a dead letter of queue-2 "+
			"at the age of 2.2s, less than 3s", changed(2, 3, 3*time.Second), aged),
		breaks("dead of consumers that gave it back", "message 768.1 is a dead letter of queue-1 after "+
			"3 deliveries within 2.699s, but a delivery lasts 1s: it was released",
			dies(768, 1, 1, 2699*ms)),
		holds("dead of consumers that slept over it, as far as clocks may be set",
			dies(768, 1, 1, 2700*ms)),
		holds("dead of consumers, in a queue that was briefer once", dies(768, 1, 1, 900*ms),
			sets(1, 50*ms, 400, 3, time.Hour)),
		holds("dead of consumers, at an age that nobody says", dies(768, 1, 1, 0)),
		holds("dead of consumers, back from the dead before", dies(768, 1, 1, 50*ms),
			func(e *evidence) { e.audit.Dead[1].Redrives = 1 }),
		holds("dead of what operations may have given back", dies(768, 1, 1, 50*ms),
			receive(9000, 300*ms, 768, 1, 1), settle(9001, release, 320*ms, "768.1#1"), unknown(9001)),
		holds("dead of what nobody can work off", dies(768, 1, 1, 50*ms), poison(2)),
		breaks("dead of its neighbour, which nobody can work off", "message 768.1 is a dead letter of "+
			"queue-1 after 3 deliveries within 50ms", dies(768, 1, 1, 50*ms), poison(1)),
		breaks("delivered once more than it may be", "message 256.1 has delivery number 4, but the most "+
			"are 3", numbered(528, 4)),
		breaks("dead in a queue that does not exist", "is a dead letter of queue-9, which does not "+
			"exist", letter(func(d *sqlbroker.DeadAudit) { d.Queue = "queue-9" })),
		open("nothing died", "no message became a dead letter", noDead),
	)
}

func aliveCases() []verdictCase {
	// wait has 1280.0 wait at the end, so old and for so long, in a queue whose retention is so old.
	wait := func(age, waits, retention time.Duration) change {
		return func(e *evidence) {
			message(1280, 0, func(m *sqlbroker.MessageAudit) {
				m.AgeNS, m.WaitsNS = int64(age), int64(waits)
			})(e)
			e.audit.Queues[1].RetentionAgeNS = int64(retention)
		}
	}
	const waited = "message 1280.0 has waited in queue-2 for 5.051s"
	return of(sqlbroker.DeadLetters,
		holds("alive after more deliveries than its queue allows by now", changed(2, 2, time.Hour),
			most(2), receives(1280, 0, 2)),
		breaks("alive after all deliveries", "message 1280.0 was delivered 3 times and waits in "+
			"queue-2; it should be a dead letter", receives(1280, 0, 3)),
		breaks("alive and too old", waited+" although it is older than 1h0m0s; it should be a dead "+
			"letter", wait(time.Hour+5051*ms, time.Hour+5051*ms, 2*time.Hour)),
		holds("alive, and too old only just now",
			wait(time.Hour+5050*ms, time.Hour+5050*ms, 2*time.Hour)),
		breaks("too old, and back from its consumer for too long", waited,
			wait(2*time.Hour, 5051*ms, 2*time.Hour)),
		holds("too old, and back from its consumer only just now",
			wait(2*time.Hour, 40*ms, 2*time.Hour)),
		breaks("too old since its queue keeps messages for less, a while ago", waited,
			wait(2*time.Hour, 2*time.Hour, 5051*ms)),
		holds("too old since its queue keeps messages for less, just now",
			wait(2*time.Hour, 2*time.Hour, 40*ms)),
		holds("too old, and waiting for nobody says how long", wait(2*time.Hour, 0, 2*time.Hour)),
		holds("too old, in a queue of which nobody says since when",
			wait(2*time.Hour, 2*time.Hour, 0)),
		holds("too old and with a consumer", wait(2*time.Hour, 2*time.Hour, 2*time.Hour),
			state(1280, 0, picked)),
		holds("too old and acknowledged", wait(2*time.Hour, 2*time.Hour, 2*time.Hour),
			state(1280, 0, sqlbroker.StateAcked)),
		holds("with a consumer for the last time", receives(1280, 0, 3), state(1280, 0, picked)),
		holds("acknowledged at the last delivery", receives(256, 1, 3)),
	)
}

func groupCases() []verdictCase {
	swap := received(529, 1904*ms)           // 512.0 before 256.1 is acknowledged
	atOnce := until(256, 205*ms)             // 256 and 512 are published at the same time
	first := []change{received(529, 410*ms), // 512.0 before 256.1 was delivered, and 256.0 was done
		ackedAt(512, 0, 490*ms)}
	// waits has 256.1 wait at the end.
	waits := func(receives, redrives int) change {
		return message(256, 1, func(m *sqlbroker.MessageAudit) {
			*m = sqlbroker.MessageAudit{OpID: 256, Index: 1, Queue: "queue-2", Group: 7, State: ready,
				Receives: receives, Redrives: redrives}
		})
	}
	effectAt := func(at time.Duration) change {
		return done(1, func(x *sqlbroker.EffectAudit) { x.ReceivedNS = clock(at) })
	}
	groupless := func(r *sqlbroker.Recipe) { r.Group = 0 }
	const delivered = "group 7 of queue-2: message 512.0 was delivered"
	return of(sqlbroker.GroupOrder,
		breaks("before the earlier one is acknowledged", delivered+", but message 256.1, published "+
			"before it, was acknowledged only 1ms later", swap),
		holds("just after the earlier one is acknowledged", received(529, 1905*ms)),
		holds("before, and both were published at once", append(first, atOnce)...),
		holds("before, and the earlier publication has an unknown outcome",
			append(first, unknown(256))...),
		breaks("two at a time, and both were published at once", delivered+" while message 256.1 was "+
			"with a consumer for another 1ms", swap, atOnce),
		breaks("two in one answer", "was delivered while message", atOnce, received(529, 1805*ms)),
		holds("while the other one is only given back", atOnce, received(529, 700*ms),
			ackedAt(512, 0, 1700*ms), record(289, func(r *history.Record) {
				r.Start, r.Op.Kind, r.Outcome = 600*ms, release, history.Unknown // before its time is over
			})),
		breaks("while the other one is extended", "message 512.0 was delivered while message 256.1 was "+
			"with a consumer", atOnce, settle(9000, extend, 1400*ms, "256.1#1"), received(529, 1550*ms)),
		breaks("two consumers at a time", "group 3 of queue-1: message 768.1 was delivered while "+
			"message 768.0 was with a consumer", effectAt(151*ms)),
		breaks("within a publication", "message 256.1 was delivered, but message 256.0, published "+
			"before it, was acknowledged only 1ms later", received(273, 404*ms)),
		breaks("while the earlier one waits at the end", "message 256.1, published before it, was never "+
			"acknowledged", waits(2, 0)),
		holds("while the earlier one is dead", dies(256, 1, 2, 0)),
		holds("while the earlier one is back from the dead", waits(0, 1)),
		breaks("before the earlier one, collected by now, was received", delivered+", but message "+
			"256.1", collect(256, 1), received(529, 1804*ms)),
		holds("after the earlier one, collected by now, was received", collect(256, 1),
			received(529, 1806*ms)),
		breaks("consumers out of order", "group 3 of queue-1: message 768.1 was delivered, but message "+
			"768.0", effectAt(154*ms)),
		open("no group", "no two messages of a group were delivered in sequence", made(256, groupless),
			made(512, groupless), made(768, groupless)),
	)
}
