package flashsale

import (
	"slices"
	"sort"
	"time"

	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/sut"
)

// maxSuspects bounds the refusals that are looked at closely.
const maxSuspects = 100_000

// noFalseSoldOut allows for everything that may have had a unit at some moment of the refusal:
//
//   - a buy that was acknowledged, from its first attempt until the store released it and a slack
//     later, which the design is given to offer the unit again: its ReclaimSlack and the slowest
//     operation;
//   - a buy of unknown outcome, from its first attempt for ever;
//   - a buy that was refused, while it was under way: it may have taken a unit for a moment.
//
// A refusal during a fault, or within the slack of its end, says nothing: requests that died may
// tie up units. Being "not ready" is no claim. Where all refusals fell into the slack, the verdict
// stays open. A refusal is late if units explain it which came back much later than promised.
func noFalseSoldOut(p Params) func(*check.Run, *check.Table) func() {
	return func(r *check.Run, orders *check.Table) func() {
		slack, ok := promised(r)
		if !ok {
			return nil
		}
		buys, slowest := purchasesOf(r, orders), r.Slowest()
		return func() {
			j := &soldOut{Run: r, units: p.Units, purchases: buys, slack: slack + *slowest}
			j.judge()
		}
	}
}

// soldOut is the judge at work, once the buys that were not refused are known.
type soldOut struct {
	*check.Run
	units int
	purchases
	slack time.Duration
}

func (j *soldOut) judge() {
	taken := j.takenBy(j.slack)
	claims, strict, overlooked := 0, 0, 0
	var suspects []suspect
	for rec := range j.Records(KindBuy) {
		if !sut.RefusedFor(rec, ErrSoldOut) ||
			check.Disturbed(j.Faults(), j.slack, rec.Start, rec.End) {
			continue
		}
		claims++
		most := 0
		item := taken[rec.Op.Key]
		if item != nil {
			most = item.MaxPossible(rec.Start, rec.End)
		}
		if item.strict(rec.Start, rec.End) {
			strict++
		}
		switch {
		case most >= j.units:
		case len(suspects) == maxSuspects:
			overlooked++
		default:
			suspects = append(suspects, suspect{
				item: rec.Op.Key, op: rec.Op.ID, from: rec.Start, to: rec.End, taken: most})
		}
	}
	within := j.slack.Round(time.Millisecond)
	j.Checked(claims)
	j.Need(claims > 0, "outside faults no buy was refused as sold out")
	j.Need(claims == 0 || strict > 0, "all %d sold-out refusals came within %v of the first return "+
		"of a unit, before it must be for sale", claims, within)
	j.Note("%d of %d refusals came before the first return of a unit or more than %v after it",
		strict, claims, within)
	j.Need(overlooked == 0, "%d suspicious refusals were not checked", overlooked)
	j.judgeSuspects(suspects)
}

// muchLater is how many times the slack a unit may take to be for sale again before a
// refusal is no longer called late.
const muchLater = 4

// takings are the units of an item that may be taken.
type takings struct {
	check.Occupancy
	// All units that were returned were certainly taken until returned; one
	// of them must be for sale from offered on. Both are Never if none was.
	returned, offered time.Duration
}

func (t *takings) add(h check.Hold) {
	t.Add(h)
	if h.MayTo != history.Never {
		t.returned, t.offered = min(t.returned, h.MustTo), min(t.offered, h.MayTo)
	}
}

// strict says whether the slack excuses nothing, or not everything, of a
// refusal: no unit had come back yet, so that all must have been sold, or one
// must have been for sale again. A nil receiver is an item nobody bought.
func (t *takings) strict(from, to time.Duration) bool {
	return t == nil || to < t.returned || from > t.offered
}

// purchases are the buys that were not refused, with their items and the orders at the end.
type purchases struct {
	ops    check.Operations
	items  map[uint64]string
	orders *check.Table
}

// purchasesOf reads the buys; they are known after the reading.
func purchasesOf(r *check.Run, orders *check.Table) purchases {
	b := purchases{make(check.Operations), make(map[uint64]string), orders}
	r.See(func(rec *history.Record) {
		if rec.Outcome != history.Refused {
			b.ops.Add(rec)
			b.items[rec.Op.ID] = rec.Op.Key
		}
	}, KindBuy)
	return b
}

// takenBy bounds, for each item, how many units may be taken at any moment, if one that came
// back is for sale again after a slack.
func (b purchases) takenBy(slack time.Duration) map[string]*takings {
	taken := make(map[string]*takings)
	for op, buy := range b.ops {
		item, o := b.items[op], b.orders.Op(op)
		if taken[item] == nil {
			taken[item] = &takings{returned: history.Never, offered: history.Never}
		}
		taken[item].add(check.HoldFor(buy, o, o != nil && live(o), slack))
	}
	return taken
}

// suspect is a refusal that no buy which took effect can explain.
type suspect struct {
	item     string
	op       uint64
	from, to time.Duration
	taken    int // by buys that were not refused
}

// judgeSuspects reads the history once more, only if there are suspects, and
// counts for each the refused attempts that overlap it.
func (j *soldOut) judgeSuspects(suspects []suspect) {
	if len(suspects) == 0 {
		return
	}
	returning, refused := j.takenBy(muchLater*j.slack), make(map[string]*attempts)
	for _, s := range suspects {
		refused[s.item] = &attempts{}
	}
	for rec := range j.Records(KindBuy) {
		if a := refused[rec.Op.Key]; a != nil && rec.Outcome == history.Refused {
			a.starts, a.ends = append(a.starts, rec.Start), append(a.ends, rec.End)
		}
	}
	for _, a := range refused {
		slices.Sort(a.starts)
		slices.Sort(a.ends)
	}
	for _, s := range suspects {
		others := refused[s.item].overlapping(s.from, s.to) - 1 // but for itself
		if s.taken+others >= j.units {
			continue
		}
		tell := j.Violate
		if check.Disturbed(j.Faults(), muchLater*j.slack, s.from, s.to) ||
			returning[s.item] != nil && returning[s.item].MaxPossible(s.from, s.to)+others >= j.units {
			tell = j.Late
		}
		tell([]uint64{s.op}, "%s: at %v a buyer was told sold out while at most %d of %d "+
			"units were taken, %d of them by requests in flight", s.item, s.to,
			s.taken+others, j.units, others)
	}
}

// attempts are when some began and when they ended, each sorted.
type attempts struct{ starts, ends []time.Duration }

// overlapping is how many had begun by the end of a span, less those that had ended before it.
func (a *attempts) overlapping(from, to time.Duration) int {
	began := sort.Search(len(a.starts), func(i int) bool { return a.starts[i] > to })
	ended, _ := slices.BinarySearch(a.ends, from)
	return began - ended
}
