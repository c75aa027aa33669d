package flashsale

import (
	"time"

	"stampede/harness/history"
)

// judgePayments holds the payments against the orders, and what deliveries
// were told against both.
func judgePayments(j *judging) {
	d := newDeliveries(j)
	d.need(j)
	if !j.has("orders", "payments", "items") {
		return
	}
	price := make(map[string]int64)
	for _, it := range j.a.Items {
		price[it.Item] = it.PriceCents
	}
	kept := make(map[string]int) // payments taken and not given back, by order
	rows := make(map[string]PaymentAudit, len(j.a.Payments))
	for _, p := range j.a.Payments {
		j.Checked(1)
		if _, twice := rows[p.ID]; twice {
			j.Violate(j.opsOf(p.OrderID), "payment %s has two rows", p.ID)
		}
		rows[p.ID] = p
		if p.Captured && !p.Refunded {
			kept[p.OrderID]++
		}
		judgePayment(j, p, price)
	}
	for i := range j.a.Orders {
		o := &j.a.Orders[i]
		if n := kept[o.ID]; o.State == OrderPaid && n != 1 {
			j.Violate([]uint64{o.OpID}, "order %s is paid, but %d payments for it were captured "+
				"and kept, not 1", o.ID, n)
		}
	}
	d.compare(j, rows)
}

// judgePayment judges one row by itself and against its order.
func judgePayment(j *judging, p PaymentAudit, price map[string]int64) {
	op := j.opsOf(p.OrderID)
	o := j.a.byOrder[p.OrderID]
	switch {
	case p.Effects > 1:
		j.Violate(op, "payment %s of order %s took effect %d times in %d deliveries",
			p.ID, p.OrderID, p.Effects, p.Deliveries)
	case p.Refunded && !p.Captured:
		j.Violate(op, "payment %s of order %s was refunded without being captured", p.ID, p.OrderID)
	case !p.Captured || p.Refunded:
		// Nothing was kept, whatever became of the order.
	case o == nil:
		j.Violate(nil, "payment %s was captured and kept for order %s, which does not exist",
			p.ID, p.OrderID)
	case o.State != OrderPaid:
		j.Violate(op, "payment %s was captured, but its order %s is %s and the payment was "+
			"not refunded", p.ID, p.OrderID, o.State)
	case p.AmountCents != price[o.Item]:
		j.Violate(op, "payment %s captured %d cents for order %s, the price of %s is %d",
			p.ID, p.AmountCents, p.OrderID, o.Item, price[o.Item])
	}
}

// answer is what deliveries of one payment were told.
type answer struct {
	op       uint64
	state    PaymentState
	order    string
	told     int  // acknowledged deliveries
	conflict bool // reported already
}

// deliveries is what the history says about payments.
type deliveries struct {
	answers map[string]*answer
	order   []string // of first acknowledgement in the history
	late    int      // successful payments delivered about when carts expire
}

func newDeliveries(j *judging) *deliveries {
	d := &deliveries{answers: make(map[string]*answer)}
	acked, paid := make(map[string]time.Duration), make(map[string]time.Duration)
	j.read(j.unknown(KindPayment), func(rec *history.Record) {
		switch {
		case rec.Op.Kind == KindPayment:
			if rec.Outcome == history.OK {
				d.add(j, rec)
			}
			if rec.Op.Arg > 0 {
				paid[rec.Op.Key] = max(paid[rec.Op.Key], rec.Start)
			}
		case rec.Op.Kind == KindBuy && rec.Outcome == history.OK:
			acked[rec.Reply.Key] = rec.End
		}
	})
	for order, at := range paid {
		if bought, known := acked[order]; known &&
			at >= bought+j.p.CartTTL.D()-j.p.LateSpread.D() {
			d.late++
		}
	}
	return d
}

// add compares a delivery's answer with those before it.
func (d *deliveries) add(j *judging, rec *history.Record) {
	j.Checked(1)
	state := PaymentState(rec.Reply.Key)
	a := d.answers[rec.Op.Client]
	if a == nil {
		a = &answer{op: rec.Op.ID, state: state, order: rec.Op.Key}
		d.answers[rec.Op.Client] = a
		d.order = append(d.order, rec.Op.Client)
	}
	a.told++
	if a.state != state && !a.conflict {
		a.conflict = true
		j.Violate([]uint64{a.op, rec.Op.ID}, "payment %s of order %s was answered %q and %q",
			rec.Op.Client, rec.Op.Key, a.state, state)
	}
}

func (d *deliveries) need(j *judging) {
	sold, twice := 0, 0
	for _, a := range d.answers {
		if a.state == PaymentSold {
			sold++
		}
		if a.told > 1 {
			twice++
		}
	}
	j.Need(sold > 0, "no payment was answered \"sold\"")
	j.Need(twice > 0 || j.p.PayTwice == 0, "no payment was delivered and answered twice")
	j.Need(d.late > 0 || j.p.PayLate == 0, "no payment arrived at about the time its cart expired")
}

// compare holds the answers against the rows.
func (d *deliveries) compare(j *judging, rows map[string]PaymentAudit) {
	for _, id := range d.order {
		a := d.answers[id]
		if a.conflict {
			continue
		}
		proof := []uint64{a.op}
		p, listed := rows[id]
		o := j.a.byOrder[a.order]
		switch {
		case !listed:
			j.Violate(proof, "payment %s of order %s was answered %q but does not "+
				"exist", id, a.order, a.state)
		case a.state == PaymentSold && (!p.Captured || p.Refunded || o == nil || o.State != OrderPaid):
			j.Violate(proof, "payment %s of order %s was answered \"sold\"; at the end it is %s "+
				"and the order is %s", id, a.order, money(p), stateOf(o))
		case a.state == PaymentRefunded && !p.Refunded:
			j.Violate(proof, "payment %s of order %s was answered \"refunded\"; at the end it is %s",
				id, a.order, money(p))
		case a.state == PaymentReleased && (p.Captured || o != nil && live(o)):
			j.Violate(proof, "payment %s of order %s was answered \"released\"; at the end it is %s "+
				"and the order is %s", id, a.order, money(p), stateOf(o))
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

func stateOf(o *OrderAudit) string {
	if o == nil {
		return "gone"
	}
	return o.State
}
