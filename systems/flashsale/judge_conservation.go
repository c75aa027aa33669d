package flashsale

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"stampede/harness/check"
	"stampede/harness/history"
)

// stockTerms reads the counts of a snapshot, which must be one of this sale.
func stockTerms(p Params) func(*history.Record) ([]check.Term, error) {
	return func(rec *history.Record) ([]check.Term, error) {
		var s Stock
		if err := json.Unmarshal(rec.Reply.Body, &s); err != nil {
			return nil, err
		}
		if s.Units != int64(p.Units) {
			return nil, fmt.Errorf("%d units, but the sale has %d", s.Units, p.Units)
		}
		return s.terms(), nil
	}
}

func (s Stock) terms() []check.Term {
	return []check.Term{{Name: "available", Count: s.Available}, {Name: "held", Count: s.Held},
		{Name: "sold", Count: s.Sold}}
}

// soldCounted is the clause that a snapshot counts as sold every unit whose payment had been
// answered so when it was asked for, and no more than are paid at the end: paid is final. It needs
// a snapshot, if any was asked for.
func soldCounted(p Params) func(*check.Run, *check.Table) func() {
	return func(r *check.Run, orders *check.Table) func() {
		var reads []check.Fact
		sold := make(map[string]time.Duration) // when the payments of orders were first answered so
		r.See(func(rec *history.Record) {
			switch {
			case rec.Outcome != history.OK:
			case rec.Op.Kind == KindStock:
				var s Stock
				_ = json.Unmarshal(rec.Reply.Body, &s) // Conserved tells of what cannot be read
				reads = append(reads, check.Fact{Op: rec.Op.ID, Key: rec.Op.Key, Thing: s.Sold,
					From: int64(rec.Start)})
			case rec.Reply.Key == string(PaymentSold):
				sold[rec.Op.Key] = min(cmp.Or(sold[rec.Op.Key], history.Never), rec.End)
			}
		}, KindPayment, KindStock)
		return func() {
			r.Need(len(reads) > 0 || p.StockReads == 0, "no stock snapshot was read")
			paid := make(map[string][]int64)
			for _, o := range orders.Rows {
				if o.State == OrderPaid {
					paid[o.Key] = append(paid[o.Key], int64(cmp.Or(sold[o.Name], history.Never)))
				}
			}
			for _, answered := range paid {
				slices.Sort(answered)
			}
			for _, f := range reads {
				most := int64(len(paid[f.Key]))
				least, _ := slices.BinarySearch(paid[f.Key], f.From)
				if f.Thing < int64(least) || f.Thing > most {
					r.Violate([]uint64{f.Op}, "%s: a reply to a read that began at %v has %d sold; %d "+
						"payments were answered so before, and %d orders are paid at the end", f.Key,
						time.Duration(f.From), f.Thing, least, most)
				}
			}
		}
	}
}

// conserved counts what is there at the end, not who did it, so that unknown
// outcomes do not matter.
func conserved(p Params) func(*check.Run, *Audit) func() {
	return func(r *check.Run, a *Audit) func() {
		if _, ok := tables(r, "item", "order"); !ok {
			return nil
		}
		orders, units := make(map[string]Stock), make(map[string]Stock)
		for _, o := range a.Orders {
			s := orders[o.Item]
			s.count(map[string]string{OrderHeld: UnitHeld, OrderPaid: UnitSold}[o.State])
			orders[o.Item] = s
		}
		for _, u := range a.Units {
			s := units[u.Item]
			s.Units++
			s.count(u.State)
			units[u.Item] = s
		}
		listed := make(map[string]bool)
		for _, it := range a.Items {
			listed[it.Item] = true
			s := Stock{it.Item, it.Units, it.Available, it.Held, it.Sold}
			if s.Units != int64(p.Units) {
				r.Violate(nil, "%s at the end: %d units, but the sale has %d", s.Item, s.Units, p.Units)
			}
			check.Conserve(r.Collector, s.Item+" at the end", s.Units, nil, s.terms()...)
			if o := orders[it.Item]; s.Held != o.Held || s.Sold != o.Sold {
				r.Violate(nil, "%s at the end: the item counts %d held and %d sold, its orders are %d held "+
					"and %d paid", it.Item, s.Held, s.Sold, o.Held, o.Sold)
			}
			u := units[it.Item]
			if u.Item = it.Item; a.Units != nil && u != s {
				r.Violate(nil, "%s at the end: the item counts %d units, %d available, %d held, %d sold; "+
					"its unit rows are %d, %d, %d, %d", it.Item, s.Units, s.Available, s.Held, s.Sold,
					u.Units, u.Available, u.Held, u.Sold)
			}
		}
		for n := 1; n <= p.Items; n++ {
			if !listed[ItemKey(n)] {
				r.Violate(nil, "%s is missing from the items at the end", ItemKey(n))
			}
		}
		strayUnits(r, a)
		return nil
	}
}

// count counts a unit of a state.
func (s *Stock) count(state string) {
	switch state {
	case UnitAvailable:
		s.Available++
	case UnitHeld:
		s.Held++
	case UnitSold:
		s.Sold++
	}
}

// strayUnits compares the unit rows with the orders that they name.
func strayUnits(r *check.Run, a *Audit) {
	orders := r.Table("order")
	for _, u := range a.Units {
		r.Checked(1)
		if u.State == UnitAvailable {
			continue
		}
		o := orders.Named(u.OrderID)
		want := map[string]string{UnitHeld: OrderHeld, UnitSold: OrderPaid}[u.State]
		switch {
		case o == nil:
			r.Violate(nil, "%s unit %d is %s at the end for order %q, which does not exist", u.Item,
				u.Unit, u.State, u.OrderID)
		case o.State != want || o.Key != u.Item || o.Thing != u.Unit:
			r.Violate([]uint64{o.Op}, "%s unit %d is %s at the end for order %s, which is %s with %s "+
				"unit %d", u.Item, u.Unit, u.State, o.Name, o.State, o.Key, o.Thing)
		}
	}
}
