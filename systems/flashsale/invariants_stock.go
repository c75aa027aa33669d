package flashsale

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/sut"
)

// judgeNoOversell: an acknowledgement or a row is proof, an unknown outcome
// is not, so that what is counted is a lower bound of what was given away.
func judgeNoOversell(j *judging) {
	units := j.p.Units
	demands, replies, buys := make(demands), newReplies(), make(check.Operations)
	j.read(j.unknown(KindBuy), demands.see(), replies.see(), buysOf(buys, j.a.ordered))
	j.Need(demands.high(units), "no item was in demand: a run must offer as many first buys as "+
		"units (%d), acknowledge half as many and refuse one as sold out", units)
	oversoldByReplies(j, replies, units)
	if !j.has("orders") {
		return
	}
	oversoldAtEnd(j, units)
	j.noteSold(demands, len(replies.buys))
	crowding(j, buys, units, func(o *OrderAudit) (item, text string) {
		return o.Item, o.Item + ": units held or sold by acknowledged orders"
	})
}

// noteSold says how many units were sold, which is what the sale is for, and why more buys
// than that may have succeeded. A sold unit never comes back, so that paid orders count each
// once.
func (j *judging) noteSold(d demands, orders int) {
	sold, bought := 0, 0
	for i := range j.a.Orders {
		if j.a.Orders[i].State == OrderPaid {
			sold++
		}
	}
	for _, item := range d {
		bought += item.acked
	}
	all := j.p.Items * j.p.Units
	text := fmt.Sprintf("no item was sold more often than its %d units: %d of %d were sold when the "+
		"run ended, %d were left in carts or for sale", j.p.Units, sold, all, max(0, all-sold))
	if bought > sold {
		text += fmt.Sprintf("; %d buys succeeded, with %d orders: a second click is answered with the "+
			"same order, and a unit whose cart was not paid in time is for sale again", bought, orders)
	}
	j.Note("%s", text)
}

// oversoldAtEnd counts the orders that are paid, and those that have a unit.
func oversoldAtEnd(j *judging, units int) {
	taken := make(map[string][]*OrderAudit)
	paid := make(map[string][]*OrderAudit)
	var items []string
	for i := range j.a.Orders {
		o := &j.a.Orders[i]
		j.Checked(1)
		if !live(o) {
			continue
		}
		if taken[o.Item] == nil {
			items = append(items, o.Item)
		}
		taken[o.Item] = append(taken[o.Item], o)
		if o.State == OrderPaid {
			paid[o.Item] = append(paid[o.Item], o)
		}
	}
	for _, item := range items {
		if n := len(paid[item]); n > units {
			j.Violate(ops(paid[item]), "%s: %d orders paid for %d units at the end; e.g. %s",
				item, n, units, names(paid[item]))
		} else if n := len(taken[item]); n > units {
			j.Violate(ops(taken[item]), "%s: %d orders have a unit at the end, but only %d units exist; "+
				"e.g. %s",
				item, n, units, names(taken[item]))
		}
	}
}

// demand is what buyers wanted of one item, by first requests: repeats and
// second purchases are not counted.
type demand struct{ wanted, acked, soldOut int }

// demands are the demands by item.
type demands map[string]*demand

func (d demands) see() visitor {
	return only(KindBuy, func(rec *history.Record) {
		item := d[rec.Op.Key]
		if item == nil {
			item = &demand{}
			d[rec.Op.Key] = item
		}
		item.add(rec)
	})
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

// oversoldByReplies needs no audit: paid is final, so every order that was
// answered "sold" keeps its unit.
func oversoldByReplies(j *judging, r replies, units int) {
	orders := make(map[string][]string)
	for order := range r.sold {
		if buy, known := r.buys[order]; known {
			orders[buy.item] = append(orders[buy.item], order)
		}
	}
	var found []oversold
	for _, item := range slices.Sorted(maps.Keys(orders)) {
		if list := orders[item]; len(list) > units {
			found = append(found, r.oversold(item, list, units))
		}
	}
	slices.SortStableFunc(found, func(a, b oversold) int {
		return cmp.Compare(a.counted.Crossing().AtNS, b.counted.Crossing().AtNS)
	})
	for _, o := range found {
		j.ViolateCount(o.counted, o.paid, "%s: %d orders were answered \"sold\", but only %d units "+
			"exist", o.item, o.orders, units)
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

func (r replies) oversold(item string, orders []string, units int) oversold {
	var sales []check.CountedStep
	for _, order := range orders {
		sales = append(sales, r.buys[order].step())
	}
	what := "units of " + item + " held and later paid, each from the answer to its buy on"
	o := oversold{item: item, orders: len(orders), counted: check.CountUp(what, units, sales)}
	decide := []uint64{o.counted.Crossing().Op}
	if first, second, raced := o.counted.Race(); raced {
		decide = append(decide, first.Op, second.Op)
	}
	for _, order := range orders {
		if slices.Contains(decide, r.buys[order].op) {
			o.paid = append(o.paid, r.sold[order])
		}
	}
	slices.Sort(o.paid)
	return o
}

// bought is what the acknowledgement of a buy said.
type bought struct {
	op          uint64
	item, buyer string
	unit        int64
	start, end  time.Duration
}

// step is the sale of an order that was paid: it had its unit from the acknowledgement on.
func (b bought) step() check.CountedStep {
	return check.CountedStep{Op: b.op, StartNS: int64(b.start), AtNS: int64(b.end)}
}

// replies are the orders that a payment's reply called sold, with the
// identity of one such delivery, and what the orders' buys were about.
type replies struct {
	sold map[string]uint64
	buys map[string]bought
}

func newReplies() replies {
	return replies{sold: make(map[string]uint64), buys: make(map[string]bought)}
}

func (r replies) see() visitor {
	return func(rec *history.Record) {
		switch {
		case rec.Outcome != history.OK:
		case rec.Op.Kind == KindPayment && rec.Reply.Key == string(PaymentSold):
			r.sold[rec.Op.Key] = rec.Op.ID
		case rec.Op.Kind == KindBuy:
			r.buys[rec.Reply.Key] = bought{
				rec.Op.ID, rec.Op.Key, rec.Op.Client, rec.Reply.Value, rec.Start, rec.End}
		}
	}
}

// judgeConservation counts what is there, not who did it, so that unknown
// outcomes do not matter.
func judgeConservation(j *judging) {
	snapshots := 0
	j.read(only(KindStock, func(rec *history.Record) {
		if rec.Outcome == history.OK {
			snapshots++
			j.snapshot(rec)
		}
	}))
	j.Need(snapshots > 0 || j.p.StockReads == 0, "no stock snapshot was read")
	if !j.has("items", "orders") {
		return
	}
	held, paid := make(map[string]int64), make(map[string]int64)
	for i := range j.a.Orders {
		switch o := &j.a.Orders[i]; o.State {
		case OrderHeld:
			held[o.Item]++
		case OrderPaid:
			paid[o.Item]++
		}
	}
	listed := make(map[string]bool)
	for _, it := range j.a.Items {
		listed[it.Item] = true
		j.conserve(Stock{it.Item, it.Units, it.Available, it.Held, it.Sold},
			it.Item+" at the end", nil)
		if it.Held != held[it.Item] || it.Sold != paid[it.Item] {
			j.Violate(nil, "%s at the end: the item counts %d held and %d sold, "+
				"its orders are %d held and %d paid",
				it.Item, it.Held, it.Sold, held[it.Item], paid[it.Item])
		}
	}
	for n := 1; n <= j.p.Items; n++ {
		if !listed[ItemKey(n)] {
			j.Violate(nil, "%s is missing from the items at the end", ItemKey(n))
		}
	}
	if j.a.Units != nil {
		unitsAgree(j)
	}
}

// snapshot judges the reply of a stock read.
func (j *judging) snapshot(rec *history.Record) {
	var s Stock
	if err := json.Unmarshal(rec.Reply.Body, &s); err != nil {
		j.Violate([]uint64{rec.Op.ID}, "%s: a stock snapshot cannot be read: %v", rec.Op.Key, err)
		return
	}
	j.conserve(s, fmt.Sprintf("%s in a snapshot at %s", rec.Op.Key, check.TimeText(rec.End)),
		[]uint64{rec.Op.ID})
}

// conserve requires that a stock is that of the sale and adds up.
func (j *judging) conserve(s Stock, where string, ops []uint64) {
	if s.Units != int64(j.p.Units) {
		j.Violate(ops, "%s: %d units, but the sale has %d", where, s.Units, j.p.Units)
	}
	check.Conserve(j.Collector, where, s.Units, ops, check.Term{Name: "available", Count: s.Available},
		check.Term{Name: "held", Count: s.Held}, check.Term{Name: "sold", Count: s.Sold})
}

// unitsAgree compares the unit rows with the items' counts and the orders.
func unitsAgree(j *judging) {
	counts := make(map[string]Stock)
	for _, u := range j.a.Units {
		j.Checked(1)
		c := counts[u.Item]
		c.Units++
		switch u.State {
		case UnitAvailable:
			c.Available++
		case UnitHeld:
			c.Held++
		case UnitSold:
			c.Sold++
		}
		counts[u.Item] = c
		if why, op := strayUnit(j.a, u); why != "" {
			j.Violate(op, "%s unit %d is %s at the end %s", u.Item, u.Unit, u.State, why)
		}
	}
	for _, it := range j.a.Items {
		c := counts[it.Item]
		if (c != Stock{"", it.Units, it.Available, it.Held, it.Sold}) {
			j.Violate(nil, "%s at the end: the item counts %d units, %d available, %d held, %d sold; "+
				"its unit rows are %d, %d, %d, %d", it.Item, it.Units, it.Available, it.Held, it.Sold,
				c.Units, c.Available, c.Held, c.Sold)
		}
	}
}

// strayUnit says how a unit row disagrees with the order that it names.
func strayUnit(l *ledger, u UnitAudit) (why string, op []uint64) {
	if u.State == UnitAvailable {
		return "", nil
	}
	o := l.byOrder[u.OrderID]
	want := map[string]string{UnitHeld: OrderHeld, UnitSold: OrderPaid}[u.State]
	switch {
	case o == nil:
		return fmt.Sprintf("for order %q, which does not exist", u.OrderID), nil
	case o.State != want || o.Item != u.Item || o.Unit != u.Unit:
		return fmt.Sprintf("for order %s, which is %s with %s unit %d",
			o.ID, o.State, o.Item, o.Unit), []uint64{o.OpID}
	default:
		return "", nil
	}
}

// judgeSellThrough: where Redis decides who may buy, a unit that it does not
// offer is not for sale, whatever the ledger says.
func judgeSellThrough(j *judging) {
	items := make(demands)
	j.read(j.unknown(KindBuy), items.see())
	if !j.has("items") {
		return
	}
	offered := make(map[string]int64)
	for _, r := range j.a.Redis {
		offered[r.Item] = r.Stock
	}
	exercised := false
	for _, it := range j.a.Items {
		d := items[it.Item]
		if d == nil || int64(d.wanted) < it.Units {
			continue
		}
		exercised = true
		j.Checked(1)
		forSale := it.Available
		if n, gated := offered[it.Item]; gated {
			forSale = min(forSale, n)
		}
		if it.Sold < it.Units && forSale <= 0 {
			j.Unfinished(nil, "%s: %d buyers came, %d of %d units are sold, %d are in carts "+
				"and none is for sale: %d are stuck", it.Item, d.wanted, it.Sold, it.Units,
				it.Held, it.Units-it.Sold)
		}
	}
	j.Need(exercised, "no item had as many buyers as units")
}

// faultTime is how long faults were in force in a span of the driver's clock,
// until their targets answered again.
func faultTime(faults []history.Window, from, to time.Duration) time.Duration {
	var sum time.Duration
	for _, f := range faults {
		end := max(f.End, f.Recovered)
		if f.Start < to && end > from {
			sum += end - f.Start
		}
	}
	return sum
}
