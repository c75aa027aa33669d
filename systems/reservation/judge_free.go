package reservation

import (
	"time"

	"stampede/harness/api"
	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/sut"
)

// freeIsForSale is the clause that as many places as there are may have been taken for each stay
// that was told sold out, at some moment of the answer. What may have a place:
//
//   - a hold that was acknowledged, until it ended and a slack later: the lag of the design's view
//     and the slowest operation. Who ended it says when it was over: the guest's release, of
//     which the store's clock knows the beginning only, or the expirer, which has its lag for it;
//   - one of unknown outcome, or whose release is, for ever;
//   - in a design with a view, every attempt that was refused, or that is one of several of an
//     operation, while it was under way and a slack later: each may have taken a place there. One
//     that was told sold out did so only if the others alone may have had all places of its stay,
//     or a fault: who finds none free in the view takes none, and two cannot excuse each other.
//
// What was told during a fault, or within the slack after it, is not judged.
func freeIsForSale(places int) check.Clause {
	return check.On(holdFact, func(r *check.Run, t *check.Table) func() {
		lag, known := r.Promise(lagOfView)
		expiry, granted := r.Promise(expiryLag)
		s := sale{table: API(), places: places, slowest: r.Slowest(), lag: lag, expiry: expiry,
			requests: map[uint64]HoldRequest{}, ops: check.Operations{}, ends: check.Operations{},
			sent: map[uint64]int{}, returns: r.Table(returnFact), faults: r.Faults()}
		r.See(s.see, KindHold)
		r.See(s.ends.Add, KindRelease, KindCancel)
		return func() {
			if known && granted && s.returns != nil {
				s.judge(r, t)
			}
		}
	})
}

// sale is what is known of who was told what.
type sale struct {
	table       *api.Table[Desk]
	places      int
	lag, expiry time.Duration
	slowest     *time.Duration
	faults      []history.Window
	requests    map[uint64]HoldRequest
	ops, ends   check.Operations
	sent        map[uint64]int // how often
	attempts    []attempt
	returns     *check.Table
}

// attempt is one at a hold.
type attempt struct {
	seq, op          uint64
	start, end       time.Duration
	refused, soldOut bool
}

// taking is a hold that may have had its place for some time of the driver's clock. A mere
// attempt has a seq.
type taking struct {
	check.Hold
	seq               uint64
	first, last, unit int
}

func (s *sale) see(rec *history.Record) {
	req, err := api.RequestOf[HoldRequest](s.table, rec.Op)
	if err != nil {
		return
	}
	s.requests[rec.Op.ID] = req
	s.ops.Add(rec)
	s.sent[rec.Op.ID]++
	if s.lag > 0 || rec.Outcome == history.Refused {
		s.attempts = append(s.attempts, attempt{rec.Seq, rec.Op.ID, rec.Start, rec.End,
			rec.Outcome == history.Refused, sut.RefusedFor(rec, ErrSoldOut)})
	}
}

// takings are the holds that may have had a place, by resource.
func (s *sale) takings(t *check.Table) map[uint64][]taking {
	taken := map[uint64][]taking{}
	add := func(op, seq uint64, h check.Hold, unit int) {
		req := s.requests[op]
		taken[req.Resource] = append(taken[req.Resource],
			taking{h, seq, req.First, req.First + req.Nights - 1, unit})
	}
	for id, op := range s.ops {
		if !op.May() {
			continue
		}
		row, unit := t.Op(id), 0
		if row != nil {
			unit = int(row.Thing)
		}
		add(id, 0, s.held(op, row), unit)
	}
	passes := func(through func(attempt) bool) {
		var list []attempt
		for _, a := range s.attempts {
			if s.lag > 0 && (a.refused || s.sent[a.op] > 1) && through(a) {
				list = append(list, a)
			}
		}
		for _, a := range list {
			to := history.Never
			if a.end < to {
				to = a.end + s.lag + *s.slowest
			}
			add(a.op, a.seq+1, check.Hold{Op: a.op, MayFrom: a.start, MayTo: to}, 0)
		}
	}
	passes(func(a attempt) bool { return !a.soldOut })
	passes(func(a attempt) bool {
		return a.soldOut && (s.disturbed(a) || s.most(taken, a) >= s.places)
	})
	return taken
}

func (s *sale) disturbed(a attempt) bool {
	return check.Disturbed(s.faults, s.lag+*s.slowest, a.start, a.end)
}

// held is when an operation may have had its place.
func (s *sale) held(op check.Operation, row *check.Fact) check.Hold {
	h := check.HoldFor(op, row, row != nil && live(row.State), s.lag+*s.slowest)
	if h.MayTo == history.Never {
		return h
	}
	back := s.returns.Named(row.Name)
	switch {
	case back == nil:
		h.MayTo += s.expiry
	case s.ends[back.Op].Outcome != history.OK:
		h.MayTo = history.Never
	default:
		h.MayTo = max(h.MayTo, s.ends[back.Op].End+s.lag)
	}
	return h
}

func (s *sale) judge(r *check.Run, t *check.Table) {
	taken, judged := s.takings(t), 0
	for _, a := range s.attempts {
		if !a.soldOut || s.disturbed(a) {
			continue
		}
		judged++
		if most := s.most(taken, a); most < s.places {
			req := s.requests[a.op]
			r.Violate([]uint64{a.op}, "%s: told sold out between %v and %v, when at most %d of %d places "+
				"can have been taken", stayKey(req.Resource, req.First, req.Nights), a.start, a.end, most,
				s.places)
		}
	}
	r.Checked(judged)
	r.Need(judged > 0, "outside faults nobody was told that all is sold out")
}

// most is the most places that may have been taken for a stay: those with a number that may
// have been taken on any of its nights, and of the others the most that may have been on one.
func (s *sale) most(taken map[uint64][]taking, a attempt) (most int) {
	req := s.requests[a.op]
	units, others, last := map[int]bool{}, make([]int, req.Nights), req.First+req.Nights-1
	for _, k := range taken[req.Resource] {
		if k.seq == a.seq+1 || k.MayFrom > a.end || k.MayTo < a.start || k.last < req.First ||
			k.first > last {
			continue
		}
		if k.unit != 0 {
			units[k.unit] = true
			continue
		}
		for n := max(k.first, req.First); n <= min(k.last, last); n++ {
			others[n-req.First]++
			most = max(most, others[n-req.First])
		}
	}
	return len(units) + most
}
