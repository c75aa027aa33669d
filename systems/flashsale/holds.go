package flashsale

import (
	"cmp"
	"slices"
	"time"

	"stampede/harness/history"
)

// span is what the driver knows of one buy over all its attempts.
type span struct {
	start time.Duration // the first attempt was sent
	acked time.Duration // the first acknowledgement arrived; Never without one
}

// spans are the spans of buys by identity.
type spans map[uint64]span

// see is a visitor that keeps the buys whose identity is wanted.
func (s spans) see(wanted func(op uint64) bool) visitor {
	return only(KindBuy, func(rec *history.Record) {
		if wanted(rec.Op.ID) {
			s.add(rec)
		}
	})
}

func (s spans) add(rec *history.Record) {
	b, known := s[rec.Op.ID]
	if !known {
		b = span{start: rec.Start, acked: history.Never}
	}
	b.start = min(b.start, rec.Start)
	if rec.Outcome == history.OK {
		b.acked = min(b.acked, rec.End)
	}
	s[rec.Op.ID] = b
}

// hold is the time in which an order certainly had its unit, on the driver's
// clock: from its acknowledgement to the earliest moment at which it can have
// been released.
//
// The store's clock is another one, but it says how long the order lasted:
// the unit was taken after the buy was sent and released ClosedAt - HeldAt
// later, hence not before start + (ClosedAt - HeldAt). No offset between the
// clocks is needed.
type hold struct {
	order    *OrderAudit
	from, to time.Duration
}

// ordered says whether a buy has an order in the audit.
func (l *ledger) ordered(op uint64) bool { return l.byOp[op] != nil }

// holds returns the certain holds of all acknowledged orders, in the order of
// the audit, from the spans of their buys.
func (j *judging) holds(spans spans) []hold {
	holds := make([]hold, 0, len(spans))
	for i := range j.a.Orders {
		o := &j.a.Orders[i]
		s, known := spans[o.OpID]
		// A second order for one key may be one that nobody was told of.
		if !known || s.acked == history.Never || j.a.byOp[o.OpID] != o {
			continue
		}
		h := hold{order: o, from: s.acked, to: history.Never}
		if !live(o) {
			h.to = s.start + lasted(o)
		}
		if h.from < h.to {
			holds = append(holds, h)
		}
	}
	return holds
}

// lasted is how long a closed order had its unit, on the store's clock.
func lasted(o *OrderAudit) time.Duration { return time.Duration(o.ClosedAt - o.HeldAt) }

// crowd is a moment at which more holds than allowed were in force.
type crowd struct {
	at     time.Duration
	orders []*OrderAudit // those that had a unit at that moment
}

// crowded returns, for each group of holds with more than bound in force at
// once, the moment with the most of them, in the order of the holds.
func crowded[K comparable](holds []hold, bound int, key func(*OrderAudit) K) []crowd {
	groups := make(map[K][]hold)
	var order []K
	for _, h := range holds {
		k := key(h.order)
		if groups[k] == nil {
			order = append(order, k)
		}
		groups[k] = append(groups[k], h)
	}
	var out []crowd
	for _, k := range order {
		if len(groups[k]) <= bound {
			continue
		}
		if at, n := peak(groups[k]); n > bound {
			out = append(out, crowd{at, inForce(groups[k], at)})
		}
	}
	return out
}

// peak returns the first moment at which the most holds are in force. A hold
// that ends when another begins does not meet it.
func peak(holds []hold) (at time.Duration, most int) {
	type edge struct {
		at   time.Duration
		step int
	}
	edges := make([]edge, 0, 2*len(holds))
	for _, h := range holds {
		edges = append(edges, edge{h.from, +1}, edge{h.to, -1})
	}
	slices.SortFunc(edges, func(a, b edge) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.step, b.step))
	})
	n := 0
	for _, e := range edges {
		n += e.step
		if n > most {
			at, most = e.at, n
		}
	}
	return at, most
}

func inForce(holds []hold, at time.Duration) []*OrderAudit {
	var out []*OrderAudit
	for _, h := range holds {
		if h.from <= at && at < h.to {
			out = append(out, h.order)
		}
	}
	return out
}

// ops returns the identities of the buys behind orders, the last first: the
// latest comers are those that should have been refused.
func ops(orders []*OrderAudit) []uint64 {
	out := make([]uint64, 0, len(orders))
	for _, o := range slices.Backward(orders) {
		out = append(out, o.OpID)
	}
	return out
}

// names lists a few orders for a violation's text.
func names(orders []*OrderAudit) string {
	const shown = 3
	text := ""
	for i, o := range slices.Backward(orders) {
		if i < len(orders)-shown {
			break
		}
		if text != "" {
			text += ", "
		}
		text += o.ID + " of " + o.Buyer
	}
	return text
}
