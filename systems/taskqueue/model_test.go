package taskqueue_test

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"stampede/harness/api"
	"stampede/harness/history"
	"stampede/harness/suttest"
	"stampede/systems/taskqueue"
)

// line is the smallest correct design: a list of jobs, and workers that sometimes die.
type line struct {
	p    *taskqueue.Params
	w    *suttest.World
	api  *api.Table[taskqueue.Jobs]
	jobs []*job
	byID map[uint64]*job
	runs []*taskqueue.RunRow

	effects []taskqueue.EffectRow
	tenant  string           // the last one that was served
	spent   map[string]int64 // until when tenants have used up their rates
	busy    int              // workers
	batches int
}

// job is a job and what it was enqueued with.
type job struct {
	taskqueue.JobRow
	req        taskqueue.EnqueueRequest
	due, lease int64
}

func (j *job) live() bool {
	return j.State == "ready" || j.State == "waiting" || j.State == "running"
}

func (j *job) end(state, reason string, at int64) {
	j.State, j.Reason, j.EndedNS = state, reason, at
}

func newLine(w *suttest.World, p *taskqueue.Params) *line {
	l := &line{p: p, w: w, api: taskqueue.API(), byID: map[uint64]*job{},
		spent: map[string]int64{}, effects: []taskqueue.EffectRow{}}
	w.Every(ms, l.tick)
	return l
}

// clock is the store's, of which no time is zero.
func (l *line) clock() int64 { return int64(1e18) + int64(l.w.Now) }

// Do performs an operation.
func (l *line) Do(op history.Op, answer func(history.Reply, error)) {
	if op.Kind != taskqueue.KindEnqueue {
		req, err := api.RequestOf[taskqueue.JobRequest](l.api, op)
		if err != nil {
			panic(err)
		}
		answer(history.Reply{}, l.change(op.Kind, l.byID[req.Job]))
		return
	}
	req, err := api.RequestOf[taskqueue.EnqueueRequest](l.api, op)
	if err != nil {
		panic(err)
	}
	reply := history.Reply{Key: fmt.Sprint("job-", req.ID), Value: req.Priority}
	if l.byID[req.ID] != nil {
		answer(reply, nil)
		return
	}
	if l.taken(req.Unique) {
		answer(history.Reply{}, taskqueue.ErrDuplicate)
		return
	}
	j := &job{req: req, due: l.clock() + req.DelayMS*int64(ms), JobRow: taskqueue.JobRow{ID: req.ID,
		Job: reply.Key, Tenant: req.Tenant, Unique: req.Unique, Priority: req.Priority,
		State: "waiting", CreatedNS: l.clock()}}
	l.jobs, l.byID[req.ID] = append(l.jobs, j), j
	answer(reply, nil)
}

func (l *line) taken(unique string) bool {
	return unique != "" && slices.ContainsFunc(l.jobs, func(j *job) bool {
		return j.Unique == unique && j.live()
	})
}

// change cancels or replays a job.
func (l *line) change(kind string, j *job) error {
	switch {
	case j == nil:
		return taskqueue.ErrUnknownJob
	case kind == taskqueue.KindCancel && (j.State == "ready" || j.State == "waiting"):
		j.end("cancelled", "", l.clock())
		return nil
	case kind == taskqueue.KindCancel:
		return taskqueue.ErrTooLate
	case j.State != "dead" || l.taken(j.Unique):
		return taskqueue.ErrNotDead
	}
	j.end("ready", "", 0)
	j.Replays++
	j.Attempts = int64(l.p.MaxAttempts) * j.Replays
	return nil
}

// tick is a round of upkeep and of the workers that are free.
func (l *line) tick() (live bool) {
	for _, j := range l.jobs {
		live = live || j.live()
		switch {
		case j.State == "waiting" && j.due <= l.clock():
			j.State = "ready"
		case j.State == "running" && j.lease <= l.clock():
			if j.Attempts == int64(l.p.MaxAttempts)*(1+j.Replays) {
				j.end("dead", "attempts", l.clock())
			} else {
				j.State = "ready"
			}
		}
	}
	for ; l.busy < l.p.Workers; l.busy++ {
		if !l.claim() {
			break
		}
	}
	return live
}

// claim takes a job of each tenant, and gives them to a worker, which may die.
func (l *line) claim() bool {
	var list []*job
	last := l.tenant
	for range l.p.Tenants {
		j := l.first(last)
		if j == nil || len(list) > 0 && slices.Contains(list, j) {
			break
		}
		if l.p.TenantRate > 0 {
			l.spent[j.Tenant] = max(l.spent[j.Tenant], l.clock()) + l.every()
		}
		j.State, j.lease = "running", l.clock()+int64(l.p.Lease)
		j.Attempts++
		list, last = append(list, j), j.Tenant
	}
	if len(list) == 0 {
		return false
	}
	l.tenant = last
	l.batches++
	batch, at := fmt.Sprint("batch-", l.batches), l.clock()
	dies := l.w.Rand.Float64() < 0.02
	l.w.After(l.w.Some(20*ms), func() {
		if dies {
			l.begin(batch, at, list)
		} else {
			l.halve(batch, at, list)
		}
		l.busy--
	})
	return true
}

// first is the most urgent ready job of the next tenant after one that has any.
func (l *line) first(after string) (first *job) {
	order := func(j *job) (bool, string, int64, uint64) {
		return j.Tenant <= after, j.Tenant, j.Priority, j.ID
	}
	for _, j := range l.jobs {
		if j.State != "ready" || l.limited(j.Tenant) {
			continue
		}
		if first == nil {
			first = j
			continue
		}
		l1, t1, p1, i1 := order(j)
		l2, t2, p2, i2 := order(first)
		if l1 != l2 && l2 || l1 == l2 && cmp.Or(cmp.Compare(t1, t2), cmp.Compare(p1, p2),
			cmp.Compare(i1, i2)) < 0 {
			first = j
		}
	}
	return first
}

// every is the time in which a tenant may have one more claim.
func (l *line) every() int64 { return int64(float64(time.Second) / l.p.TenantRate) }

// limited says whether a tenant must wait.
func (l *line) limited(tenant string) bool {
	return l.p.TenantRate > 0 && l.spent[tenant]-l.clock() > int64(l.p.TenantBurst-1)*l.every()
}

func (l *line) begin(batch string, at int64, list []*job) (runs []*taskqueue.RunRow) {
	for _, j := range list {
		runs = append(runs, &taskqueue.RunRow{Job: j.ID, Tenant: j.Tenant, Attempt: j.Attempts,
			Batch: batch, Size: int64(len(list)), AskedNS: at, ClaimedNS: at})
	}
	l.runs = append(l.runs, runs...)
	return runs
}

// halve does jobs, or each half of them.
func (l *line) halve(batch string, at int64, list []*job) {
	runs, result := l.begin(batch, at, list), "ok"
	for _, j := range list {
		if j.req.Poison {
			result = "poison"
		} else if j.Attempts <= j.req.Fails && result == "ok" {
			result = "failed"
		}
	}
	if result != "ok" && len(list) > 1 {
		result = "split"
	}
	for i, j := range list {
		runs[i].Result = result
		switch {
		case result == "ok":
			l.effects = append(l.effects, taskqueue.EffectRow{Job: j.ID, Attempt: j.Attempts})
			j.end("done", "", l.clock())
			j.EndedBy = j.Attempts
		case result == "poison":
			j.end("dead", "poison", l.clock())
			runs[i].FailedNS = l.clock()
		case result == "failed" && j.Attempts == int64(l.p.MaxAttempts)*(1+j.Replays):
			j.end("dead", "attempts", l.clock())
			runs[i].FailedNS = l.clock()
		case result == "failed":
			nth := (j.Attempts - 1) % int64(l.p.MaxAttempts)
			floor, most := l.p.BackoffFloor.D(), min(l.p.BackoffCap.D(), l.p.Backoff.D()<<nth)
			j.State, j.due = "waiting", l.clock()+int64(floor+l.w.Some(most-floor))
			runs[i].FailedNS, runs[i].NextNS = l.clock(), j.due
		}
	}
	if result == "split" {
		l.halve(batch, at, list[:len(list)/2])
		l.halve(batch, at, list[len(list)/2:])
	}
}

// Audit copies all rows.
func (l *line) Audit() taskqueue.Audit {
	a := taskqueue.Audit{Jobs: []taskqueue.JobRow{}, Runs: []taskqueue.RunRow{},
		Effects: l.effects}
	for _, j := range l.jobs {
		a.Jobs = append(a.Jobs, j.JobRow)
	}
	for _, r := range l.runs {
		a.Runs = append(a.Runs, *r)
	}
	return a
}
