package checkout

import (
	"cmp"
	"slices"
	"time"

	"stampede/harness/check"
)

// The tables of facts, by the name of a row.
const (
	attemptFact = "attempt" // every attempt, by the join that began it
	stepFact    = "step"    // every change of an attempt
	orderFact   = "order"   // every order, with the times in which it had its unit
	sessionFact = "session" // from which step to which an attempt was admitted and undecided
	openFact    = "open"    // from which step to which an attempt was under way or paid
	gateFact    = "gate"    // what a second store says of a product
	freeFact    = "free"    // what the stock says of a product, as the gate has it
)

// repairLag is the promise of a Contract.
const repairLag = "repair_lag"

// longestLag is the most that a design may promise.
const longestLag = 10 * time.Second

// facts are an audit as tables.
func facts(a *Audit) check.Facts {
	slices.SortStableFunc(a.Steps, func(x, y Step) int { return cmp.Compare(x.Seq, y.Seq) })
	attempts, orders := []check.Fact{}, []check.Fact{}
	tokens := map[string]*AttemptRow{}
	latest := map[uint64]AttemptRow{} // by product: the witness of what its stock is
	for i := range a.Attempts {
		t := &a.Attempts[i]
		tokens[t.Token] = t
		if t.MadeNS >= latest[t.Product].MadeNS {
			latest[t.Product] = *t
		}
		attempts = append(attempts, check.Fact{Op: t.ID, Name: t.Token, Key: productKey(t.Product),
			Owner: t.User, State: t.State, From: t.MadeNS})
	}
	for _, o := range a.Orders {
		orders = append(orders, check.Fact{Op: o.ID, Name: o.Key,
			Key: productKey(o.Product), Owner: o.User, State: o.State, From: o.MadeNS, To: o.EndedNS})
	}
	gate, free := []check.Fact{}, []check.Fact{}
	stock := func(product uint64, left int64) check.Fact {
		return check.Fact{Op: latest[product].ID, Name: productKey(product), Thing: left}
	}
	for _, s := range a.Stock {
		free = append(free, stock(s.Product, s.Available))
	}
	for _, g := range a.Gate {
		gate = append(gate, stock(g.Product, g.Left))
	}
	f := check.Facts{
		Declared: map[string]time.Duration{repairLag: time.Duration(a.Contract.RepairLagNS)},
		Tables:   []*check.Table{check.Rows(stepFact, a.Steps)},
	}
	for _, s := range a.Steps {
		f.Now = max(f.Now, s.AtNS)
	}
	add := func(given bool, name string, rows []check.Fact) {
		if given {
			f.Tables = append(f.Tables, check.TableOf(name, rows))
		}
	}
	add(a.Steps != nil, sessionFact, spans(a.Steps, tokens, admitted))
	add(a.Steps != nil, openFact, spans(a.Steps, tokens, waiting, admitted, pending, paid))
	add(a.Attempts != nil, attemptFact, attempts)
	add(a.Orders != nil, orderFact, orders)
	add(a.Stock != nil, freeFact, free)
	// Who has no second store names no gate and promises no repair.
	add(len(a.Gate) > 0 || a.Contract.RepairLagNS > 0, gateFact, gate)
	return f
}

// spans are when attempts were in some states, by the numbers of steps.
func spans(steps []Step, tokens map[string]*AttemptRow, in ...string) (list []check.Fact) {
	since := map[string]int{} // by token, the index of its span
	for _, s := range steps {
		is := slices.Contains(in, s.State)
		switch i, inside := since[s.Token]; {
		case is && !inside:
			since[s.Token] = len(list)
			f := check.Fact{Op: s.ID, Name: s.Token, From: s.Seq}
			if t := tokens[s.Token]; t != nil {
				f.Key, f.Owner = productKey(t.Product), t.User
			}
			list = append(list, f)
		case !is && inside:
			list[i].To = s.Seq
			delete(since, s.Token)
		}
	}
	return list
}
