package flashsale

import (
	"time"

	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/sut"
)

// Names of the invariants, as variants list them in Breaks and NotApplicable.
const (
	NoOversell         = "no-oversell"
	UnitExclusive      = "unit-exclusive"
	OnePerBuyer        = "one-per-buyer"
	AckedDurable       = "acked-durable"
	NoPhantom          = "no-phantom"
	Conservation       = "conservation"
	RedisDrift         = "redis-drift"
	NoFalseSoldOut     = "no-false-sold-out"
	SellThrough        = "sell-through"
	PaymentExactlyOnce = "payment-exactly-once"
	ExpiryOnTime       = "expiry-on-time"
	UnitPath           = "unit-path"
	IdempotentBuy      = "idempotent-buy"
)

// clockGrain is the coarsest resolution that a store's timestamps may have.
const clockGrain = time.Millisecond

// Invariants returns the thirteen statements about a sale. Each judges from the history and
// the Audit alone, so that it says the same of a design here and of a server that somebody
// else wrote.
func Invariants(p Params) []check.Invariant {
	s := subject(p)
	buys := check.Named(KindBuy)
	held := check.Capacity{Table: "order", Kind: buys, Slack: slackName,
		Live: []string{OrderHeld, OrderPaid}, Final: []string{OrderPaid}}
	ofItem, ofUnit, ofBuyer := held, held, held
	ofItem.By, ofItem.Most = check.ByKey, p.Units
	ofUnit.By, ofUnit.Most = check.ByKey|check.ByThing, 1
	ofUnit.Counts = named
	ofBuyer.By, ofBuyer.Most = check.ByKey|check.ByOwner, 1
	carts := check.Effects{Table: "order", Kind: buys}
	return []check.Invariant{
		s.State(NoOversell, "no more units of an item are held or sold than it has, "+
			"at the end and at every moment before", allowUnknown(KindBuy), oversoldByReplies(p),
			afterwards(ofItem.AtEnd()), ofItem.Held()),
		s.State(UnitExclusive, "no unit is held by or sold to two orders at once",
			allowUnknown(KindBuy), soldTwice(check.ByKey|check.ByThing, named),
			afterwards(ofUnit.AtEnd()), check.NeedFact("order", "no order names a unit", named),
			ofUnit.Held()),
		s.State(OnePerBuyer, "no buyer holds or owns two units of one item at once",
			allowUnknown(KindBuy), soldTwice(check.ByKey|check.ByOwner, nil),
			check.On("order", triedTwice), ofBuyer.Spans(), ofBuyer.Held(),
			check.HadAnother(buys, refusedFor(ErrAlreadyBought))),
		s.State(AckedDurable, "every acknowledged order exists at the end, with the same buyer, "+
			"item and unit", check.AckedDurable(carts)),
		s.State(NoPhantom, "every order and payment at the end comes from a request, and from none that "+
			"was refused", check.NoPhantom(carts), check.NeedRecord(KindBuy, "no buy was refused", refused),
			check.On("payment", phantomPayments)),
		s.State(Conservation, "available + held + sold = units in every snapshot, "+
			"sold what was by then, and counts, unit rows and orders agree at the end",
			check.Conserved(check.Named(KindStock), int64(p.Units), stockTerms(p)),
			check.OnAudit(conserved(p)), check.On("order", soldCounted(p))),
		s.State(RedisDrift, "Redis and the ledger together never offer more units than exist, and "+
			"account for all of them at rest", check.OnAudit(redisDrift(p))),
		s.State(NoFalseSoldOut, "no buy is refused as sold out while a unit is certainly free, and no "+
			"buy or read as if there were no such item", allowUnknown(KindBuy),
			check.On("order", noFalseSoldOut(p)), check.Known(check.Named(KindBuy, KindStock), "item-",
				p.Items, refusedFor(ErrUnknownItem))),
		s.State(SellThrough, "if enough buyers came, every unit is sold or still for sale",
			allowUnknown(KindBuy), check.OnAudit(sellThrough)),
		s.State(PaymentExactlyOnce, "every captured payment ends in exactly one of "+
			"a sold order and a refund, however often it is delivered",
			allowUnknown(KindPayment), payments(p)),
		s.State(ExpiryOnTime, "a cart is returned neither before its time is over nor later than "+
			"promised",
			check.InTime(check.Bound{Table: "order", Kind: buys, Ended: []string{OrderExpired},
				Open: []string{OrderHeld}, NotBefore: p.CartTTL.D(), Within: p.CartTTL.D(),
				Grain: clockGrain, Slack: slackName})),
		s.State(UnitPath, "every unit and order goes from available to held to sold or back to "+
			"available, without gaps, and sold is final", unitPath()...),
		s.State(IdempotentBuy, "buys with the same key give the same order, and none is refused while "+
			"the order is held or paid", allowUnknown(KindBuy), sameOrder,
			check.AtMostOnce("order", check.ByOp)),
	}
}

// refused says that a buy was: what was refused is what must not be there.
func refused(rec *history.Record) bool { return rec.Outcome == history.Refused }

// refusedFor says that an operation was refused for a reason.
func refusedFor(why error) func(*history.Record) bool {
	return func(rec *history.Record) bool { return sut.RefusedFor(rec, why) }
}

// named says that an order names its unit.
func named(o *check.Fact) bool { return o.Thing != 0 }

// unitPath follows the log for each unit and for each order, to where the rows are. A design
// that keeps a count writes unit 0 into its log: then only the orders are followed, to which
// the same moves apply.
func unitPath() []check.Clause {
	path := check.Path{Log: "log", Start: UnitAvailable, Owners: "order", Moves: []check.Move{
		{From: UnitAvailable, To: UnitHeld, Cause: causeBuy},
		{From: UnitHeld, To: UnitSold, Cause: causePaid},
		{From: UnitHeld, To: UnitAvailable, Cause: causePaymentFailed},
		{From: UnitHeld, To: UnitAvailable, Cause: causeExpired},
	}}
	came := func(state string) func(*check.Fact) bool {
		return func(e *check.Fact) bool { return e.State == state }
	}
	return []check.Clause{
		path.Causes(),
		path.Follow(check.Track{By: check.ByName, Once: true, Rows: "order", Strict: true,
			Ends: map[string]string{OrderPaid: UnitSold, OrderExpired: UnitAvailable,
				OrderFailed: UnitAvailable}}),
		path.Follow(check.Track{By: check.ByKey | check.ByThing, Counts: named, Held: true,
			Rows: "unit"}),
		check.NeedFact("log", "no unit was sold", came(UnitSold)),
		check.NeedFact("log", "no unit was returned", came(UnitAvailable)),
	}
}

// triedTwice needs a buyer with an order who tried to buy another unit of the same item.
func triedTwice(r *check.Run, orders *check.Table) func() {
	const buyer = check.ByKey | check.ByOwner
	first, again := make(map[check.Group]uint64), false
	for i := range orders.Rows {
		o := &orders.Rows[i]
		if g := buyer.Of(o); first[g] == 0 {
			first[g] = o.Op
		}
	}
	r.See(func(rec *history.Record) {
		said := check.Said(rec)
		op, has := first[buyer.Of(&said)]
		again = again || has && op != rec.Op.ID
	}, KindBuy)
	return func() { r.Need(again, "no buyer of a unit tried to buy another of the same item") }
}

// phantomPayments requires a delivery that was not refused for each payment.
func phantomPayments(r *check.Run, payments *check.Table) func() {
	delivered := make(map[string]bool, len(payments.Rows))
	r.See(func(rec *history.Record) {
		if rec.Outcome != history.Refused {
			delivered[rec.Op.Client] = true
		}
	}, KindPayment)
	orders := r.Table("order")
	return func() {
		for _, p := range payments.Rows {
			r.Checked(1)
			if orders != nil && !delivered[p.Name] {
				r.Violate(opsOf(orders, p.Owner), "payment %s of order %s exists, but every delivery of it "+
					"was refused or never sent", p.Name, p.Owner)
			}
		}
	}
}

// sameOrder: who asks again for an order that stands is not refused; one that has gone back
// may be sold to somebody else, and one that is lost is acked-durable's matter.
func sameOrder(r *check.Run) func() {
	orders := r.Table("order")
	return check.SameReply(check.Replies{
		Kind: check.Named(KindBuy), What: "idempotency key", Same: check.ByName | check.ByThing,
		Denied: denied, Sent: true,
		Excused: func(op uint64) bool {
			return orders == nil || orders.Op(op) == nil || !live(orders.Op(op))
		}})(r)
}

// denied says whether a buy was told that it cannot be granted.
func denied(rec *history.Record) bool {
	return sut.RefusedFor(rec, ErrSoldOut) || sut.RefusedFor(rec, ErrAlreadyBought)
}
