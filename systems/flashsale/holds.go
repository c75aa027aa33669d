package flashsale

import (
	"time"

	"stampede/harness/check"
	"stampede/harness/history"
)

// ordered says whether a buy has an order in the audit.
func (l *ledger) ordered(op uint64) bool { return l.byOp[op] != nil }

// buysOf is a visitor that merges the attempts at the buys that are wanted.
func buysOf(ops check.Operations, wanted func(op uint64) bool) visitor {
	return only(KindBuy, func(rec *history.Record) {
		if wanted(rec.Op.ID) {
			ops.Add(rec)
		}
	})
}

// holdOf is the time in which a buy had its unit, on the driver's clock.
//
// The store's clock is another one, but it says how long the order lasted.
// The unit was taken after the buy was sent and before it was acknowledged,
// and released ClosedAt - HeldAt later: not before Start + (ClosedAt -
// HeldAt), and not after End + (ClosedAt - HeldAt). No offset between the
// clocks is needed. The slack is what the design is given to make a returned
// unit known as free.
//
// Without an order in the audit (nil) nothing is certain.
func holdOf(buy check.Operation, o *OrderAudit, slack time.Duration) check.Hold {
	h := check.Hold{Op: buy.ID, MayFrom: buy.Start, MayTo: history.Never}
	if o == nil || buy.Outcome != history.OK {
		return h
	}
	h.MustFrom, h.MustTo = buy.End, history.Never
	if !live(o) {
		h.MayTo = buy.End + lasted(o) + slack
		h.MustTo = max(h.MustFrom, buy.Start+lasted(o))
	}
	return h
}

// lasted is how long a closed order had its unit, on the store's clock.
func lasted(o *OrderAudit) time.Duration { return time.Duration(o.ClosedAt - o.HeldAt) }

// crowding requires that of each group of orders never more than limit
// certainly had a unit at once. The groups have a text and a key; an empty
// text leaves the order out. They are judged in the order of the audit.
func crowding[K comparable](
	j *judging, buys check.Operations, limit int, group func(*OrderAudit) (key K, text string),
) {
	type crowd struct {
		text string
		check.Occupancy
		size int
	}
	crowds := make(map[K]*crowd)
	var order []*crowd
	for i := range j.a.Orders {
		o := &j.a.Orders[i]
		key, text := group(o)
		// A second order for one key may be one that nobody was told of.
		if text == "" || j.a.byOp[o.OpID] != o || buys[o.OpID].Outcome != history.OK {
			continue
		}
		c := crowds[key]
		if c == nil {
			c = &crowd{text: text}
			crowds[key] = c
			order = append(order, c)
		}
		c.Add(holdOf(buys[o.OpID], o, 0))
		c.size++
	}
	for _, c := range order {
		if c.size > limit {
			c.AtMost(j.Collector, c.text, limit)
		}
	}
}

// ops returns the identities of some of the buys behind orders, the last
// first: the latest comers are those that should have been refused.
func ops(orders []*OrderAudit) []uint64 {
	var out []uint64
	for i := len(orders) - 1; i >= 0 && len(out) < check.MaxProof; i-- {
		out = append(out, orders[i].OpID)
	}
	return out
}

// names lists a few orders for a violation's text.
func names(orders []*OrderAudit) string {
	const shown = 3
	text := ""
	for i := len(orders) - 1; i >= max(0, len(orders)-shown); i-- {
		if text != "" {
			text += ", "
		}
		text += orders[i].ID + " of " + orders[i].Buyer
	}
	return text
}
