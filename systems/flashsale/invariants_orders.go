package flashsale

import "stampede/harness/history"

// judgeAckedDurable judges acknowledgements only: what is unknown may be
// there or not.
func judgeAckedDurable(j *judging) {
	if !j.has("orders") {
		return
	}
	j.read(j.unknown(KindBuy), only(KindBuy, func(rec *history.Record) {
		if rec.Outcome != history.OK {
			return
		}
		j.out.Checked++
		o := j.a.byOrder[rec.Reply.Key]
		if o == nil {
			j.broken([]uint64{rec.Op.ID}, "%s: order %s was acknowledged to %s at %v and is gone",
				rec.Op.Key, rec.Reply.Key, rec.Op.Client, rec.End)
			return
		}
		if o.Item != rec.Op.Key || o.Buyer != rec.Op.Client || o.OpID != rec.Op.ID ||
			o.Unit != rec.Reply.Value {
			j.broken([]uint64{rec.Op.ID, o.OpID},
				"order %s was acknowledged to %s as %s unit %d (op %d); "+
					"at the end it is of %s, %s unit %d (op %d)",
				o.ID, rec.Op.Client, rec.Op.Key, rec.Reply.Value, rec.Op.ID,
				o.Buyer, o.Item, o.Unit, o.OpID)
		}
	}))
	j.need(j.out.Checked > 0, "no buy was acknowledged")
}

// asked is what the history says of the buy behind an order.
type asked struct {
	op            history.Op
	sent, allowed bool // ever sent; at least one attempt was not refused
}

// judgeNoPhantom: an unknown attempt may have made the order, also long after
// its driver gave up; a refused one certainly did not.
func judgeNoPhantom(j *judging) {
	if !j.has("orders") {
		return
	}
	buys := make(map[uint64]asked, len(j.a.Orders))
	delivered := make(delivered, len(j.a.Payments))
	refused := 0
	j.read(j.unknown(KindBuy), delivered.see(), only(KindBuy, func(rec *history.Record) {
		if rec.Outcome == history.Refused {
			refused++
		}
		if j.a.byOp[rec.Op.ID] == nil {
			return
		}
		a := buys[rec.Op.ID]
		a.op, a.sent = rec.Op, true
		a.allowed = a.allowed || rec.Outcome != history.Refused
		buys[rec.Op.ID] = a
	}))
	for i := range j.a.Orders {
		o := &j.a.Orders[i]
		j.out.Checked++
		switch a := buys[o.OpID]; {
		case !a.sent:
			j.broken(nil, "order %s of %s for %s has op_id %d, which nobody sent",
				o.ID, o.Buyer, o.Item, o.OpID)
		case !a.allowed:
			j.broken([]uint64{o.OpID}, "order %s of %s for %s exists, but every request "+
				"for it (op %d) was refused", o.ID, o.Buyer, o.Item, o.OpID)
		case a.op.Key != o.Item || a.op.Client != o.Buyer:
			j.broken([]uint64{o.OpID}, "order %s is of %s for %s, but %s asked for %s (op %d)",
				o.ID, o.Buyer, o.Item, a.op.Client, a.op.Key, o.OpID)
		}
	}
	j.need(len(j.a.Orders) > 0, "there is no order")
	j.need(refused > 0, "no buy was refused")
	phantomPayments(j, delivered)
}

// delivered has the payments of which a delivery was not refused.
type delivered map[string]bool

func (d delivered) see() visitor {
	return only(KindPayment, func(rec *history.Record) {
		if rec.Outcome != history.Refused {
			d[rec.Op.Client] = true
		}
	})
}

func phantomPayments(j *judging, d delivered) {
	for _, p := range j.a.Payments {
		j.out.Checked++
		if !d[p.ID] {
			j.broken(j.opsOf(p.OrderID), "payment %s of order %s exists, but no delivery of it "+
				"was sent and not refused", p.ID, p.OrderID)
		}
	}
}

// judgeIdempotentBuy compares what attempts with one key were told, and the
// orders that have it.
func judgeIdempotentBuy(j *judging) {
	told := make(map[uint64]history.Reply)
	repeats := 0
	j.read(j.unknown(KindBuy), only(KindBuy, func(rec *history.Record) {
		if rec.Outcome != history.OK {
			return
		}
		j.out.Checked++
		first, known := told[rec.Op.ID]
		if !known {
			told[rec.Op.ID] = history.Reply{Key: rec.Reply.Key, Value: rec.Reply.Value}
			return
		}
		repeats++
		if first.Key != rec.Reply.Key || first.Value != rec.Reply.Value {
			j.broken([]uint64{rec.Op.ID}, "%s sent one buy (op %d) more than once and was told "+
				"order %s with unit %d, then order %s with unit %d", rec.Op.Client, rec.Op.ID,
				first.Key, first.Value, rec.Reply.Key, rec.Reply.Value)
		}
	}))
	j.need(repeats > 0, "no key was acknowledged twice")
	if !j.has("orders") {
		return
	}
	for i := range j.a.Orders {
		o := &j.a.Orders[i]
		j.out.Checked++
		if first := j.a.byOp[o.OpID]; first != o {
			j.broken([]uint64{o.OpID}, "orders %s and %s of %s were both made for one key (op %d)",
				first.ID, o.ID, o.Buyer, o.OpID)
		}
	}
}
