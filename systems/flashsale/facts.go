package flashsale

import (
	"time"

	"stampede/harness/api"
	"stampede/harness/check"
	"stampede/harness/history"
)

// slackName is the promise of a design in its audit: how late a unit may come back.
const slackName = "reclaim_slack_ns"

// maxSlack is how late a cart may come back beyond twice its life. A promise that excuses
// everything is none: what is judged must not choose how leniently.
const maxSlack = 5 * time.Second

// subject reads an audit as facts, for all invariants of a sale.
func subject(p Params) *check.Subject {
	return &check.Subject{
		Read: check.Audited(api.DecodeAudit[Audit], facts),
		Most: map[string]time.Duration{slackName: 2*p.CartTTL.D() + maxSlack},
	}
}

func facts(a *Audit) check.Facts {
	orders := check.Rows("order", a.Orders)
	f := check.Facts{
		Tables: []*check.Table{orders, check.Rows("item", a.Items), check.Rows("payment", a.Payments),
			check.Rows("log", a.Log)},
		Declared: map[string]time.Duration{slackName: time.Duration(a.ReclaimSlackNS)},
	}
	if a.Units != nil {
		f.Tables = append(f.Tables, unitFacts(a.Units, orders))
	}
	for _, o := range a.Orders {
		f.Now = max(f.Now, o.HeldAt, o.ClosedAt)
	}
	if n := len(a.Log); n > 0 {
		f.Now = max(f.Now, a.Log[n-1].At)
	}
	return f
}

// unitFacts are the unit rows, brought about by the buys of the orders that they name.
func unitFacts(units []UnitAudit, orders *check.Table) *check.Table {
	rows := make([]check.Fact, len(units))
	for i, u := range units {
		rows[i] = check.Fact{Key: u.Item, Thing: u.Unit, State: u.State, Version: u.Version}
		if o := orders.Named(u.OrderID); o != nil {
			rows[i].Op = o.Op
		}
	}
	return check.TableOf("unit", rows)
}

// live says that an order has a unit: it is in a cart or sold.
func live(o *check.Fact) bool { return o.State == OrderHeld || o.State == OrderPaid }

// tables are the tables of an audit that a judge needs; ok is false, and the verdict names
// what is missing, if one is.
func tables(r *check.Run, names ...string) (list []*check.Table, ok bool) {
	ok = true
	for _, name := range names {
		t := r.Table(name)
		list, ok = append(list, t), ok && t != nil
	}
	return list, ok
}

// opsOf are the buys behind orders, where known.
func opsOf(orders *check.Table, names ...string) (ops []uint64) {
	for _, name := range names {
		if o := orders.Named(name); o != nil {
			ops = append(ops, o.Op)
		}
	}
	return ops
}

// promised is how late a unit may come back; without a promise nothing can be late.
func promised(r *check.Run) (slack time.Duration, ok bool) {
	slack, granted := r.Promise(slackName)
	r.Need(slack > 0, "the audit has no %s, so nothing can be late", slackName)
	return slack, granted && slack > 0
}

// allowUnknown is the clause that counts the operations of a kind whose outcome is unknown as
// allowed for. There must be one of any outcome.
func allowUnknown(kind string) check.Clause {
	return check.NeedRecord(kind, "there was no "+kind, func(*history.Record) bool { return true })
}

// afterwards judges a clause about facts alone after those about replies.
func afterwards(judge check.Clause) check.Clause {
	return func(r *check.Run) func() {
		return func() { judge(r) }
	}
}
