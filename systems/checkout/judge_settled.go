package checkout

import (
	"slices"

	"stampede/harness/check"
)

// settled is the clause that at rest no product has more orders than units and what was bought, and
// that of the orders which were cancelled for it none was kept that is newer. Where the contract
// says that there may be more for a time, some must have been found.
func settled(units int) check.Clause {
	return check.OnAudit(func(r *check.Run, a *Audit) func() {
		r.Need(a.Orders != nil, "the audit has no orders")
		orders, kept := map[string]OrderRow{}, map[uint64][]OrderRow{}
		for _, o := range a.Orders {
			r.Checked(1)
			orders[o.Key] = o
			if o.State == pending || o.State == paid {
				kept[o.Product] = append(kept[o.Product], o)
			}
		}
		most, cancels := map[uint64]int64{}, 0
		for _, s := range a.Settlements {
			most[s.Product] += s.Restocked
			cancels += len(s.Cancelled)
			for _, key := range s.Cancelled {
				newestCancelled(r, s, orders[key], kept[s.Product])
			}
		}
		for product, list := range kept {
			excess := int64(len(list)-units) - most[product]
			if excess <= 0 {
				continue
			}
			var ops []uint64
			for _, o := range list[max(0, len(list)-check.MaxProof):] {
				ops = append(ops, o.ID)
			}
			r.Violate(ops, "%s has %d orders for %d units, and %d were bought", productKey(product),
				len(list), units, most[product])
		}
		r.Need(a.Contract.SettleLagNS == 0 || len(a.Settlements) > 0,
			"no product was found to have more orders than units")
		r.Note("%d times a product was found to have more orders than units; %d were cancelled for that",
			len(a.Settlements), cancels)
		return nil
	})
}

// newestCancelled looks at one order that a settlement chose, among those that were kept.
func newestCancelled(r *check.Run, s SettlementRow, chosen OrderRow, kept []OrderRow) {
	if chosen.State != cancelled || chosen.Product != s.Product {
		r.Violate([]uint64{chosen.ID}, "an order for %s was to be cancelled; it is %q, for %s",
			productKey(s.Product), chosen.State, productKey(chosen.Product))
		return
	}
	i := slices.IndexFunc(kept, func(o OrderRow) bool {
		return o.MadeNS > chosen.MadeNS && o.MadeNS < s.AtNS
	})
	if i >= 0 {
		r.Violate([]uint64{chosen.ID, kept[i].ID}, "order %s was cancelled because %s had too many, "+
			"and %s, which is newer, was kept", chosen.Key, productKey(s.Product), kept[i].Key)
	}
}
