package flashsale

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/sut"
)

// demand is what buyers wanted of one item, by first requests: repeats and
// second purchases are not counted.
type demand struct{ wanted, acked, soldOut int }

// demands are the demands by item.
type demands map[string]*demand

// demandsOf reads the demands; they are known after the reading.
func demandsOf(r *check.Run) demands {
	d := make(demands)
	r.See(func(rec *history.Record) {
		item := d[rec.Op.Key]
		if item == nil {
			item = &demand{}
			d[rec.Op.Key] = item
		}
		item.add(rec)
	}, KindBuy)
	return d
}

func (d *demand) add(rec *history.Record) {
	if rec.Op.Arg == 0 && rec.Op.ID&idMask == slotBuy {
		d.wanted++
	}
	switch {
	case rec.Outcome == history.OK:
		d.acked++
	case sut.RefusedFor(rec, ErrSoldOut):
		d.soldOut++
	}
}

// high says whether any item was wanted by more than could have it, and ran out: a buyer who
// is refused for another reason, such as a limit on their rate, has not met the limit of units.
func (d demands) high(units int) bool {
	for _, item := range d {
		if item.wanted >= units && 2*item.acked >= units && item.soldOut > 0 {
			return true
		}
	}
	return false
}

// replies are the orders that a payment's reply called sold, with the
// identity of one such delivery, and what the orders' buys were about.
type replies struct {
	sold map[string]uint64
	buys map[string]bought
}

// bought is what the acknowledgement of a buy said. Its order is a fact of the state paid.
type bought struct {
	check.Fact
	start, end time.Duration
}

// repliesOf reads the replies; they are known after the reading.
func repliesOf(r *check.Run) replies {
	seen := replies{sold: make(map[string]uint64), buys: make(map[string]bought)}
	r.See(func(rec *history.Record) {
		switch {
		case rec.Outcome != history.OK:
		case rec.Op.Kind == KindBuy:
			seen.buys[rec.Reply.Key] = bought{check.Said(rec), rec.Start, rec.End}
		case rec.Reply.Key == string(PaymentSold):
			seen.sold[rec.Op.Key] = rec.Op.ID
		}
	}, KindBuy, KindPayment)
	return seen
}

// soldTwice is the clause that no two orders of a group were both answered "sold", of those
// that count. Paid is final, so that no clock is needed.
func soldTwice(by check.By, counts func(*check.Fact) bool) check.Clause {
	return func(r *check.Run) func() {
		seen := repliesOf(r)
		return func() {
			first := make(map[check.Group]string)
			for _, order := range slices.Sorted(maps.Keys(seen.sold)) {
				buy, known := seen.buys[order]
				if !known || counts != nil && !counts(&buy.Fact) {
					continue
				}
				group := by.Of(&buy.Fact)
				if other, taken := first[group]; taken {
					r.Violate([]uint64{seen.sold[other], seen.sold[order]},
						"%v: orders %s and %s were both answered \"sold\"", group, other, order)
					continue
				}
				first[group] = order
			}
		}
	}
}

// oversoldByReplies needs no audit: every order that was answered "sold" keeps its unit.
func oversoldByReplies(p Params) check.Clause {
	return func(r *check.Run) func() {
		seen, wanted := repliesOf(r), demandsOf(r)
		return func() {
			r.Need(wanted.high(p.Units), "no item was in demand: a run must offer as many first buys as "+
				"units (%d), acknowledge half as many and refuse one as sold out", p.Units)
			orders := make(map[string][]string)
			for order := range seen.sold {
				if buy, known := seen.buys[order]; known {
					orders[buy.Key] = append(orders[buy.Key], order)
				}
			}
			var found []oversold
			for _, item := range slices.Sorted(maps.Keys(orders)) {
				if list := orders[item]; len(list) > p.Units {
					found = append(found, seen.oversold(item, list, p.Units))
				}
			}
			slices.SortStableFunc(found, func(a, b oversold) int {
				return cmp.Compare(a.counted.Crossing().AtNS, b.counted.Crossing().AtNS)
			})
			for _, o := range found {
				r.ViolateCount(o.counted, o.paid, "%s: %d orders were answered \"sold\", but only %d units "+
					"exist", o.item, o.orders, p.Units)
			}
			noteSold(r, p, wanted, len(seen.buys))
		}
	}
}

// oversold is an item of which too many orders were answered "sold". Of their payments paid
// are those of the buys that decide: the one above the limit and those that raced.
type oversold struct {
	item    string
	orders  int
	counted *check.Counted
	paid    []uint64
}

func (seen replies) oversold(item string, orders []string, units int) oversold {
	var sales []check.CountedStep
	for _, order := range orders { // each had its unit from the acknowledgement on
		buy := seen.buys[order]
		sales = append(sales, check.CountedStep{Op: buy.Op, StartNS: int64(buy.start),
			AtNS: int64(buy.end)})
	}
	what := "units of " + item + " held and later paid, each from the answer to its buy on"
	o := oversold{item: item, orders: len(orders), counted: check.CountUp(what, units, sales)}
	decide := []uint64{o.counted.Crossing().Op}
	if first, second, raced := o.counted.Race(); raced {
		decide = append(decide, first.Op, second.Op)
	}
	for _, order := range orders {
		if slices.Contains(decide, seen.buys[order].Op) {
			o.paid = append(o.paid, seen.sold[order])
		}
	}
	slices.Sort(o.paid)
	return o
}

// noteSold says how many units were sold, which is what the sale is for, and why more buys
// than that may have succeeded. A sold unit never comes back, so that paid orders count each
// once.
func noteSold(r *check.Run, p Params, d demands, orders int) {
	sold, bought := 0, 0
	if t := r.Table("order"); t != nil {
		for i := range t.Rows {
			if t.Rows[i].State == OrderPaid {
				sold++
			}
		}
	}
	for _, item := range d {
		bought += item.acked
	}
	all := p.Items * p.Units
	text := fmt.Sprintf("no item was sold more often than its %d units: %d of %d were sold when the "+
		"run ended, %d were left in carts or for sale", p.Units, sold, all, max(0, all-sold))
	if bought > sold {
		text += fmt.Sprintf("; %d buys succeeded, with %d orders: a second click is answered with the "+
			"same order, and a unit whose cart was not paid in time is for sale again", bought, orders)
	}
	r.Note("%s", text)
}

// sellThrough: where Redis decides who may buy, a unit that it does not
// offer is not for sale, whatever the ledger says.
func sellThrough(r *check.Run, a *Audit) func() {
	items := demandsOf(r)
	if r.Table("item") == nil {
		return nil
	}
	offered := make(map[string]int64)
	for _, counter := range a.Redis {
		offered[counter.Item] = counter.Stock
	}
	return func() {
		exercised := false
		for _, it := range a.Items {
			d := items[it.Item]
			if d == nil || int64(d.wanted) < it.Units {
				continue
			}
			exercised = true
			r.Checked(1)
			forSale := it.Available
			if n, gated := offered[it.Item]; gated {
				forSale = min(forSale, n)
			}
			if it.Sold < it.Units && forSale <= 0 {
				r.Unfinished(nil, "%s: %d buyers came, %d of %d units are sold, %d are in carts "+
					"and none is for sale: %d are stuck", it.Item, d.wanted, it.Sold, it.Units,
					it.Held, it.Units-it.Sold)
			}
		}
		r.Need(exercised, "no item had as many buyers as units")
	}
}
