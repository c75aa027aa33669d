package flashsale

import "fmt"

// step is where an order or a unit stands after a log entry.
type step struct {
	state   string
	order   string // who has the unit
	version int64
	seq     int64
}

// judgeUnitPath replays the log for each unit and for each order, and
// compares where they end with the rows. The log and the rows say what
// happened, acknowledged or not, so that unknown outcomes do not matter.
//
// A design that keeps a count writes unit 0 into its log: then only the orders
// are followed, to whom the same moves apply.
func judgeUnitPath(j *judging) {
	if !j.has("orders", "log") {
		return
	}
	units, orders := make(map[unitKey]step), make(map[string]step)
	sold, returned := 0, 0
	for _, e := range j.a.Log {
		j.Checked(1)
		if want := moveOf(e.Cause); want != (move{e.From, e.To}) {
			j.Violate(j.opsOf(e.OrderID), "log %d: order %s went from %s to %s because of %q, "+
				"which leads from %s to %s",
				e.Seq, e.OrderID, e.From, e.To, e.Cause, want.from, want.to)
		}
		orderStep(j, orders, e)
		if e.Unit != 0 {
			unitStep(j, units, e)
		}
		switch e.To {
		case UnitSold:
			sold++
		case UnitAvailable:
			returned++
		}
	}
	j.Need(sold > 0, "no unit was sold")
	j.Need(returned > 0, "no unit was returned")
	orderEnds(j, orders)
	unitEnds(j, units)
}

type move struct{ from, to string }

// moveOf is what a cause does to a unit.
func moveOf(cause string) move {
	switch cause {
	case causeBuy:
		return move{UnitAvailable, UnitHeld}
	case causePaid:
		return move{UnitHeld, UnitSold}
	default: // payment-failed and expired
		return move{UnitHeld, UnitAvailable}
	}
}

// orderStep: an order takes a unit once and gives it back or buys it once.
func orderStep(j *judging, orders map[string]step, e LogEntry) {
	was, known := orders[e.OrderID]
	if j.a.byOrder[e.OrderID] == nil && !known {
		j.Violate(nil, "log %d: %q for order %s, which does not exist", e.Seq, e.Cause, e.OrderID)
	}
	legal := !known && e.Cause == causeBuy || known && was.state == UnitHeld && e.Cause != causeBuy
	if !legal {
		from := "had no unit"
		if known {
			from = fmt.Sprintf("was %s since log %d", was.state, was.seq)
		}
		j.Violate(j.opsOf(e.OrderID), "log %d: %q for order %s, which %s",
			e.Seq, e.Cause, e.OrderID, from)
	}
	orders[e.OrderID] = step{state: e.To, seq: e.Seq}
}

// unitStep: each change starts where the one before ended, is made by the
// order that has the unit, and counts the version up by one.
func unitStep(j *judging, units map[unitKey]step, e LogEntry) {
	k := unitKey{e.Item, e.Unit}
	was, known := units[k]
	if !known {
		was = step{state: UnitAvailable, version: e.Version - 1}
	}
	switch {
	case e.From != was.state:
		j.Violate(j.opsOf(was.order, e.OrderID), "%s unit %d: log %d says it went from %s to %s "+
			"for order %s, but it was %s since log %d",
			e.Item, e.Unit, e.Seq, e.From, e.To, e.OrderID, was.state, was.seq)
	case e.From != UnitAvailable && was.order != e.OrderID:
		j.Violate(j.opsOf(was.order, e.OrderID), "%s unit %d: log %d changed it for order %s, "+
			"but order %s has it since log %d",
			e.Item, e.Unit, e.Seq, e.OrderID, was.order, was.seq)
	case e.Version != was.version+1:
		j.Violate(j.opsOf(e.OrderID), "%s unit %d: log %d made version %d of version %d",
			e.Item, e.Unit, e.Seq, e.Version, was.version)
	}
	units[k] = step{e.To, e.OrderID, e.Version, e.Seq}
}

// orderEnds compares the orders with where the log left them.
func orderEnds(j *judging, orders map[string]step) {
	want := map[string]string{
		OrderHeld: UnitHeld, OrderPaid: UnitSold,
		OrderExpired: UnitAvailable, OrderFailed: UnitAvailable,
	}
	for i := range j.a.Orders {
		o := &j.a.Orders[i]
		switch last, known := orders[o.ID]; {
		case !known:
			j.Violate([]uint64{o.OpID}, "order %s is %s and the log does not mention it", o.ID, o.State)
		case last.state != want[o.State]:
			j.Violate([]uint64{o.OpID}, "order %s is %s, but the log left its unit %s (log %d)",
				o.ID, o.State, last.state, last.seq)
		}
	}
}

// unitEnds compares the unit rows, if there are any, with where the log left
// them. A unit that the log does not mention must be untouched.
func unitEnds(j *judging, units map[unitKey]step) {
	for _, u := range j.a.Units {
		last, known := units[unitKey{u.Item, u.Unit}]
		switch {
		case !known && u.State != UnitAvailable:
			j.Violate(j.opsOf(u.OrderID), "%s unit %d is %s and the log does not mention it",
				u.Item, u.Unit, u.State)
		case known && last.state != u.State:
			j.Violate(j.opsOf(last.order), "%s unit %d is %s, but the log left it %s (log %d)",
				u.Item, u.Unit, u.State, last.state, last.seq)
		case known && last.version != u.Version:
			j.Violate(j.opsOf(last.order), "%s unit %d has version %d, but the log left it at %d (log %d)",
				u.Item, u.Unit, u.Version, last.version, last.seq)
		}
	}
}
