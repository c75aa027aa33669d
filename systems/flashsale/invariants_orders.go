package flashsale

import (
	"fmt"

	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/sut"
)

// judgeAckedDurable judges acknowledgements only: what is unknown may be
// there or not. No loss is accepted.
func judgeAckedDurable(j *judging) {
	if !j.has("orders") {
		return
	}
	orders := j.a.effects()
	j.read(only(KindBuy, func(rec *history.Record) {
		orders.See(rec)
		if rec.Outcome != history.OK {
			return
		}
		o := j.a.byOrder[rec.Reply.Key]
		if o != nil && o.OpID == rec.Op.ID && o.Unit != rec.Reply.Value {
			j.Violate([]uint64{o.OpID}, "order %s was acknowledged to %s as %s unit %d at %v; "+
				"at the end it is %s unit %d", o.ID, rec.Op.Client, rec.Op.Key, rec.Reply.Value,
				rec.End, o.Item, o.Unit)
		}
	}))
	orders.Durable(j.Collector)
}

// effects are the orders at the end as what buys brought about.
func (l *ledger) effects() *check.Comparison {
	effects := check.NewComparison()
	for i := range l.Orders {
		o := &l.Orders[i]
		effects.Found(check.Effect{Op: o.OpID, Name: o.ID, Key: o.Item, Client: o.Buyer})
	}
	return effects
}

// judgeNoPhantom: an unknown attempt may have made the order, also long after
// its driver gave up; a refused one certainly did not.
func judgeNoPhantom(j *judging) {
	if !j.has("orders") {
		return
	}
	orders := j.a.effects()
	delivered := make(delivered, len(j.a.Payments))
	refused := 0
	j.read(delivered.see(), only(KindBuy, func(rec *history.Record) {
		orders.See(rec)
		if rec.Outcome == history.Refused {
			refused++
		}
	}))
	orders.NoPhantom(j.Collector)
	j.Need(refused > 0, "no buy was refused")
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
		j.Checked(1)
		if !d[p.ID] {
			j.Violate(j.opsOf(p.OrderID), "payment %s of order %s exists, but every delivery of it was "+
				"refused or never sent", p.ID, p.OrderID)
		}
	}
}

// judgeIdempotentBuy compares what attempts with one key were told, and the orders that
// have it. Who asks again for an order that stands is not refused; one that has gone back
// may be sold to somebody else, and one that is lost is acked-durable's matter.
func judgeIdempotentBuy(j *judging) {
	told := check.AtMostOne[uint64]{What: "the idempotency key"}
	var repeats check.Repeats
	j.read(j.unknown(KindBuy), only(KindBuy, func(rec *history.Record) {
		repeats.See(rec, denied(rec))
		if rec.Outcome == history.OK {
			order := fmt.Sprintf("order %s with unit %d", rec.Reply.Key, rec.Reply.Value)
			told.Add(j.Collector, rec.Op.ID, order, rec.Op.ID)
		}
	}))
	if j.has("orders") {
		j.a.effects().AtMostOnce(j.Collector)
	}
	n := repeats.Judge(j.Collector, func(op uint64) bool {
		o := j.a.byOp[op]
		return o == nil || o.State != OrderPaid && o.State != OrderHeld
	})
	j.Need(n > 0, "no acknowledged key was sent again and answered")
}

// denied says whether a buy was told that it cannot be granted.
func denied(rec *history.Record) bool {
	return sut.RefusedFor(rec, ErrSoldOut) || sut.RefusedFor(rec, ErrAlreadyBought) ||
		sut.RefusedFor(rec, ErrUnknownItem)
}
