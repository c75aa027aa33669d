package checkout

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"stampede/harness/api"
	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/sut"
)

// The names of the invariants.
const (
	NoOversell     = "no-oversell"
	AttemptsKept   = "attempts-kept"
	EndsOnce       = "ends-once"
	PaidOrRefunded = "paid-or-refunded"
	OneOrder       = "one-order"
	SameToken      = "same-token"
	StockAddsUp    = "stock-adds-up"
	DriftRepaired  = "drift-repaired"
	PositionKept   = "position-kept"
	FairAdmission  = "fair-admission"
	RoomKept       = "room-kept"
	LimitsKept     = "limits-kept"
	FreeIsForSale  = "free-is-for-sale"
	ExcessSettled  = "excess-settled"
)

// invariants are what must be true of every design.
func invariants(p Params) []check.Invariant {
	s := check.Subject{Read: check.Audited(api.DecodeAudit[Audit], facts),
		Most: map[string]time.Duration{repairLag: longestLag}}
	joined := check.Effects{Table: attemptFact, Kind: check.Named(KindJoin)}
	units := check.Capacity{Table: orderFact, By: check.ByKey, Most: p.Units,
		Live: []string{pending, paid, cancelling}, Final: []string{paid}}
	mine := check.Capacity{Table: orderFact, By: check.ByKey | check.ByOwner, Most: 1}
	open := check.Capacity{Table: openFact, By: check.ByKey | check.ByOwner, Most: 1}
	path := check.Path{Log: stepFact, Owners: attemptFact, Moves: []check.Move{
		{From: "", To: waiting}, {From: "", To: admitted}, {From: "", To: pending},
		{From: "", To: paid}, {From: "", To: refused}, {From: waiting, To: admitted},
		{From: waiting, To: refused}, {From: waiting, To: left}, {From: admitted, To: pending},
		{From: admitted, To: refused}, {From: pending, To: paid}, {From: pending, To: compensated}}}
	return []check.Invariant{
		s.State(NoOversell, "a product never has more orders than units", units.AtEnd(), units.Spans(),
			crowded(p.Units), check.NeedFact(orderFact, "nobody has an order", anyFact)),
		s.State(AttemptsKept, "every acknowledged attempt is there, once, and none that nobody began; "+
			"no product that exists is called unknown", check.AckedDurable(joined), check.NoPhantom(joined),
			check.AtMostOnce(attemptFact, check.ByOp),
			check.Agree(check.Pair{A: stepFact, B: attemptFact, Subset: true,
				By: check.ByOp | check.ByName}),
			check.Known(joined.Kind, "product-", p.Products, func(rec *history.Record) bool {
				return sut.RefusedFor(rec, ErrUnknownProduct)
			})),
		s.State(EndsOnce, "every attempt ends in exactly one of order, refusal, compensation and "+
			"leaving, and nobody is told another end", path.Causes(),
			path.Follow(check.Track{By: check.ByName, Rows: attemptFact, Strict: true}),
			check.Quiescent(attemptFact, waiting, admitted, pending), toldRight(), ordersFollow()),
		s.State(PaidOrRefunded, "captured money has a paid order or was refunded, and a paid order was "+
			"captured once, however often the provider calls back", moneyIsSettled(p)),
		s.State(OneOrder, "a user has one open attempt and one order for a product at a time, and "+
			"is not told of another attempt where there is none", mine.Spans(), open.Spans(),
			check.AtMostOnce(orderFact, check.ByOp), mayBeOpen),
		s.State(SameToken, "a request that is sent again has the token that it had, and is "+
			"not told sold_out or already_joined",
			check.SameReply(check.Replies{Kind: check.Named(KindJoin), What: "attempt",
				Same: check.ByName, Sent: p.Resend > 0, Denied: func(rec *history.Record) bool {
					return sut.RefusedFor(rec, ErrSoldOut) || sut.RefusedFor(rec, ErrJoined)
				}})),
		s.State(StockAddsUp, "available and ordered units of a product are all that there are, at "+
			"the end and at each look of the gauge", unitsAddUp(p), alwaysAddUp(),
			check.AtMostOnce(freeFact, check.ByName)),
		s.State(DriftRepaired, "at rest Redis says what the stock does, whatever it forgot",
			check.Agree(check.Pair{A: gateFact, B: freeFact, By: check.ByName | check.ByThing,
				AtRest: true}), check.AtMostOnce(gateFact, check.ByName)),
		s.State(PositionKept, "a position in the waiting room never goes back, nor does an attempt",
			neverBack()),
		s.State(FairAdmission, "who certainly came earlier is not admitted later, but for a batch",
			fairly(p.Batch)),
		s.State(RoomKept, "no more attempts are admitted and undecided than the checkout has room for",
			check.Capacity{Table: sessionFact, By: check.ByKey, Most: p.Room}.Spans(),
			check.NeedFact(sessionFact, "nobody was admitted", anyFact)),
		s.State(LimitsKept, "no user and no address is let through more often than its limit, and "+
			"nobody is denied before it is reached", limited(p)),
		s.State(FreeIsForSale, "nobody is refused while a unit is free, also one that was given back",
			freeIsForSale(p.Units)),
		s.State(ExcessSettled, "at rest every order has a unit, of the stock or bought for it; for want "+
			"of units only the newest orders were cancelled, and only the excess",
			settled(p.Units)),
	}
}

func anyFact(*check.Fact) bool { return true }

// crowded is the clause that the gauge never saw more orders of a product than units.
func crowded(units int) check.Clause {
	return func(r *check.Run) func() {
		open := &check.Watched{Quantity: "open attempts", Unit: "attempts"}
		open.Gaps = looks(r, func(sample history.Sample, s seen) {
			open.Judged++
			open.Look(sample.To, s.Open, s.Open, false)
			if s.Most > int64(units) {
				r.ViolateAt(sample.To, nil, "a product has %d orders at %v, but only %d units", s.Most,
					sample.To, units)
			}
		})
		if open.Judged > 0 {
			r.Watched(open)
		}
		return nil
	}
}

// looks visits what the gauge saw, and counts the looks in which it saw nothing.
func looks(r *check.Run, visit func(history.Sample, seen)) (gaps int) {
	for _, sample := range r.Samples() {
		var s seen
		if len(sample.Body) == 0 || json.Unmarshal(sample.Body, &s) != nil {
			gaps++
			continue
		}
		visit(sample, s)
	}
	return gaps
}

// unitsAddUp is the clause that units are available or ordered. If not, the orders that were
// cancelled last are suspected, or else those that were made last.
func unitsAddUp(p Params) check.Clause {
	return check.OnAudit(func(r *check.Run, a *Audit) func() {
		r.Need(len(a.Stock) > 0 && a.Orders != nil, "the audit has no stock or no orders")
		if len(a.Stock) == 0 {
			return nil
		}
		made, undone := map[uint64][]uint64{}, map[uint64][]uint64{}
		for _, o := range a.Orders {
			if o.State == cancelled {
				undone[o.Product] = append(undone[o.Product], o.ID)
			} else {
				made[o.Product] = append(made[o.Product], o.ID)
			}
		}
		available, bought := map[uint64]int64{}, map[uint64]int64{}
		for _, s := range a.Settlements {
			bought[s.Product] += s.Restocked
		}
		for _, s := range a.Stock {
			available[s.Product] = s.Available
		}
		for _, product := range p.all() {
			ops := undone[product]
			if len(ops) == 0 {
				ops = made[product]
			}
			ops = ops[max(0, len(ops)-check.MaxProof):]
			left, listed := available[product]
			if !listed {
				r.Violate(ops, "the stock at the end does not list %s", productKey(product))
				continue
			}
			check.Conserve(r.Collector, productKey(product)+" at the end", int64(p.Units)+bought[product],
				ops, check.Term{Name: "available", Count: left},
				check.Term{Name: "ordered", Count: int64(len(made[product]))})
		}
		return nil
	})
}

// alwaysAddUp is the clause that the gauge never saw a product whose units did not add up.
func alwaysAddUp() check.Clause {
	return func(r *check.Run) func() {
		n := 0
		looks(r, func(sample history.Sample, s seen) {
			if n++; s.Off > 0 {
				r.ViolateAt(sample.To, nil, "at %v available and ordered units of %d products were not all "+
					"that there are", sample.To, s.Off)
			}
		})
		r.Note("the gauge looked %d times in the middle of the run", n)
		return nil
	}
}

// told is what a poll, or the answer to a join, said of an attempt. Of an attempt that has left the
// room a join says no more than a place that it had.
type told struct {
	op         uint64
	join       bool
	start, end time.Duration
	state      string
	position   int64
}

// answersOf collects what users were told, by token. Who has joined waits, for all that the answer
// says.
func answersOf(r *check.Run) map[string][]told {
	a := map[string][]told{}
	r.See(func(rec *history.Record) {
		if rec.Outcome != history.OK {
			return
		}
		t := told{rec.Op.ID, rec.Op.Kind == KindJoin, rec.Start, rec.End, waiting, rec.Reply.Value}
		if t.join {
			a[rec.Reply.Key] = append(a[rec.Reply.Key], t)
			return
		}
		var p Progress
		if json.Unmarshal(rec.Reply.Body, &p) != nil {
			r.Violate([]uint64{rec.Op.ID}, "the answer to poll %d cannot be read", rec.Op.ID)
			return
		}
		t.state = p.State
		a[rec.Op.Key] = append(a[rec.Op.Key], t)
	}, KindJoin, KindPoll)
	return a
}

func final(state string) bool { return rank[state] == rank[paid] }

// toldRight is leaversLeft and the clause that an end that a user was told is that of the attempt.
func toldRight() check.Clause {
	return check.OnAudit(func(r *check.Run, a *Audit) func() {
		all, n, state := answersOf(r), 0, map[string]string{}
		leavers := leaversLeft(r, a, all)
		for _, t := range a.Attempts {
			state[t.Token] = t.State
		}
		return func() {
			leavers()
			for token, list := range all {
				for _, one := range list {
					if !final(one.state) || a.Attempts == nil {
						continue
					}
					n++
					r.Checked(1)
					if end := cmp.Or(state[token], "not there"); end != one.state {
						r.Violate([]uint64{one.op}, "attempt %s was %s at %v, and is %s at the end", token,
							one.state, one.end, end)
					}
				}
			}
			r.Need(n > 0, "nobody was told the end of an attempt")
		}
	})
}

// mayBeOpen is the clause about already_joined: the user must have another join of the product that
// was not refused and whose attempt may be open. An attempt is over if a poll or a leave answered,
// at least a repair lag before the denied join, that it ended without a unit, and no fault struck
// since then.
func mayBeOpen(r *check.Run) func() {
	joins, ended := map[[2]string][]check.Fact{}, map[string]time.Duration{}
	var denied []history.Record
	r.See(func(rec *history.Record) {
		who, p := [2]string{rec.Op.Client, rec.Op.Key}, Progress{}
		switch {
		case sut.RefusedFor(rec, ErrJoined):
			denied = append(denied, *rec)
		case rec.Outcome == history.Refused:
		case rec.Op.Kind == KindJoin: // it has no token if the outcome is unknown
			joins[who] = append(joins[who], check.Fact{Op: rec.Op.ID, Name: rec.Reply.Key,
				From: int64(rec.Start), To: int64(rec.End)})
		case rec.Outcome == history.OK && (rec.Op.Kind == KindLeave ||
			json.Unmarshal(rec.Reply.Body, &p) == nil && final(p.State) && p.State != paid):
			ended[rec.Op.Key] = min(rec.End, cmp.Or(ended[rec.Op.Key], rec.End))
		}
	}, KindJoin, KindPoll, KindLeave)
	return func() {
		lag := r.Facts.Declared[repairLag]
		for _, d := range denied {
			r.Checked(1)
			if !slices.ContainsFunc(joins[[2]string{d.Op.Client, d.Op.Key}], func(j check.Fact) bool {
				at, told := ended[j.Name]
				return j.Op != d.Op.ID && j.From <= int64(d.End) && (!told ||
					d.Start-max(at, time.Duration(j.To)) <= lag || check.Disturbed(r.Faults(), lag, at, d.End))
			}) {
				r.Violate([]uint64{d.Op.ID}, "%s was told at %v of another attempt, and had no open one",
					d.Op.Client, d.End)
			}
		}
	}
}

// leaversLeft is broken by an attempt that was acknowledged to have left and has not, by one that
// has left unasked, and by a token that was given to a user and is unknown later.
func leaversLeft(r *check.Run, a *Audit, all map[string][]told) (end func()) {
	may, acked := map[string]bool{}, map[string][]uint64{}
	var denied []history.Record
	r.See(func(rec *history.Record) {
		key, leaves := rec.Op.Key, rec.Op.Kind == KindLeave
		may[key] = may[key] || leaves && rec.Outcome != history.Refused
		if leaves && rec.Outcome == history.OK {
			acked[key] = append(acked[key], rec.Op.ID)
		} else if sut.RefusedFor(rec, ErrUnknownToken) {
			denied = append(denied, *rec)
		}
	}, KindLeave, KindPoll)
	return func() {
		for _, rec := range denied { // of who has left, polls need not tell
			known := slices.ContainsFunc(all[rec.Op.Key], func(t told) bool { return t.end < rec.Start })
			if known && (rec.Op.Kind == KindLeave || !may[rec.Op.Key]) {
				r.Violate([]uint64{rec.Op.ID}, "attempt %s was acknowledged, and then its token was unknown "+
					"to a %s", rec.Op.Key, rec.Op.Kind)
			}
		}
		for _, t := range a.Attempts {
			switch {
			case t.State == left && !may[t.Token]:
				r.Violate([]uint64{t.ID}, "attempt %s has left, which nobody asked for", t.Token)
			case t.State != left && acked[t.Token] != nil:
				r.Violate(acked[t.Token], "attempt %s was given up, and is %s", t.Token, t.State)
			}
		}
		r.Note("%d users left the waiting room", len(acked))
	}
}

// ordersFollow is the clause that an attempt has the order that its state says: one that is
// pending or paid, a cancelled one where it was compensated, and none else.
func ordersFollow() check.Clause {
	want := map[string][]string{pending: {pending, cancelling}, paid: {paid}, compensated: {cancelled}}
	return check.OnAudit(func(r *check.Run, a *Audit) func() {
		if a.Orders == nil || a.Attempts == nil {
			return nil
		}
		orders := map[string]OrderRow{}
		for _, o := range a.Orders {
			orders[o.Key] = o
		}
		for _, t := range a.Attempts {
			r.Checked(1)
			o, has := orders[t.Key]
			delete(orders, t.Key)
			states := want[t.State]
			if has != (states != nil) || has && (!slices.Contains(states, o.State) || o.ID != t.ID) {
				r.Violate([]uint64{t.ID}, "attempt %s is %s, and its order is %q of operation %d", t.Token,
					t.State, o.State, o.ID)
			}
		}
		for _, o := range orders {
			r.Violate([]uint64{o.ID}, "order %s is of no attempt", o.Key)
		}
		return nil
	})
}

// refunds says whether the provider captures money that is to be given back: of the silent payments
// it makes half, and calls back about them when the shop, which may be late, has given up.
func (p Params) refunds() bool {
	gaveUp := time.Duration(p.PayTries-1)*p.PayRetry.D() + p.PayTimeout.D()
	return p.Silent > 0 && p.SlowTime.D() >= 2*gaveUp
}

// money is what the provider says of a key, in its log and in callbacks.
type money struct {
	captures, refunds, sum, calls int64
	declined                      bool
}

func moneyOf(a *Audit) map[string]money {
	of := map[string]money{}
	for _, p := range a.Payments {
		m := of[p.Key]
		if p.Kind == "capture" {
			m.captures, m.sum = m.captures+1, m.sum+p.Amount
		} else {
			m.refunds, m.sum = m.refunds+1, m.sum-p.Amount
		}
		of[p.Key] = m
	}
	for _, c := range a.Callbacks {
		m := of[c.Key]
		m.calls, m.declined = m.calls+1, m.declined || !c.Captured
		of[c.Key] = m
	}
	return of
}

// moneyIsSettled is the clause that of each key the provider and the order say the same.
func moneyIsSettled(p Params) check.Clause {
	return check.OnAudit(func(r *check.Run, a *Audit) func() {
		r.Need(a.Payments != nil && a.Orders != nil, "the audit has no payments or no orders")
		if a.Payments == nil || a.Orders == nil {
			return nil
		}
		of, settled, returned, again := moneyOf(a), 0, int64(0), 0
		for _, o := range a.Orders {
			m := of[o.Key]
			delete(of, o.Key)
			r.Checked(1)
			switch {
			case o.State == paid && (m.captures != 1 || m.refunds != 0 || m.sum != p.Price):
				r.Violate([]uint64{o.ID}, "order %s is paid, and its money was captured %d times and "+
					"refunded %d times: %d of %d is there", o.Key, m.captures, m.refunds, m.sum, p.Price)
			case o.State == paid && m.declined:
				r.Violate([]uint64{o.ID}, "order %s is paid, and the provider called back that it is not",
					o.Key)
			case o.State == paid:
				settled++
			case o.State == cancelled && (m.captures != m.refunds || m.captures > 1 || m.sum != 0):
				r.Violate([]uint64{o.ID}, "order %s is cancelled, and its money was captured %d times and "+
					"refunded %d times: %d is kept", o.Key, m.captures, m.refunds, m.sum)
			}
			if m.calls > 1 {
				again++
			}
			returned += m.refunds
		}
		for key, m := range of {
			if m.sum != 0 || m.captures != m.refunds {
				r.Violate(nil, "money of %s was captured %d times and refunded %d times, and it has no order",
					key, m.captures, m.refunds)
			}
		}
		r.Need(settled > 0, "no order is paid")
		r.Need(a.Callbacks == nil || again > 0, "the provider never called back again")
		r.Need(returned > 0 || !p.refunds() || a.Callbacks == nil, "no captured payment was refunded")
		r.Note("%d orders are paid, and %d captured payments were refunded; about %d the provider "+
			"called back more than once", settled, returned, again)
		return nil
	})
}

// neverBack is the clause that of an answer about an attempt, and a poll that was sent after it
// came, the poll is not farther from the end.
func neverBack() check.Clause {
	return func(r *check.Run) func() {
		all := answersOf(r)
		return func() {
			moved := 0
			for token, list := range all {
				slices.SortFunc(list, func(x, y told) int { return cmp.Compare(x.end, y.end) })
				// Of the answers that ended so far, the best; by its start each is compared with
				// those that had ended then.
				best := make([]told, len(list))
				for i, a := range list {
					best[i] = a
					if i > 0 && !ahead(a, best[i-1]) {
						best[i] = best[i-1]
					}
				}
				for _, a := range list {
					k, _ := slices.BinarySearchFunc(list, a.start, func(t told, at time.Duration) int {
						return cmp.Compare(t.end, at)
					})
					if k == 0 || a.join {
						continue
					}
					r.Checked(1)
					switch was := best[k-1]; {
					case ahead(was, a):
						r.Violate([]uint64{was.op, a.op}, "attempt %s was %s at position %d at %v, and %s at "+
							"position %d at %v", token, was.state, was.position, was.end, a.state, a.position, a.end)
					case !final(a.state) && ahead(a, was):
						moved++
					}
				}
			}
			r.Need(moved > 0, "nobody's position changed")
		}
	}
}

// ahead says whether an answer is nearer to the end than another.
func ahead(a, b told) bool {
	if rank[a.state] != rank[b.state] {
		return rank[a.state] > rank[b.state]
	}
	return a.state == waiting && a.position < b.position
}

// leastCertain is how many pairs of attempts must have come certainly one after the other.
const leastCertain = 50

// fairly is the clause that not more than so many attempts, which certainly came later, were
// admitted before one.
func fairly(bound int) check.Clause {
	return check.OnAudit(func(r *check.Run, a *Audit) func() {
		ops := check.Operations{}
		r.See(ops.Add, KindJoin)
		return func() {
			byProduct, certain := map[uint64][]entry{}, int64(0)
			for _, t := range a.Attempts {
				op := ops[t.ID]
				if t.AdmitSeq > 0 && op.Outcome == history.OK {
					byProduct[t.Product] = append(byProduct[t.Product], entry{op, t.AdmitSeq})
				}
			}
			for _, list := range byProduct {
				r.Checked(len(list))
				numbers := map[int64]uint64{}
				for _, e := range list {
					if other, taken := numbers[e.seq]; taken {
						r.Violate([]uint64{other, e.ID}, "operations %d and %d are both number %d", other, e.ID,
							e.seq)
					}
					numbers[e.seq] = e.ID
				}
				for e, n := range overtakes(list) {
					certain += n.later
					if n.before > int64(bound) {
						r.Violate([]uint64{e.ID}, "operation %d, acknowledged at %v, was admitted as number %d, "+
							"after %d that came later; a batch is %d", e.ID, e.End, e.seq, n.before, bound)
					}
				}
			}
			r.Need(certain >= leastCertain, "%d pairs came certainly one after the other; at least %d are "+
				"needed", certain, leastCertain)
		}
	})
}

// entry is an attempt that was admitted, and when it was sent and first acknowledged.
type entry struct {
	check.Operation
	seq int64
}

// counted is how many came certainly later than an entry, and how many of them were admitted
// before it.
type counted struct{ later, before int64 }

// overtakes counts for each entry those that were sent after it was acknowledged. A binary indexed
// tree over the order of admission has those that were sent later than the one at hand.
func overtakes(list []entry) map[entry]counted {
	sorted := func(by func(entry) int64) []entry {
		return slices.SortedFunc(slices.Values(list), func(x, y entry) int {
			return cmp.Compare(by(x), by(y))
		})
	}
	byStart := sorted(func(e entry) int64 { return -int64(e.Start) })
	byEnd := sorted(func(e entry) int64 { return -int64(e.End) })
	order := sorted(func(e entry) int64 { return e.seq })
	place := func(e entry) int {
		i, _ := slices.BinarySearchFunc(order, e.seq, func(o entry, seq int64) int {
			return cmp.Compare(o.seq, seq)
		})
		return i + 1
	}
	tree, out, k := make([]int64, len(list)+1), make(map[entry]counted, len(list)), 0
	for _, e := range byEnd {
		for ; k < len(byStart) && byStart[k].Start > e.End; k++ {
			for i := place(byStart[k]); i < len(tree); i += i & -i {
				tree[i]++
			}
		}
		c := counted{later: int64(k)}
		for i := place(e) - 1; i > 0; i -= i & -i {
			c.before += tree[i]
		}
		out[e] = c
	}
	return out
}
