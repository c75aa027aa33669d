package flashsale

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"stampede/harness/check"
	"stampede/harness/history"
)

// redisDrift adds up, for each item, the units that Redis still gives away, those that it has
// reserved without an order, and those that orders have. More than the units could be oversold;
// fewer have leaked, or are on their way between the stores while the sale goes on.
func redisDrift(p Params) func(*check.Run, *Audit) func() {
	return func(r *check.Run, a *Audit) func() {
		_, ok := tables(r, "item", "order")
		r.Need(a.Redis != nil, "the audit has no redis")
		if !ok || a.Redis == nil {
			return nil
		}
		r.Need(len(a.Orders) > 0, "there is no order, so Redis was never used")
		named := sync.OnceValue(func() doubts { return doubtsOf(r) }) // most sales have none
		slowest := r.Slowest()
		return func() {
			driftAtEnd(r, a, p, named)
			driftMeanwhile(r, p, *slowest, named)
		}
	}
}

func driftAtEnd(r *check.Run, a *Audit, p Params, named func() doubts) {
	redis := make(map[string]RedisAudit)
	for _, c := range a.Redis {
		redis[c.Item] = c
	}
	for _, it := range a.Items {
		r.Checked(1)
		c, listed := redis[it.Item]
		ops := func() []uint64 { return named().until(it.Item, history.Never) }
		drift := int64(p.Units) - (c.Stock + c.Holds + it.Held + it.Sold)
		has := fmt.Sprintf("%s: Redis has %d in stock and %d reserved", it.Item, c.Stock, c.Holds)
		sum := fmt.Sprintf("%s, orders hold %d and bought %d of %d", has, it.Held, it.Sold, p.Units)
		switch {
		case !listed || !c.Present:
			r.Unfinished(ops(), "%s: Redis has no counter at the end", it.Item)
		case c.Stock < 0 || c.Holds < 0:
			r.Violate(ops(), "%s at the end", has)
		case drift > 0:
			r.Unfinished(ops(), "%s: %d leaked and can never be sold", sum, drift)
		case drift < 0:
			r.Unfinished(ops(), "%s: %d more than exist could be sold", sum, -drift)
		}
	}
}

// doubts are, by item, the purchases after which Redis and the ledger may disagree: the first of
// unknown outcome or that met a fault, or else the slowest, as one that was sent again is slow.
type doubts struct{ first, slowest map[string][]doubt }

type doubt struct {
	op          uint64
	start, took time.Duration
}

func doubtsOf(r *check.Run) doubts {
	d := doubts{make(map[string][]doubt), make(map[string][]doubt)}
	for rec := range r.Records(KindBuy) {
		one := doubt{rec.Op.ID, rec.Start, rec.End - rec.Start}
		if rec.Outcome == history.Unknown || rec.Outcome != history.Dropped &&
			check.Disturbed(r.Faults(), 0, rec.Start, rec.End) {
			d.first[rec.Op.Key] = append(d.first[rec.Op.Key], one)
		}
		if rec.Outcome == history.OK {
			d.slowest[rec.Op.Key] = append(d.slowest[rec.Op.Key], one)
		}
	}
	for _, list := range d.first { // a history is in no order across clients
		slices.SortFunc(list, func(a, b doubt) int { return cmp.Compare(a.start, b.start) })
	}
	for _, list := range d.slowest {
		slices.SortFunc(list, func(a, b doubt) int { return cmp.Compare(b.took, a.took) })
	}
	return d
}

// until are the purchases in doubt of an item that had begun by then.
func (d doubts) until(item string, at time.Duration) []uint64 {
	for _, all := range []map[string][]doubt{d.first, d.slowest} {
		var ops []uint64
		for _, one := range all[item] {
			if one.start <= at && len(ops) < check.MaxProof && !slices.Contains(ops, one.op) {
				ops = append(ops, one.op)
			}
		}
		if len(ops) > 0 {
			return ops
		}
	}
	return nil
}

// driftMeanwhile looks at what the gauge saw during the sale. Two things excuse a drift, each for
// no longer than the design is given to bring a unit back (its ReclaimSlack and the slowest
// operation): a fault, after whose end Redis may have an old state, and a repair by the reconciler,
// which a purchase that took a unit before it may follow. Excuses are counted and shown. A run
// that was never judged outside of them leaves the verdict open.
func driftMeanwhile(r *check.Run, p Params, slowest time.Duration, named func() doubts) {
	samples := r.Samples()
	r.Need(len(samples) > 0, "no sample of both stores was taken during the sale")
	slack, ok := promised(r)
	if len(samples) == 0 || !ok {
		return
	}
	w := driftWatch{Run: r, units: int64(p.Units), slack: slack + slowest, named: named,
		repairs: make(map[string]repair)}
	for _, s := range samples {
		w.sample(s)
	}
	w.conclude()
}

// driftWatch follows the drift of all items.
type driftWatch struct {
	*check.Run
	units   int64
	slack   time.Duration
	named   func() doubts
	repairs map[string]repair
	seen    check.Watched
	drawn   bool // a judged look saw an item of which something had been taken
}

// repair is the last one seen of an item; what is seen until then is excused.
type repair struct {
	mark  string
	until time.Duration
}

// sample judges one sample.
func (w *driftWatch) sample(s history.Sample) {
	if !s.Seen() {
		w.seen.Gaps++
		return
	}
	var look Look
	if err := json.Unmarshal(s.Body, &look); err != nil {
		w.Fail("the sample taken at %v cannot be read: %v", s.From, err)
		return
	}
	for i := range look.Items {
		w.item(s, &look.Items[i])
	}
}

func (w *driftWatch) item(s history.Sample, l *LookItem) {
	last := w.repairs[l.Item]
	if l.Repair != last.mark {
		last = repair{l.Repair, s.To + w.slack}
		w.repairs[l.Item] = last
	}
	excused := check.Disturbed(w.Faults(), w.slack, s.From, s.To) || s.From <= last.until
	low, high := l.Drift(w.units)
	w.seen.Look(s.To, low, high, excused)
	if excused {
		return
	}
	w.Checked(1)
	w.drawn = w.drawn || l.Before.Made > 0
	violate := func(format string, args ...any) {
		w.ViolateAt(s.To, w.named().until(l.Item, s.To), format, args...)
	}
	switch {
	case l.Stock < 0:
		violate("%s: at %v Redis had %d in stock", l.Item, s.To, l.Stock)
	case high < 0:
		violate("%s: between %v and %v Redis had %d in stock and %d reserved, and "+
			"%d or more of %d units were in orders: %d more than exist could be sold",
			l.Item, s.From, s.To, l.Stock, l.Unclaimed, l.Before.Made-l.After.Closed, w.units, -high)
	}
}

// conclude says how closely was looked.
func (w *driftWatch) conclude() {
	s := &w.seen
	s.Quantity, s.Unit = "drift", "units"
	w.Watched(s)
	excused := fmt.Sprintf("%d more within %v of a fault or a repair were excused",
		s.Excused, w.slack.Round(time.Millisecond))
	w.Need(s.Judged+s.Excused > 0, "none of %d samples saw both stores", s.Gaps)
	w.Need(s.Judged+s.Excused == 0 || w.drawn, "none of %d samples of an item during the sale came "+
		"after its first order; %s", s.Judged, excused)
	w.Note("%d samples of an item during the sale had no negative drift; %s; the highest drift was "+
		"%d, and %d samples failed", s.Judged, excused, s.Highest, s.Gaps)
}
