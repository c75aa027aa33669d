package scheduler

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"stampede/harness/api"
	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/sut"
)

// Names of the invariants, as variants list them in Breaks and NotApplicable.
// They are TS1 to TS9 of the literature on this system's design.
const (
	AllRun         = "every-occurrence-runs"
	OneEffect      = "one-effect"
	NeverEarly     = "never-early"
	StartsInTime   = "starts-in-time"
	FencedRuns     = "fenced-runs"
	FinalStates    = "final-states"
	CancelledRests = "cancelled-never-starts"
	NoPhantomRuns  = "no-phantom-runs"
	NoStarvation   = "no-starvation"
)

// Invariants returns the nine statements about a scheduler with the given parameters. Each
// judges from the history and the Audit alone.
func Invariants(p Params) []check.Invariant {
	r := &schedulerRun{params: p, api: API(), err: p.Validate()}
	state := func(name, statement string, judge func(*judging)) check.Invariant {
		return invariant{name: name, statement: statement, judge: judge, run: r}
	}
	return []check.Invariant{
		state(AllRun, "every acknowledged task exists, and each of its due occurrences has a complete "+
			"run, unless it was cancelled, is paused or failed", judgeAllRun),
		state(OneEffect, "a complete occurrence had exactly one effect, any other occurrence at most "+
			"one", judgeEffects),
		state(NeverEarly, "no task starts before it is due, by the database's clock", judgeEarly),
		state(StartsInTime, "outside faults, every occurrence starts within the promised time after it "+
			"was due", judgeInTime),
		state(FencedRuns, "no two runs of an occurrence have the same token, and once a higher token "+
			"was issued, a lower one can neither end the run nor have an effect", judgeFences),
		state(FinalStates, "a complete occurrence stays complete, tokens increase, and a run whose "+
			"lease expired is reclaimed in time", judgeFinal),
		state(CancelledRests, "no task starts after it was cancelled or while it is paused, and a task "+
			"whose cancellation was acknowledged is cancelled", judgeCancelled),
		state(NoPhantomRuns, "every task, run and change was requested, with its values and its time, "+
			"by a request that was not refused; a repeated request adds nothing and is not "+
			"denied", judgePhantoms),
		state(NoStarvation, "outside faults, no task of any queue waits longer than the limit, "+
			"whatever fails ahead of it", judgeStarvation),
	}
}

// invariant is one statement with the function that judges it.
type invariant struct {
	name, statement string
	judge           func(*judging)
	run             *schedulerRun
}

func (v invariant) Name() string      { return v.name }
func (v invariant) Statement() string { return v.statement }

// Check judges. See check.Invariant.
func (v invariant) Check(
	ctx context.Context, h history.History, audit json.RawMessage,
) check.Verdict {
	j := &judging{Collector: check.Collect(ctx, v.name, h), p: v.run.params, api: v.run.api}
	if v.run.err != nil {
		j.Fail("%v", v.run.err)
		return j.Verdict()
	}
	if j.t = v.run.decode(audit); j.t.err != nil {
		j.Fail("%v", j.t.err)
		return j.Verdict()
	}
	if took, kept := micros(j.now()-j.t.Begins), j.p.Retention.D(); j.t.Begins > 0 && took > kept {
		j.Fail("finished tasks are kept for %v, but the run took %v: deleted tasks cannot be judged",
			kept, took)
		return j.Verdict()
	}
	v.judge(j)
	return j.Verdict()
}

// schedulerRun is what the invariants of one run share: the parameters and the
// audit that was decoded last, because all of them are asked about the same.
type schedulerRun struct {
	params Params
	api    *api.Table[Scheduler]
	err    error

	mu   sync.Mutex
	raw  string
	last *truth
}

// decode returns the audit with its indexes; it must not be modified.
func (r *schedulerRun) decode(raw json.RawMessage) *truth {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last == nil || r.raw != string(raw) {
		r.raw, r.last = string(raw), newTruth(raw)
	}
	return r.last
}

// judging is one invariant at work: its inputs, and the verdict in the making.
type judging struct {
	*check.Collector
	p   Params
	api *api.Table[Scheduler]
	t   *truth

	clocks  *clocks
	watched []look
	// until is when the last answer came, on the run's clock, once requests has read it.
	until time.Duration
}

// asked is a task as it was asked for, and what the driver knows of that.
type asked struct {
	check.Operation
	request Request
	// due is when the first occurrence was due at the latest, on the run's clock, by what an
	// answer said; history.Never if there was none.
	due time.Duration
}

// requests reads which tasks were asked for.
func (j *judging) requests() map[uint64]*asked {
	ops := make(check.Operations)
	list := make(map[uint64]*asked)
	for rec := range j.Records() {
		if rec.End != history.Never {
			j.until = max(j.until, rec.End)
		}
		if rec.Op.Kind != KindSchedule || rec.Outcome == history.Dropped {
			continue
		}
		req, err := api.RequestOf[Request](j.api, rec.Op)
		if err != nil {
			j.Fail("%v", err)
			return nil
		}
		ops.Add(rec)
		a := list[rec.Op.ID]
		if a == nil {
			a = &asked{request: req, due: history.Never}
			list[rec.Op.ID] = a
		}
		if rec.Outcome == history.OK {
			a.due = min(a.due, rec.End+time.Duration(max(0, rec.Reply.Value)))
		}
	}
	for id, a := range list {
		a.Operation = ops[id]
	}
	return list
}

// dues lists when the occurrences of a request are due by the judges' own
// reckoning, in microseconds: the first ones, up to a moment at least.
func (j *judging) dues(req Request, until int64) ([]int64, error) {
	c := j.t.calendar(j.p)
	from := req.At.Truncate(j.p.Granularity.D())
	if req.Cron == "" {
		return []int64{c.clock(from).UnixMicro()}, nil
	}
	end := c.business(moment(until)).Add(time.Minute)
	times, err := cronOracle(req.Cron, req.Zone, from, end)
	if err != nil {
		return nil, err
	}
	if n := int(req.Times); n > 0 && len(times) > n {
		times = times[:n]
	}
	list := make([]int64, len(times))
	for i, at := range times {
		list[i] = c.clock(at).UnixMicro()
	}
	return list, nil
}

// sameDue allows for the rounding of times that were turned to and fro.
func sameDue(a, b int64) bool { return max(a-b, b-a) <= time.Millisecond.Microseconds() }

// now is the last moment that the run tells of, on the database's clock.
func (j *judging) now() int64 {
	now := j.t.Now
	for _, l := range j.looks() {
		now = max(now, l.NowUS)
	}
	return now
}

// same compares a row with what was asked for.
func (a *asked) same(row *TaskAudit) bool {
	r := a.request
	return row.Queue == r.Queue && row.Client == r.Client && row.Name == r.Task &&
		row.WorkMS == r.WorkMS && row.Cron == r.Cron && row.Zone == r.Zone && row.Times == r.Times &&
		row.Fails == (r.Fails && row.Reruns == 0)
}

// judgeAllRun matches what was asked for with what ran.
func judgeAllRun(j *judging) {
	requests, now := j.requests(), j.now()
	granted := j.grantsStart()
	complete, excused := 0, 0
	for _, id := range sortedKeys(requests) {
		a := requests[id]
		origin := j.t.origins[id]
		if origin == nil {
			if a.Outcome == history.OK {
				j.Violate([]uint64{id}, "task %d was acknowledged but does not exist", id)
			} else {
				j.AllowedUnknown(1)
			}
			continue
		}
		dues, err := j.dues(a.request, now)
		if err != nil {
			j.Fail("%v", err)
			return
		}
		n, m := j.matches(id, dues, j.ripe(a, dues, now))
		complete, excused = complete+n, excused+m
	}
	j.Need(complete > 0, "no occurrence was completed")
	j.Note("%d occurrences were completed, %d were not due, cancelled, paused or failed%s%s", complete,
		excused, j.punctuality(), granted)
}

// ripe counts the occurrences that were due before the end of the run: by the server's clock,
// or by the run's and what the answer to the request said. The last moment that an audit
// tells of is when something last ran: of a server that has stopped that says nothing.
func (j *judging) ripe(a *asked, dues []int64, now int64) (n int) {
	for n < len(dues) && (dues[n] <= now || a.due != history.Never &&
		a.due+micros(dues[n]-dues[0]) <= j.until) {
		n++
	}
	return n
}

// matches looks for a complete run of each occurrence of a task, of which the first ones are
// ripe. The drain waits for what is not complete: a ripe one that is still open at the end
// was lost, unless the work was still going on when the drain gave up.
func (j *judging) matches(id uint64, dues []int64, ripe int) (complete, excused int) {
	finished := j.finished(id)
	for i, due := range dues {
		o := occurrence{id, int64(i + 1)}
		j.Checked(1)
		for _, r := range j.t.runs[o] {
			if !sameDue(r.DueUS, due) {
				j.Violate([]uint64{id}, "%v was due at %v, but its run says %v", o, moment(due),
					moment(r.DueUS))
			}
		}
		switch run := j.t.done(o); {
		case run != nil:
			complete++
		case finished:
			j.Violate([]uint64{id}, "%v, due at %v, has no complete run, but its task is done", o,
				moment(due))
		case j.given(o, due) || i >= ripe && j.open(o):
			excused++
		case j.stopped(o):
			j.Late([]uint64{id}, "%v, due at %v, has no complete run; it should have had one before its "+
				"task was cancelled or paused", o, moment(due))
		case j.unfinished(o):
			j.Unfinished([]uint64{id}, "%v, due at %v, has no complete run: %s", o, moment(due),
				j.state(o))
		default:
			j.Violate([]uint64{id}, "%v, due at %v, has no complete run: %s", o, moment(due), j.state(o))
		}
	}
	return complete, excused
}

// The most that a design may declare to be later by, and be judged by it: what is judged
// must not choose how leniently.
const (
	maxStartSlack  = 20 * time.Second
	maxRescueSlack = time.Minute
)

// grantsStart and grantsRescue say by how much more a design may be late because it
// declares that. One that declares too much is not decided.
func (j *judging) grantsStart() string {
	return j.grants("start_slack_us", micros(j.t.StartSlackUS), maxStartSlack)
}

func (j *judging) grantsRescue() string {
	return j.grants("rescue_slack_us", micros(j.t.RescueSlackUS), maxRescueSlack)
}

func (j *judging) grants(field string, declared, most time.Duration) string {
	j.Need(declared <= most, "the audit declares %s of %v; the most allowed is %v", field, declared,
		most)
	if declared == 0 {
		return ""
	}
	return fmt.Sprintf("; %v more are allowed, because the audit declares %s", declared, field)
}

// patience is how long something may be due and not have run before somebody cancels or
// pauses it: the time in which it was to start, and that in which it works, in microseconds.
func (j *judging) patience() int64 {
	return (j.p.clock(j.p.SLA) + j.longestWork() + j.p.StarveWithin.D()).Microseconds() +
		j.t.StartSlackUS
}

// longestWork is for how long a task works at most.
func (j *judging) longestWork() time.Duration { return max(j.p.Work.D(), j.p.LongWork.D()) }

// row is the row that an occurrence is or was.
func (j *judging) row(o occurrence) *TaskAudit {
	rows := j.t.rows[o.task]
	for _, r := range rows {
		if r.Occurrence == o.k {
			return r
		}
	}
	if len(rows) == 1 {
		return rows[0]
	}
	return nil
}

// finished says whether a task says of itself that it is done with all it was to
// do.
func (j *judging) finished(task uint64) bool {
	for _, r := range j.t.rows[task] {
		if r.State != Done {
			return false
		}
	}
	return true
}

// open says whether an occurrence may still come to run: nobody has said that it will
// not.
func (j *judging) open(o occurrence) bool {
	row := j.row(o)
	return row == nil || o.k < row.Occurrence ||
		row.State != Failed && row.State != Cancelled && !row.Stops && !row.Paused
}

// unfinished says whether an occurrence has its turn yet to come, or to end: its task was
// not passed over and stands where it is worked on, by one whose lease has not long ended.
// One that has no row yet comes after one that is so.
func (j *judging) unfinished(o occurrence) bool {
	row := j.row(o)
	if row == nil {
		return slices.ContainsFunc(j.t.rows[o.task], func(r *TaskAudit) bool {
			return r.Occurrence < o.k && j.unfinished(occurrence{o.task, r.Occurrence})
		})
	}
	if row.Occurrence > o.k || row.Paused {
		return false
	}
	held := row.LeaseUS == 0 || j.now()-row.LeaseUS <= j.rescue()+j.patience()
	return row.State == Waiting || row.State == Picked || row.State == Running && held
}

// given says whether an occurrence was given up for a reason, before it was overdue.
func (j *judging) given(o occurrence, due int64) bool {
	row := j.row(o)
	switch {
	case !j.stopped(o):
		return false
	case row == nil || row.State == Failed:
		return true
	case row.State == Cancelled || row.Stops:
		return !j.overdue(o, row, due, j.t.changed(o.task, KindCancel, "")[0])
	}
	return !j.overdue(o, row, due, j.now())
}

// stopped says whether an occurrence was given up for a reason: somebody cancelled the
// task or has paused it, or it failed, as its request wants, as it may after so many
// attempts, and nobody ran it again. What is cancelled or paused by nobody is no reason.
func (j *judging) stopped(o occurrence) bool {
	rows := j.t.rows[o.task]
	row := j.row(o)
	cancels := j.t.changed(o.task, KindCancel, "")
	_, paused := j.pausedAt(o.task, math.MaxInt64)
	switch {
	case row == nil: // it would come after one that is there
		return slices.ContainsFunc(rows, func(r *TaskAudit) bool {
			return (r.State == Cancelled || r.Stops) && len(cancels) > 0 || r.Paused && paused
		})
	case o.k < row.Occurrence: // the task went on without it
		return false
	case row.State == Failed && !row.Stops:
		failed := occurrence{o.task, row.Occurrence}
		return row.Fails || len(j.t.runs[failed]) >= j.p.MaxAttempts
	case row.State == Failed || row.State == Cancelled || row.Stops:
		return len(cancels) > 0
	}
	return row.Paused && paused
}

// overdue says whether an occurrence that has never started should have, long before
// somebody cancelled or paused its task, and no fault kept it from that.
func (j *judging) overdue(o occurrence, row *TaskAudit, due, until int64) bool {
	if o.k > row.Occurrence || len(j.t.runs[o]) > 0 {
		return false
	}
	if since, paused := j.pausedAt(o.task, until); paused {
		until = since
	}
	ready := max(due, row.CreatedUS)
	for _, resumed := range j.t.changed(o.task, KindResume, "") {
		if resumed <= until {
			ready = max(ready, resumed)
		}
	}
	for _, before := range j.t.runs[occurrence{o.task, o.k - 1}] {
		ready = max(ready, before.EndedUS)
	}
	return until-ready > j.patience() && !j.excused(ready, until)
}

// state says what the row of an occurrence is at the end.
func (j *judging) state(o occurrence) string {
	if row := j.row(o); row != nil {
		return fmt.Sprintf("at the end its task is %s", row.State)
	}
	return "no task exists that would run it"
}

// judgeEffects counts effects.
func judgeEffects(j *judging) {
	done := 0
	seen := make(map[occurrence]bool, len(j.t.effects))
	for _, o := range j.t.occurrences() {
		seen[o] = true
		j.Checked(1)
		n, ends := len(j.t.effects[o]), 0
		for _, r := range j.t.runs[o] {
			if r.Outcome == Done {
				ends++
			}
		}
		done += min(ends, 1)
		switch {
		case n > 1:
			j.Violate([]uint64{o.task}, "%v had its effect %d times, in %d runs", o, n,
				len(j.t.runs[o]))
		case ends > 0 && n == 0:
			j.Violate([]uint64{o.task}, "%v is complete but had no effect", o)
		case ends > 1:
			j.Violate([]uint64{o.task}, "%v is complete %d times", o, ends)
		}
	}
	for i := range j.t.Effects {
		e := &j.t.Effects[i]
		o := occurrence{e.Task, e.Occurrence}
		ran := slices.ContainsFunc(j.t.runs[o], func(r *RunAudit) bool { return r.Fence == e.Fence })
		if !seen[o] || !ran {
			j.Violate([]uint64{o.task}, "%v had an effect with token %d, which no run had", o, e.Fence)
		}
	}
	j.Need(done > 0, "no occurrence was completed")
	beside := j.needCompetition()
	j.Note("%d complete occurrences had their effect once; of %d runs, %d were under way beside "+
		"another executor's in their queue", done, len(j.t.Runs), beside)
}

// leastBeside is how many runs must have been under way beside another executor's in their
// queue, at least: executors that take turns cannot take a task from each other, and one that
// takes a batch has nobody to take it from.
const leastBeside = 10

// needCompetition counts the runs that were under way while another executor's was in their
// queue, and needs some. A run that does not name its executor counts for nothing: it may be
// of the same one as all others.
func (j *judging) needCompetition() (beside int) {
	queues, nameless := map[string][]*RunAudit{}, 0
	for i := range j.t.Runs {
		r := &j.t.Runs[i]
		if r.Executor == "" {
			nameless++
			continue
		}
		queues[r.Queue] = append(queues[r.Queue], r)
	}
	for _, runs := range queues {
		beside += besideOthers(runs)
	}
	unknown := ""
	if nameless > 0 {
		unknown = fmt.Sprintf("; %d runs do not name their executor", nameless)
	}
	j.Need(beside >= leastBeside, "%d runs were under way beside another executor's in their queue; "+
		"at least %d are needed to say whether executors take tasks from each other%s", beside,
		leastBeside, unknown)
	return beside
}

// besideOthers counts the runs of a queue that were under way, from their start to their end,
// while one of another executor was. A run without an end was under way at its start.
func besideOthers(runs []*RunAudit) (n int) {
	slices.SortFunc(runs, func(a, b *RunAudit) int { return cmp.Compare(a.StartedUS, b.StartedUS) })
	next := make([]int64, len(runs)) // when the next one of another executor starts
	for i := len(runs) - 1; i >= 0; i-- {
		switch {
		case i == len(runs)-1:
			next[i] = math.MaxInt64
		case runs[i+1].Executor != runs[i].Executor:
			next[i] = runs[i+1].StartedUS
		default:
			next[i] = next[i+1]
		}
	}
	until := map[string]int64{} // when the last of those before ends, by executor
	for i, r := range runs {
		raced := next[i] < r.EndedUS
		for executor, end := range until {
			raced = raced || executor != r.Executor && end > r.StartedUS
		}
		if raced {
			n++
		}
		until[r.Executor] = max(until[r.Executor], r.EndedUS)
	}
	return n
}

// judgeFences compares tokens.
func judgeFences(j *judging) {
	lost, turned, letGo := 0, 0, 0
	for _, o := range j.t.occurrences() {
		runs := j.t.runs[o]
		j.Checked(len(runs))
		for i, r := range runs {
			if r.Outcome == Lost || r.Outcome == Fenced {
				lost++
			}
			switch {
			case r.TurnedUS > 0:
				turned++
			case r.LetGoUS > 0:
				letGo++
			}
			if i > 0 && runs[i-1].Fence == r.Fence {
				j.Violate([]uint64{o.task}, "%v was started twice with token %d, at %v and at %v", o,
					r.Fence, moment(runs[i-1].StartedUS), moment(r.StartedUS))
			}
			ended := r.Outcome == Done || r.Outcome == Failed || r.Outcome == Cancelled
			if higher := above(runs, r.Fence, r.EndedUS); ended && higher != nil {
				j.Violate([]uint64{o.task}, "%v was ended as %s with token %d at %v, after token %d was "+
					"issued at %v", o, r.Outcome, r.Fence, moment(r.EndedUS), higher.Fence,
					moment(higher.StartedUS))
			}
		}
		for _, e := range j.t.effects[o] {
			if higher := above(runs, e.Fence, e.AtUS); higher != nil {
				j.Violate([]uint64{o.task}, "%v had its effect with token %d at %v, after token %d was "+
					"issued at %v", o, e.Fence, moment(e.AtUS), higher.Fence, moment(higher.StartedUS))
			}
		}
	}
	j.Need(len(j.t.Runs) > 0, "no task ran")
	j.Need(lost > 0 || !j.executorsBroke(), "no run was reclaimed, although a fault hit the executors")
	j.needStale(turned, letGo)
	j.needCompetition()
	j.Note("%d runs; %d were reclaimed, of which %d tried to end later and were rejected, and %d "+
		"were abandoned before that", len(j.t.Runs), lost, turned, letGo)
}

// needStale wants executors that slept through their leases to have tried to write after
// that: to end runs if they slept through all their work as well, and else at least to
// renew leases, for then they let go of all that is still under way.
func (j *judging) needStale(turned, letGo int) {
	slept := j.executorsSlept()
	j.Need(turned > 0 || slept <= j.longestWork(),
		"no run tried to end after it was reclaimed, although executors were frozen beyond their "+
			"leases and beyond the longest work")
	j.Need(turned+letGo > 0 || slept == 0,
		"no run tried to end or was abandoned after it was reclaimed, although executors were frozen "+
			"beyond their leases")
}

// above is a run with a higher token that was given before a moment.
func above(runs []*RunAudit, fence, at int64) *RunAudit {
	for _, r := range runs {
		if r.Fence > fence && r.StartedUS < at {
			return r
		}
	}
	return nil
}

// judgePhantoms compares what is there with what was asked for.
func judgePhantoms(j *judging) {
	requests, now := j.requests(), j.now()
	dues := make(map[uint64][]int64)
	for i := range j.t.Tasks {
		row := &j.t.Tasks[i]
		j.Checked(1)
		a := requests[row.Task]
		switch {
		case a == nil:
			j.Violate(nil, "task %d was never requested", row.Task)
			continue
		case !a.May():
			j.Violate([]uint64{row.Task}, "task %d exists, but its request was refused", row.Task)
		case !a.same(row):
			j.Violate([]uint64{row.Task}, "task %d is %+v, but was requested as %+v", row.Task, *row,
				a.request)
		case !row.Origin && row.Cron == "":
			j.Violate([]uint64{row.Task}, "task %d runs once, but was inserted again", row.Task)
		}
		if a.Outcome == history.Unknown {
			j.AllowedUnknown(1)
		}
		list, err := j.dues(a.request, max(now, row.FirstUS))
		if err != nil {
			j.Fail("%v", err)
			return
		}
		if dues[row.Task] = list; len(list) == 0 || !sameDue(list[0], row.FirstUS) {
			j.Violate([]uint64{row.Task}, "task %d is first due at %v, but was requested for %v", row.Task,
				moment(row.FirstUS), a.request.At)
		}
	}
	for i := range j.t.Runs {
		j.Checked(1)
		r := &j.t.Runs[i]
		o, list := occurrence{r.Task, r.Occurrence}, dues[r.Task]
		switch {
		case list == nil:
			j.Violate(nil, "%v ran, but its task does not exist", o)
		case o.k > int64(len(list)) || !sameDue(list[o.k-1], r.DueUS):
			j.Violate([]uint64{r.Task}, "%v ran for %v, but is not due then", o, moment(r.DueUS))
		}
	}
	j.twice()
	j.phantomChanges()
	j.repeats()
	j.Need(len(j.t.Runs) > 0, "no task ran")
}

// twice looks for tasks and changes that were asked for once, however often, and are
// there twice.
func (j *judging) twice() {
	tasks := map[uint64]bool{}
	for i := range j.t.Tasks {
		row := &j.t.Tasks[i]
		if row.Origin && tasks[row.Task] {
			j.Violate([]uint64{row.Task}, "task %d exists twice", row.Task)
		}
		tasks[row.Task] = tasks[row.Task] || row.Origin
	}
	changes := map[uint64]bool{}
	for i := range j.t.Changes {
		c := &j.t.Changes[i]
		if changes[c.Op] {
			j.Violate([]uint64{c.Op}, "the %s of task %d was made twice", c.What, c.Task)
		}
		changes[c.Op] = true
	}
}

// repeats looks for requests that were acknowledged, and denied when they were sent again. It
// needs one that was acknowledged again: a server that turns away whatever it has seen denies
// nothing. That a task has not failed yet is no answer to count, for a rerun waits for that.
func (j *judging) repeats() {
	var repeats check.Repeats
	for rec := range j.Records(KindSchedule, KindCancel, KindPause, KindResume, KindRerun) {
		repeats.See(rec, slices.ContainsFunc([]error{ErrUnknownTask, ErrConflict, ErrState, ErrOpTaken},
			func(reason error) bool { return sut.RefusedFor(rec, reason) }))
	}
	repeats.Judge(j.Collector, nil)
	again := repeats.Again()
	j.Need(again > 0 || j.p.Resend == 0, "no acknowledged request was acknowledged again when it was "+
		"sent again")
	j.Note("%d acknowledged requests were sent again and acknowledged again", again)
}

func (j *judging) phantomChanges() {
	ops := make(check.Operations)
	kind, of := make(map[uint64]string), make(map[uint64]string)
	for rec := range j.Records(KindCancel, KindPause, KindResume, KindRerun) {
		if rec.Outcome != history.Dropped {
			ops.Add(rec)
			kind[rec.Op.ID], of[rec.Op.ID] = rec.Op.Kind, rec.Op.Key
		}
	}
	for i := range j.t.Changes {
		j.Checked(1)
		c := &j.t.Changes[i]
		op, known := ops[c.Op]
		switch {
		case !known:
			j.Violate(nil, "the %s %d of task %d was never requested", c.What, c.Op, c.Task)
		case !op.May():
			j.Violate([]uint64{c.Op}, "the %s of task %d was made, but the request was refused", c.What,
				c.Task)
		case kind[c.Op] != c.What || of[c.Op] != taskName(c.Task):
			j.Violate([]uint64{c.Op}, "the %s of task %d was requested as the %s of task %s", c.What,
				c.Task, kind[c.Op], of[c.Op])
		}
	}
}

// sortedKeys are the keys in order.
func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
