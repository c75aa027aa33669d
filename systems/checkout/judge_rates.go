package checkout

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"stampede/harness/api"
	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/sut"
)

// limited is the clause that joins that were let through stay below the limits of their user and
// their address: in no span of time more than the burst, and what the rate gives in that span.
//
// By the limiter's clock, attempts are judged at the moment that the limiter noted. By the
// driver's, an acknowledged join was let through once, between when it was first sent and when it
// was first acknowledged: sent again, it may be answered without the limiter. A limiter whose
// store was struck by a fault may have forgotten what it had counted, and then grants each burst
// once more for every fault.
func limited(p Params) check.Clause {
	return check.OnAudit(func(r *check.Run, a *Audit) func() {
		table, ops, asked := API(), check.Operations{}, map[uint64]JoinRequest{}
		sent, denied := map[subject][]time.Duration{}, []history.Record{}
		r.See(func(rec *history.Record) {
			req, err := api.RequestOf[JoinRequest](table, rec.Op)
			if err != nil {
				return
			}
			ops.Add(rec)
			asked[req.ID] = req
			enter(sent, req.User, req.IP, rec.Start)
			if sut.RefusedFor(rec, ErrRateLimited) {
				denied = append(denied, *rec)
			}
		}, KindJoin)
		return func() {
			l := limits{r, p, 1}
			for _, f := range r.Faults() {
				if check.Strikes(f, "redis", "kill", "power-loss", "restart") {
					l.more++
				}
			}
			l.reached(sent, asked, denied)
			passes, noted := map[subject][]check.Pass{}, map[subject][]check.Pass{}
			for _, id := range slices.Sorted(maps.Keys(ops)) {
				if op := ops[id]; op.Outcome == history.OK {
					enter(passes, asked[id].User, asked[id].IP, check.Pass{Op: id, From: int64(op.Start),
						To: int64(op.End)})
				}
			}
			l.judge("the driver's clock", passes)
			for _, t := range a.Attempts {
				if req, known := asked[t.ID]; known && req.IP != t.IP {
					r.Violate([]uint64{t.ID}, "attempt %s came from %s, and was counted for %q", t.Token, req.IP,
						t.IP)
				}
				if t.PassedNS != 0 {
					enter(noted, t.User, t.IP, check.Pass{Op: t.ID, From: t.PassedNS, To: t.PassedNS})
				}
			}
			l.judge("the limiter's clock", noted)
			r.Need(len(denied) > 0, "nobody was limited")
		}
	})
}

// subject is whom a limit is about.
type subject struct{ kind, name string }

// enter adds something to the lists of a user and an address.
func enter[T any](lists map[subject][]T, user, ip string, one T) {
	for _, who := range []subject{{"user", user}, {"address", ip}} {
		lists[who] = append(lists[who], one)
	}
}

type limits struct {
	r *check.Run
	Params
	more int // bursts that a user or an address may have
}

// reached is broken by a join that was denied although neither its user nor its address had sent
// more than a burst, this one included. A bucket is full at first and only joins take from it; what
// a limiter forgets fills it.
func (l limits) reached(
	sent map[subject][]time.Duration, asked map[uint64]JoinRequest, denied []history.Record,
) {
	for _, list := range sent {
		slices.Sort(list)
	}
	for _, rec := range denied {
		req := asked[rec.Op.ID]
		user, _ := slices.BinarySearch(sent[subject{"user", req.User}], rec.End+1)
		ip, _ := slices.BinarySearch(sent[subject{"address", req.IP}], rec.End+1)
		if user <= l.UserBurst && ip <= l.IPBurst {
			l.r.Violate([]uint64{rec.Op.ID}, "%s from %s was denied at %v, when it had sent %d joins and "+
				"the address %d; the limits are %d and %d at once", req.User, req.IP, rec.End, user, ip,
				l.UserBurst, l.IPBurst)
		}
	}
}

func (l limits) judge(clock string, passes map[subject][]check.Pass) {
	for _, who := range slices.SortedFunc(maps.Keys(passes), func(a, b subject) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.name, b.name))
	}) {
		rate, burst := l.UserRate, l.UserBurst*l.more
		if who.kind == "address" {
			rate, burst = l.IPRate, l.IPBurst*l.more
		}
		l.r.Checked(len(passes[who]))
		// The limiter's clock has microseconds.
		if b := check.BurstOf(passes[who], rate); b.Above > float64(burst)+0.01 {
			l.r.Violate(b.Ops, "%s %s was let through %d times within %v of %s; the limit is %d and %g a "+
				"second", who.kind, who.name, b.Passes, b.Span, clock, burst, rate)
		}
	}
}
