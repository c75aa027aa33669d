package checkout

import (
	"time"

	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/sut"
)

// freeIsForSale is the clause that as many units as there are may have been taken for each attempt
// that was refused as sold out, at some moment of the decision. What may have a unit:
//
//   - an attempt that was acknowledged, until its order was cancelled and a slack later: the
//     repair lag and the slowest operation;
//   - an attempt of unknown outcome that nobody can see at the end, for ever;
//   - in a design with a second store, every join that was sent more than once, or refused for
//     another reason than a limit, until its end and a slack later, and attempts that were refused
//     later or left: each may have held a unit there.
//
// Units that were bought count from when they were certainly there. Where a refusal is no answer to
// the join, the store's clock says how long after the attempt began it was decided. No decision
// during a fault, or within the slack after it, is judged.
func freeIsForSale(units int) check.Clause {
	return check.OnAudit(func(r *check.Run, a *Audit) func() {
		lag, granted := r.Promise(repairLag)
		s := sale{lag: lag, slowest: r.Slowest(), ops: check.Operations{},
			product: map[uint64]string{}, sent: map[uint64]int{}}
		r.See(func(rec *history.Record) {
			s.ops.Add(rec)
			s.product[rec.Op.ID] = rec.Op.Key
			s.sent[rec.Op.ID]++
			one := refusal{rec.Op.ID, rec.Start, rec.End}
			if !sut.RefusedFor(rec, ErrRateLimited) && !sut.RefusedFor(rec, ErrQueueFull) {
				s.joins = append(s.joins, join{one, rec.Outcome == history.Refused})
			}
			if sut.RefusedFor(rec, ErrSoldOut) {
				s.refusals = append(s.refusals, one)
			}
		}, KindJoin)
		return func() {
			if granted {
				s.judge(r, a, units)
			}
		}
	})
}

// sale is what is known of who was refused.
type sale struct {
	lag      time.Duration
	slowest  *time.Duration
	ops      check.Operations
	product  map[uint64]string
	refusals []refusal // as sold out
	sent     map[uint64]int
	joins    []join
}

// join is one that was sent, refused for whatever reason or not.
type join struct {
	refusal
	refused bool
}

// refusal is a decision, made at some time between two of the driver's clock.
type refusal struct {
	op       uint64
	from, to time.Duration
}

// after is a refusal that the store made so long after an attempt began.
func (s *sale) after(id uint64, d int64) refusal {
	op := s.ops[id]
	return refusal{id, op.Start + time.Duration(d), op.End + time.Duration(d)}
}

// taken are the units of each product that may have been taken. It adds what was refused later to
// the refusals.
func (s *sale) taken(a *Audit, slack time.Duration) map[string]*check.Occupancy {
	made, ended := map[uint64]AttemptRow{}, map[uint64]int64{} // when a unit was free again
	for _, t := range a.Attempts {
		made[t.ID] = t
	}
	for _, o := range a.Orders {
		if o.State == cancelled {
			ended[o.ID] = o.EndedNS
		}
	}
	over := map[uint64]refusal{} // until then attempts may have had a unit that ended without an order
	for _, step := range a.Steps {
		if (step.State == refused || step.State == left) && s.ops[step.ID].Outcome == history.OK {
			over[step.ID] = s.after(step.ID, step.AtNS-made[step.ID].MadeNS)
		}
		if one, was := over[step.ID]; was && step.State == refused {
			s.refusals = append(s.refusals, one)
		}
	}
	taken := map[string]*check.Occupancy{}
	hold := func(h check.Hold) {
		product := s.product[h.Op]
		if taken[product] == nil {
			taken[product] = &check.Occupancy{}
		}
		taken[product].Add(h)
	}
	for id, op := range s.ops {
		t, there := made[id]
		one, isOver := over[id]
		switch {
		case !op.May():
		case there && (t.State == left || t.State == refused) && s.lag == 0:
			// It never had a unit.
		case isOver:
			hold(check.Hold{Op: id, MayFrom: op.Start, MayTo: one.to + slack})
		case there && ended[id] != 0 && op.Outcome == history.OK:
			hold(check.Hold{Op: id, MayFrom: op.Start,
				MayTo: op.End + time.Duration(ended[id]-t.MadeNS) + slack})
		default:
			hold(check.Hold{Op: id, MayFrom: op.Start, MayTo: history.Never})
		}
	}
	if s.lag > 0 {
		for _, one := range s.joins {
			if !one.refused && s.sent[one.op] == 1 {
				continue
			}
			h := check.Hold{Op: one.op, MayFrom: one.from, MayTo: history.Never}
			if one.to != history.Never {
				h.MayTo = one.to + slack
			}
			hold(h)
		}
	}
	return taken
}

// bought says how many units of a product were certainly bought before a time. An attempt was begun
// before it was acknowledged, so that the driver's clock was no further ahead of the store's.
func (s *sale) bought(a *Audit) func(product string, before time.Duration) (n int) {
	ahead := history.Never
	for _, t := range a.Attempts {
		if op := s.ops[t.ID]; op.Outcome == history.OK {
			ahead = min(ahead, op.End-time.Duration(t.MadeNS))
		}
	}
	return func(product string, before time.Duration) (n int) {
		for _, b := range a.Settlements {
			if ahead != history.Never && productKey(b.Product) == product &&
				time.Duration(b.AtNS) < before-ahead {
				n += int(b.Restocked)
			}
		}
		return n
	}
}

func (s *sale) judge(r *check.Run, a *Audit, units int) {
	slack := s.lag + *s.slowest
	taken, bought, judged := s.taken(a, slack), s.bought(a), 0
	for _, one := range s.refusals {
		if check.Disturbed(r.Faults(), slack, one.from, one.to) {
			continue
		}
		judged++
		most := 0
		if o := taken[s.product[one.op]]; o != nil {
			most = o.MaxPossible(one.from, one.to)
		}
		if s.lag > 0 {
			most-- // its own
		}
		if there := units + bought(s.product[one.op], one.from-slack); most < there {
			r.Violate([]uint64{one.op}, "%s: refused as sold out between %v and %v, when at most %d of %d "+
				"units can have been taken", s.product[one.op], one.from, one.to, most, there)
		}
	}
	r.Checked(judged)
	r.Need(judged > 0, "outside faults nobody was told that all is sold out")
}
