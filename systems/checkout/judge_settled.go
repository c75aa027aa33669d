package checkout

import (
	"slices"
	"time"

	"stampede/harness/check"
	"stampede/harness/history"
)

// settled is the clause that at rest no product has more orders than units, those included that
// were bought; that no settlement bought or cancelled more than the excess; and that the newest
// orders were the ones cancelled. An order's time is read before the order is visible, so that a
// settlement may not have seen one made just before it.
func settled(units int) check.Clause {
	return check.OnAudit(func(r *check.Run, a *Audit) func() {
		r.Need(a.Orders != nil, "the audit has no orders")
		slowest := r.Slowest()
		return func() {
			slack := *slowest + check.FaultTime(r.Faults(), 0, history.Never)
			orders, of := map[string]OrderRow{}, map[uint64][]OrderRow{}
			for _, o := range a.Orders {
				r.Checked(1)
				orders[o.Key] = o
				of[o.Product] = append(of[o.Product], o)
			}
			bought, cancels := map[uint64]int64{}, 0
			for _, s := range a.Settlements {
				cancels += len(s.Cancelled)
				noneTooMany(r, s, of[s.Product], int64(units)+bought[s.Product], slack)
				for _, key := range s.Cancelled {
					newestCancelled(r, s, orders[key], of[s.Product], slack)
				}
				bought[s.Product] += s.Restocked
			}
			for product, list := range of {
				list = slices.DeleteFunc(slices.Clone(list), func(o OrderRow) bool { return !kept(o) })
				if len(list) <= units+int(bought[product]) {
					continue
				}
				r.Violate(newest(list), "%s has %d orders for %d units, and %d were bought",
					productKey(product), len(list), units, bought[product])
			}
			r.Note("%d times a product was found to have more orders than units; %d orders were cancelled "+
				"for that", len(a.Settlements), cancels)
		}
	})
}

func kept(o OrderRow) bool { return o.State == pending || o.State == paid }

// newest are the operations of the last of some orders.
func newest(list []OrderRow) (ops []uint64) {
	for _, o := range list[max(0, len(list)-check.MaxProof):] {
		ops = append(ops, o.ID)
	}
	return ops
}

// noneTooMany is broken by a settlement that bought or cancelled more than the excess of orders.
// Its time is read after they were counted: one that ended just before it may have been counted.
func noneTooMany(
	r *check.Run, s SettlementRow, of []OrderRow, units int64, slack time.Duration,
) {
	live := int64(0)
	for _, o := range of {
		if o.MadeNS <= s.AtNS && (o.EndedNS == 0 || o.EndedNS >= s.AtNS-int64(slack)) {
			live++
		}
	}
	if n := s.Restocked + int64(len(s.Cancelled)); n > max(0, live-units) {
		r.Violate(newest(of), "%s had %d orders for %d units; %d were bought or cancelled for that",
			productKey(s.Product), live, units, n)
	}
}

// newestCancelled is broken if the order that a settlement chose is older than one that was kept.
func newestCancelled(
	r *check.Run, s SettlementRow, chosen OrderRow, of []OrderRow, slack time.Duration,
) {
	if chosen.State != cancelled || chosen.Product != s.Product {
		r.Violate([]uint64{chosen.ID}, "an order for %s was to be cancelled; it is %q, for %s",
			productKey(s.Product), chosen.State, productKey(chosen.Product))
		return
	}
	i := slices.IndexFunc(of, func(o OrderRow) bool {
		return kept(o) && o.MadeNS > chosen.MadeNS && o.MadeNS < s.AtNS-int64(slack)
	})
	if i >= 0 {
		r.Violate([]uint64{chosen.ID, of[i].ID}, "order %s was cancelled because %s had too many, "+
			"and %s, which is newer, was kept", chosen.Key, productKey(s.Product), of[i].Key)
	}
}
