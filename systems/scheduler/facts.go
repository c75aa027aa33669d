package scheduler

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"stampede/harness/api"
	"stampede/harness/check"
	"stampede/harness/history"
)

// The tables of facts. The operation behind a row is the request for its task, or for its change.
const (
	grantedFact  = "granted request" // every row of a task, and every change
	runFact      = "run"
	completeFact = "complete run"
	effectFact   = "effect"
)

// The promises of an audit, and the most that a design may declare to be later by.
const (
	startSlack     = "start_slack_us"
	rescueSlack    = "rescue_slack_us"
	maxStartSlack  = 20 * time.Second
	maxRescueSlack = time.Minute
)

// occurrence names one occurrence of a task.
type occurrence struct {
	task uint64
	k    int64
}

// String is an occurrence for violations.
func (o occurrence) String() string { return fmt.Sprintf("task %d, occurrence %d", o.task, o.k) }

func (r *RunAudit) of() occurrence    { return occurrence{r.Task, r.Occurrence} }
func (e *EffectAudit) of() occurrence { return occurrence{e.Task, e.Occurrence} }

// final is a final audit with its indexes, and what the history says of tasks, which several
// judges share.
type final struct {
	Audit
	p       Params
	api     *api.Table[Scheduler]
	origins map[uint64]*TaskAudit
	rows    map[uint64][]*TaskAudit
	runs    map[occurrence][]*RunAudit // by their tokens
	effects map[occurrence][]*EffectAudit
	changes map[uint64][]*ChangeAudit // by task, in the order of their times
	starts  []start                   // of the occurrences that have run, in order

	// asked are the requests for tasks, nil until a judge observes the run.
	asked      map[uint64]*asked
	operations check.Operations
	told       []history.Record            // of starts that were waited for, tasks, and refusals
	known      map[settledAs]time.Duration // since when, by the run's clock
	looks      []look
	// low and high bound what the database's clock was ahead of the run's, if tied.
	low, high int64
	tied      bool
	// now is the last moment that the run tells of, on the database's clock; until is when the
	// last answer came, on the run's.
	now   int64
	until time.Duration
	// bad is why nothing can be judged, unread why nothing that was asked for can.
	bad, unread error
}

// start is how an occurrence was started for the first time, and when nothing stood in its way
// any more but the scheduler.
type start struct {
	occurrence
	*RunAudit
	ready int64
}

// asked is a task as it was asked for, and what the driver knows of that.
type asked struct {
	check.Operation
	Request
	// due is when the first occurrence was due at the latest, on the run's clock, by what an
	// answer said; history.Never if there was none. From is when it was at the earliest, 0 if
	// no answer said so.
	from, due time.Duration
}

// settledAs is what cannot change any more, by the kind of the operation that says so: of
// KindCancel that a task is cancelled, of KindAwait that it has started.
type settledAs struct {
	task uint64
	kind string
}

// look is what the gauge saw, and when.
type look struct {
	Look
	at history.Sample
}

// subject reads audits of runs with some parameters.
func subject(p Params) *check.Subject {
	table := API()
	return &check.Subject{
		Read: check.Audited(func(raw json.RawMessage) (final, error) {
			a, err := api.DecodeAudit[Audit](raw)
			return final{Audit: a, p: p, api: table}, errors.Join(p.Validate(), err)
		}, (*final).facts),
		Most: map[string]time.Duration{startSlack: maxStartSlack, rescueSlack: maxRescueSlack}}
}

// Check makes sure that each list but that of the fleet is there, and that an outcome comes
// with an end.
func (a *Audit) Check() error {
	if a.Tasks == nil || a.Runs == nil || a.Effects == nil || a.Changes == nil {
		return errors.New("tasks, runs, effects and changes must be there")
	}
	for i, r := range a.Runs {
		if (r.Outcome != "") != (r.EndedUS > 0) {
			return fmt.Errorf("runs[%d]: an outcome comes with an end", i)
		}
	}
	return nil
}

// facts are an audit as tables.
func (f *final) facts() check.Facts {
	f.index()
	granted, runs, complete, effects := []check.Fact{}, []check.Fact{}, []check.Fact{}, []check.Fact{}
	for _, t := range f.Tasks {
		fact := check.Fact{Op: t.Task, Key: asText(t.Queue, t.Client, Spec{Task: t.Name,
			WorkMS: t.WorkMS, Cron: t.Cron, Zone: t.Zone, Times: t.Times})}
		if !t.Origin {
			fact.Thing = t.Occurrence // of one request
		}
		granted = append(granted, fact)
	}
	for _, c := range f.Changes {
		granted = append(granted, changeFact(c.Op, c.What, taskName(c.Task), string(c.Outcome)))
	}
	for _, r := range f.Runs {
		fact := check.Fact{Op: r.Task, Key: r.of().String(), Version: r.Fence}
		runs = append(runs, fact)
		if r.Outcome == Done {
			complete = append(complete, fact)
		}
	}
	for _, e := range f.Effects {
		effects = append(effects, check.Fact{Op: e.Task, Key: e.of().String(), Version: e.Fence})
	}
	return check.Facts{
		Tables: []*check.Table{check.TableOf(grantedFact, granted), check.TableOf(runFact, runs),
			check.TableOf(completeFact, complete), check.TableOf(effectFact, effects)},
		Declared: map[string]time.Duration{startSlack: micros(f.StartSlackUS),
			rescueSlack: micros(f.RescueSlackUS)}}
}

// asText is what a task is, but for whether it fails, which a rerun changes.
func asText(queue, client string, s Spec) string {
	s.Fails = false
	return fmt.Sprintf("%+v of %s in %s", s, client, queue)
}

func changeFact(op uint64, what, task, state string) check.Fact {
	return check.Fact{Op: op, Key: what + " of task " + task,
		Name: fmt.Sprintf("%s by operation %d", state, op)}
}

// said is what a record says of what was granted.
func (f *final) said(rec *history.Record) check.Fact {
	if rec.Op.Kind != KindSchedule {
		return changeFact(rec.Op.ID, rec.Op.Kind, rec.Op.Key, rec.Reply.Key)
	}
	req, _ := api.RequestOf[Request](f.api, rec.Op) // who reads all requests sees errors
	return check.Fact{Op: rec.Op.ID, Key: asText(req.Queue, req.Client, req.Spec)}
}

// index finds what belongs together.
func (f *final) index() {
	f.rows = grouped(f.Tasks, func(t *TaskAudit) uint64 { return t.Task })
	f.runs, f.effects = grouped(f.Runs, (*RunAudit).of), grouped(f.Effects, (*EffectAudit).of)
	f.changes = grouped(f.Changes, func(c *ChangeAudit) uint64 { return c.Task })
	f.origins = map[uint64]*TaskAudit{}
	for i := range f.Tasks {
		if row := &f.Tasks[i]; row.Origin {
			f.origins[row.Task] = row
		}
	}
	for _, list := range f.changes { // a foreign server may list them in any order
		slices.SortStableFunc(list, func(a, b *ChangeAudit) int { return cmp.Compare(a.AtUS, b.AtUS) })
	}
	for o, list := range f.runs {
		slices.SortStableFunc(list, func(a, b *RunAudit) int {
			return cmp.Or(cmp.Compare(a.Fence, b.Fence), cmp.Compare(a.StartedUS, b.StartedUS))
		})
		r := slices.MinFunc(list, byStart)
		f.starts = append(f.starts, start{o, r, f.ready(r)})
	}
	slices.SortFunc(f.starts, func(a, b start) int {
		return cmp.Or(cmp.Compare(a.task, b.task), cmp.Compare(a.k, b.k))
	})
}

func byStart(a, b *RunAudit) int { return cmp.Compare(a.StartedUS, b.StartedUS) }

// grouped are the items of a list by a key.
func grouped[K comparable, T any](list []T, key func(*T) K) map[K][]*T {
	groups := make(map[K][]*T)
	for i := range list {
		k := key(&list[i])
		groups[k] = append(groups[k], &list[i])
	}
	return groups
}

// observe reads the gauge, and has the history read for what was asked and told.
func (f *final) observe(r *check.Run) {
	f.asked, f.operations, f.now = map[uint64]*asked{}, check.Operations{}, f.Now
	f.known = map[settledAs]time.Duration{}
	for _, s := range r.Samples() {
		if !s.Seen() {
			continue
		}
		l := look{at: s}
		if err := json.Unmarshal(s.Body, &l.Look); err != nil {
			f.bad = fmt.Errorf("the sample taken at %s cannot be read: %w", check.TimeText(s.From), err)
			return
		}
		f.see(l)
	}
	// A clock that was set a little meanwhile leaves no offset that fits all.
	f.low, f.high = min(f.low, f.high), max(f.low, f.high)
	if took, kept := micros(f.now-f.Begins), f.p.Retention.D(); f.Begins > 0 && took > kept {
		f.bad = fmt.Errorf("finished tasks are kept for %v, but the run took %v: deleted tasks cannot "+
			"be judged", check.TimeText(kept), check.TimeText(took))
	}
	r.See(func(rec *history.Record) {
		if rec.End != history.Never {
			f.until = max(f.until, rec.End)
		}
		kind, answered := rec.Op.Kind, rec.Outcome == history.OK
		if answered && (kind == KindAwait || kind == KindCancel && rec.Reply.Key == string(Cancelled)) {
			task, _ := taskOf(rec.Op.Key)
			is := settledAs{task, kind}
			if at, before := f.known[is]; !before || rec.End < at {
				f.known[is] = rec.End
			}
		}
		if rec.Outcome == history.Refused || answered && (kind == KindAwait || kind == KindTask) {
			f.told = append(f.told, *rec)
		}
	})
	r.See(f.ask, KindSchedule)
}

// see adds a look of the gauge, which is at some moment of the run between two known ones, and
// says what the database's clock showed then.
func (f *final) see(l look) {
	low, high := l.NowUS-l.at.To.Microseconds(), l.NowUS-l.at.From.Microseconds()
	if f.tied {
		low, high = max(f.low, low), min(f.high, high)
	}
	f.low, f.high, f.tied = low, high, true
	f.looks, f.now = append(f.looks, l), max(f.now, l.NowUS)
}

// ask adds a request for a task.
func (f *final) ask(rec *history.Record) {
	req, err := api.RequestOf[Request](f.api, rec.Op)
	if err != nil {
		f.unread = err
	}
	a := f.asked[rec.Op.ID]
	if a == nil {
		a = &asked{Request: req, due: history.Never}
		f.asked[rec.Op.ID] = a
	}
	f.operations.Add(rec)
	a.Operation = f.operations[rec.Op.ID]
	if rec.Outcome == history.OK {
		in := time.Duration(max(0, rec.Reply.Value))
		if a.due = min(a.due, rec.End+in); in > 0 {
			a.from = max(a.from, rec.Start+in)
		}
	}
}

// ready is when nothing stood in the way of an occurrence any more but the scheduler, on the
// database's clock: it was due, had been asked for, was not paused, and in a row that is reset
// the one before had ended.
func (f *final) ready(r *RunAudit) int64 {
	at := r.DueUS
	if origin := f.origins[r.Task]; origin != nil {
		at = max(at, origin.CreatedUS)
	}
	for _, resumed := range f.changed(r.Task, KindResume) {
		if resumed <= r.StartedUS {
			at = max(at, resumed)
		}
	}
	for _, before := range f.runs[occurrence{r.Task, r.Occurrence - 1}] {
		at = max(at, min(before.EndedUS, r.StartedUS))
	}
	return at
}

// done is the run by which an occurrence is complete, nil if there is none.
func (f *final) done(o occurrence) *RunAudit {
	for _, r := range f.runs[o] {
		if r.Outcome == Done {
			return r
		}
	}
	return nil
}

// changed lists when a task was changed in some way.
func (f *final) changed(task uint64, what string) (at []int64) {
	for _, c := range f.changes[task] {
		if c.What == what {
			at = append(at, c.AtUS)
		}
	}
	return at
}

// rerun says whether somebody ran a task again between two moments.
func (f *final) rerun(task uint64, from, to int64) bool {
	return slices.ContainsFunc(f.changed(task, KindRerun), func(at int64) bool {
		return at >= from && at <= to
	})
}

// pausedAt says whether a task was paused at a moment, and since when.
func (f *final) pausedAt(task uint64, at int64) (since int64, paused bool) {
	for _, c := range f.changes[task] {
		switch {
		case c.AtUS >= at:
			return since, paused
		case c.What == KindPause && !paused:
			since, paused = c.AtUS, true
		case c.What == KindResume:
			paused = false
		}
	}
	return since, paused
}

// dues lists when the occurrences of a request are due by the judges' own reckoning, in
// microseconds: the first ones, up to a moment at least.
func (f *final) dues(req Request, until int64) ([]int64, error) {
	c := calendar{begins: moment(f.Begins), day: f.p.day(), scale: f.p.TimeScale}
	from := req.At.Truncate(f.p.Granularity.D())
	if req.Cron == "" {
		return []int64{c.clock(from).UnixMicro()}, nil
	}
	times, err := cronOracle(req.Cron, req.Zone, from, c.business(moment(until)).Add(time.Minute))
	if n := int(req.Times); n > 0 && len(times) > n {
		times = times[:n]
	}
	list := make([]int64, len(times))
	for i, at := range times {
		list[i] = c.clock(at).UnixMicro()
	}
	return list, err
}

// sameDue allows for the rounding of times that were turned to and fro.
func sameDue(a, b int64) bool { return max(a-b, b-a) <= time.Millisecond.Microseconds() }

// moment is a time of the audit, micros a number of its microseconds.
func moment(us int64) time.Time    { return time.UnixMicro(us).UTC() }
func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
