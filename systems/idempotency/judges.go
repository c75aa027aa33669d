package idempotency

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"stampede/harness/api"
	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/sut"
	"stampede/systems/internal/idem"
)

// The names of the invariants.
const (
	ChargedOnce      = "charged-once"
	ChargesKept      = "charges-kept"
	SameAnswer       = "same-answer"
	OtherBodyRefused = "other-body-refused"
	NothingStuck     = "nothing-stuck"
	KeptForItsTime   = "kept-for-its-time"
)

// grain is the coarsest resolution of the store's clock.
const grain = time.Millisecond

// leastTogether is how many requests must overlap another one with their key.
const leastTogether = 10

// invariants are what must be true of every design.
func invariants(p Params) []check.Invariant {
	ttl := p.TTL.D()
	s := check.Subject{Read: check.Audited(api.DecodeAudit[Audit], factsFor(ttl)),
		Most: map[string]time.Duration{reapLag: longestLag}}
	paid := check.Effects{Table: chargeFact, Kind: check.Named(KindCharge)}
	single := check.Capacity{Table: chargeFact, By: check.ByKey, Most: 1}
	answered := func(f *check.Fact) bool { return f.State == done || f.State == gone }
	return []check.Invariant{
		s.State(ChargedOnce, "a key is charged once in the time for which answers are kept, however "+
			"often it is sent and to how many servers", single.Spans(), together),
		s.State(ChargesKept, "every acknowledged charge is in the provider's log as it was asked for "+
			"and acknowledged, under a receipt of its own, and no other", check.AckedDurable(paid),
			check.NoPhantom(paid), check.AtMostOnce(chargeFact, check.ByName), asAsked()),
		s.State(SameAnswer, "while its answer is kept, a request is answered the same, field by field, "+
			"and not denied", sameAnswer(ttl)),
		s.State(OtherBodyRefused, "while its answer is kept, a key does not stand for two requests, and "+
			"no request is denied because of another one that was never sent", otherBody(ttl), explained()),
		s.State(NothingStuck, "at rest no key is in progress, and every kept answer is of a charge that "+
			"was made", check.Quiescent(keyFact, started, charged),
			check.Agree(check.Pair{A: keyFact, B: chargeFact, Subset: true,
				By: check.ByOp | check.ByKey | check.ByName, OfA: answered})),
		s.State(KeptForItsTime, "every acknowledged answer is kept, once, from its charge on and for "+
			"its time, and then forgotten",
			check.AckedDurable(check.Effects{Table: keyFact, Kind: check.Named(KindCharge)}),
			check.Capacity{Table: keyFact, By: check.ByKey, Most: 1, Counts: answered}.Spans(),
			check.InTime(check.Bound{Table: keyFact, Kind: check.Named(KindCharge), Ended: []string{gone},
				Open: []string{done}, NotBefore: ttl, Within: ttl, Grain: grain,
				Slack: reapLag}), check.OnAudit(chargedFirst)),
	}
}

// asAsked is the clause that a customer is charged what was asked for, and told so.
func asAsked() check.Clause {
	table := API()
	return check.On(chargeFact, func(r *check.Run, t *check.Table) func() {
		asked := map[uint64]int64{}
		r.See(func(rec *history.Record) {
			req, err := api.RequestOf[ChargeRequest](table, rec.Op)
			if err != nil {
				return
			}
			asked[req.ID] = req.Amount
			var told Charged
			if rec.Outcome == history.OK && json.Unmarshal(rec.Reply.Body, &told) == nil &&
				(rec.Reply.Value != req.Amount || told.Customer != req.Customer) {
				r.Violate([]uint64{req.ID}, "operation %d asked for %d of %s, and was told %d of %s", req.ID,
					req.Amount, req.Customer, rec.Reply.Value, told.Customer)
			}
		}, KindCharge)
		return func() {
			for _, c := range t.Rows {
				if amount, known := asked[c.Op]; known && c.Thing != amount {
					r.Violate([]uint64{c.Op}, "operation %d asked for %d, and %d was charged", c.Op, amount,
						c.Thing)
				}
			}
		}
	})
}

// chargedFirst is the clause that an answer is kept after its charge, and that a key is not charged
// again unless the answer of the charge before was kept, and so forgotten.
func chargedFirst(r *check.Run, a *Audit) func() {
	if a.Keys == nil {
		return nil // which other clauses say
	}
	answered := map[string]int64{} // by receipt
	for _, k := range a.Keys {
		if at, known := answered[k.Receipt]; k.DoneNS > 0 && (!known || k.DoneNS < at) {
			answered[k.Receipt] = k.DoneNS
		}
	}
	before := map[string]ChargeRow{}
	for _, c := range slices.SortedFunc(slices.Values(a.Charges), func(x, y ChargeRow) int {
		return cmp.Compare(x.AtNS, y.AtNS)
	}) {
		r.Checked(1)
		if at, known := answered[c.Receipt]; known && c.AtNS > at+int64(grain) {
			r.Violate([]uint64{c.ID}, "operation %d was charged %v after its answer was kept", c.ID,
				time.Duration(c.AtNS-at))
		}
		if last, again := before[c.Key]; again {
			if _, known := answered[last.Receipt]; !known {
				r.Violate([]uint64{last.ID, c.ID}, "%q was charged for operation %d, and again for operation "+
					"%d, and the first has no answer", c.Key, last.ID, c.ID)
			}
		}
		before[c.Key] = c
	}
	return nil
}

// together is the clause that enough requests overlapped another one with their key and body. Those
// that were refused for another reason did not meet.
func together(r *check.Run) func() {
	spans := map[uint64][]check.Span{}
	r.See(func(rec *history.Record) {
		met := rec.Outcome != history.Refused || sut.RefusedFor(rec, idem.ErrInProgress)
		if rec.Start != history.Never && met {
			list := spans[rec.Op.ID]
			spans[rec.Op.ID] = append(list, check.Span{Who: string(rune('a' + len(list))),
				From: rec.Start, To: rec.End})
		}
	}, KindCharge)
	return func() {
		var raced int64
		for _, list := range spans {
			if len(list) > 1 {
				raced += check.Together(list).Raced
			}
		}
		r.Need(raced >= leastTogether, "%d requests overlapped another one with their key; at least %d "+
			"are needed", raced, leastTogether)
	}
}

// answer is one to a request.
type answer struct {
	op         uint64
	start, end time.Duration
	ok, denied bool
	why        string // of a denial
	receipt    string
	value      int64
	body       []byte
}

// answers are those to the requests of each operation, or with each key, in the order in which
// they came; first is when the earliest of them was sent, answered or not. It may be that to be in
// progress is a denial, too.
type answers[K comparable] struct {
	list  map[K][]answer
	first map[K]time.Duration
	busy  bool
}

func (a *answers[K]) see(k K, rec *history.Record) {
	if rec.Start == history.Never {
		return
	}
	if at, known := a.first[k]; !known || rec.Start < at {
		a.first[k] = rec.Start
	}
	one := answer{op: rec.Op.ID, start: rec.Start, end: rec.End, ok: rec.Outcome == history.OK,
		denied: sut.RefusedFor(rec, idem.ErrOtherBody) ||
			a.busy && sut.RefusedFor(rec, idem.ErrInProgress), why: rec.Code}
	if one.ok {
		one.receipt, one.value = rec.Reply.Key, rec.Reply.Value
		one.body = bytes.Clone(rec.Reply.Body)
	}
	if one.ok || one.denied {
		a.list[k] = append(a.list[k], one)
	}
}

// kept visits the answers that came while the first of them was certainly kept: an answer is not
// there before the first request was sent, and is kept for the ttl from then on at least.
func (a *answers[K]) kept(ttl time.Duration, visit func(k K, list []answer)) {
	for k, list := range a.list {
		until := a.first[k] + ttl
		list = slices.DeleteFunc(list, func(one answer) bool { return one.end >= until })
		slices.SortStableFunc(list, func(x, y answer) int { return cmp.Compare(x.end, y.end) })
		visit(k, list)
	}
}

// sameAnswer is the clause that all acknowledgements of a request are the same, and that none is
// followed by a denial.
func sameAnswer(ttl time.Duration) check.Clause {
	return func(r *check.Run) func() {
		a := answers[uint64]{map[uint64][]answer{}, map[uint64]time.Duration{}, true}
		r.See(func(rec *history.Record) { a.see(rec.Op.ID, rec) }, KindCharge)
		return func() {
			again := 0
			a.kept(ttl, func(op uint64, list []answer) {
				var first *answer
				for i := range list {
					switch one := &list[i]; {
					case first == nil && one.ok:
						first = one
					case first == nil:
					case one.ok:
						again++
						r.Checked(1)
						same := one.receipt == first.receipt && one.value == first.value &&
							bytes.Equal(one.body, first.body)
						if !same {
							r.Violate([]uint64{op}, "operation %d was answered %q, %d %s at %v and %q, %d %s at %v",
								op, first.receipt, first.value, first.body, first.end, one.receipt, one.value,
								one.body, one.end)
						}
					case one.start > first.end:
						r.Violate([]uint64{op}, "operation %d was acknowledged at %v, and refused at %v as %s",
							op, first.end, one.end, one.why)
					}
				}
			})
			r.Need(again > 0, "no request was answered twice")
		}
	}
}

// otherBody is the clause that of the requests with a key which differ only one is acknowledged.
func otherBody(ttl time.Duration) check.Clause {
	return func(r *check.Run) func() {
		a := answers[string]{map[string][]answer{}, map[string]time.Duration{}, false}
		r.See(func(rec *history.Record) { a.see(rec.Op.Key, rec) }, KindCharge)
		return func() {
			denied := 0
			a.kept(ttl, func(key string, list []answer) {
				var first *answer
				for i := range list {
					one := &list[i]
					r.Checked(1)
					switch {
					case one.denied:
						denied++
					case first == nil:
						first = one
					case one.op != first.op:
						r.Violate([]uint64{first.op, one.op}, "%q stands for operation %d, acknowledged at %v, "+
							"and for operation %d, acknowledged at %v", key, first.op, first.end, one.op, one.end)
					}
				}
			})
			r.Need(denied > 0, "no request was told that its key was used for another one")
		}
	}
}

// explained is the clause that a denial has a cause: an earlier request with the key that was not
// denied itself. What is in progress may be an attempt at the same operation; what the key was used
// for is another one.
func explained() check.Clause {
	type request struct {
		op    uint64
		start time.Duration
	}
	return func(r *check.Run) func() {
		sent, denied := map[string][]request{}, []history.Record{}
		r.See(func(rec *history.Record) {
			if sut.RefusedFor(rec, idem.ErrOtherBody) || sut.RefusedFor(rec, idem.ErrInProgress) {
				denied = append(denied, *rec)
				return
			}
			sent[rec.Op.Key] = append(sent[rec.Op.Key], request{rec.Op.ID, rec.Start})
		}, KindCharge)
		return func() {
			for _, rec := range denied {
				inProgress := sut.RefusedFor(&rec, idem.ErrInProgress)
				if !slices.ContainsFunc(sent[rec.Op.Key], func(q request) bool {
					return q.start <= rec.End && (inProgress || q.op != rec.Op.ID)
				}) {
					r.Violate([]uint64{rec.Op.ID}, "operation %d was denied at %v for another request with "+
						"%q, and there was none: %q", rec.Op.ID, rec.End, rec.Op.Key, rec.Err)
				}
			}
		}
	}
}
