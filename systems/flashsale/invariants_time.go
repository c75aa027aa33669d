package flashsale

import (
	"time"

	"stampede/harness/check"
	"stampede/harness/history"
)

// clockGrain is the coarsest resolution that a store's timestamps may have.
const clockGrain = time.Millisecond

// judgeExpiry compares times of one clock, the store's, so that no skew
// between machines matters.
func judgeExpiry(j *judging) {
	if !j.has("orders") {
		return
	}
	ttl := j.p.CartTTL.D()
	slack, promised := j.promise()
	expired, slowestReturn := 0, time.Duration(0)
	var late []*OrderAudit
	for i := range j.a.Orders {
		o := &j.a.Orders[i]
		var age time.Duration
		switch o.State {
		case OrderExpired:
			expired++
			age = lasted(o)
			slowestReturn = max(slowestReturn, age-ttl)
			if age+clockGrain < ttl {
				j.Violate([]uint64{o.OpID}, "order %s of %s was returned after %v, before the cart time of "+
					"%v was over",
					o.ID, o.Buyer, age, ttl)
			}
		case OrderHeld:
			// Nobody knows when the audit was made, but not before the last
			// time in it.
			age = time.Duration(j.a.latest - o.HeldAt)
		default:
			continue
		}
		j.Checked(1)
		if promised && age > ttl+slack {
			late = append(late, o)
		}
	}
	j.Need(expired > 0, "no cart expired")
	j.Note("%d carts expired, the slowest %v after its time was over; the promise is %v",
		expired, slowestReturn.Round(time.Millisecond), slack)
	judgeLate(j, late, ttl+slack)
}

// judgeLate excuses a late return by the slowest operation of the run, and by
// the faults that were in force while the order was held: the reclaimer had to
// wait for each to heal, and then has its slack once more. An order that is still
// held at rest is no matter of time: nobody will return it.
func judgeLate(j *judging, late []*OrderAudit, limit time.Duration) {
	if len(late) == 0 {
		return
	}
	wanted := make(map[uint64]bool, len(late))
	for _, o := range late {
		wanted[o.OpID] = true
	}
	buys := make(check.Operations)
	var slow slowest
	j.read(slow.see(disturbed(j.Faults(), 0)),
		buysOf(buys, func(op uint64) bool { return wanted[op] }))
	for _, o := range late {
		age := time.Duration(max(o.ClosedAt, 0) - o.HeldAt)
		if o.State == OrderHeld {
			age = time.Duration(j.a.latest - o.HeldAt)
		}
		buy, until := buys[o.OpID], history.Never
		if buy.End < history.Never-age {
			until = buy.End + age
		}
		allowed := limit + time.Duration(slow)
		if down := faultTime(j.Faults(), buy.Start, until); down > 0 {
			allowed += down + time.Duration(j.a.ReclaimSlackNS)
		}
		switch {
		case age <= allowed:
		case o.State == OrderHeld:
			j.Unfinished([]uint64{o.OpID}, "order %s of %s is still held %v after it was made; "+
				"the limit is %v", o.ID, o.Buyer, age, allowed)
		default:
			j.Late([]uint64{o.OpID}, "order %s of %s was returned after %v; "+
				"the limit is %v", o.ID, o.Buyer, age, allowed)
		}
	}
}
