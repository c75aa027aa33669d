package taskqueue_test

import (
	"slices"
	"testing"
	"time"

	"stampede/harness/api"
	"stampede/harness/history"
	"stampede/harness/sut"
	"stampede/harness/suttest"
	"stampede/systems/taskqueue"
)

const ms = time.Millisecond

// evidence is a history and an audit, which tests change.
type evidence struct {
	suttest.Evidence[taskqueue.Params, taskqueue.Audit]
}

// yard is a queue of ordinary size, whose workers cannot do at once what there is.
func yard() *taskqueue.Params {
	p := busy()
	p.Tenants, p.Workers, p.Lease, p.Work = 3, 1, sut.Duration(30*ms), 0
	p.PriorityWithin, p.FairWithin, p.TenantRate, p.TenantBurst = 3, 1, 60, 5
	return p
}

// anyYard is a queue of any kind.
func anyYard(d suttest.Draw) *taskqueue.Params {
	p := yard()
	p.Tenants = d.Int("tenants", 1, 5)
	p.Workers = d.Int("workers", 1, 4)
	p.MaxAttempts = d.Int("attempts", 1, 5)
	p.TenantRate = float64(d.Int("rate", 1, 10)) * 30
	p.Noisy, p.Urgent, p.Delayed = d.Share("noisy"), d.Share("urgent")/2, d.Share("delayed")
	p.Unique, p.Cancel, p.Replay = d.Share("unique"), d.Share("cancel"), d.Share("replay")
	p.Flaky, p.Hopeless, p.Poison = d.Share("flaky")/3, d.Share("hopeless")/3, d.Share("poison")/3
	p.PriorityWithin = p.Workers * p.Tenants
	p.FairWithin = 4 * p.PriorityWithin
	return p
}

// proof is what the judges of the task queue are proved by.
func proof() suttest.Proof[*evidence] {
	return suttest.Played(suttest.Proof[*evidence]{
		Unnoticed: map[string][]string{
			"whoever knows a job may cancel or replay it": {"change client of cancel",
				"change client of replay"},
		},
		Absent: map[string][]string{
			"the answer says nothing": {"exchange answers to cancel", "exchange answers to replay"},
		},
	}, taskqueue.System(), yard, anyYard, 300, time.Second, newLine)
}

// TestJudges: the judges are sound, a smoke run decides all of them, and none is vacuous.
func TestJudges(t *testing.T) {
	suttest.Prove(t, proof(), 50, []suttest.Corruption[*evidence]{
		{Name: "a cancelled job starts", Breaks: taskqueue.CancelledStays,
			Do: func(e *evidence, pick func(int) int) bool {
				return suttest.Change(e.Audit.Jobs, pick, inState("cancelled"), func(j *taskqueue.JobRow) {
					e.Audit.Runs = append(e.Audit.Runs, taskqueue.RunRow{Job: j.ID, Tenant: j.Tenant,
						Attempt: j.Attempts + 1, Batch: "batch-0", Size: 1, AskedNS: j.EndedNS + 1,
						ClaimedNS: j.EndedNS + int64(ms)})
				})
			}},
		{Name: "two live jobs have a key", Breaks: taskqueue.UniqueKept,
			Do: func(e *evidence, pick func(int) int) bool {
				j := suttest.PickFrom(e.Audit.Jobs, pick, func(j *taskqueue.JobRow) bool {
					return j.Replays == 0 && e.acked(j.ID)
				})
				other := &e.Audit.Jobs[pick(len(e.Audit.Jobs))]
				if j == nil || j == other {
					return false
				}
				j.Unique, other.Unique = "same", "same"
				other.EndedNS = max(j.CreatedNS, other.CreatedNS) + int64(time.Second)
				j.EndedNS = other.EndedNS + 1
				return true
			}},
		{Name: "an urgent job waits to the end", Breaks: taskqueue.PriorityKept,
			Do: func(e *evidence, pick func(int) int) bool { return e.late(pick) }},
		{Name: "a tenant is not served", Breaks: taskqueue.TenantsFair,
			Do: func(e *evidence, pick func(int) int) bool { return e.starve() }},
		{Name: "a tenant has more than its limit", Breaks: taskqueue.RatesKept,
			Do: func(e *evidence, pick func(int) int) bool {
				at := e.Audit.Runs[pick(len(e.Audit.Runs))]
				jobs := map[uint64]bool{}
				for i := range e.Audit.Runs {
					r := &e.Audit.Runs[i]
					if r.Tenant == at.Tenant && r.Attempt == 1 && (jobs[r.Job] || len(jobs) <= e.P.TenantBurst) {
						jobs[r.Job], r.AskedNS, r.ClaimedNS = true, at.AskedNS, at.ClaimedNS
					}
				}
				return len(jobs) > e.P.TenantBurst
			}},
		{Name: "somebody else is taken for poison", Breaks: taskqueue.PoisonFound,
			Do: func(e *evidence, pick func(int) int) bool {
				return suttest.Change(e.Audit.Jobs, pick, inState("done"),
					func(j *taskqueue.JobRow) { j.State, j.Reason = "dead", "poison" })
			}},
	})
}

func inState(state string) func(*taskqueue.JobRow) bool {
	return func(j *taskqueue.JobRow) bool { return j.State == state }
}

// acked says that a job was acknowledged, and had no delay.
func (e *evidence) acked(job uint64) bool {
	return slices.ContainsFunc(e.Records, func(r history.Record) bool {
		if r.Op.ID != job || r.Outcome != history.OK {
			return false
		}
		req, err := api.RequestOf[taskqueue.EnqueueRequest](taskqueue.API(), r.Op)
		return err == nil && req.DelayMS == 0
	})
}

// late lets an urgent job that nobody delayed wait for all others.
func (e *evidence) late(pick func(int) int) bool {
	runs := map[uint64]*taskqueue.RunRow{}
	last := int64(0)
	for i := range e.Audit.Runs {
		runs[e.Audit.Runs[i].Job] = &e.Audit.Runs[i]
		last = max(last, e.Audit.Runs[i].ClaimedNS)
	}
	first := slices.MinFunc(e.Audit.Jobs, func(a, b taskqueue.JobRow) int {
		return int(a.CreatedNS - b.CreatedNS)
	}).CreatedNS
	return suttest.Change(e.Audit.Jobs, pick, func(j *taskqueue.JobRow) bool {
		r := runs[j.ID]
		return j.Priority == 1 && r != nil && r.Attempt == 1 && r.Size == 1 && j.State == "done" &&
			e.acked(j.ID) && j.CreatedNS < first+int64(300*ms)
	}, func(j *taskqueue.JobRow) {
		for i := range e.Audit.Runs {
			if r := &e.Audit.Runs[i]; r.Job == j.ID {
				r.AskedNS, r.ClaimedNS = last, last
			}
		}
	})
}

// starve has all jobs there from the beginning, and those of a tenant claimed when nothing else
// is left.
func (e *evidence) starve() bool {
	first, last := int64(0), int64(0)
	for _, r := range e.Audit.Runs {
		last = max(last, r.ClaimedNS)
		if first == 0 || r.ClaimedNS < first {
			first = r.ClaimedNS
		}
	}
	for i := range e.Audit.Jobs {
		e.Audit.Jobs[i].CreatedNS = first - int64(time.Second)
	}
	for i := range e.Audit.Runs {
		if r := &e.Audit.Runs[i]; r.Tenant == "tenant-1" {
			r.AskedNS, r.ClaimedNS = last, last
		}
	}
	return true
}
