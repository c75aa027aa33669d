package idempotency_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/sut"
	"stampede/harness/suttest"
	"stampede/systems/idempotency"
	"stampede/systems/internal/idem"
)

// The requests of the small run: key-1 is used for three of them.
const (
	annsCharge, annsOther, annsReuse = 8, 9, 10
	bobsCharge                       = 16
)

// smallRun is a run that every invariant accepts, in which answers are kept for a second. Five
// customers charge under a key each, and send it twice at once. Ann's key is used for another
// amount at 100 ms, which is denied, and at 1.2 s, when it was forgotten.
func smallRun() *evidence {
	p := market()
	p.TTL = sut.Duration(time.Second)
	e := &evidence{suttest.NewEvidence[idempotency.Audit](idempotency.System(), p)}
	e.Audit.Contract.ReapLagNS = int64(100 * ms)
	for i := range uint64(5) {
		start := time.Duration(i) * 10 * ms
		e.charge(i, 0, start)
		e.Records = append(e.Records, e.Records[len(e.Records)-1])
		e.Records[len(e.Records)-1].Start += ms
	}
	for i := range e.Audit.Keys {
		k := &e.Audit.Keys[i]
		k.State, k.GoneNS = "gone", k.DoneNS+int64(1050*ms)
	}
	e.add(history.Record{Op: request(0, 1), Start: 100 * ms, End: 105 * ms})
	suttest.Deny(e.last(), idem.ErrOtherBody)
	e.charge(0, 2, 1200*ms)
	for i := range e.Records {
		e.Records[i].Seq = uint64(i)
	}
	return e
}

// request is one that key i+1 is used for.
func request(i, step uint64) history.Op {
	return idempotency.API().Op(idempotency.KindCharge, idempotency.ChargeRequest{ID: (i+1)*8 + step,
		Key: fmt.Sprint("key-", i+1), Customer: fmt.Sprint("customer-", i+1),
		Amount: int64(100 + step)})
}

// charge is a request that is charged after 5 ms and answered after 10.
func (e *evidence) charge(i, step uint64, at time.Duration) {
	op := request(i, step)
	receipt := fmt.Sprint("receipt-", op.ID)
	now := int64(1e18) + int64(at+5*ms)
	e.add(history.Record{Op: op, Outcome: history.OK, Start: at, End: at + 10*ms,
		Reply: history.Reply{Key: receipt, Value: int64(100 + step),
			Body: fmt.Appendf(nil, `{"customer":%q}`, op.Client)}})
	e.Audit.Charges = append(e.Audit.Charges, idempotency.ChargeRow{ID: op.ID, Key: op.Key,
		Customer: op.Client, Amount: int64(100 + step), Receipt: receipt, AtNS: now})
	e.Audit.Keys = append(e.Audit.Keys, idempotency.KeyRow{ID: op.ID, Key: op.Key, State: "done",
		Receipt: receipt, DoneNS: now + 1})
}

func (e *evidence) add(r history.Record) {
	r.Seq, r.Intended = uint64(len(e.Records)), r.Start
	e.Records = append(e.Records, r)
}

func (e *evidence) last() *history.Record { return &e.Records[len(e.Records)-1] }

// op is the last attempt of an operation.
func (e *evidence) op(id uint64) *history.Record {
	for i := range slices.Backward(e.Records) {
		if e.Records[i].Op.ID == id {
			return &e.Records[i]
		}
	}
	return nil
}

// again sends a request once more, with the answer that it has had.
func (e *evidence) again(id uint64, at time.Duration) *history.Record {
	r := *e.op(id)
	r.Start, r.End = at, at+5*ms
	e.add(r)
	return e.last()
}

func unknown(r *history.Record) { r.Outcome, r.Reply = history.Unknown, history.Reply{} }

// TestClauses: each clause accepts what is right and refuses what is wrong.
func TestClauses(t *testing.T) {
	suttest.Clauses(t, proof(), smallRun, slices.Concat(chargeCases(), answerCases(), keyCases()))
}

type verdictCase suttest.Case[*evidence]

const (
	pass  = check.Held
	fail  = check.Broken
	maybe = check.Undecided
)

func noAudit(e *evidence) { e.Audit = idempotency.Audit{} }

// chargeCases are about the provider's log.
func chargeCases() []verdictCase {
	const once, kept = idempotency.ChargedOnce, idempotency.ChargesKept
	twice := func(after time.Duration) func(*evidence) {
		return func(e *evidence) {
			c := e.Audit.Charges[1]
			c.Receipt, c.AtNS = "receipt-b", c.AtNS+int64(after)
			e.Audit.Charges = append(e.Audit.Charges, c)
		}
	}
	return []verdictCase{
		{once, "again just before the answer is forgotten", fail, twice(time.Second - 1),
			"2 at once, of at most 1"},
		{once, "again when it was", pass, twice(time.Second), ""},
		{once, "another key", pass, func(e *evidence) {
			twice(ms)(e)
			e.Audit.Charges[len(e.Audit.Charges)-1].Key = "key-7"
		}, ""},
		{once, "nobody overlaps", maybe, func(e *evidence) {
			e.op(annsCharge).Start, e.op(annsCharge).End = 500*ms, 510*ms
		}, "8 requests overlapped another one with their key"},
		{once, "one of two was turned away", maybe, func(e *evidence) {
			suttest.Deny(e.op(annsCharge), sut.ErrRefused)
		}, "8 requests overlapped"},
		{once, "no audit", maybe, noAudit, "audit"},

		{kept, "a charge of unknown outcome", pass, func(e *evidence) { unknown(e.op(annsReuse)) }, ""},
		{kept, "one that nobody was charged", fail, func(e *evidence) {
			e.Audit.Charges = e.Audit.Charges[1:]
		}, "operation 8"},
		{kept, "another receipt than that of the log", fail, func(e *evidence) {
			e.Audit.Charges[1].Receipt = "receipt-b"
		}, "receipt-b"},
		{kept, "a receipt of two charges", fail, func(e *evidence) {
			e.Audit.Charges[1].Receipt = e.Audit.Charges[0].Receipt
			e.op(bobsCharge).Reply.Key = e.Audit.Charges[0].Receipt
			e.Records[2].Reply.Key = e.Audit.Charges[0].Receipt
		}, "receipt-8"},
		{kept, "another amount", fail, func(e *evidence) { e.Audit.Charges[1].Amount = 7 },
			"at the end it is key-2 7"},
		{kept, "another amount than was asked for", fail, func(e *evidence) {
			e.Audit.Charges[5].Amount, e.op(annsReuse).Reply.Value = 7, 7
		}, "operation 10 asked for 102, and 7 was charged"},
		{kept, "one that nobody was told of", fail, func(e *evidence) {
			e.Audit.Charges[5].Amount = 7
			unknown(e.op(annsReuse))
		}, "operation 10 asked for 102, and 7 was charged"},
		{kept, "another amount, the second time", fail, func(e *evidence) {
			c := e.Audit.Charges[1]
			c.Receipt, c.Amount = "receipt-b", 7
			e.Audit.Charges = append(e.Audit.Charges, c)
		}, "operation 16 asked for 100, and 7 was charged"},
		{kept, "another customer is named", fail, func(e *evidence) {
			e.op(annsReuse).Reply.Body = []byte(`{"customer":"eve"}`)
		}, "operation 10 asked for 102 of customer-1, and was told 102 of eve"},
		{kept, "one of another customer", fail, func(e *evidence) {
			e.Audit.Charges[1].Customer = "customer-9"
		}, "customer-9"},
		{kept, "one that was refused", fail, func(e *evidence) {
			suttest.Deny(e.op(annsReuse), idem.ErrInProgress)
		}, "the operation was refused"},
		{kept, "one of nobody", fail, func(e *evidence) { e.Audit.Charges[1].ID = 4096 },
			"was never requested"},
		{kept, "no audit", maybe, noAudit, "audit"},
	}
}

// answerCases are about who was told what. Answers to key-1 are kept until 1 s at least.
func answerCases() []verdictCase {
	const same, other = idempotency.SameAnswer, idempotency.OtherBodyRefused
	told := func(at time.Duration, change func(*history.Record)) func(*evidence) {
		return func(e *evidence) { change(e.again(annsCharge, at)) }
	}
	body := func(r *history.Record) { r.Reply.Body = []byte(`{"customer":"eve"}`) }
	denied := func(r *history.Record) { suttest.Deny(r, idem.ErrOtherBody) }
	busy := func(r *history.Record) { suttest.Deny(r, idem.ErrInProgress) }
	const text = "refused at 505ms as "
	return []verdictCase{
		{same, "asked again", pass, told(500*ms, func(*history.Record) {}), ""},
		{same, "another customer", fail, told(500*ms, body), `"eve"} at 505ms`},
		{same, "another receipt", fail, told(500*ms, func(r *history.Record) { r.Reply.Key = "x" }), `"x"`},
		{same, "another amount", fail, told(500*ms, func(r *history.Record) { r.Reply.Value = 7 }), `7 {`},
		{same, "another customer just before it is forgotten", fail, told(995*ms-1, body), "operation 8"},
		{same, "another customer when it may be forgotten", pass, told(995*ms, body), ""},
		{same, "denied", fail, told(500*ms, denied), text + "other_body"},
		{same, "denied when it may be forgotten", pass, told(995*ms, denied), ""},
		{same, "in progress after it was answered", fail, told(500*ms, busy), text + "in_progress"},
		{same, "in progress before", pass, func(e *evidence) { busy(e.again(bobsCharge, 12*ms)) }, ""},
		{same, "denied before it was acknowledged", pass, func(e *evidence) {
			denied(e.again(bobsCharge, 12*ms))
		}, ""},
		{same, "nobody is answered twice", maybe, func(e *evidence) {
			for i := range 5 {
				unknown(&e.Records[2*i])
			}
		}, "no request was answered twice"},

		{other, "another amount is acknowledged as well", fail, func(e *evidence) {
			e.op(annsReuse).Start, e.op(annsReuse).End = 985*ms, 999*ms
		}, `"key-1" stands for operation 8, acknowledged at 10ms, and for operation 10`},
		{other, "when the first may be forgotten", pass, func(e *evidence) {
			e.op(annsReuse).Start, e.op(annsReuse).End = 985*ms, 1000*ms
		}, ""},
		{other, "the first is of unknown outcome", pass, func(e *evidence) {
			unknown(&e.Records[0])
			unknown(&e.Records[1])
			e.op(annsReuse).Start, e.op(annsReuse).End = 985*ms, 999*ms
		}, ""},
		{other, "nobody else has used the key", fail, func(e *evidence) {
			denied(e.again(bobsCharge, 12*ms))
		}, `operation 16 was denied at 17ms for another request with "key-2", and there was none`},
		{other, "who did came later", fail, told(50*ms, denied), "operation 8 was denied at 55ms"},
		{other, "who did was refused for another reason", pass, func(e *evidence) {
			suttest.Deny(&e.Records[0], sut.ErrRefused)
			suttest.Deny(&e.Records[1], sut.ErrRefused)
		}, ""},
		{other, "in progress, and nobody else has sent it", fail, func(e *evidence) {
			suttest.Deny(&e.Records[2], idem.ErrInProgress)
			suttest.Deny(&e.Records[3], idem.ErrInProgress)
		}, "operation 16 was denied at 20ms"},
		{other, "in progress, sent before with an unknown outcome", pass, func(e *evidence) {
			unknown(&e.Records[2])
			suttest.Deny(&e.Records[3], idem.ErrInProgress)
		}, ""},
		{other, "nobody tried", maybe, func(e *evidence) {
			suttest.Deny(e.op(annsOther), idem.ErrInProgress)
		}, "no request was told that its key was used for another one"},
	}
}

// keyCases are about the shop's own keys.
func keyCases() []verdictCase {
	const stuck, time1 = idempotency.NothingStuck, idempotency.KeptForItsTime
	key := func(i int, change func(*idempotency.KeyRow)) func(*evidence) {
		return func(e *evidence) { change(&e.Audit.Keys[i]) }
	}
	state := func(to string) func(*evidence) {
		return key(1, func(k *idempotency.KeyRow) { k.State = to })
	}
	gone := func(after time.Duration) func(*evidence) {
		return key(0, func(k *idempotency.KeyRow) { k.GoneNS = k.DoneNS + int64(after) })
	}
	early := func(by time.Duration) func(*evidence) {
		return func(e *evidence) {
			e.Audit.Charges[0].AtNS = e.Audit.Keys[0].DoneNS + int64(by)
		}
	}
	return []verdictCase{
		{stuck, "a request was given up", fail, state("started"), "left at rest"},
		{stuck, "charged, and nobody was told", fail, state("charged"), "left at rest"},
		{stuck, "an answer without a charge", fail, key(1, func(k *idempotency.KeyRow) {
			k.Receipt = "receipt-b"
		}), "receipt-b"},
		{stuck, "an answer that is no charge", fail, key(1, func(k *idempotency.KeyRow) {
			k.Receipt = ""
		}), "key-2"},
		{stuck, "an answer to another request", fail, key(1, func(k *idempotency.KeyRow) {
			k.ID = annsCharge
		}), "key-2"},
		{stuck, "a charge whose key was forgotten with it", pass, func(e *evidence) {
			e.Audit.Keys = e.Audit.Keys[1:]
		}, ""},
		{stuck, "no audit", maybe, noAudit, "audit"},

		{time1, "forgotten too early", fail, gone(998 * ms), "before its time of 1s was"},
		{time1, "forgotten in its last millisecond", pass, gone(999 * ms), ""},
		{time1, "forgotten late", pass, gone(1110 * ms), ""},
		{time1, "forgotten too late", fail, gone(1150 * ms), "the limit is"},
		{time1, "an answer that is not there", fail, func(e *evidence) {
			e.Audit.Keys = e.Audit.Keys[:5]
		}, "operation 10"},
		{time1, "one that was unknown to its client", pass, func(e *evidence) {
			e.Audit.Keys = e.Audit.Keys[:5]
			unknown(e.op(annsReuse))
		}, ""},
		{time1, "two answers at a time", fail, func(e *evidence) {
			k := e.Audit.Keys[1]
			k.DoneNS += int64(ms)
			e.Audit.Keys = append(e.Audit.Keys, k)
		}, "2 at once, of at most 1"},
		{time1, "no keys", maybe, func(e *evidence) { e.Audit.Keys = nil }, "keys"},
		{time1, "kept a moment before the charge, by a coarse clock", pass, early(ms), ""},
		{time1, "kept before the charge", fail, early(ms + 1), "operation 8 was charged 1ms after its"},
		{time1, "charged again, and nobody was answered before", fail, func(e *evidence) {
			e.Audit.Keys = e.Audit.Keys[1:]
			unknown(&e.Records[0])
			unknown(&e.Records[1])
		}, "for operation 8, and again for operation 10, and the first has no answer"},
		{time1, "used again, and not answered yet", pass, func(e *evidence) {
			e.Audit.Keys = append(e.Audit.Keys, idempotency.KeyRow{ID: bobsCharge + 2, Key: "key-2",
				State: "started"})
		}, ""},
		{time1, "nothing was forgotten yet", maybe, func(e *evidence) {
			e.Audit.Charges, e.Audit.Keys = e.Audit.Charges[:5], e.Audit.Keys[:5]
			unknown(e.op(annsReuse))
			for i := range e.Audit.Keys {
				e.Audit.Keys[i].State, e.Audit.Keys[i].GoneNS = "done", 0
			}
		}, "no key came to the end of its time"},
		{time1, "a promise that excuses everything", maybe, func(e *evidence) {
			e.Audit.Contract.ReapLagNS = int64(time.Hour)
		}, "reap_lag of 1h0m0s; the most allowed is 10s"},
	}
}
