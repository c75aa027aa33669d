package reservation_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/sut"
	"stampede/harness/suttest"
	"stampede/systems/reservation"
)

// The holds of the small run.
const (
	annsHold, bobsHold, cidsHold = 256, 512, 768
	dansHold, evesHold           = 1024, 1280
)

// smallRun is a run that every invariant accepts, in a room of two places for three nights, with
// holds that last a second. Ann holds place 1 for two nights, books it and cancels. Bob holds
// place 2 and releases it, and Dan, who asks twice, gets it and books it. In between Cid is told
// that all is sold out. Eve holds the last night, and comes too late to book it.
func smallRun() *evidence {
	p := crowd()
	p.Resources, p.Units, p.Overbooking, p.Nights = 1, 2, 1, 3
	p.HoldTTL = sut.Duration(time.Second)
	e := &evidence{suttest.NewEvidence[reservation.Audit](reservation.System(), p)}
	now := time.Duration(0)
	d := &desk{p: *p, api: reservation.API(), now: func() time.Duration { return now }, numbered: true}
	do := func(at time.Duration, kind string, request any) {
		now = at + 5*ms
		op := d.api.Op(kind, request)
		reply, err := d.api.Do(context.Background(), d, op)
		e.add(history.Record{Op: op, Outcome: history.OK, Reply: reply, Start: at, End: at + 10*ms})
		if err != nil {
			suttest.Deny(&e.Records[len(e.Records)-1], err)
		}
	}
	about := func(at time.Duration, kind, guest string, hold, step uint64, version int64) {
		do(at, kind, reservation.HeldRequest{ID: hold + step, Resource: 1, Guest: guest, Hold: hold,
			Version: version})
	}
	do(0, reservation.KindHold, stay(annsHold, "ann", 1, 2))
	do(10*ms, reservation.KindHold, stay(bobsHold, "bob", 1, 1))
	do(20*ms, reservation.KindHold, stay(cidsHold, "cid", 1, 1))
	about(40*ms, reservation.KindConfirm, "ann", annsHold, 1, 1)
	about(60*ms, reservation.KindRelease, "bob", bobsHold, 2, 1)
	do(80*ms, reservation.KindHold, stay(dansHold, "dan", 1, 1))
	do(100*ms, reservation.KindHold, stay(dansHold, "dan", 1, 1))
	do(120*ms, reservation.KindHold, stay(evesHold, "eve", 3, 1))
	about(400*ms, reservation.KindCancel, "ann", annsHold, 3, 2)
	about(900*ms, reservation.KindConfirm, "dan", dansHold, 1, 1)
	now = 1130 * ms
	d.expire()
	about(1200*ms, reservation.KindConfirm, "eve", evesHold, 1, 1)
	e.Audit = d.Audit()
	return e
}

func stay(id uint64, guest string, first, nights int) reservation.HoldRequest {
	return reservation.HoldRequest{ID: id, Resource: 1, Guest: guest, First: first, Nights: nights}
}

func (e *evidence) add(r history.Record) {
	r.Seq, r.Intended = uint64(len(e.Records)), r.Start
	e.Records = append(e.Records, r)
}

// op is the last attempt of an operation.
func (e *evidence) op(id uint64) *history.Record {
	for i := range slices.Backward(e.Records) {
		if e.Records[i].Op.ID == id {
			return &e.Records[i]
		}
	}
	return nil
}

// each changes every record of a kind.
func (e *evidence) each(kind string, change func(*history.Record)) {
	for i := range e.Records {
		if e.Records[i].Op.Kind == kind {
			change(&e.Records[i])
		}
	}
}

func unknown(r *history.Record) { r.Outcome, r.Reply = history.Unknown, history.Reply{} }

func (e *evidence) hold(id uint64) *reservation.HoldRow {
	i := slices.IndexFunc(e.Audit.Holds, func(h reservation.HoldRow) bool { return h.Hold == id })
	return &e.Audit.Holds[i]
}

// change is that of a hold to a state.
func (e *evidence) change(id uint64, state string) *reservation.Change {
	i := slices.IndexFunc(e.Audit.Changes, func(c reservation.Change) bool {
		return c.Hold == id && c.State == state
	})
	return &e.Audit.Changes[i]
}

// soldOut tells somebody so who asks for a stay.
func (e *evidence) soldOut(first, nights int, at time.Duration) *history.Record {
	op := reservation.API().Op(reservation.KindHold, stay(4096, "fay", first, nights))
	e.add(history.Record{Op: op, Start: at, End: at + 5*ms})
	r := &e.Records[len(e.Records)-1]
	suttest.Deny(r, reservation.ErrSoldOut)
	return r
}

// other is another guest who asks for night 1 and is told so.
func (e *evidence) other(at time.Duration) *history.Record {
	r := e.soldOut(1, 1, at)
	r.Op.ID = 8192
	return r
}

// again sends a request once more, at the end, and refuses it.
func again(id uint64, as error) func(*evidence) {
	return func(e *evidence) {
		r := *e.op(id)
		r.Start, r.End = 1300*ms, 1305*ms
		e.add(r)
		suttest.Deny(e.op(id), as)
	}
}

// deny refuses a confirmation.
func deny(id uint64, as error) func(*evidence) {
	return func(e *evidence) { suttest.Deny(e.op(id), as) }
}

// sent is an attempt that was sent at another time.
func sent(id uint64, at time.Duration) func(*evidence) {
	return func(e *evidence) { e.op(id).Start, e.op(id).End = at, at+10*ms }
}

// place gives an operation's hold another place, of which its guest is told.
func (e *evidence) place(id uint64, row, told int) {
	e.hold(id).Unit = row
	for i := range e.Records {
		if r := &e.Records[i]; r.Op.ID == id && r.Outcome == history.OK {
			r.Reply.Value, r.Reply.Body = int64(told), fmt.Appendf(nil, `{"unit": %d, "version": 1}`, told)
		}
	}
}

// onArrival is a design that numbers no places.
func onArrival(e *evidence) {
	for _, h := range e.Audit.Holds {
		e.place(h.Hold, 0, 0)
	}
}

// longer lets the log say that Bob had his place from an earlier time on.
func longer(by time.Duration, more func(*evidence)) func(*evidence) {
	return func(e *evidence) {
		e.change(bobsHold, "held").AtNS -= int64(by)
		more(e)
	}
}

// saw is what the gauge said at a moment.
func saw(body string) func(*evidence) {
	return func(e *evidence) {
		e.Samples = []history.Sample{{From: 90 * ms, To: 91 * ms, Body: []byte(body)}}
	}
}

// TestClauses: each clause accepts what is right and refuses what is wrong.
func TestClauses(t *testing.T) {
	suttest.Clauses(t, proof(), smallRun, slices.Concat(stateCases(), mineCases(), freeCases()))
}

type verdictCase suttest.Case[*evidence]

const (
	pass  = check.Held
	fail  = check.Broken
	maybe = check.Undecided
)

// stateCases are about what was held when.
func stateCases() []verdictCase {
	const (
		double, holds  = reservation.NoDoubleBooking, reservation.HoldsKept
		bookings, over = reservation.BookingsKept, reservation.ExpiredIsOver
		nights         = reservation.NightsAddUp
	)
	numbers := func(*evidence) {}
	noAudit := func(e *evidence) { e.Audit = reservation.Audit{} }
	return []verdictCase{
		{double, "as many guests as places were seen", pass, saw(`{"most": 2}`), ""},
		{double, "more were seen", fail, saw(`{"most": 3}`),
			"a night of a resource has 3 guests at 91ms, but only 2 places"},
		{double, "a look that failed", pass, saw(`{`), ""},
		{double, "a place was given before it was free", fail, func(e *evidence) {
			e.change(bobsHold, "released").AtNS = e.change(dansHold, "held").AtNS + 1
		}, "resource-1, night 1 2: 2 at once, of at most 1"},
		{double, "as long as may be", pass, longer(30*ms, numbers), ""},
		{double, "the log denies what guests were told", fail, longer(31*ms, numbers), "night 1 2"},
		{double, "as many without numbers", pass, longer(30*ms, onArrival), ""},
		{double, "more without numbers", fail, longer(31*ms, onArrival), "night 1: units of"},
		{double, "one was not told", pass, longer(31*ms, func(e *evidence) {
			e.each(reservation.KindHold, unknown)
		}), ""},
		{double, "no audit", maybe, noAudit, "audit"},

		{holds, "a hold of unknown outcome", pass, func(e *evidence) { unknown(e.op(evesHold)) }, ""},
		{holds, "a hold is gone", fail, func(e *evidence) { e.Audit.Holds = e.Audit.Holds[1:] },
			"operation 256"},
		{holds, "a hold lost a night", fail, func(e *evidence) { e.hold(annsHold).Nights = 1 },
			"resource-1, nights 1 to 1"},
		{holds, "a hold of nobody", fail, func(e *evidence) { e.hold(evesHold).Hold = 8192 },
			"was never requested"},
		{holds, "another place for the same request", fail, func(e *evidence) {
			e.op(dansHold).Reply.Body = []byte(`{"unit": 1, "version": 1}`)
		}, "the hold 1024 was answered"},
		{holds, "a version that it had not", fail, func(e *evidence) {
			e.op(evesHold).Reply.Body = []byte(`{"unit": 1, "version": 2}`)
		}, "hold 1280 was held with version 1; operation 1280 was told 2"},
		{holds, "places without numbers", pass, onArrival, ""},
		{holds, "a number that is nowhere", fail, func(e *evidence) {
			onArrival(e)
			e.place(bobsHold, 0, 2)
		}, "hold 512 has place 0, and there are 2; its guest was told 2"},
		{holds, "a place that is not there", fail, func(e *evidence) { e.place(bobsHold, 3, 3) },
			"hold 512 has place 3, and there are 2; its guest was told 3"},
		{holds, "its own place is in the way", fail, again(dansHold, reservation.ErrSoldOut),
			"operation 1024 was acknowledged at 90ms, but denied"},
		{holds, "too many ask again", pass, again(dansHold, reservation.ErrContended), ""},
		{holds, "asked again when it is over", pass, again(bobsHold, reservation.ErrSoldOut), ""},
		{holds, "no audit", maybe, noAudit, "audit"},

		{bookings, "a booking of unknown outcome", pass, func(e *evidence) {
			unknown(e.op(dansHold + 1))
		}, ""},
		{bookings, "a booking is gone", fail, func(e *evidence) { e.hold(dansHold).ConfirmOp = 0 },
			"operation 1025"},
		{bookings, "a booking that was refused", fail, deny(dansHold+1, reservation.ErrExpired),
			"the operation was refused"},
		{bookings, "a booking of a hold that expired", fail, func(e *evidence) {
			e.hold(dansHold).State = "expired"
		}, "operation 1025"},
		{bookings, "a booking of nobody", fail, func(e *evidence) {
			e.hold(evesHold).State = "confirmed"
		}, "operation 0"},
		{bookings, "a version that it had not", fail, func(e *evidence) {
			e.op(dansHold+1).Reply.Value++
		}, "hold 1024 was confirmed with version 2; operation 1025 was told 3"},
		{bookings, "confirmed, and denied", fail, again(dansHold+1, reservation.ErrNotOpen),
			"operation 1025 was acknowledged at 910ms, but denied"},
		{bookings, "released, and denied", fail, again(bobsHold+2, reservation.ErrUnknownHold),
			"operation 514 was acknowledged at 70ms, but denied"},
		{bookings, "confirmed, and denied when it was cancelled", pass,
			again(annsHold+1, reservation.ErrNotOpen), ""},
		{bookings, "a cancellation that did nothing", fail, func(e *evidence) {
			e.hold(annsHold).State = "confirmed"
		}, "operation 259"},
		{bookings, "a release is gone", fail, func(e *evidence) { e.hold(bobsHold).EndOp = 0 },
			"operation 514"},
		{bookings, "no audit", maybe, noAudit, "audit"},

		{over, "confirmed in the last moment, by a coarse clock", pass, func(e *evidence) {
			h := e.hold(dansHold)
			h.ConfirmedNS = h.HeldNS + int64(time.Second+ms)
		}, ""},
		{over, "confirmed a moment later", fail, func(e *evidence) {
			h := e.hold(dansHold)
			h.ConfirmedNS = h.HeldNS + int64(time.Second+2*ms)
		}, "hold 1024 was confirmed 1.002s after it was made; it lasts 1s"},
		{over, "confirmed for who asked when it may last", pass, sent(dansHold+1, 1101*ms), ""},
		{over, "confirmed for who asked when it was over", fail, sent(dansHold+1, 1101*ms+1),
			"hold 1024 was acknowledged at 90ms and lasts 1s, but was confirmed for who asked at 1.101s"},
		{over, "one of its attempts came in time", pass, func(e *evidence) {
			sent(dansHold+1, 1200*ms)(e)
			e.add(*e.op(dansHold + 1))
			unknown(e.op(dansHold + 1))
			e.op(dansHold + 1).Start = 1000 * ms
		}, ""},
		{over, "nobody was told that it is held", pass, func(e *evidence) {
			sent(dansHold+1, 1200*ms)(e)
			e.each(reservation.KindHold, unknown)
		}, ""},
		{over, "confirmed before it was made", fail, func(e *evidence) {
			h := e.hold(dansHold)
			h.ConfirmedNS = h.HeldNS - 1
		}, "hold 1024 was confirmed -1ns after it was made"},
		{over, "an expired hold goes on", fail, func(e *evidence) {
			e.hold(evesHold).State, e.hold(evesHold).Version = "confirmed", 3
			e.Audit.Changes = append(e.Audit.Changes, reservation.Change{Seq: 99, Hold: evesHold,
				Before: "expired", State: "confirmed", Version: 3, AtNS: e.hold(evesHold).EndedNS + 1})
		}, "expired"},
		{over, "expired before its time", fail, func(e *evidence) {
			e.hold(evesHold).EndedNS -= int64(100 * ms)
		}, "1280"},
		{over, "a promise that excuses everything", maybe, func(e *evidence) {
			e.Audit.Contract.ExpiryLagNS = int64(time.Hour)
		}, "expiry_lag of 1h0m0s; the most allowed is 10s"},

		{nights, "a guest was not told", pass, func(e *evidence) { unknown(e.op(dansHold)) }, ""},
		{nights, "a place is gone", fail, func(e *evidence) { e.Audit.Nights[1].Free = 1 },
			"resource-1, night 2"},
		{nights, "a place of nobody is taken", fail, func(e *evidence) {
			e.Audit.Nights[1].Taken, e.Audit.Nights[1].Free = 1, 1
		}, "resource-1, night 2"},
		{nights, "a hold that never ends", fail, func(e *evidence) {
			h := e.hold(evesHold)
			h.State, h.EndedNS = "held", 0
			e.Audit.Nights[2].Taken, e.Audit.Nights[2].Free = 1, 1
		}, "1280"},
		{nights, "no audit", maybe, noAudit, "audit"},
	}
}

// mineCases are about guests who confirm in time: Dan's hold lasts from 80 ms to 1.08 s at least.
func mineCases() []verdictCase {
	const mine, confirm = reservation.HeldIsMine, dansHold + 1
	const release, cancel = bobsHold + 2, annsHold + 3
	maybeBefore := func(id uint64, start time.Duration) func(*evidence) { // the other attempt
		return func(e *evidence) {
			suttest.Deny(e.op(id), reservation.ErrNotOpen)
			e.add(*e.op(id))
			unknown(e.op(id))
			e.op(id).Start = start
		}
	}
	denied := func(change func(*evidence)) func(*evidence) {
		return func(e *evidence) {
			suttest.Deny(e.op(confirm), reservation.ErrExpired)
			change(e)
		}
	}
	const text = "hold 1024 was held at 90ms, but the request to confirm it was refused at 910ms"
	return []verdictCase{
		{mine, "told that it expired", fail, deny(confirm, reservation.ErrExpired), text},
		{mine, "told that it is not open", fail, deny(confirm, reservation.ErrNotOpen), text},
		{mine, "told that there is none", fail, deny(confirm, reservation.ErrUnknownHold), text},
		{mine, "told to come again", pass, deny(confirm, reservation.ErrContended), ""},
		{mine, "when the hold may be over", pass, denied(func(e *evidence) {
			e.op(confirm).End = 1080 * ms
		}), ""},
		{mine, "just before it may be", fail, denied(func(e *evidence) {
			e.op(confirm).End = 1080*ms - 1
		}), "the request to confirm it was refused at 1.0"},
		{mine, "nobody was told that it is held", pass, denied(func(e *evidence) {
			e.each(reservation.KindHold, unknown)
		}), ""},
		{mine, "it may have been confirmed before", pass, maybeBefore(confirm, 905*ms), ""},
		{mine, "it was confirmed afterwards", fail, maybeBefore(confirm, 911*ms), text},
		{mine, "a release is told that there is none", fail, deny(release, reservation.ErrUnknownHold),
			"the request to release it was refused at 70ms"},
		{mine, "a release, when the hold may be over", pass, func(e *evidence) {
			suttest.Deny(e.op(release), reservation.ErrExpired)
			e.op(release).End = 1010 * ms
		}, ""},
		{mine, "a release that may have been one before", pass, maybeBefore(release, 55*ms), ""},
		{mine, "a cancellation is told that it expired", fail, deny(cancel, reservation.ErrExpired),
			"hold 256 was confirmed at 50ms, but the request to cancel it was refused at 410ms"},
		{mine, "a cancellation is told to come again", pass, deny(cancel, reservation.ErrContended), ""},
		{mine, "it may have been cancelled before", pass, maybeBefore(cancel, 405*ms), ""},
		{mine, "it was cancelled afterwards", fail, maybeBefore(cancel, 411*ms), "to cancel it"},
		{mine, "cancelled before it was booked", pass, func(e *evidence) {
			suttest.Deny(e.op(cancel), reservation.ErrNotOpen)
			e.op(cancel).Start = 50*ms - 1
		}, ""},
		{mine, "cancelled, and nobody was told that it is booked", pass, func(e *evidence) {
			suttest.Deny(e.op(cancel), reservation.ErrNotOpen)
			unknown(e.op(annsHold + 1))
		}, ""},
		{mine, "nobody confirms", maybe, func(e *evidence) {
			e.Records = slices.DeleteFunc(e.Records, func(r history.Record) bool {
				return r.Op.Kind != reservation.KindHold
			})
		}, "no hold was confirmed, released or cancelled"},
	}
}

// freeCases are about guests who are told that all is sold out. In night 1 Ann has a place from
// 0 to 410 ms, Bob from 10 to 70 ms and Dan from 80 ms on; an operation takes 10 ms at most.
func freeCases() []verdictCase {
	const free, text = reservation.FreeIsForSale, "at most 1 of 2 places can have been taken"
	told := func(night int, at time.Duration, more ...func(*evidence)) func(*evidence) {
		return func(e *evidence) {
			e.soldOut(night, 1, at)
			for _, change := range more {
				change(e)
			}
		}
	}
	lag := func(d time.Duration) func(*evidence) {
		return func(e *evidence) { e.Audit.Contract.ViewLagNS = int64(d) }
	}
	gil := func(e *evidence) { // may have the other place of night 3
		op := reservation.API().Op(reservation.KindHold, stay(8192, "gil", 3, 1))
		e.add(history.Record{Op: op, Outcome: history.Unknown, End: 5 * ms})
	}
	fault := func(end time.Duration) func(*evidence) {
		return func(e *evidence) {
			e.Windows = []history.Window{{Kind: history.FaultWindow, Fault: "pause redis", Start: end - ms,
				End: end, Recovered: end}}
		}
	}
	return []verdictCase{
		{free, "before both were asked for", fail, told(1, 2*ms), text},
		{free, "places of different numbers, each on one night", pass, func(e *evidence) {
			e.soldOut(1, 3, 500*ms)
		}, ""},
		{free, "places without numbers, each on one night", fail, func(e *evidence) {
			e.soldOut(1, 3, 500*ms)
			e.hold(dansHold).Unit, e.hold(evesHold).Unit = 0, 0
		}, text},
		{free, "when both may be taken", pass, told(1, 5*ms), ""},
		{free, "another night", fail, told(2, 30*ms), text},
		{free, "long after one was given back", fail, told(1, 421*ms), text},
		{free, "a moment after it was given back", pass, told(1, 420*ms), ""},
		{free, "as late as a view may be", pass, told(1, 520*ms, lag(100*ms)), ""},
		{free, "later", fail, told(1, 521*ms, lag(100*ms)), text},
		{free, "one whose end is unknown", pass, told(1, 500*ms, func(e *evidence) {
			unknown(e.op(annsHold + 3))
		}), ""},
		{free, "one that is held, as far as is known", pass, told(1, 500*ms, func(e *evidence) {
			unknown(e.op(annsHold))
		}), ""},
		{free, "one that the expirer may be slow to give back", pass, told(3, 3*time.Second, gil), ""},
		{free, "slower than promised", fail, told(3, 3200*ms, gil), text},
		{free, "refused ones pass through a view", pass, told(1, 500*ms, lag(50*ms), func(e *evidence) {
			suttest.Deny(e.other(501*ms), reservation.ErrContended)
		}), ""},
		{free, "who came when all was sold too", pass, told(1, 500*ms, lag(50*ms), func(e *evidence) {
			e.other(465 * ms)
		}), ""},
		{free, "or in a fault", pass, told(1, 531*ms, lag(50*ms), fault(415*ms), func(e *evidence) {
			e.other(471 * ms)
		}), ""},
		{free, "nobody excuses who excuses him", fail, told(1, 500*ms, lag(50*ms), func(e *evidence) {
			e.other(501 * ms)
		}), text},
		{free, "not where there is none", fail, told(1, 500*ms, func(e *evidence) {
			e.other(501 * ms)
		}), text},
		{free, "during a fault", pass, told(1, 500*ms, fault(501*ms)), ""},
		{free, "just after a fault", pass, told(1, 500*ms, fault(490*ms)), ""},
		{free, "long after a fault", fail, told(1, 500*ms, fault(489*ms)), text},
		{free, "told something else", pass, told(1, 500*ms, func(e *evidence) {
			suttest.Deny(e.op(4096), reservation.ErrHouseFull)
		}), ""},
		{free, "told that there is no such stay", fail, told(1, 500*ms, func(e *evidence) {
			suttest.Deny(e.op(4096), reservation.ErrUnknownStay)
		}), "hold of resource-1 at 500ms was refused as if there were no such thing"},
		{free, "there is none", pass, told(1, 500*ms, func(e *evidence) {
			e.op(4096).Op.Key = "resource-2"
			suttest.Deny(e.op(4096), reservation.ErrUnknownStay)
		}), ""},
		{free, "nobody was told so", maybe, deny(cidsHold, reservation.ErrHouseFull),
			"nobody was told that all is sold out"},
		{free, "a promise that excuses everything", maybe, lag(time.Hour), "view_lag of 1h0m0s"},
	}
}
