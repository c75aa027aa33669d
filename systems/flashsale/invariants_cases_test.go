package flashsale_test

import (
	"slices"
	"testing"
	"time"

	"stampede/harness/history"
	"stampede/systems/flashsale"
)

func stockCases() []verdictCase {
	const (
		oversell, conservation = flashsale.NoOversell, flashsale.Conservation
		through                = flashsale.SellThrough
	)
	return []verdictCase{
		{oversell, "three orders paid for two units - fail", fail, func(e *evidence) {
			e.close("o2", flashsale.OrderPaid, 300*ms)
			e.close("o3", flashsale.OrderPaid, 1700*ms)
		}, "item-1: 3 orders have one for good at the end, but only 2 exist"},
		{oversell, "as many orders paid as units - pass", pass, func(e *evidence) {
			e.close("o3", flashsale.OrderPaid, 1700*ms)
		}, "no item was sold more often than its 2 units: 2 of 2 were sold when the run ended, 0 were " +
			"left in carts or for sale; 4 buys succeeded, with 3 orders: a " +
			"second click is answered with the same order, and a unit whose cart"},
		{oversell, "a cart is not sold - pass", pass, func(e *evidence) {
			e.order("o1").State = flashsale.OrderHeld
		}, "0 of 2 were sold when the run ended, 2 were left in carts or for sale; "},
		{oversell, "three carts at once, all returned - fail", fail, func(e *evidence) {
			e.buy(4096, "gil", "o4", 0, 500*ms)
			e.buy(4352, "hal", "o5", 0, 510*ms)
			e.close("o4", flashsale.OrderExpired, 1600*ms)
			e.close("o5", flashsale.OrderExpired, 1600*ms)
		}, "item-1: units of acknowledged orders: at 511ms 4 were certainly held at once, but only " +
			"2 exist"},
		{oversell, "three orders answered sold - fail", fail, func(e *evidence) {
			e.attempt(576, 0).Reply.Key = "sold"
			e.attempt(1344, 0).Reply.Key = "sold"
		}, `3 orders were answered "sold"`},
		{oversell, "an unknown payment proves nothing - pass", pass, func(e *evidence) {
			e.attempt(576, 0).Outcome = history.Unknown
			e.attempt(1344, 0).Outcome = history.Unknown
		}, ""},
		{oversell, "nobody was refused - undecided", maybe, func(e *evidence) {
			e.forget(func(r history.Record) bool {
				return r.Outcome == history.Refused
			})
		}, "no item was in demand"},
		{oversell, "refused for other reasons - undecided", maybe, func(e *evidence) {
			for i := range e.records {
				if r := &e.records[i]; r.Outcome == history.Refused {
					r.Err, r.Code = "", "rate_limited"
				}
			}
		}, "no item was in demand"},

		{conservation, "a snapshot that loses a unit - fail", fail, func(e *evidence) {
			e.attempt(272, 0).Reply.Body = stockBody(0, 1, 0)
		}, "0 available + 1 held + 0 sold = 1, want 2 (-1)"},
		{conservation, "another snapshot of all units - pass", pass, func(e *evidence) {
			e.attempt(272, 0).Reply.Body = stockBody(1, 1, 0)
		}, ""},
		{conservation, "a snapshot with a negative count - fail", fail, func(e *evidence) {
			e.attempt(272, 0).Reply.Body = stockBody(-1, 2, 1)
		}, "a count is negative"},
		{conservation, "a snapshot that is no JSON - fail", fail, func(e *evidence) {
			e.attempt(272, 0).Reply.Body = []byte("sold out")
		}, "cannot be read"},
		{conservation, "a snapshot that failed - undecided", maybe, func(e *evidence) {
			e.attempt(272, 0).Outcome = history.Unknown
		}, "no stock snapshot was read"},
		{conservation, "no snapshots were asked for - pass", pass, func(e *evidence) {
			e.params.StockReads = 0
			e.attempt(272, 0).Outcome = history.Unknown
		}, ""},
		{conservation, "the item gained a unit - fail", fail, func(e *evidence) {
			e.audit.Items[0].Units, e.audit.Items[0].Available = 3, 2
		}, "the sale has 2"},
		{conservation, "the item counts other orders - fail", fail, func(e *evidence) {
			e.audit.Items[0].Available, e.audit.Items[0].Held = 0, 1
		}, "the item counts 1 held and 1 sold, its orders are 0 held and 1 paid"},
		{conservation, "the item is gone - fail", fail, func(e *evidence) {
			e.audit.Items = []flashsale.ItemAudit{}
		}, "item-1 is missing"},
		{conservation, "a unit row is gone - fail", fail, func(e *evidence) {
			e.audit.Units = e.audit.Units[:1]
		}, "its unit rows are 1, 0, 0, 1"},
		{conservation, "no unit rows at all - pass", pass, func(e *evidence) {
			e.audit.Units = nil
		}, ""},
		{conservation, "a unit of an order that is closed - fail", fail, func(e *evidence) {
			e.audit.Units[0].OrderID = "o2"
		}, "is sold at the end for order o2, which is expired"},
		{conservation, "a unit of nobody - fail", fail, func(e *evidence) {
			e.audit.Units[0].OrderID = "o9"
		}, `for order "o9", which does not exist`},

		{through, "a unit stuck in a cart - fail", fail, func(e *evidence) {
			e.audit.Items[0].Available, e.audit.Items[0].Held = 0, 1
		}, "1 are in carts and none is for sale: 1 are stuck"},
		{through, "a unit that Redis does not offer - fail", fail, func(e *evidence) {
			e.audit.Redis[0].Stock = 0
		}, "1 are stuck"},
		{through, "everything sold - pass", pass, func(e *evidence) {
			e.audit.Items[0].Available, e.audit.Items[0].Sold = 0, 2
			e.audit.Redis[0].Stock = 0
		}, ""},
		{through, "fewer buyers than units - undecided", maybe, func(e *evidence) {
			e.audit.Items[0].Units = 7
		}, "as many buyers as units"},
	}
}

func ownerCases() []verdictCase {
	const unit, buyer = flashsale.UnitExclusive, flashsale.OnePerBuyer
	return []verdictCase{
		{unit, "two live orders of one unit - fail", fail, func(e *evidence) {
			e.order("o1").Unit = 2
			e.close("o3", flashsale.OrderPaid, 1700*ms)
		}, "item-1 2: order o1 of ann (paid) and order o3 of eve (paid) both have it at the end"},
		{unit, "a live order of a returned unit - pass", pass, func(e *evidence) {
			e.close("o3", flashsale.OrderPaid, 1700*ms)
		}, ""},
		{unit, "taken in the log while taken - fail", fail, func(e *evidence) {
			e.audit.Log[4].Unit = 1
		}, "order o3 took it at log 6 while order o1 had it since log 1"},
		{unit, "two certain holds of one unit - fail", fail, func(e *evidence) {
			e.audit.Log = nil
			e.buy(4096, "gil", "o4", 2, 500*ms)
			e.close("o4", flashsale.OrderFailed, 900*ms)
		}, "item-1 2: units of acknowledged orders: at 501ms 2 were certainly held at once"},
		{unit, "two orders of one unit answered sold - fail", fail, func(e *evidence) {
			e.attempt(576, 0).Reply.Key = "sold"
			e.attempt(1344, 0).Reply.Key = "sold"
		}, "orders o2 and o3 were both answered"},
		{unit, "no unit is ever named - undecided", maybe, func(e *evidence) {
			for i := range e.audit.Orders {
				e.audit.Orders[i].Unit = 0
			}
		}, "no order names a unit"},

		{buyer, "two live orders of one buyer - fail", fail, func(e *evidence) {
			e.order("o3").Buyer = "ann"
			e.close("o3", flashsale.OrderPaid, 1700*ms)
		}, "order o1 of ann (paid) and order o3 of ann (paid) overlap for ever"},
		{buyer, "a second order after the first one's end - pass", pass, func(e *evidence) {
			e.order("o3").Buyer = "bob"
		}, ""},
		{buyer, "an order nobody was told of, at the same time - fail", fail, func(e *evidence) {
			e.order("o3").Buyer = "ann"
			e.attempt(1280, 0).Outcome = history.Unknown
			e.audit.ReclaimSlackNS = int64(90 * ms)
		}, "overlap for 100ms"},
		{buyer, "two acknowledged carts at once, both returned - fail", fail, func(e *evidence) {
			e.audit.ReclaimSlackNS = int64(time.Hour)
			e.buy(4096, "bob", "o4", 1, 500*ms)
			e.close("o4", flashsale.OrderFailed, 900*ms)
		}, "item-1 of bob: units of acknowledged orders: at 501ms 2 were certainly held"},
		{buyer, "a promise that excuses everything - undecided", maybe, func(e *evidence) {
			e.audit.ReclaimSlackNS = int64(time.Hour)
		}, "the audit declares reclaim_slack_ns of 1h0m0s; the most allowed is 7s"},
		{buyer, "two orders of one buyer answered sold - fail", fail, func(e *evidence) {
			e.attempt(1280, 0).Op.Client = "bob"
			e.attempt(576, 0).Reply.Key = "sold"
			e.attempt(1344, 0).Reply.Key = "sold"
		}, "item-1 of bob: orders o2 and o3 were both answered"},
		{buyer, "nobody tried twice - undecided", maybe, func(e *evidence) {
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
		{durable, "an acknowledged order is gone - fail", fail, func(e *evidence) {
			e.audit.Orders = e.audit.Orders[1:]
		}, `operation 256 (key "item-1", client "ann") was acknowledged at 2ms ("o1") but has no effect`},
		{durable, "it is somebody else's - fail", fail, func(e *evidence) {
			e.order("o1").Buyer = "bob"
		}, `o1 of operation 256 (key "item-1", client "bob") was requested with key "item-1" by client "ann"`},
		{durable, "it is of another unit - fail", fail, func(e *evidence) {
			e.order("o1").Unit = 2
		}, "order o1 of ann (paid) was acknowledged as item-1 1 at 2ms; at the end it is item-1 2"},

		{phantom, "an order that nobody asked for - fail", fail, func(e *evidence) {
			e.order("o3").OpID = 99999
		}, "o3 of operation 99999 (key \"item-1\", client \"eve\") was never requested"},
		{phantom, "an order of a refused request - fail", fail, func(e *evidence) {
			e.order("o3").OpID, e.order("o3").Buyer = 768, "cid"
		}, "o3 of operation 768 (key \"item-1\", client \"cid\") exists, but the operation was refused"},
		{phantom, "a payment that nobody sent - fail", fail, func(e *evidence) {
			e.payment("pay-200").ID = "pay-666"
		}, "payment pay-666 of order o2 exists"},
		{phantom, "an audit without payments - undecided", maybe, func(e *evidence) {
			e.audit.Payments = nil
		}, "the audit has no payments"},
		{phantom, "a payment of an unknown delivery - pass", pass, func(e *evidence) {
			e.attempt(576, 0).Outcome = history.Unknown
		}, ""},
		{phantom, "a payment of a refused delivery - fail", fail, func(e *evidence) {
			e.attempt(576, 0).Outcome = history.Refused
		}, "payment pay-200 of order o2 exists"},

		{same, "two orders told for one key - fail", fail, func(e *evidence) {
			e.attempt(256, 1).Reply.Key = "o2"
		}, "the idempotency key 256 was answered with o1 1 and with o2 1"},
		{same, "two units told for one key - fail", fail, func(e *evidence) {
			e.attempt(256, 1).Reply.Value = 2
		}, "and with o1 2"},
		{same, "two orders made for one key - fail", fail, func(e *evidence) {
			e.order("o3").OpID = 256
		}, "operation 256: there are order o1 of ann (paid) and order o3 of eve (failed)"},
		{same, "denied an order that stands - fail", fail, func(e *evidence) {
			e.attempt(256, 1).Outcome, e.attempt(256, 1).Code = history.Refused, "sold_out"
		}, "operation 256 was acknowledged at 2ms, but denied when it was sent again at 10ms"},
		{same, "denied an order that has expired - pass", pass, func(e *evidence) {
			e.add(history.Record{Op: e.attempt(512, 0).Op, Outcome: history.Refused, Code: "sold_out",
				Start: 1200 * ms, End: 1201 * ms})
		}, ""},
		{same, "a repetition that was refused - undecided", maybe, func(e *evidence) {
			e.attempt(256, 1).Outcome = history.Refused
		}, "no idempotency key was acknowledged again when it was sent again"},
	}
}

// TestLateReturns: a refusal that a unit explains which came back, but long after the slack, is
// late; one that nothing explains is not.
func TestLateReturns(t *testing.T) {
	for at, late := range map[time.Duration]bool{1500 * ms: true, 8 * time.Second: false} {
		e := goodSale(t)
		e.attempt(1024, 0).Outcome = history.Refused
		e.add(history.Record{
			Op:      history.Op{ID: 8192, Kind: flashsale.KindBuy, Key: "item-1", Client: "ida"},
			Outcome: history.Refused, Code: "sold_out", Start: at, End: at + ms,
		})
		v := e.judge(t)[flashsale.NoFalseSoldOut]
		if v.Status != fail || v.Count != 1 || late != (v.Late == 1) {
			t.Errorf("at %v: %s, %d of %d late", at, v.Status, v.Late, v.Count)
		}
	}
}

func soldOutCases() []verdictCase {
	const name = flashsale.NoFalseSoldOut
	refusal := func(e *evidence, at time.Duration) {
		e.add(history.Record{
			Op:      history.Op{ID: 8192, Kind: flashsale.KindBuy, Key: "item-1", Client: "ida"},
			Outcome: history.Refused, Err: "sold out: refused", Start: at, End: at + ms,
		})
	}
	// known settles what became of Dan's lost request, which otherwise may
	// have had a unit ever since.
	known := func(e *evidence) { e.attempt(1024, 0).Outcome = history.Refused }
	// refuseOnly forgets the sale's own refusals.
	refuseOnly := func(e *evidence) {
		for i := range e.records {
			if e.records[i].Op.Kind == flashsale.KindBuy && e.records[i].Outcome == history.Refused {
				e.records[i].Err = "already bought: refused"
			}
		}
	}
	return []verdictCase{
		{name, "refused before anybody bought - fail", fail, func(e *evidence) {
			e.attempt(256, 0).Start, e.attempt(512, 0).Start = 2*ms, 2*ms
			refusal(e, 0)
		}, "told sold out while at most 0 of 2 units were taken"},
		{name, "refused while others were being served - pass", pass, func(e *evidence) {
			e.attempt(256, 0).Start, e.attempt(512, 0).Start = 2*ms, 2*ms
			refusal(e, 1*ms)
		}, ""},
		{name, "refused long after a unit came back - fail", fail, func(e *evidence) {
			known(e)
			refusal(e, 1500*ms)
		}, "at most 1 of 2 units were taken"},
		{name, "refused within the slack after a unit came back - pass", pass, func(e *evidence) {
			known(e)
			refusal(e, 1400*ms)
		}, ""},
		{name, "refused while buyers were kept waiting as long - pass", pass, func(e *evidence) {
			known(e)
			e.attempt(1024, 0).End = 200 * ms
			refusal(e, 1500*ms)
		}, ""},
		{name, "an unknown buy may have the unit - pass", pass, func(e *evidence) {
			refusal(e, 1500*ms)
		}, ""},
		{name, "another refused request may have the unit for a moment - pass", pass,
			func(e *evidence) {
				known(e)
				refusal(e, 1500*ms)
				other := e.records[len(e.records)-1]
				other.Err = "already bought: refused"
				other.Start, other.End = 1501*ms, 1502*ms
				e.add(other)
			}, ""},
		{name, "refused during a fault - pass", pass, func(e *evidence) {
			known(e)
			e.fault(1450*ms, 1550*ms)
			refusal(e, 1500*ms)
		}, ""},
		{name, "refused within the slack after a fault - pass", pass, func(e *evidence) {
			known(e)
			e.fault(1100*ms, 1150*ms)
			refusal(e, 1500*ms)
		}, ""},
		{name, "refused long after a fault - fail", fail, func(e *evidence) {
			known(e)
			e.fault(1000*ms, 1050*ms)
			refusal(e, 1500*ms)
		}, "told sold out"},
		{name, "not ready is no claim - pass", pass, func(e *evidence) {
			known(e)
			refusal(e, 1500*ms)
			e.records[len(e.records)-1].Err = "sale not ready: refused"
		}, ""},
		{name, "a promise that excuses everything - undecided", maybe, func(e *evidence) {
			e.audit.ReclaimSlackNS = int64(time.Minute)
		}, "the audit declares reclaim_slack_ns of 1m0s; the most allowed is 7s"},
		{name, "a promise as slow as may be - pass", pass, func(e *evidence) {
			e.audit.ReclaimSlackNS = int64(7 * time.Second)
		}, ""},
		{name, "every refusal soon after a return - undecided", maybe, func(e *evidence) {
			known(e)
			refuseOnly(e)
			refusal(e, 1100*ms)
		}, "all 1 sold-out refusals came within 403ms of the first return of a unit"},
		{name, "a refusal before any return - pass", pass, func(e *evidence) {
			known(e)
			refuseOnly(e)
			refusal(e, 500*ms)
		}, "1 of 1 refusals came before the first return"},
		{name, "a refusal long after the first return - pass", pass, func(e *evidence) {
			refuseOnly(e)
			refusal(e, 1500*ms)
		}, "1 of 1 refusals came before the first return"},
		{name, "a fault that made buyers wait is over - fail", fail, func(e *evidence) {
			known(e)
			e.attempt(1024, 0).End = 200 * ms
			e.fault(100*ms, 150*ms)
			refusal(e, 1500*ms)
		}, "at most 1 of 2 units were taken"},
		{name, "a promise that excuses everything hides nothing - undecided", maybe,
			func(e *evidence) {
				known(e)
				e.audit.ReclaimSlackNS = int64(7*time.Second) + 1
				refusal(e, 1500*ms)
			}, "the most allowed is 7s"},
		{name, "nobody was told so - undecided", maybe, func(e *evidence) {
			e.forget(func(r history.Record) bool {
				return r.Outcome == history.Refused
			})
		}, "no buy was refused as sold out"},
	}
}

func paymentCases() []verdictCase {
	const name = flashsale.PaymentExactlyOnce
	return []verdictCase{
		{name, "a payment that took effect twice - fail", fail, func(e *evidence) {
			e.payment("pay-100").Effects = 2
		}, "payment pay-100 of order o1 took effect 2 times in 2 deliveries"},
		{name, "a failed payment without effect - pass", pass, func(e *evidence) {
			e.payment("pay-500").Effects = 0
		}, ""},
		{name, "a late payment that was kept - fail", fail, func(e *evidence) {
			e.payment("pay-200").Refunded = false
		}, "payment pay-200 was captured, but its order o2 is expired and the payment was not refunded"},
		{name, "a paid order whose payment was refunded - fail", fail, func(e *evidence) {
			e.payment("pay-100").Refunded = true
		}, "order o1 is paid, but 0 payments for it were captured and kept"},
		{name, "a refund of nothing - fail", fail, func(e *evidence) {
			e.payment("pay-500").Refunded = true
		}, "refunded without being captured"},
		{name, "a paid order paid for twice - fail", fail, func(e *evidence) {
			e.payment("pay-200").OrderID, e.payment("pay-200").Refunded = "o1", false
		}, "order o1 is paid, but 2 payments"},
		{name, "two rows of one payment - fail", fail, func(e *evidence) {
			e.audit.Payments = append(e.audit.Payments, *e.payment("pay-200"))
		}, "payment pay-200 has two rows"},
		{name, "money for an order that is not there - fail", fail, func(e *evidence) {
			e.payment("pay-100").OrderID = "o9"
		}, "order o9, which does not exist"},
		{name, "the wrong price - fail", fail, func(e *evidence) {
			e.payment("pay-100").AmountCents = 499
		}, "captured 499 cents for order o1, the price of item-1 is 500"},
		{name, "two answers to one payment - fail", fail, func(e *evidence) {
			e.attempt(336, 0).Reply.Key = "refunded"
		}, `was answered "sold" and "refunded"`},
		{name, "an answered payment that is gone - fail", fail, func(e *evidence) {
			e.audit.Payments = e.audit.Payments[:2]
		}, `payment pay-500 of order o3 was answered "released" but does not exist`},
		{name, "an unknown payment that is not there - pass", pass, func(e *evidence) {
			e.attempt(1344, 0).Outcome = history.Unknown
			e.audit.Payments = e.audit.Payments[:2]
		}, ""},
		{name, "sold, and refunded later - fail", fail, func(e *evidence) {
			e.payment("pay-100").Refunded = true
			e.close("o1", flashsale.OrderExpired, 1100*ms)
		}, `was answered "sold"; at the end it is refunded and the order is expired`},
		{name, "refunded, and captured later - fail", fail, func(e *evidence) {
			e.payment("pay-200").Refunded = false
			e.close("o2", flashsale.OrderPaid, 1100*ms)
		}, `was answered "refunded"; at the end it is captured`},
		{name, "released, and paid later - fail", fail, func(e *evidence) {
			e.payment("pay-500").Captured = true
			e.close("o3", flashsale.OrderPaid, 1700*ms)
		}, `was answered "released"; at the end it is captured and the order is paid`},
		{name, "released, but expired first - pass", pass, func(e *evidence) {
			e.close("o3", flashsale.OrderExpired, 2700*ms)
		}, ""},
		{name, "nothing was sold - undecided", maybe, func(e *evidence) {
			e.attempt(320, 0).Outcome = history.Unknown
			e.attempt(336, 0).Outcome = history.Unknown
		}, `no payment was answered "sold"`},
		{name, "nothing was delivered twice - undecided", maybe, func(e *evidence) {
			e.attempt(336, 0).Outcome = history.Unknown
		}, "delivered and answered twice"},
		{name, "nothing was to be delivered twice - pass", pass, func(e *evidence) {
			e.params.PayTwice = 0
			e.attempt(336, 0).Outcome = history.Unknown
		}, ""},
		{name, "nothing came late - undecided", maybe, func(e *evidence) {
			e.attempt(576, 0).Start = 400 * ms
		}, "at about the time its cart expired"},
		{name, "nothing was to come late - pass", pass, func(e *evidence) {
			e.params.PayLate = 0
			e.attempt(576, 0).Start = 400 * ms
		}, ""},
	}
}

func timeCases() []verdictCase {
	const name = flashsale.ExpiryOnTime
	return []verdictCase{
		{name, "returned too early - fail", fail, func(e *evidence) {
			e.close("o2", flashsale.OrderExpired, 992*ms)
		}, "order o2 of bob (expired) was over after 990ms, before its time of 1s was"},
		{name, "returned too late - fail", fail, func(e *evidence) {
			e.close("o2", flashsale.OrderExpired, 1500*ms)
		}, "was over after 1.498s; the limit is 1.403s"},
		{name, "never returned - fail", fail, func(e *evidence) {
			e.buy(4096, "gil", "o4", 1, 200*ms)
		}, "order o4 of gil (held) has not ended after 1.501s; the limit is 1.403s"},
		{name, "a promise that excuses everything - undecided", maybe, func(e *evidence) {
			e.audit.ReclaimSlackNS = int64(time.Minute)
		}, "the audit declares reclaim_slack_ns of 1m0s; the most allowed is 7s"},
		{name, "a promise as slow as may be - pass", pass, func(e *evidence) {
			e.audit.ReclaimSlackNS = int64(7 * time.Second)
		}, ""},
		{name, "nothing expired - undecided", maybe, func(e *evidence) {
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
		{name, "a cause that leads elsewhere - fail", fail, func(e *evidence) {
			e.audit.Log[3].Cause = "paid"
		}, `went from held to available because of "paid", which may not be`},
		{name, "an order closed twice - fail", fail, func(e *evidence) {
			last := e.audit.Log[5]
			last.Seq, last.Cause, last.Version = 8, "expired", 5
			e.audit.Log = append(e.audit.Log, last)
		}, "o3: log 8 leads from held to available because of \"expired\", but it was available since 7"},
		{name, "a unit changed by another order - fail", fail, func(e *evidence) {
			e.audit.Log[2].OrderID, e.audit.Log[3].OrderID = "o2", "o1"
		}, "but o1 had it since 1"},
		{name, "a version left out - fail", fail, func(e *evidence) {
			e.audit.Log[5].Version = 5
		}, "but it made version 5 of version 3"},
		{name, "a sold unit goes back - fail", fail, func(e *evidence) {
			e.audit.Log = append(e.audit.Log, flashsale.LogEntry{
				Seq: 8, OrderID: "o1", Item: "item-1", Unit: 1, Version: 3,
				From: "held", To: "available", Cause: "expired", At: storeTime(1800 * ms),
			})
		}, "but it was sold since 3"},
		{name, "an order that the log does not mention - fail", fail, func(e *evidence) {
			e.buy(4096, "gil", "o4", 0, 200*ms)
		}, "order o4 of gil (held) is held at the end, but no log mentions it"},
		{name, "a log of an order that is not there - fail", fail, func(e *evidence) {
			e.audit.Orders = e.audit.Orders[:2]
		}, "log 6 is about o3, which does not exist"},
		{name, "a unit row in another state - fail", fail, func(e *evidence) {
			e.audit.Units[0].State = "available"
		}, "unit item-1 1 (available) is available at the end, but log 3 left it sold"},
		{name, "a design that keeps a count - pass", pass, func(e *evidence) {
			anonymous(e)
		}, ""},
		{name, "a sold order goes back where a count is kept - fail", fail, func(e *evidence) {
			anonymous(e)
			e.audit.Log = append(e.audit.Log, flashsale.LogEntry{
				Seq: 8, OrderID: "o1", Item: "item-1",
				From: "held", To: "available", Cause: "expired", At: storeTime(1800 * ms),
			})
		}, "but it was sold since 3"},
		{name, "nothing was sold - undecided", maybe, func(e *evidence) {
			e.audit.Log = slices.Concat(e.audit.Log[1:2], e.audit.Log[3:])
			e.audit.Orders, e.audit.Units = e.audit.Orders[1:], e.audit.Units[1:]
		}, "no unit was sold"},
		{name, "nothing came back - undecided", maybe, func(e *evidence) {
			e.audit.Log = slices.Concat(e.audit.Log[:1], e.audit.Log[2:3])
			e.audit.Orders, e.audit.Units = e.audit.Orders[:1], e.audit.Units[:1]
		}, "no unit was returned"},
	}
}
