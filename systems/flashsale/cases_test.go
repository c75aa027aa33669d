package flashsale_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"stampede/harness/history"
	"stampede/harness/suttest"
	"stampede/systems/flashsale"
)

// verdictCase changes one thing and says what becomes of one invariant.
type verdictCase suttest.Case[*evidence]

// TestClauses: each clause that is the sale's own accepts what is right and refuses what is wrong;
// those of families have such cases in harness/check.
func TestClauses(t *testing.T) {
	suttest.Clauses(t, proof(), goodSale, slices.Concat(stockCases(), driftCases(), driftExcuses(),
		ownerCases(), orderCases(), soldOutCases(), paymentCases(), timeCases(), pathCases()))
}

// unknown makes the outcomes of operations unknown.
func unknown(ids ...uint64) func(*evidence) {
	return func(e *evidence) {
		for i := range e.records {
			if r := &e.records[i]; slices.Contains(ids, r.Op.ID) {
				r.Outcome = history.Unknown
			}
		}
	}
}

func nobodyRefused(e *evidence) {
	e.forget(func(r history.Record) bool { return r.Outcome == history.Refused })
}

// sent moves a request, which takes 2 ms.
func sent(id uint64, at time.Duration) func(*evidence) {
	return func(e *evidence) { e.attempt(id, 0).Start, e.attempt(id, 0).End = at, at+2*ms }
}

// snapshot is what a reader of the stock was told.
func snapshot(at time.Duration, available, held, sold int) func(*evidence) {
	return func(e *evidence) {
		sent(272, at)(e)
		e.attempt(272, 0).Reply.Body = fmt.Appendf(nil,
			`{"item":"item-1","units":2,"available":%d,"held":%d,"sold":%d}`, available, held, sold)
	}
}

// quietly changes a look in which nothing happened.
func quietly(change func(*flashsale.LookItem)) func(*evidence) {
	return func(e *evidence) { e.look(sampleQuiet, change) }
}

// promise is how late a unit may come back, by the audit.
func promise(slack time.Duration) func(*evidence) {
	return func(e *evidence) { e.audit.ReclaimSlackNS = int64(slack) }
}

func stockCases() []verdictCase {
	const (
		oversell, conservation = flashsale.NoOversell, flashsale.Conservation
		through                = flashsale.SellThrough
	)
	return []verdictCase{
		{oversell, "as many orders paid as units", pass, func(e *evidence) {
			e.close("o3", flashsale.OrderPaid, 1700*ms)
		}, "no item was sold more often than its 2 units: 2 of 2 were sold when the run ended, 0 were " +
			"left in carts or for sale; 4 buys succeeded, with 3 orders: a " +
			"second click is answered with the same order, and a unit whose cart"},
		{oversell, "a cart is not sold", pass, func(e *evidence) {
			e.order("o1").State = flashsale.OrderHeld
		}, "0 of 2 were sold when the run ended, 2 were left in carts or for sale; "},
		{oversell, "three orders answered sold", fail, func(e *evidence) {
			e.attempt(576, 0).Reply.Key = "sold"
			e.attempt(1344, 0).Reply.Key = "sold"
		}, `3 orders were answered "sold"`},
		{oversell, "an unknown payment proves nothing", pass, unknown(576, 1344), ""},
		{oversell, "nobody was refused", maybe, nobodyRefused, "no item was in demand"},
		{oversell, "refused for other reasons", maybe, func(e *evidence) {
			for i := range e.records {
				if r := &e.records[i]; r.Outcome == history.Refused {
					r.Err, r.Code = "", "rate_limited"
				}
			}
		}, "no item was in demand"},

		{conservation, "a snapshot that loses a unit", fail, snapshot(15*ms, 0, 1, 0),
			"0 available + 1 held + 0 sold = 1, want 2 (-1)"},
		{conservation, "a snapshot with the sold unit", pass, snapshot(303*ms, 0, 1, 1), ""},
		{conservation, "a snapshot of before it was sold", fail, snapshot(303*ms, 0, 2, 0),
			"a reply to a read that began at 303ms has 0 sold; 1 payments were answered so before"},
		{conservation, "a snapshot with more than were sold", fail, snapshot(15*ms, 0, 0, 2),
			"has 2 sold; 0 payments were answered so before, and 1 orders are paid at the end"},
		{conservation, "a snapshot that is no JSON", fail, func(e *evidence) {
			e.attempt(272, 0).Reply.Body = []byte("sold out")
		}, "cannot be read"},
		{conservation, "a snapshot that failed", maybe, unknown(272), "no stock snapshot was read"},
		{conservation, "no snapshots were asked for", pass, func(e *evidence) {
			e.params.StockReads = 0
			e.attempt(272, 0).Outcome = history.Unknown
		}, ""},
		{conservation, "the item gained a unit", fail, func(e *evidence) {
			e.audit.Items[0].Units, e.audit.Items[0].Available = 3, 2
		}, "the sale has 2"},
		{conservation, "the item counts other orders", fail, func(e *evidence) {
			e.audit.Items[0].Available, e.audit.Items[0].Held = 0, 1
		}, "the item counts 1 held and 1 sold, its orders are 0 held and 1 paid"},
		{conservation, "the item is gone", fail, func(e *evidence) {
			e.audit.Items = []flashsale.ItemAudit{}
		}, "item-1 is missing"},
		{conservation, "no unit rows at all", pass, func(e *evidence) { e.audit.Units = nil }, ""},
		{conservation, "a unit of an order that is closed", fail, func(e *evidence) {
			e.audit.Units[0].OrderID = "o2"
		}, "is sold at the end for order o2, which is expired"},
		{conservation, "a unit of nobody", fail, func(e *evidence) { e.audit.Units[0].OrderID = "o9" },
			`for order "o9", which does not exist`},

		{through, "a unit stuck in a cart", fail, func(e *evidence) {
			e.audit.Items[0].Available, e.audit.Items[0].Held = 0, 1
		}, "1 are in carts and none is for sale: 1 are stuck"},
		{through, "a unit that Redis does not offer", fail, func(e *evidence) {
			e.audit.Redis[0].Stock = 0
		}, "1 are stuck"},
		{through, "everything sold", pass, func(e *evidence) {
			e.audit.Items[0].Available, e.audit.Items[0].Sold = 0, 2
			e.audit.Redis[0].Stock = 0
		}, ""},
		{through, "fewer buyers than units", maybe, func(e *evidence) { e.audit.Items[0].Units = 7 },
			"as many buyers as units"},
	}
}

func ownerCases() []verdictCase {
	const unit, buyer = flashsale.UnitExclusive, flashsale.OnePerBuyer
	return []verdictCase{
		{unit, "a live order of a returned unit", pass, func(e *evidence) {
			e.close("o3", flashsale.OrderPaid, 1700*ms)
		}, ""},
		{unit, "two orders of one unit answered sold", fail, func(e *evidence) {
			e.attempt(576, 0).Reply.Key = "sold"
			e.attempt(1344, 0).Reply.Key = "sold"
		}, "orders o2 and o3 were both answered"},
		{unit, "no unit is ever named", maybe, func(e *evidence) {
			for i := range e.audit.Orders {
				e.audit.Orders[i].Unit = 0
			}
		}, "no order names a unit"},

		{buyer, "a second order after the first one's end", pass, func(e *evidence) {
			e.order("o3").Buyer = "bob"
		}, ""},
		{buyer, "an order nobody was told of, at the same time", fail, func(e *evidence) {
			e.order("o3").Buyer = "ann"
			e.attempt(1280, 0).Outcome = history.Unknown
			e.audit.ReclaimSlackNS = int64(90 * ms)
		}, "overlap for 100ms"},
		{buyer, "two orders of one buyer answered sold", fail, func(e *evidence) {
			e.attempt(1280, 0).Op.Client = "bob"
			e.attempt(576, 0).Reply.Key = "sold"
			e.attempt(1344, 0).Reply.Key = "sold"
		}, "item-1 of bob: orders o2 and o3 were both answered"},
		{buyer, "denied a first unit", fail, func(e *evidence) { e.attempt(257, 0).Op.Client = "zoe" },
			"item-1 of zoe was told at 13ms to have one by another operation, and never had one"},
		{buyer, "nobody tried twice", maybe, func(e *evidence) {
			e.forget(func(r history.Record) bool {
				return r.Op.ID == 257
			})
		}, "no buyer of a unit tried to buy another"},
	}
}

func orderCases() []verdictCase {
	const (
		durable, phantom = flashsale.AckedDurable, flashsale.NoPhantom
		same             = flashsale.IdempotentBuy
	)
	return []verdictCase{
		{durable, "nobody was told of an order", maybe, unknown(256, 512, 1280),
			"no operation was acknowledged"},
		{durable, "an acknowledged order is gone", fail, func(e *evidence) {
			e.audit.Orders = e.audit.Orders[1:]
		}, `operation 256 (key "item-1", client "ann") was acknowledged at 2ms ("o1") but has no effect`},

		{phantom, "a payment that nobody sent", fail, func(e *evidence) {
			e.payment("pay-200").ID = "pay-666"
		}, "payment pay-666 of order o2 exists"},
		{phantom, "an audit without payments", maybe, func(e *evidence) { e.audit.Payments = nil },
			"the audit has no payments"},
		{phantom, "a payment of an unknown delivery", pass, unknown(576), ""},
		{phantom, "a payment of a refused delivery", fail, func(e *evidence) {
			e.attempt(576, 0).Outcome = history.Refused
		}, "payment pay-200 of order o2 exists"},

		{same, "two orders made for one key", fail, func(e *evidence) { e.order("o3").OpID = 256 },
			"operation 256: there are order o1 of ann (paid) and order o3 of eve (failed)"},
		{same, "denied an order that has expired", pass, func(e *evidence) {
			e.add(history.Record{Op: e.attempt(512, 0).Op, Outcome: history.Refused, Code: "sold_out",
				Start: 1200 * ms, End: 1201 * ms})
		}, ""},
		{same, "a repetition that was refused", maybe, func(e *evidence) {
			e.attempt(256, 1).Outcome = history.Refused
		}, "no idempotency key was acknowledged again when it was sent again"},
	}
}

// refuse tells one more buyer that all is sold out.
func (e *evidence) refuse(at time.Duration) {
	e.add(history.Record{
		Op:      history.Op{ID: 1 << 40, Kind: flashsale.KindBuy, Key: "item-1", Client: "ida"},
		Outcome: history.Refused, Err: "sold out: refused", Start: at, End: at + ms,
	})
}

// TestLateReturns: a refusal that a unit explains which came back, but long after the slack, is
// late; one that nothing explains is not.
func TestLateReturns(t *testing.T) {
	for at, late := range map[time.Duration]bool{1500 * ms: true, 8 * time.Second: false} {
		e := goodSale()
		e.attempt(1024, 0).Outcome = history.Refused
		e.refuse(at)
		v := e.judge(t)[flashsale.NoFalseSoldOut]
		if v.Status != fail || v.Count != 1 || late != (v.Late == 1) {
			t.Errorf("at %v: %s, %d of %d late", at, v.Status, v.Late, v.Count)
		}
	}
}

func soldOutCases() []verdictCase {
	const name = flashsale.NoFalseSoldOut
	// known settles what became of Dan's lost request, which otherwise may
	// have had a unit ever since.
	known := func(e *evidence) { e.attempt(1024, 0).Outcome = history.Refused }
	// settled is a refusal when that is known, and faults.
	settled := func(at time.Duration, faults ...[2]time.Duration) func(*evidence) {
		return func(e *evidence) {
			known(e)
			e.refuse(at)
			for _, f := range faults {
				e.fault(f[0], f[1])
			}
		}
	}
	// refuseOnly forgets the sale's own refusals.
	refuseOnly := func(e *evidence) {
		for i := range e.records {
			if e.records[i].Op.Kind == flashsale.KindBuy && e.records[i].Outcome == history.Refused {
				e.records[i].Err = "already bought: refused"
			}
		}
	}
	return []verdictCase{
		{name, "refused before anybody bought", fail, func(e *evidence) {
			e.attempt(256, 0).Start, e.attempt(512, 0).Start = 2*ms, 2*ms
			e.refuse(0)
		}, "told sold out while at most 0 of 2 units were taken"},
		{name, "refused while others were being served", pass, func(e *evidence) {
			e.attempt(256, 0).Start, e.attempt(512, 0).Start = 2*ms, 2*ms
			e.refuse(1 * ms)
		}, ""},
		{name, "refused long after a unit came back", fail, settled(1500 * ms),
			"at most 1 of 2 units were taken"},
		{name, "refused within the slack after a unit came back", pass, settled(1400 * ms), ""},
		{name, "refused while buyers were kept waiting as long", pass, func(e *evidence) {
			known(e)
			e.attempt(1024, 0).End = 200 * ms
			e.refuse(1500 * ms)
		}, ""},
		{name, "an unknown buy may have the unit", pass, func(e *evidence) { e.refuse(1500 * ms) },
			""},
		{name, "another refused request may have the unit for a moment", pass,
			func(e *evidence) {
				known(e)
				e.refuse(1500 * ms)
				other := e.records[len(e.records)-1]
				other.Err = "already bought: refused"
				other.Start, other.End = 1501*ms, 1502*ms
				e.add(other)
			}, ""},
		{name, "refused during a fault", pass,
			settled(1500*ms, [2]time.Duration{1450 * ms, 1550 * ms}), ""},
		{name, "refused within the slack after a fault", pass,
			settled(1500*ms, [2]time.Duration{1100 * ms, 1150 * ms}), ""},
		{name, "refused long after a fault", fail,
			settled(1500*ms, [2]time.Duration{1000 * ms, 1050 * ms}), "told sold out"},
		{name, "not ready is no claim", pass, func(e *evidence) {
			known(e)
			e.refuse(1500 * ms)
			e.records[len(e.records)-1].Err = "sale not ready: refused"
		}, ""},
		{name, "every refusal soon after a return", maybe, func(e *evidence) {
			known(e)
			refuseOnly(e)
			e.refuse(1100 * ms)
		}, "all 1 sold-out refusals came within 403ms of the first return of a unit"},
		{name, "a refusal before any return", pass, func(e *evidence) {
			known(e)
			refuseOnly(e)
			e.refuse(500 * ms)
		}, "1 of 1 refusals came before the first return"},
		{name, "a refusal long after the first return", pass, func(e *evidence) {
			refuseOnly(e)
			e.refuse(1500 * ms)
		}, "1 of 1 refusals came before the first return"},
		{name, "a fault that made buyers wait is over", fail, func(e *evidence) {
			known(e)
			e.attempt(1024, 0).End = 200 * ms
			e.fault(100*ms, 150*ms)
			e.refuse(1500 * ms)
		}, "at most 1 of 2 units were taken"},
		{name, "a promise that excuses everything hides nothing", maybe,
			func(e *evidence) {
				known(e)
				e.audit.ReclaimSlackNS = int64(7*time.Second) + 1
				e.refuse(1500 * ms)
			}, "the most allowed is 7s"},
		{name, "an item that exists is unknown", fail, func(e *evidence) {
			known(e)
			e.refuse(1500 * ms)
			suttest.Deny(&e.records[len(e.records)-1], flashsale.ErrUnknownItem)
		}, "as if there were no such thing"},
		{name, "a read of an item that exists", fail, func(e *evidence) {
			suttest.Deny(e.attempt(272, 0), flashsale.ErrUnknownItem)
		}, "stock of item-1 at 15ms was refused as if there were no such thing"},
		{name, "nobody was told so", maybe, nobodyRefused, "no buy was refused as sold out"},
	}
}

func paymentCases() []verdictCase {
	const name = flashsale.PaymentExactlyOnce
	return []verdictCase{
		{name, "a failed payment without effect", pass, func(e *evidence) {
			e.payment("pay-500").Effects = 0
		}, ""},
		{name, "a refund of nothing", fail, func(e *evidence) { e.payment("pay-500").Refunded = true },
			"refunded without being captured"},
		{name, "a paid order paid for twice", fail, func(e *evidence) {
			e.payment("pay-200").OrderID, e.payment("pay-200").Refunded = "o1", false
		}, "order o1 is paid, but 2 payments"},
		{name, "money for an order that is not there", fail, func(e *evidence) {
			e.payment("pay-100").OrderID = "o9"
		}, "order o9, which does not exist"},
		{name, "two answers to one payment", fail, func(e *evidence) {
			e.attempt(336, 0).Reply.Key = "refunded"
		}, `was answered "sold" and "refunded"`},
		{name, "an answered payment that is gone", fail, func(e *evidence) {
			e.audit.Payments = e.audit.Payments[:2]
		}, `payment pay-500 of order o3 was answered "released" but does not exist`},
		{name, "an unknown payment that is not there", pass, func(e *evidence) {
			e.attempt(1344, 0).Outcome = history.Unknown
			e.audit.Payments = e.audit.Payments[:2]
		}, ""},
		{name, "sold, and refunded later", fail, func(e *evidence) {
			e.payment("pay-100").Refunded = true
			e.close("o1", flashsale.OrderExpired, 1100*ms)
		}, `was answered "sold"; at the end it is refunded and the order is expired`},
		{name, "refunded, and captured later", fail, func(e *evidence) {
			e.payment("pay-200").Refunded = false
			e.close("o2", flashsale.OrderPaid, 1100*ms)
		}, `was answered "refunded"; at the end it is captured`},
		{name, "released, and paid later", fail, func(e *evidence) {
			e.payment("pay-500").Captured = true
			e.close("o3", flashsale.OrderPaid, 1700*ms)
		}, `was answered "released"; at the end it is captured and the order is paid`},
		{name, "a failed payment buys", fail, func(e *evidence) {
			e.attempt(320, 0).Op.Arg *= -1
			e.attempt(336, 0).Op.Arg *= -1
		}, `was answered "sold", and that it succeeded is false`},
		{name, "the order of a payment is unknown", fail, func(e *evidence) {
			suttest.Deny(e.attempt(336, 0), flashsale.ErrUnknownOrder)
		}, "order o1, acknowledged at"},
		{name, "released, but expired first", pass, func(e *evidence) {
			e.close("o3", flashsale.OrderExpired, 1690*ms)
		}, ""},
		{name, "released, but expired later", fail, func(e *evidence) {
			e.close("o3", flashsale.OrderExpired, 2700*ms)
		}, `pay-500 of order o3 was answered "released" at 1.702s, when the order, which is expired at`},
		{name, "refunded before it expired", fail, sent(576, 300*ms), `answered "refunded" at 302ms`},
		{name, "refunded, and still held", fail, func(e *evidence) {
			e.order("o2").State = flashsale.OrderHeld
		}, "which is held at the end, was not closed"},
		{name, "given up before a payment failed", fail, sent(1344, 1704*ms), "o3 was given up before"},
		{name, "given up without a payment", fail, func(e *evidence) {
			e.attempt(1344, 0).Outcome = history.Refused
		}, "order o3 was given up before"},
		{name, "a price of its own", fail, func(e *evidence) { e.audit.Items[0].PriceCents++ },
			"item-1 costs 501 cents at the end, not 500"},
		{name, "nothing was sold", maybe, unknown(320, 336), `no payment was answered "sold"`},
		{name, "nothing was delivered twice", maybe, unknown(336), "delivered and answered twice"},
		{name, "nothing was to be delivered twice", pass, func(e *evidence) {
			e.params.PayTwice = 0
			e.attempt(336, 0).Outcome = history.Unknown
		}, ""},
		{name, "nothing came late", maybe, func(e *evidence) { e.attempt(576, 0).Start = 400 * ms },
			"at about the time its cart expired"},
		{name, "nothing was to come late", pass, func(e *evidence) {
			e.params.PayLate = 0
			e.attempt(576, 0).Start = 400 * ms
		}, ""},
	}
}

func timeCases() []verdictCase {
	const name = flashsale.ExpiryOnTime
	return []verdictCase{
		{name, "returned too early", fail, func(e *evidence) {
			e.close("o2", flashsale.OrderExpired, 992*ms)
		}, "order o2 of bob (expired) was over after 990ms, before its time of 1s was"},
		{name, "nothing expired", maybe, func(e *evidence) {
			e.close("o2", flashsale.OrderFailed, 1050*ms)
		}, "no order came to the end of its time"},
	}
}

// anonymous makes the sale that of a design whose units have no rows.
func anonymous(e *evidence) {
	e.audit.Units = nil
	for i := range e.audit.Orders {
		e.audit.Orders[i].Unit = 0
	}
	for i := range e.audit.Log {
		e.audit.Log[i].Unit, e.audit.Log[i].Version = 0, 0
	}
}

func pathCases() []verdictCase {
	const name = flashsale.UnitPath
	return []verdictCase{
		{name, "taken while taken", fail, func(e *evidence) { e.audit.Log[4].Unit = 1 },
			"it was sold since 3"},
		{name, "a cause that leads elsewhere", fail, func(e *evidence) { e.audit.Log[3].Cause = "paid" },
			`went from held to available because of "paid", which may not be`},
		{name, "a design that keeps a count", pass, anonymous, ""},
		{name, "a sold order goes back where a count is kept", fail, func(e *evidence) {
			anonymous(e)
			e.audit.Log = append(e.audit.Log, flashsale.LogEntry{
				Seq: 8, OrderID: "o1", Item: "item-1",
				From: "held", To: "available", Cause: "expired", At: storeTime(1800 * ms),
			})
		}, "but it was sold since 3"},
		{name, "nothing was sold", maybe, func(e *evidence) {
			e.audit.Log = slices.Concat(e.audit.Log[1:2], e.audit.Log[3:])
			e.audit.Orders, e.audit.Units = e.audit.Orders[1:], e.audit.Units[1:]
		}, "no unit was sold"},
		{name, "nothing came back", maybe, func(e *evidence) {
			e.audit.Log = slices.Concat(e.audit.Log[:1], e.audit.Log[2:3])
			e.audit.Orders, e.audit.Units = e.audit.Orders[:1], e.audit.Units[:1]
		}, "no unit was returned"},
	}
}

// The samples of the good sale, by what they saw.
const (
	sampleReturn = 1 // Bob's unit came back while the gauge looked, 1040 to 1060 ms
	sampleGap    = 2 // nothing
	sampleQuiet  = 3 // one unit free, at 1500 ms
)

// driftCases are sales by the sums of Redis and ledger. The design is given
// 400 ms to bring a unit back, and the slowest operation took 3 ms.
func driftCases() []verdictCase {
	const drift = flashsale.RedisDrift
	const over = "1 more than exist could be sold"
	return []verdictCase{
		{drift, "a unit is reserved instead of in stock at the end", pass, func(e *evidence) {
			e.audit.Redis[0].Stock, e.audit.Redis[0].Holds = 0, 1
		}, ""},
		{drift, "a negative stock that adds up at the end", fail, func(e *evidence) {
			e.audit.Redis[0].Stock, e.audit.Redis[0].Holds = -1, 2
		}, "-1 in stock"},
		{drift, "no counter at the end", fail, func(e *evidence) { e.audit.Redis[0].Present = false },
			"no counter"},

		{drift, "one unit too many for a while", fail, quietly(stocked(2)),
			"item-1: between 1.5s and 1.501s Redis had 2 in stock and 0 reserved, and 1 or more of 2 " +
				"units were in orders: " + over},
		{drift, "one unit too few for a while", pass, quietly(stocked(0)), "had no negative drift"},
		{drift, "a unit came back while the gauge looked", pass, func(e *evidence) {
			e.look(sampleReturn, stocked(1))
		}, ""},
		{drift, "two came back where one was returned", fail, func(e *evidence) {
			e.look(sampleReturn, stocked(2))
		}, over},
		{drift, "a unit was sold while the gauge looked", pass, quietly(func(l *flashsale.LookItem) {
			l.After.Made++
		}), ""},
		{drift, "reserved and in stock", fail, quietly(func(l *flashsale.LookItem) {
			l.Tokens, l.Unclaimed = 1, 1
		}), "1 in stock and 1 reserved"},
		{drift, "a reservation that has its order", pass, quietly(func(l *flashsale.LookItem) {
			l.Tokens = 1
		}), ""},
		{drift, "no counter for a while", pass, quietly(func(l *flashsale.LookItem) {
			l.Present, l.Stock = false, 0
		}), ""},
		{drift, "a negative stock for a while", fail, quietly(stocked(-1)),
			"at 1.501s Redis had -1 in stock"},

		{drift, "nobody looked", maybe, func(e *evidence) { e.samples = nil },
			"no sample of both stores was taken during the sale"},
		{drift, "no look saw anything", maybe, func(e *evidence) {
			for i := range e.samples {
				e.samples[i] = e.samples[sampleGap]
			}
		}, "none of 6 samples saw both stores"},
		{drift, "all looks before the first order", maybe, func(e *evidence) {
			e.samples = e.samples[:1]
			e.look(0, func(l *flashsale.LookItem) { l.Before, l.Stock = flashsale.OrderCounts{}, 2 })
		}, "none of 1 samples of an item during the sale came after its first order"},
		{drift, "a sample that cannot be read", maybe, func(e *evidence) {
			e.samples[sampleQuiet].Body = []byte(`{"items": 3}`)
		}, "the sample taken at 1.5s cannot be read"},
		{drift, "a promise that excuses everything", maybe, promise(time.Hour),
			"the most allowed is 7s"},
	}
}

// stocked is a change of what Redis had.
func stocked(n int64) func(*flashsale.LookItem) {
	return func(l *flashsale.LookItem) { l.Stock = n }
}

// driftExcuses are faults and repairs around a look with a negative drift.
func driftExcuses() []verdictCase {
	const drift = flashsale.RedisDrift
	const over = "1 more than exist could be sold"
	repaired := func(e *evidence, n int) {
		for ; n < len(e.samples); n++ {
			if n != sampleGap {
				e.look(n, func(l *flashsale.LookItem) { l.Repair = "again" })
			}
		}
	}
	negative := func(e *evidence) { e.look(sampleQuiet, stocked(2)) }
	return []verdictCase{
		{drift, "too many within the slack of a fault", pass, func(e *evidence) {
			negative(e)
			e.fault(1090*ms, 1098*ms)
		}, "1 more within 403ms of a fault or a repair were excused"},
		{drift, "too many beyond the slack of a fault", fail, func(e *evidence) {
			negative(e)
			e.fault(1088*ms, 1096*ms)
		}, over},
		{drift, "too many before a fault", fail, func(e *evidence) {
			negative(e)
			e.fault(1502*ms, 1600*ms)
		}, over},
		{drift, "too many where the fault's target answered late", pass, func(e *evidence) {
			negative(e)
			e.fault(100*ms, 200*ms)
			e.windows[0].Recovered = 1100 * ms
		}, ""},
		{drift, "too many within the slack of a repair", pass, func(e *evidence) {
			negative(e)
			repaired(e, sampleQuiet)
		}, "3 more within"},
		{drift, "still too many beyond the slack of a repair", fail, func(e *evidence) {
			negative(e)
			repaired(e, sampleReturn)
		}, over},
		{drift, "a repair right after too many", fail, func(e *evidence) {
			negative(e)
			repaired(e, sampleQuiet+1)
		}, over},
		{drift, "Redis lost the mark of a repair as well", pass, func(e *evidence) {
			e.look(0, func(l *flashsale.LookItem) { l.Repair = "once" })
			e.look(sampleReturn, func(l *flashsale.LookItem) { l.Repair = "once" })
			negative(e)
		}, ""},
		{drift, "a fault over all looks", maybe, func(e *evidence) { e.fault(0, history.Never/2) },
			"5 more within 400ms of a fault or a repair were excused"},
	}
}

// TestDriftNamesSuspects: where units leaked, the purchases that met a fault or have no outcome are
// named, and the slowest where there is none.
func TestDriftNamesSuspects(t *testing.T) {
	judge := func(spoil func(*evidence)) []uint64 {
		e := goodSale()
		e.audit.Redis[0].Stock = 0
		spoil(e)
		v := e.judge(t)[flashsale.RedisDrift]
		if v.Status != fail {
			t.Errorf("it is %s: %s", v.Status, v.Reason)
		}
		return v.Witness
	}
	records := goodSale().records
	for _, seq := range judge(func(*evidence) {}) {
		i := slices.IndexFunc(records, func(r history.Record) bool { return r.Seq == seq })
		if r := records[i]; r.Op.Key != "item-1" || r.Outcome != history.Unknown &&
			!slices.ContainsFunc(records, func(o history.Record) bool {
				return o.Op.ID == r.Op.ID && o.Outcome == history.Unknown
			}) {
			t.Errorf("without a fault, %+v is named", r)
		}
	}
	slow := judge(func(e *evidence) {
		e.records = slices.DeleteFunc(e.records, func(r history.Record) bool {
			return r.Outcome == history.Unknown
		})
	})
	if len(slow) == 0 {
		t.Error("without a purchase in doubt, none is named, not even the slowest")
	}
	first := records[0]
	met := judge(func(e *evidence) { e.fault(first.Start, first.End) })
	if !slices.Contains(met, first.Seq) {
		t.Errorf("records %v are named, not %d, which met the fault", met, first.Seq)
	}

	// What was seen during the sale names those that had begun by then.
	meanwhile := func(spoil func(*evidence)) []uint64 {
		return judge(func(e *evidence) {
			e.audit.Redis[0].Stock = 1
			e.look(sampleQuiet, stocked(2))
			spoil(e)
		})
	}
	met = meanwhile(func(e *evidence) { e.fault(first.Start, first.End) })
	if !slices.Contains(met, first.Seq) {
		t.Errorf("of a look, records %v are named, not %d, which met the fault", met, first.Seq)
	}
	for _, seq := range meanwhile(func(e *evidence) { e.fault(1600*ms, 9*time.Second) }) {
		i := slices.IndexFunc(records, func(r history.Record) bool { return r.Seq == seq })
		if r := records[i]; r.Start > 1501*ms {
			t.Errorf("of a look at 1.5 s, %+v is named", r)
		}
	}
}

// TestOversellInTime: the item that was oversold first comes first, with its count, and of the
// payments those of the buys that decide are its proof.
func TestOversellInTime(t *testing.T) {
	e := goodSale()
	sell := func(id uint64, item string, n int, at time.Duration) {
		order := item + "-" + string(rune('a'+n))
		e.add(history.Record{Op: history.Op{ID: id, Kind: flashsale.KindBuy, Key: item,
			Client: order}, Outcome: history.OK, Reply: history.Reply{Key: order},
			Start: at, End: at + 3*ms})
		e.add(history.Record{Op: history.Op{ID: id + 1, Kind: flashsale.KindPayment, Key: order},
			Outcome: history.OK, Reply: history.Reply{Key: string(flashsale.PaymentSold)},
			Start: at + 10*ms, End: at + 11*ms})
	}
	for n := range 4 {
		sell(uint64(80_000+512*n), "item-8", n, 900*ms+time.Duration(20*n)*ms)
		sell(uint64(90_000+512*n), "item-9", n, 100*ms+time.Duration(20*n)*ms)
	}
	v := e.judge(t)[flashsale.NoOversell]
	var found []string
	for _, one := range v.Violations {
		if strings.Contains(one.Text, "were answered") {
			found = append(found, one.Text[:6])
		}
	}
	if strings.Join(found, " ") != "item-9 item-8" {
		t.Fatalf("violated in the order %q: %+v", found, v.Violations)
	}
	first := v.Violations[0]
	// The third buy went above the limit of two, and overlapped no other.
	if first.Counted == nil || first.Counted.Crossing().Op != 90_000+1024 || len(first.Ops) != 2 {
		t.Errorf("%+v", first)
	}
}
