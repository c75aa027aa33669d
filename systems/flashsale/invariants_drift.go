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

// judgeRedisDrift adds up, for each item, the units that Redis still gives
// away, those that it has reserved without an order, and those that orders
// have. More than the units could be oversold; fewer have leaked. While the
// sale goes on, units that are on their way between the stores are in neither,
// but never in both; once settled, everything adds up.
func judgeRedisDrift(j *judging) {
	if !j.has("items", "redis", "orders") {
		return
	}
	j.Need(len(j.a.Orders) > 0, "there is no order, so Redis was never used")
	named := sync.OnceValue(j.doubts) // most sales have nothing to explain
	driftAtEnd(j, named)
	driftMeanwhile(j, named)
}

func driftAtEnd(j *judging, named func() doubts) {
	redis := make(map[string]RedisAudit)
	for _, r := range j.a.Redis {
		redis[r.Item] = r
	}
	for _, it := range j.a.Items {
		j.Checked(1)
		r, listed := redis[it.Item]
		ops := func() []uint64 { return named().until(it.Item, history.Never) }
		drift := int64(j.p.Units) - (r.Stock + r.Holds + it.Held + it.Sold)
		switch {
		case !listed || !r.Present:
			j.Unfinished(ops(), "%s: Redis has no counter at the end", it.Item)
		case r.Stock < 0 || r.Holds < 0:
			j.Violate(ops(), "%s: Redis has %d in stock and %d reserved at the end",
				it.Item, r.Stock, r.Holds)
		case drift > 0:
			j.Unfinished(ops(), "%s: Redis has %d in stock and %d reserved, orders hold %d and bought %d "+
				"of %d: %d leaked and can never be sold",
				it.Item, r.Stock, r.Holds, it.Held, it.Sold, j.p.Units, drift)
		case drift < 0:
			j.Unfinished(ops(), "%s: Redis has %d in stock and %d reserved, orders hold %d and bought %d "+
				"of %d: %d more than exist could be sold",
				it.Item, r.Stock, r.Holds, it.Held, it.Sold, j.p.Units, -drift)
		}
	}
}

// doubts are, for each item, the first purchases after which Redis and the
// ledger may disagree: their outcome is unknown, or they met a fault, whatever
// a client that repeats itself made of it.
type doubts map[string][]doubt

type doubt struct {
	op    uint64
	start time.Duration
}

func (j *judging) doubts() doubts {
	const most = 5
	all, faults := make(doubts), disturbed(j.Faults(), 0)
	j.read(only(KindBuy, func(rec *history.Record) {
		if rec.Outcome == history.Unknown || faults.overlaps(rec.Start, rec.End) {
			all[rec.Op.Key] = append(all[rec.Op.Key], doubt{rec.Op.ID, rec.Start})
		}
	}))
	for item, list := range all { // a history is in no order across clients
		slices.SortFunc(list, func(a, b doubt) int { return cmp.Compare(a.start, b.start) })
		var first []doubt
		for _, d := range list {
			if len(first) == most {
				break
			}
			if !slices.ContainsFunc(first, func(f doubt) bool { return f.op == d.op }) {
				first = append(first, d)
			}
		}
		all[item] = first
	}
	return all
}

// until are the purchases in doubt of an item that had begun by then.
func (d doubts) until(item string, at time.Duration) []uint64 {
	var ops []uint64
	for _, one := range d[item] {
		if one.start <= at {
			ops = append(ops, one.op)
		}
	}
	return ops
}

// driftMeanwhile looks at what the gauge saw during the sale. Only what is
// certain counts, and two things excuse it, each for no longer than the design
// is given to bring a unit back (its ReclaimSlack and the slowest operation):
//
//   - a fault, until then after its target answered again: Redis may have come
//     back with an old state, which the reconciler has to notice;
//   - a repair by the reconciler: a purchase that took a unit before it may
//     reach the ledger after it, which the next looks correct.
//
// The excuses are counted and shown. A run that was never judged outside of
// them leaves the verdict open.
func driftMeanwhile(j *judging, named func() doubts) {
	samples := j.Samples()
	j.Need(len(samples) > 0, "no sample of both stores was taken during the sale")
	slack, promised := j.promise()
	if len(samples) == 0 || !promised {
		return
	}
	var slow slowest
	j.read(slow.see(disturbed(j.Faults(), 0)))
	slack += time.Duration(slow)
	w := driftWatch{judging: j, slack: slack, noise: disturbed(j.Faults(), slack),
		named: named, repairs: make(map[string]repair)}
	for _, s := range samples {
		w.sample(s)
	}
	w.conclude()
}

// driftWatch follows the drift of all items.
type driftWatch struct {
	*judging
	slack   time.Duration
	noise   disturbances
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
	excused := w.noise.overlaps(s.From, s.To) || s.From <= last.until
	low, high := l.Drift(int64(w.p.Units))
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
			l.Item, s.From, s.To, l.Stock, l.Unclaimed, l.Before.Made-l.After.Closed, w.p.Units, -high)
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
