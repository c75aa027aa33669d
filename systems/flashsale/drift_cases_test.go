package flashsale_test

import (
	"slices"
	"testing"
	"time"

	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/systems/flashsale"
)

// The samples of the good sale, by what they saw.
const (
	sampleReturn = 1 // Bob's unit came back while the gauge looked, 1040 to 1060 ms
	sampleGap    = 2 // nothing
	sampleQuiet  = 3 // one unit free, at 1500 ms
)

// driftCases are sales by the sums of Redis and ledger. The design is given
// 400 ms to bring a unit back, and the slowest operation took 3 ms.
func driftCases(t tb) []verdictCase {
	const drift = flashsale.RedisDrift
	const over = "1 more than exist could be sold"
	return slices.Concat(driftExcuses(t), []verdictCase{
		{drift, "one unit too many in Redis at the end - fail", fail, func(e *evidence) {
			e.audit.Redis[0].Stock = 2
		}, "1 more than exist could be sold"},
		{drift, "one unit too few in Redis at the end - fail", fail, func(e *evidence) {
			e.audit.Redis[0].Stock = 0
		}, "1 leaked"},
		{drift, "a unit is reserved instead of in stock at the end - pass", pass, func(e *evidence) {
			e.audit.Redis[0].Stock, e.audit.Redis[0].Holds = 0, 1
		}, ""},
		{drift, "a negative stock that adds up at the end - fail", fail, func(e *evidence) {
			e.audit.Redis[0].Stock, e.audit.Redis[0].Holds = -1, 2
		}, "-1 in stock"},
		{drift, "no counter at the end - fail", fail, func(e *evidence) {
			e.audit.Redis[0].Present = false
		}, "no counter"},

		{drift, "one unit too many for a while - fail", fail, func(e *evidence) {
			e.look(t, sampleQuiet, stocked(2))
		}, "item-1: between 1.5s and 1.501s Redis had 2 in stock and 0 reserved, and 1 or more of 2 " +
			"units were in orders: " + over},
		{drift, "one unit too few for a while - pass", pass, func(e *evidence) {
			e.look(t, sampleQuiet, stocked(0))
		}, "had no negative drift"},
		{drift, "a unit came back while the gauge looked - pass", pass, func(e *evidence) {
			e.look(t, sampleReturn, stocked(1))
		}, ""},
		{drift, "two came back where one was returned - fail", fail, func(e *evidence) {
			e.look(t, sampleReturn, stocked(2))
		}, over},
		{drift, "a unit was sold while the gauge looked - pass", pass, func(e *evidence) {
			e.look(t, sampleQuiet, func(l *flashsale.LookItem) { l.After.Made++ })
		}, ""},
		{drift, "reserved and in stock - fail", fail, func(e *evidence) {
			e.look(t, sampleQuiet, func(l *flashsale.LookItem) { l.Tokens, l.Unclaimed = 1, 1 })
		}, "1 in stock and 1 reserved"},
		{drift, "a reservation that has its order - pass", pass, func(e *evidence) {
			e.look(t, sampleQuiet, func(l *flashsale.LookItem) { l.Tokens = 1 })
		}, ""},
		{drift, "no counter for a while - pass", pass, func(e *evidence) {
			e.look(t, sampleQuiet, func(l *flashsale.LookItem) { l.Present, l.Stock = false, 0 })
		}, ""},
		{drift, "a negative stock for a while - fail", fail, func(e *evidence) {
			e.look(t, sampleQuiet, stocked(-1))
		}, "at 1.501s Redis had -1 in stock"},

		{drift, "nobody looked - undecided", maybe, func(e *evidence) {
			e.samples = nil
		}, "no sample of both stores was taken during the sale"},
		{drift, "no look saw anything - undecided", maybe, func(e *evidence) {
			for i := range e.samples {
				e.samples[i] = e.samples[sampleGap]
			}
		}, "none of 6 samples saw both stores"},
		{drift, "all looks before the first order - undecided", maybe, func(e *evidence) {
			e.samples = e.samples[:1]
			e.look(t, 0, func(l *flashsale.LookItem) { l.Before, l.Stock = flashsale.OrderCounts{}, 2 })
		}, "none of 1 samples of an item during the sale came after its first order"},
		{drift, "a sample that cannot be read - undecided", maybe, func(e *evidence) {
			e.samples[sampleQuiet].Body = []byte(`{"items": 3}`)
		}, "the sample taken at 1.5s cannot be read"},
		{drift, "a promise that excuses everything - undecided", maybe, func(e *evidence) {
			e.audit.ReclaimSlackNS = int64(time.Hour)
		}, "the most allowed is 7s"},
	})
}

// stocked is a change of what Redis had.
func stocked(n int64) func(*flashsale.LookItem) {
	return func(l *flashsale.LookItem) { l.Stock = n }
}

// driftExcuses are faults and repairs around a look with a negative drift.
func driftExcuses(t tb) []verdictCase {
	const drift = flashsale.RedisDrift
	const over = "1 more than exist could be sold"
	repaired := func(e *evidence, n int) {
		for ; n < len(e.samples); n++ {
			if n != sampleGap {
				e.look(t, n, func(l *flashsale.LookItem) { l.Repair = "again" })
			}
		}
	}
	negative := func(e *evidence) { e.look(t, sampleQuiet, stocked(2)) }
	return []verdictCase{
		{drift, "too many within the slack of a fault - pass", pass, func(e *evidence) {
			negative(e)
			e.fault(1090*ms, 1098*ms)
		}, "1 more within 403ms of a fault or a repair were excused"},
		{drift, "too many beyond the slack of a fault - fail", fail, func(e *evidence) {
			negative(e)
			e.fault(1088*ms, 1096*ms)
		}, over},
		{drift, "too many before a fault - fail", fail, func(e *evidence) {
			negative(e)
			e.fault(1502*ms, 1600*ms)
		}, over},
		{drift, "too many where the fault's target answered late - pass", pass, func(e *evidence) {
			negative(e)
			e.fault(100*ms, 200*ms)
			e.windows[0].Recovered = 1100 * ms
		}, ""},
		{drift, "too many within the slack of a repair - pass", pass, func(e *evidence) {
			negative(e)
			repaired(e, sampleQuiet)
		}, "3 more within"},
		{drift, "still too many beyond the slack of a repair - fail", fail, func(e *evidence) {
			negative(e)
			repaired(e, sampleReturn)
		}, over},
		{drift, "a repair right after too many - fail", fail, func(e *evidence) {
			negative(e)
			repaired(e, sampleQuiet+1)
		}, over},
		{drift, "Redis lost the mark of a repair as well - pass", pass, func(e *evidence) {
			e.look(t, 0, func(l *flashsale.LookItem) { l.Repair = "once" })
			e.look(t, sampleReturn, func(l *flashsale.LookItem) { l.Repair = "once" })
			negative(e)
		}, ""},
		{drift, "a fault over all looks - undecided", maybe, func(e *evidence) {
			e.fault(0, history.Never/2)
		}, "5 more within 400ms of a fault or a repair were excused"},
	}
}

// TestDriftNamesSuspects: where units leaked, the purchases that met a fault or
// have no outcome are named, and no others.
func TestDriftNamesSuspects(t *testing.T) {
	judge := func(spoil func(*evidence)) []uint64 {
		e := goodSale(t)
		e.audit.Redis[0].Stock = 0
		spoil(e)
		v := e.judge(t)[flashsale.RedisDrift]
		if v.Status != check.Broken {
			t.Errorf("it is %s: %s", v.Status, v.Reason)
		}
		return v.Witness
	}
	records := goodSale(t).records
	for _, seq := range judge(func(*evidence) {}) {
		i := slices.IndexFunc(records, func(r history.Record) bool { return r.Seq == seq })
		if r := records[i]; r.Op.Key != "item-1" || r.Outcome != history.Unknown &&
			!slices.ContainsFunc(records, func(o history.Record) bool {
				return o.Op.ID == r.Op.ID && o.Outcome == history.Unknown
			}) {
			t.Errorf("without a fault, %+v is named", r)
		}
	}
	first := records[0]
	met := judge(func(e *evidence) { e.fault(first.Start, first.End) })
	if !slices.Contains(met, first.Seq) {
		t.Errorf("records %v are named, not %d, which met the fault", met, first.Seq)
	}

	// What was seen during the sale names those that had begun by then.
	meanwhile := func(spoil func(*evidence)) []uint64 {
		return judge(func(e *evidence) {
			e.audit.Redis[0].Stock = 1
			e.look(t, sampleQuiet, stocked(2))
			spoil(e)
		})
	}
	met = meanwhile(func(e *evidence) { e.fault(first.Start, first.End) })
	if !slices.Contains(met, first.Seq) {
		t.Errorf("of a look, records %v are named, not %d, which met the fault", met, first.Seq)
	}
	for _, seq := range meanwhile(func(e *evidence) { e.fault(1600*ms, 9*time.Second) }) {
		i := slices.IndexFunc(records, func(r history.Record) bool { return r.Seq == seq })
		if r := records[i]; r.Start > 1501*ms {
			t.Errorf("of a look at 1.5 s, %+v is named", r)
		}
	}
}
