package flashsale

import (
	"cmp"
	"time"

	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/sut"
)

// payments are the clauses about what deliveries of a payment were told, and about the payments
// and the orders at the end.
func payments(p Params) check.Clause {
	return func(r *check.Run) func() {
		d := newDeliveries(r)
		compare := check.OnAudit(func(r *check.Run, a *Audit) func() {
			list, ok := tables(r, "order", "payment", "item")
			if !ok {
				return nil
			}
			d.buys = r.Operations(check.Named(KindBuy), list[0])
			return func() { d.compare(r, d.judgeRows(r, a, list[0], p.PriceCents), list[0]) }
		})(r)
		return func() {
			d.need(r, p)
			if compare != nil {
				compare()
			}
		}
	}
}

// judgeRows judges prices, payments, and the orders that are paid or were given up, and returns the
// payments by their name.
func (d *deliveries) judgeRows(
	r *check.Run, a *Audit, orders *check.Table, price int64,
) map[string]PaymentAudit {
	for _, it := range a.Items {
		if it.PriceCents != price {
			r.Violate(nil, "%s costs %d cents at the end, not %d", it.Item, it.PriceCents, price)
		}
	}
	kept := make(map[string]int) // payments taken and not given back, by order
	rows := make(map[string]PaymentAudit, len(a.Payments))
	for _, p := range a.Payments {
		r.Checked(1)
		if _, twice := rows[p.ID]; twice {
			r.Violate(opsOf(orders, p.OrderID), "payment %s has two rows", p.ID)
		}
		rows[p.ID] = p
		if p.Captured && !p.Refunded {
			kept[p.OrderID]++
		}
		p.judge(r, orders, price)
	}
	for i := range orders.Rows {
		o := &orders.Rows[i]
		sent, known := d.failed[o.Name]
		switch n := kept[o.Name]; {
		case o.State == OrderPaid && n != 1:
			r.Violate([]uint64{o.Op}, "order %s is paid, but %d payments for it were captured "+
				"and kept, not 1", o.Name, n)
		case o.State == OrderFailed &&
			(!known || check.HoldFor(d.buys[o.Op], o, false, clockGrain).MayTo < sent):
			r.Violate([]uint64{o.Op}, "order %s was given up before any payment for it failed", o.Name)
		}
	}
	return rows
}

// judge judges one row by itself and against its order.
func (p PaymentAudit) judge(r *check.Run, orders *check.Table, price int64) {
	op := opsOf(orders, p.OrderID)
	o := orders.Named(p.OrderID)
	switch {
	case p.Effects > 1:
		r.Violate(op, "payment %s of order %s took effect %d times in %d deliveries",
			p.ID, p.OrderID, p.Effects, p.Deliveries)
	case p.Refunded && !p.Captured:
		r.Violate(op, "payment %s of order %s was refunded without being captured", p.ID, p.OrderID)
	case !p.Captured || p.Refunded:
		// Nothing was kept, whatever became of the order.
	case o == nil:
		r.Violate(nil, "payment %s was captured and kept for order %s, which does not exist",
			p.ID, p.OrderID)
	case o.State != OrderPaid:
		r.Violate(op, "payment %s was captured, but its order %s is %s and the payment was "+
			"not refunded", p.ID, p.OrderID, o.State)
	case p.AmountCents != price:
		r.Violate(op, "payment %s captured %d cents for order %s, the price of %s is %d",
			p.ID, p.AmountCents, p.OrderID, o.Key, price)
	}
}

// answer is what deliveries of one payment were told.
type answer struct {
	op       uint64
	state    PaymentState
	order    string
	at       time.Duration // of the first answer
	made     bool          // the payment succeeded
	told     int           // acknowledged deliveries
	conflict bool          // reported already
}

// deliveries is what the history says about payments.
type deliveries struct {
	answers map[string]*answer
	order   []string // of first acknowledgement in the history
	// acked is when the buys of orders were acknowledged, paid when the last successful payment
	// of each was sent.
	acked, paid map[string]time.Duration
	// failed is when the first failed payment of an order was sent that was not refused.
	failed  map[string]time.Duration
	buys    check.Operations // of the orders at the end
	unknown []history.Record // that were told that there is no such order
}

func newDeliveries(r *check.Run) *deliveries {
	d := &deliveries{answers: make(map[string]*answer), acked: make(map[string]time.Duration),
		paid: make(map[string]time.Duration), failed: make(map[string]time.Duration)}
	r.See(func(rec *history.Record) {
		switch {
		case rec.Op.Kind == KindPayment:
			if rec.Outcome == history.OK {
				d.add(r, rec)
			} else if sut.RefusedFor(rec, ErrUnknownOrder) {
				d.unknown = append(d.unknown, *rec)
			}
			if rec.Op.Arg > 0 {
				d.paid[rec.Op.Key] = max(d.paid[rec.Op.Key], rec.Start)
			} else if rec.Outcome != history.Refused {
				d.failed[rec.Op.Key] = min(cmp.Or(d.failed[rec.Op.Key], history.Never), rec.Start)
			}
		case rec.Outcome == history.OK:
			d.acked[rec.Reply.Key] = rec.End
		}
	}, KindPayment, KindBuy)
	return d
}

// late says whether a successful payment was delivered about when its cart expired.
func (d *deliveries) late(p Params) bool {
	for order, at := range d.paid {
		if bought, known := d.acked[order]; known && at >= bought+p.CartTTL.D()-p.LateSpread.D() {
			return true
		}
	}
	return false
}

// add compares a delivery's answer with those before it.
func (d *deliveries) add(r *check.Run, rec *history.Record) {
	r.Checked(1)
	state := PaymentState(rec.Reply.Key)
	a := d.answers[rec.Op.Client]
	if a == nil {
		a = &answer{op: rec.Op.ID, state: state, order: rec.Op.Key, at: rec.End, made: rec.Op.Arg > 0}
		d.answers[rec.Op.Client] = a
		d.order = append(d.order, rec.Op.Client)
	}
	a.told, a.at = a.told+1, min(a.at, rec.End)
	if a.state != state && !a.conflict {
		a.conflict = true
		r.Violate([]uint64{a.op, rec.Op.ID}, "payment %s of order %s was answered %q and %q",
			rec.Op.Client, rec.Op.Key, a.state, state)
	}
}

func (d *deliveries) need(r *check.Run, p Params) {
	sold, twice := 0, 0
	for _, a := range d.answers {
		if a.state == PaymentSold {
			sold++
		}
		if a.told > 1 {
			twice++
		}
	}
	r.Need(sold > 0, "no payment was answered \"sold\"")
	r.Need(twice > 0 || p.PayTwice == 0, "no payment was delivered and answered twice")
	r.Need(d.late(p) || p.PayLate == 0, "no payment arrived at about the time its cart expired")
}

// compare holds the answers against the rows. Whatever the answer to a payment, its order was
// closed before.
func (d *deliveries) compare(r *check.Run, rows map[string]PaymentAudit, orders *check.Table) {
	for _, rec := range d.unknown { // an order that is lost is acked-durable's matter
		order := rec.Op.Key
		if at, bought := d.acked[order]; bought && at < rec.Start && orders.Named(order) != nil {
			r.Violate([]uint64{rec.Op.ID}, "payment %s was refused because order %s, acknowledged at %v, "+
				"is unknown", rec.Op.Client, order, at)
		}
	}
	for _, id := range d.order {
		a := d.answers[id]
		if a.conflict {
			continue
		}
		proof := []uint64{a.op}
		p, listed := rows[id]
		o := orders.Named(a.order)
		switch {
		case a.made == (a.state == PaymentReleased):
			r.Violate(proof, "payment %s of order %s was answered %q, and that it succeeded is %t", id,
				a.order, a.state, a.made)
		case !listed:
			r.Violate(proof, "payment %s of order %s was answered %q but does not "+
				"exist", id, a.order, a.state)
		case a.state == PaymentSold && (!p.Captured || p.Refunded || o == nil || o.State != OrderPaid):
			r.Violate(proof, "payment %s of order %s was answered \"sold\"; at the end it is %s "+
				"and the order is %s", id, a.order, money(p), stateOf(o))
		case a.state == PaymentRefunded && !p.Refunded:
			r.Violate(proof, "payment %s of order %s was answered \"refunded\"; at the end it is %s",
				id, a.order, money(p))
		case a.state == PaymentReleased && (p.Captured || o != nil && live(o)):
			r.Violate(proof, "payment %s of order %s was answered \"released\"; at the end it is %s "+
				"and the order is %s", id, a.order, money(p), stateOf(o))
		case o != nil && a.at+clockGrain <
			check.HoldFor(d.buys[o.Op], o, o.State == OrderHeld, 0).MustTo:
			r.Violate(append(proof, o.Op), "payment %s of order %s was answered %q at %v, when the order, "+
				"which is %s at the end, was not closed", id, a.order, a.state, a.at, o.State)
		}
	}
}

func money(p PaymentAudit) string {
	switch {
	case p.Refunded:
		return "refunded"
	case p.Captured:
		return "captured"
	default:
		return "not captured"
	}
}

func stateOf(o *check.Fact) string {
	if o == nil {
		return "gone"
	}
	return o.State
}
