package flashsale

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"stampede/harness/check"
	"stampede/harness/history"
)

// unitKey is one unit, buyerKey one buyer of one item.
type (
	unitKey struct {
		item string
		unit int64
	}
	buyerKey struct{ item, buyer string }
)

func unitOf(o *OrderAudit) unitKey   { return unitKey{o.Item, o.Unit} }
func buyerOf(o *OrderAudit) buyerKey { return buyerKey{o.Item, o.Buyer} }

// judgeUnitExclusive looks at four independent accounts: the orders at the
// end, the log, the certain holds, and the replies alone.
func judgeUnitExclusive(j *judging) {
	replies, buys := newReplies(), make(check.Operations)
	j.read(j.unknown(KindBuy), replies.see(), buysOf(buys, j.a.ordered))
	soldTwice(j, replies,
		func(b bought) (unitKey, bool) { return unitKey{b.item, b.unit}, b.unit != 0 },
		func(k unitKey, a, b string) string {
			return fmt.Sprintf("%s unit %d: orders %s and %s were both answered \"sold\"",
				k.item, k.unit, a, b)
		})
	if !j.has("orders") {
		return
	}
	named := 0
	owner := make(map[unitKey]*OrderAudit)
	for i := range j.a.Orders {
		o := &j.a.Orders[i]
		if o.Unit == 0 {
			continue
		}
		named++
		j.Checked(1)
		if !live(o) {
			continue
		}
		if other := owner[unitOf(o)]; other != nil {
			j.Violate([]uint64{o.OpID, other.OpID},
				"%s unit %d is %s for order %s of %s and %s for order %s of %s at the end",
				o.Item, o.Unit, other.State, other.ID, other.Buyer, o.State, o.ID, o.Buyer)
		}
		owner[unitOf(o)] = o
	}
	j.Need(named > 0, "no order names a unit")
	takenTwice(j)
	crowding(j, buys, 1, func(o *OrderAudit) (unit unitKey, text string) {
		if o.Unit != 0 {
			text = fmt.Sprintf("%s unit %d: acknowledged orders of it", o.Item, o.Unit)
		}
		return unitOf(o), text
	})
}

// takenTwice replays the log, which is in the order of the changes of each
// unit: a unit that somebody has cannot be taken.
func takenTwice(j *judging) {
	holder := make(map[unitKey]LogEntry)
	for _, e := range j.a.Log {
		if e.Unit == 0 {
			continue
		}
		k := unitKey{e.Item, e.Unit}
		had, taken := holder[k]
		switch {
		case e.To == UnitAvailable:
			if had.OrderID == e.OrderID {
				delete(holder, k)
			}
		case taken && had.OrderID != e.OrderID:
			j.Violate(j.opsOf(had.OrderID, e.OrderID),
				"%s unit %d: order %s took it at log %d while order %s had it since log %d",
				e.Item, e.Unit, e.OrderID, e.Seq, had.OrderID, had.Seq)
			holder[k] = e
		case !taken:
			holder[k] = e
		}
	}
}

// judgeOnePerBuyer: a buyer may have had several orders of an item one after
// another, because carts expire; at any moment only one may have a unit.
func judgeOnePerBuyer(j *judging) {
	owned := make(map[buyerKey][]*OrderAudit)
	for i := range j.a.Orders {
		o := &j.a.Orders[i]
		j.Checked(1)
		owned[buyerOf(o)] = append(owned[buyerOf(o)], o)
	}
	again := false
	replies, buys := newReplies(), make(check.Operations)
	var slow slowest
	j.read(j.unknown(KindBuy), slow.see(disturbed(j.Faults(), 0)), replies.see(),
		buysOf(buys, j.a.ordered), only(KindBuy, func(rec *history.Record) {
			orders := owned[buyerKey{rec.Op.Key, rec.Op.Client}]
			again = again || len(orders) > 0 && orders[0].OpID != rec.Op.ID
		}))
	soldTwice(j, replies, func(b bought) (buyerKey, bool) { return buyerKey{b.item, b.buyer}, true },
		func(k buyerKey, a, b string) string {
			return fmt.Sprintf("%s: orders %s and %s of %s were both answered \"sold\"",
				k.item, a, b, k.buyer)
		})
	if !j.has("orders") {
		return
	}
	j.Need(again, "no buyer of a unit tried to buy another of the same item")
	if slack := time.Duration(j.a.ReclaimSlackNS); j.grants(slack) {
		ownsTwo(j, owned, slack+time.Duration(slow))
	}
	crowding(j, buys, 1, func(o *OrderAudit) (buyer buyerKey, text string) {
		return buyerOf(o), fmt.Sprintf("%s: units in acknowledged orders of %s", o.Item, o.Buyer)
	})
}

// ownsTwo compares the orders of a buyer on the store's clock. It also sees
// orders that nobody was told of, as a retry without idempotency makes them.
//
// A store may read its clock before it waits for a lock, so that a correct
// second order can seem to begin a little before the first one's end; only an
// overlap beyond what the design promises for its reclaimer, beyond the
// slowest operation and beyond all time in which a fault may have held a lock,
// counts.
func ownsTwo(j *judging, owned map[buyerKey][]*OrderAudit, slack time.Duration) {
	slack += faultTime(j.Faults(), 0, history.Never)
	for i := range j.a.Orders {
		o := &j.a.Orders[i]
		for _, other := range owned[buyerOf(o)] {
			if other == o || cmp.Or(cmp.Compare(o.HeldAt, other.HeldAt),
				cmp.Compare(o.ID, other.ID)) < 0 {
				continue // judged from the later one of the two
			}
			both := live(o) && live(other)
			if both || other.overlap(o) > slack {
				j.Violate([]uint64{o.OpID, other.OpID},
					"%s: %s has order %s (%s) and order %s (%s), both with a unit %s",
					o.Item, o.Buyer, other.ID, other.State, o.ID, o.State, overlapText(both, other.overlap(o)))
			}
		}
	}
}

// overlap is how long two orders had a unit at once on the store's clock, if
// o was first.
func (o *OrderAudit) overlap(later *OrderAudit) time.Duration {
	end := func(o *OrderAudit) int64 {
		if live(o) {
			return int64(history.Never)
		}
		return o.ClosedAt
	}
	return time.Duration(min(end(o), end(later)) - later.HeldAt)
}

func overlapText(both bool, overlap time.Duration) string {
	if both {
		return "at the end"
	}
	return "for " + overlap.String()
}

// soldTwice finds two orders with an equal key that were both answered
// "sold". Paid is final, so that no clock is needed.
func soldTwice[K comparable](
	j *judging, r replies, key func(bought) (K, bool), text func(k K, a, b string) string,
) {
	first := make(map[K]string)
	for _, order := range slices.Sorted(maps.Keys(r.sold)) {
		b, known := r.buys[order]
		if !known {
			continue
		}
		k, applies := key(b)
		if !applies {
			continue
		}
		if other, taken := first[k]; taken {
			j.Violate([]uint64{r.sold[other], r.sold[order]}, "%s", text(k, other, order))
			continue
		}
		first[k] = order
	}
}
