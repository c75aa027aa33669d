package checkout

import (
	"cmp"
	"maps"
	"slices"

	"stampede/harness/api"
	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/sut"
)

// limited is the clause that joins that were let through stay below the limits of their user and
// their address: in no span of time more than the burst, and what the rate gives in that span.
//
// By the limiter's clock, attempts are judged at the moment that the limiter noted. By the
// driver's, an acknowledged join was let through between its start and its end. A limiter whose
// store was struck by a fault may have forgotten what it had counted, and then grants each burst
// once more for every fault.
func limited(p Params) check.Clause {
	return check.OnAudit(func(r *check.Run, a *Audit) func() {
		table, passes, from, denied := API(), map[subject][]check.Pass{}, map[uint64]string{}, 0
		r.See(func(rec *history.Record) {
			req, err := api.RequestOf[JoinRequest](table, rec.Op)
			from[rec.Op.ID] = req.IP
			if sut.RefusedFor(rec, ErrRateLimited) {
				denied++
			}
			if rec.Outcome == history.OK && err == nil {
				one := check.Pass{Op: rec.Op.ID, From: int64(rec.Start), To: int64(rec.End)}
				passes[subject{"user", req.User}] = append(passes[subject{"user", req.User}], one)
				passes[subject{"address", req.IP}] = append(passes[subject{"address", req.IP}], one)
			}
		}, KindJoin)
		return func() {
			faults := 0
			for _, f := range r.Faults() {
				if check.Strikes(f, "redis", "kill", "power-loss", "restart") {
					faults++
				}
			}
			l := limits{r: r, Params: p, more: 1 + faults}
			l.judge("the driver's clock", passes)
			noted := map[subject][]check.Pass{}
			for _, t := range a.Attempts {
				if ip, asked := from[t.ID]; asked && ip != t.IP {
					r.Violate([]uint64{t.ID}, "attempt %s came from %s, and was counted for %q", t.Token, ip, t.IP)
				}
				if t.PassedNS != 0 {
					one := check.Pass{Op: t.ID, From: t.PassedNS, To: t.PassedNS}
					noted[subject{"user", t.User}] = append(noted[subject{"user", t.User}], one)
					noted[subject{"address", t.IP}] = append(noted[subject{"address", t.IP}], one)
				}
			}
			l.judge("the limiter's clock", noted)
			r.Need(denied > 0, "nobody was limited")
		}
	})
}

// subject is whom a limit is about.
type subject struct{ kind, name string }

type limits struct {
	r *check.Run
	Params
	more int // bursts that a user or an address may have
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
