package flashsale

import (
	"time"

	"stampede/harness/check"
	"stampede/harness/history"
)

// judging is one invariant at work: its inputs, and the verdict in the making.
type judging struct {
	*check.Collector
	p Params
	a *ledger
}

// has says whether the audit has the lists that a judge needs; if not, the
// verdict names what is missing.
func (j *judging) has(lists ...string) bool {
	if j.a.err != nil {
		j.Fail("%v", j.a.err)
		return false
	}
	present := map[string]bool{
		"items": j.a.Items != nil, "units": j.a.Units != nil,
		"orders": j.a.Orders != nil, "payments": j.a.Payments != nil,
		"log": j.a.Log != nil, "redis": j.a.Redis != nil,
	}
	all := true
	for _, list := range lists {
		j.Need(present[list], "the audit has no %s", list)
		all = all && present[list]
	}
	return all
}

// promise is how late a unit may come back, as the system under test declares
// it. A promise that excuses everything is none: what is judged must not
// choose how leniently, so that the verdict says what was declared and stays
// open.
func (j *judging) promise() (slack time.Duration, ok bool) {
	slack = time.Duration(j.a.ReclaimSlackNS)
	j.Need(slack > 0, "the audit has no reclaim_slack_ns, so nothing can be late")
	return slack, j.grants(slack) && slack > 0
}

// grants says whether a declared slack is short enough to judge by.
func (j *judging) grants(slack time.Duration) bool {
	most := 2*j.p.CartTTL.D() + maxSlack
	j.Need(slack <= most, "the audit declares reclaim_slack_ns of %v; the most allowed is %v (twice "+
		"cart_ttl and %v)", slack, most, maxSlack)
	return slack <= most
}

// maxSlack is how late a cart may come back beyond twice its life.
const maxSlack = 5 * time.Second

// visitor looks at one record, which it must not keep.
type visitor func(*history.Record)

// read shows every record that was not dropped to the visitors, in one pass.
func (j *judging) read(visitors ...visitor) {
	for rec := range j.Records() {
		if rec.Outcome == history.Dropped {
			continue
		}
		for _, visit := range visitors {
			visit(rec)
		}
	}
}

// only shows a visitor the records of one kind.
func only(kind string, visit visitor) visitor {
	return func(rec *history.Record) {
		if rec.Op.Kind == kind {
			visit(rec)
		}
	}
}

// unknown counts the operations of a kind whose outcome is unknown, as those
// that were allowed for.
func (j *judging) unknown(kind string) visitor {
	return only(kind, func(rec *history.Record) {
		if rec.Outcome == history.Unknown {
			j.AllowedUnknown(1)
		}
	})
}

// slowest is the longest that an operation took. What a design promises to do
// within a time it cannot do faster than its store serves: where buyers wait
// for a lock or for a processor, so do the roles. Hence it is added to every
// slack that a judge gives. Operations that met a fault do not count: faults
// have an excuse of their own, which ends.
type slowest time.Duration

func (s *slowest) see(faults disturbances) visitor {
	return func(rec *history.Record) {
		if rec.End != history.Never && !faults.overlaps(rec.Start, rec.End) {
			*s = max(*s, slowest(rec.End-rec.Start))
		}
	}
}

// opsOf returns the identities of the buys behind orders, where known.
func (j *judging) opsOf(orders ...string) []uint64 {
	var out []uint64
	for _, id := range orders {
		if o := j.a.byOrder[id]; o != nil {
			out = append(out, o.OpID)
		}
	}
	return out
}
