package check_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"stampede/harness/check"
	"stampede/harness/history"
)

// sold is a small sale: a reference model that executes concurrent operations
// one at a time, each at an instant of its own, and may lose the replies. The
// checkers must find nothing wrong with it, and each corruption of it must
// break the clause that is about it.
type sold struct {
	records []history.Record
	orders  []row
	units   int
	end     map[int]string // unit to its state at the end
}

// row is an order at the end.
type row struct {
	op           uint64
	id, item     string
	client       string
	unit         int
	taken, freed time.Duration // the instants; freed is Never while held
}

// request is an operation with the instant at which it is executed, Never if
// it is not.
type request struct {
	rec history.Record
	at  time.Duration
}

const item = "item-1"

// drawSale draws a sale of a few units: buys, returns of the order of an
// earlier buy, and reads of the number of orders in force.
func drawSale(t *rapid.T) *sold {
	s := &sold{units: rapid.IntRange(1, 4).Draw(t, "units"), end: map[int]string{}}
	n := rapid.IntRange(4, 40).Draw(t, "operations")
	requests := make([]*request, 0, n)
	for i := range n {
		requests = append(requests, drawRequest(t, i))
	}
	s.execute(requests)
	for _, q := range requests {
		s.records = append(s.records, q.rec)
	}
	return s
}

func drawRequest(t *rapid.T, i int) *request {
	start := time.Duration(rapid.IntRange(0, 200).Draw(t, "start"))
	length := time.Duration(rapid.IntRange(0, 60).Draw(t, "length"))
	q := &request{
		at: start + time.Duration(rapid.IntRange(0, int(length)).Draw(t, "instant")),
		rec: history.Record{
			Seq: uint64(i), Outcome: history.OK, Intended: start, Start: start, End: start + length,
			Op: history.Op{ID: uint64(i + 1), Key: item, Client: fmt.Sprint("buyer-", i),
				Kind: rapid.SampledFrom([]string{"buy", "buy", "return", "read"}).Draw(t, "kind")},
		},
	}
	if q.rec.Op.Kind == "return" && i > 0 {
		q.rec.Op.Arg = int64(rapid.IntRange(1, i).Draw(t, "of")) // the buy's identity
	}
	if q.rec.Op.Kind != "read" {
		drawLoss(t, q)
	}
	return q
}

// drawLoss loses the reply of some operations: executed in time, later, or
// never.
func drawLoss(t *rapid.T, q *request) {
	fates := []string{"kept", "kept", "kept", "lost", "late", "never"}
	fate := rapid.SampledFrom(fates).Draw(t, "fate")
	if fate == "kept" {
		return
	}
	q.rec.Outcome = history.Unknown
	switch fate {
	case "late":
		q.at = q.rec.End + time.Duration(rapid.IntRange(0, 300).Draw(t, "late"))
	case "never":
		q.at = history.Never
	}
	if rapid.Bool().Draw(t, "no answer") {
		q.rec.End = history.Never
	}
}

// execute executes the requests in the order of their instants.
func (s *sold) execute(requests []*request) {
	byTime := slices.SortedStableFunc(slices.Values(requests), func(a, b *request) int {
		return cmp.Compare(a.at, b.at)
	})
	free := make([]int, 0, s.units)
	for u := range s.units {
		free = append(free, u+1)
		s.end[u+1] = "avail"
	}
	for _, q := range byTime {
		switch {
		case q.at == history.Never:
		case q.rec.Op.Kind == "read":
			q.rec.Reply.Value = int64(s.units - len(free))
		case q.rec.Op.Kind == "buy" && len(free) > 0:
			r := row{q.rec.Op.ID, fmt.Sprint("order-", q.rec.Op.ID), item, q.rec.Op.Client,
				free[0], q.at, history.Never}
			free = free[1:]
			s.orders = append(s.orders, r)
			s.end[r.unit] = "held"
			s.answer(q, r)
		case q.rec.Op.Kind == "return" && s.held(uint64(q.rec.Op.Arg)) != nil:
			r := s.held(uint64(q.rec.Op.Arg))
			r.freed = q.at
			free = append(free, r.unit)
			s.end[r.unit] = "avail"
			s.answer(q, *r)
		case q.rec.Outcome == history.OK:
			q.rec.Outcome, q.rec.Err = history.Refused, "refused"
		}
	}
}

func (s *sold) answer(q *request, r row) {
	if q.rec.Outcome == history.OK {
		q.rec.Reply.Key, q.rec.Reply.Value = r.id, int64(r.unit)
	}
}

// held returns the order of a buy while it is in force.
func (s *sold) held(buy uint64) *row {
	for i := range s.orders {
		if r := &s.orders[i]; r.op == buy && r.freed == history.Never {
			return r
		}
	}
	return nil
}

// judges are the clauses about a sale.
var judges = map[string]func(*sold) check.Clause{
	"durable": func(*sold) check.Clause { return check.AckedDurable(sales) },
	"phantom": func(*sold) check.Clause { return check.NoPhantom(sales) },
	"once":    func(*sold) check.Clause { return check.AtMostOnce("order", check.ByOp) },
	"owner": func(*sold) check.Clause {
		return check.Capacity{Table: "order", By: check.ByThing, Most: 1,
			Live: []string{"held"}}.AtEnd()
	},
	"at most": direct(func(c *check.Collector, s *sold) {
		s.occupancy(c).AtMost(c, item, s.units)
	}),
	"counter": direct(func(c *check.Collector, s *sold) {
		var n check.Counter
		for r := range c.Records() {
			switch r.Op.Kind {
			case "buy":
				n.Add(0, 1, check.Attempt(r))
			case "return":
				n.Add(0, -1, check.Attempt(r))
			case "read":
				n.Read(0, r.Reply.Value, r)
			}
		}
		n.Check(c, item)
	}),
	"conserve": direct(func(c *check.Collector, s *sold) {
		states := map[string]int64{}
		for _, state := range s.end {
			states[state]++
		}
		check.Conserve(c, "at the end", int64(s.units), nil,
			check.Term{Name: "available", Count: states["avail"]},
			check.Term{Name: "held", Count: states["held"]})
	}),
}

var sales = check.Effects{Table: "order", Kind: check.Named("buy")}

// direct is a clause that judges with what families are made of.
func direct(judge func(*check.Collector, *sold)) func(*sold) check.Clause {
	return func(s *sold) check.Clause {
		return func(r *check.Run) func() {
			judge(r.Collector, s)
			return nil
		}
	}
}

// facts are the orders at the end.
func (s *sold) facts(json.RawMessage) (check.Facts, error) {
	rows := make([]check.Fact, len(s.orders))
	for i, r := range s.orders {
		rows[i] = check.Fact{Op: r.op, Name: r.id, Key: r.item, Owner: r.client, Thing: int64(r.unit)}
		if r.freed == history.Never {
			rows[i].State = "held"
		}
	}
	return check.Facts{Tables: []*check.Table{check.TableOf("order", rows)}}, nil
}

// occupancy knows of each buy the first return that may have succeeded; one
// that may not is not known to have ended the hold.
func (s *sold) occupancy(c *check.Collector) *check.Occupancy {
	buys, returns := check.Operations{}, map[uint64]check.Operation{}
	for r := range c.Records("buy") {
		buys.Add(r)
	}
	for r := range c.Records("return") {
		of, back := uint64(r.Op.Arg), check.Attempt(r)
		if !back.May() {
			continue
		}
		if known, ok := returns[of]; ok {
			back.Start, back.End = min(back.Start, known.Start), min(back.End, known.End)
		}
		returns[of] = back
	}
	o := &check.Occupancy{}
	for id, buy := range buys {
		var back *check.Operation
		if r, ok := returns[id]; ok {
			r.Outcome = history.OK // May: the End says whether it is certain
			back = &r
		}
		if h, ok := holdOf(buy, back); ok {
			o.Add(h)
		}
	}
	return o
}

// holdOf is the hold from the operation that takes a unit to the one that gives it back, if
// any. It reports false if the first was refused.
func holdOf(take check.Operation, back *check.Operation) (check.Hold, bool) {
	h := check.Hold{Op: take.ID, MayFrom: take.Start, MayTo: history.Never}
	if take.Outcome == history.OK {
		h.MustFrom, h.MustTo = take.End, history.Never
	}
	if back != nil && back.May() {
		h.MayTo = back.End // Never if it is not certain
		h.MustTo = max(h.MustFrom, min(h.MustTo, back.Start))
	}
	return h, take.May()
}

// judge returns the verdict of a clause on a sale.
func (s *sold) judge(t interface{ Context() context.Context }, name string) check.Verdict {
	subject := &check.Subject{Read: s.facts}
	return subject.State(name, "", judges[name](s)).Check(t.Context(), history.Slice(s.records), nil)
}

func TestModelHolds(t *testing.T) {
	decided := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		s := drawSale(t)
		for name := range judges {
			v := s.judge(t, name)
			if v.Status == check.Broken {
				t.Fatalf("%s: %s\n%s", name, v.Reason, s)
			}
			if v.Status == check.Held {
				decided[name]++
			}
		}
	})
	for name := range judges {
		if decided[name] == 0 {
			t.Errorf("%s was never decided: the model does not exercise it", name)
		}
	}
}

// String prints a sale for a failed property.
func (s *sold) String() string {
	text := fmt.Sprintf("%d units\n", s.units)
	for _, r := range s.records {
		text += fmt.Sprintf("%d %s %s arg %d value %d: %v [%d, %d]\n", r.Op.ID, r.Op.Kind, r.Op.Client,
			r.Op.Arg, r.Reply.Value, r.Outcome, r.Start, r.End)
	}
	return text + fmt.Sprintf("%+v", s.orders)
}

// corruption changes a sale so that a clause is violated. It reports false if
// the sale has nothing of the kind.
type corruption struct {
	name   string
	breaks string
	apply  func(t *rapid.T, s *sold) bool
}

var corruptions = []corruption{
	{"drop an acknowledged order", "durable", func(t *rapid.T, s *sold) bool {
		return s.change(t, s.acked, func(i int) { s.orders = slices.Delete(s.orders, i, i+1) })
	}},
	{"rename an acknowledged order", "durable", func(t *rapid.T, s *sold) bool {
		return s.change(t, s.acked, func(i int) { s.orders[i].id = "order-x" })
	}},
	{"take a lost reply for success", "durable", func(t *rapid.T, s *sold) bool {
		return s.changeRecord(t, func(r *history.Record) bool {
			return r.Op.Kind == "buy" && r.Outcome == history.Unknown && s.find(r.Op.ID) < 0
		}, func(r *history.Record) { r.Outcome, r.End = history.OK, r.Start })
	}},
	{"add an order nobody asked for", "phantom", func(_ *rapid.T, s *sold) bool {
		s.orders = append(s.orders, row{op: 1 << 40, id: "order-x", freed: history.Never})
		return true
	}},
	{"add the order of a refused buy", "phantom", func(t *rapid.T, s *sold) bool {
		return s.changeRecord(t, func(r *history.Record) bool {
			return r.Op.Kind == "buy" && r.Outcome == history.Refused
		}, func(r *history.Record) {
			s.orders = append(s.orders, row{op: r.Op.ID, id: "order-x", freed: history.Never})
		})
	}},
	{"take a lost reply for a refusal", "phantom", func(t *rapid.T, s *sold) bool {
		return s.changeRecord(t, func(r *history.Record) bool {
			return r.Op.Kind == "buy" && r.Outcome == history.Unknown && s.find(r.Op.ID) >= 0
		}, func(r *history.Record) { r.Outcome, r.End = history.Refused, r.Start })
	}},
	{"give an order to another client", "phantom", func(t *rapid.T, s *sold) bool {
		return s.change(t, s.any, func(i int) { s.orders[i].client = "eve" })
	}},
	{"duplicate an order", "once", func(t *rapid.T, s *sold) bool {
		return s.change(t, s.any, func(i int) { s.orders = append(s.orders, s.orders[i]) })
	}},
	{"sell a unit twice", "owner", func(t *rapid.T, s *sold) bool {
		return s.change(t, s.inForce, func(i int) {
			again := s.orders[i]
			again.id = "order-x"
			s.orders = append(s.orders, again)
		})
	}},
	{"acknowledge more than there is", "at most", func(_ *rapid.T, s *sold) bool {
		for range s.units + 1 {
			s.acknowledge(500)
		}
		return true
	}},
	{"read more than was ever bought", "counter", func(t *rapid.T, s *sold) bool {
		return s.changeRecord(t, func(r *history.Record) bool { return r.Op.Kind == "read" },
			func(r *history.Record) { r.Reply.Value = int64(len(s.records)) })
	}},
	{"read less than nothing was returned to", "counter", func(t *rapid.T, s *sold) bool {
		return s.changeRecord(t, func(r *history.Record) bool { return r.Op.Kind == "read" },
			func(r *history.Record) { r.Reply.Value = -int64(len(s.records)) })
	}},
	{"lose a unit", "conserve", func(_ *rapid.T, s *sold) bool {
		delete(s.end, 1)
		return true
	}},
}

func (s *sold) any(row) bool       { return true }
func (s *sold) inForce(r row) bool { return r.freed == history.Never }

func (s *sold) acked(o row) bool {
	return slices.ContainsFunc(s.records, func(r history.Record) bool {
		return r.Op.ID == o.op && r.Outcome == history.OK
	})
}

// find returns the place of an operation's order, or -1.
func (s *sold) find(op uint64) int {
	return slices.IndexFunc(s.orders, func(r row) bool { return r.op == op })
}

// change applies a change to an order that fits.
func (s *sold) change(t *rapid.T, fits func(row) bool, apply func(i int)) bool {
	var places []int
	for i, r := range s.orders {
		if fits(r) {
			places = append(places, i)
		}
	}
	if len(places) > 0 {
		apply(rapid.SampledFrom(places).Draw(t, "order"))
	}
	return len(places) > 0
}

func (s *sold) changeRecord(
	t *rapid.T, fits func(*history.Record) bool, apply func(*history.Record),
) bool {
	var places []*history.Record
	for i := range s.records {
		if fits(&s.records[i]) {
			places = append(places, &s.records[i])
		}
	}
	if len(places) > 0 {
		apply(rapid.SampledFrom(places).Draw(t, "record"))
	}
	return len(places) > 0
}

// acknowledge adds an acknowledged buy at a time and returns its record.
func (s *sold) acknowledge(at time.Duration) *history.Record {
	n := uint64(len(s.records))
	s.records = append(s.records, history.Record{
		Seq: n, Op: history.Op{ID: n + 1, Kind: "buy", Key: item}, Outcome: history.OK,
		Intended: at, Start: at, End: at,
	})
	return &s.records[n]
}

func TestCorruptionsBreak(t *testing.T) {
	for _, corruption := range corruptions {
		t.Run(corruption.name, func(t *testing.T) {
			applied := 0
			rapid.Check(t, func(t *rapid.T) {
				s := drawSale(t)
				if !corruption.apply(t, s) {
					return
				}
				applied++
				if v := s.judge(t, corruption.breaks); v.Status != check.Broken {
					t.Fatalf("%s is %v (%s)\n%s", corruption.breaks, v.Status, v.Reason, s)
				}
			})
			if applied == 0 {
				t.Error("no sale could be corrupted so")
			}
		})
	}
}

// TestEveryClauseIsCorrupted so that none can be one that never breaks.
func TestEveryClauseIsCorrupted(t *testing.T) {
	for name := range judges {
		if !slices.ContainsFunc(corruptions, func(c corruption) bool { return c.breaks == name }) {
			t.Errorf("no corruption breaks %s", name)
		}
	}
}

// TestMaxPossibleAgreesWithCounting compares the tree with a count at every
// instant.
func TestMaxPossibleAgreesWithCounting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var o check.Occupancy
		var holds []check.Hold
		for range rapid.IntRange(0, 20).Draw(t, "holds") {
			from := time.Duration(rapid.IntRange(0, 30).Draw(t, "from"))
			h := check.Hold{MayFrom: from, MayTo: from + time.Duration(rapid.IntRange(0, 9).Draw(t, "for"))}
			if rapid.IntRange(0, 5).Draw(t, "open") == 0 {
				h.MayTo = history.Never
			}
			o.Add(h)
			holds = append(holds, h)
		}
		from := time.Duration(rapid.IntRange(0, 45).Draw(t, "query from"))
		to := from + time.Duration(rapid.IntRange(0, 45).Draw(t, "query for"))
		want := 0
		for at := from; at <= to; at++ {
			n := 0
			for _, h := range holds {
				if h.MayFrom <= at && at <= h.MayTo {
					n++
				}
			}
			want = max(want, n)
		}
		if got := o.MaxPossible(from, to); got != want {
			t.Fatalf("at most %d in [%v, %v] of %v, want %d", got, from, to, holds, want)
		}
	})
}
