package scheduler

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"stampede/harness/api"
	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/suttest"
)

type tb = suttest.TB

// evidence is a history and an audit that a case may change.
type evidence struct {
	params  Params
	records []history.Record
	windows []history.Window
	samples []history.Sample
	audit   Audit
}

func (e *evidence) raw(t tb) json.RawMessage { return suttest.Encoded(t, e.audit) }

// judge returns the verdicts by name.
func (e *evidence) judge(t tb) map[string]check.Verdict {
	t.Helper()
	return suttest.Verdicts(Invariants(e.params),
		history.Slice(e.records, e.windows...).WithSamples(e.samples), e.raw(t))
}

func (e *evidence) rowOf(task uint64) *TaskAudit {
	return suttest.PickFrom(e.audit.Tasks, theFirst, func(t *TaskAudit) bool { return t.Task == task })
}

// trouble is that of the network, and how often an executor dies or sleeps over a task.
type trouble struct {
	suttest.Trouble
	dies, sleeps float64
}

// world is a whole run in virtual time, with a correct scheduler.
type world struct {
	*suttest.World
	trouble
	params  Params
	ref     *refScheduler
	samples []history.Sample
}

const (
	sampleEvery = 250 * time.Millisecond
	// refDelay is how long the reference takes to start what is due, at most.
	refDelay = 30 * time.Millisecond
)

// morningOf is a morning of so many requests at a correct scheduler.
func morningOf(t tb, seed uint64, p Params, tr trouble, ops int) *evidence {
	t.Helper()
	w := &world{World: suttest.NewWorld(t, System(), seed, p, tr.Trouble), trouble: tr, params: p}
	w.ref = newRefScheduler(w)
	w.After(0, w.look)
	w.Run(w.ref, ops, time.Duration(float64(ops)/p.Rate*float64(time.Second)))
	return &evidence{params: p, records: w.Records, samples: w.samples, audit: w.ref.audit()}
}

// look takes a sample while anything is left to happen: every so often, or when the
// next thing happens if that is later. The next time of day may be tomorrow.
func (w *world) look() {
	if !w.Pending() {
		return
	}
	body, _ := json.Marshal(w.ref.look()) // numbers
	from := max(0, w.Now-w.Some(suttest.NetDelay))
	to := w.Now + w.Some(suttest.NetDelay)
	w.samples = append(w.samples, history.Sample{From: from, To: to, Body: body})
	w.After(max(sampleEvery, w.Next()-w.Now), w.look)
}

// refScheduler is a correct scheduler: what is due starts a moment later, executors
// die and sleep, and nothing is decided by who has no lease any more.
type refScheduler struct {
	w       *world
	api     *api.Table[Scheduler]
	begins  time.Duration // -1 before the first request
	rows    []*refRow
	byTask  map[uint64][]*refRow
	runs    []*RunAudit
	effects []EffectAudit
	changes []ChangeAudit
}

// refRow is a row of the table of tasks.
type refRow struct {
	TaskAudit
	from    time.Time // as it was asked for
	run     *RunAudit
	readyUS int64
}

func newRefScheduler(w *world) *refScheduler {
	return &refScheduler{w: w, api: API(), begins: -1, byTask: map[uint64][]*refRow{}}
}

// storeOffset is how far the database's clock is ahead of the run's.
const storeOffset = 1_700_000_000 * time.Second

// clock is the database's clock in microseconds; it never shows a time twice.
func (s *refScheduler) clock() int64 {
	s.w.Now += time.Microsecond
	return (storeOffset + s.w.Now).Microseconds()
}

// until is how long it is until a moment of the database's clock.
func (s *refScheduler) until(us int64) time.Duration {
	return time.Duration(us)*time.Microsecond - storeOffset - s.w.Now
}

// Do performs an operation.
func (s *refScheduler) Do(op history.Op, answer func(history.Reply, error)) {
	if op.Kind == KindAwait {
		id, _ := strconv.ParseUint(op.Key, 10, 64)
		s.await(id, s.w.params.AwaitFor.D(), answer)
		return
	}
	answer(s.do(op))
}

// await answers when a task has started, or after so long.
func (s *refScheduler) await(id uint64, left time.Duration, answer func(history.Reply, error)) {
	i := slices.IndexFunc(s.runs, func(r *RunAudit) bool { return r.of() == occurrence{id, 1} })
	switch {
	case i >= 0:
		answer(history.Reply{Value: int64(micros(s.runs[i].StartedUS - s.runs[i].DueUS))}, nil)
	case left <= 0:
		answer(history.Reply{}, ErrNotStarted)
	default:
		s.w.After(lookEvery, func() { s.await(id, left-lookEvery, answer) })
	}
}

func (s *refScheduler) do(op history.Op) (history.Reply, error) {
	if op.Kind == KindSchedule {
		return s.schedule(op)
	}
	id, _ := strconv.ParseUint(op.Key, 10, 64)
	rows := s.byTask[id]
	switch {
	case op.Kind == KindTask, op.Kind == KindTasks:
		return history.Reply{}, nil
	case len(rows) == 0:
		return history.Reply{}, ErrUnknownTask
	}
	return s.change(op, id, rows)
}

func (s *refScheduler) schedule(op history.Op) (history.Reply, error) {
	now := s.clock()
	if s.begins < 0 {
		s.begins = s.w.Now
	}
	rows := s.byTask[op.ID]
	if len(rows) == 0 {
		req, err := api.RequestOf[Request](s.api, op)
		if err != nil {
			panic(err)
		}
		row := &refRow{from: req.At, TaskAudit: TaskAudit{Task: op.ID, Occurrence: 1, Origin: true,
			Queue: req.Queue, Client: req.Client, Name: req.Task, WorkMS: req.WorkMS, Fails: req.Fails,
			Cron: req.Cron, Zone: req.Zone, Times: req.Times, CreatedUS: now,
			State: Waiting}, readyUS: now}
		row.FirstUS = s.due(row)
		row.DueUS = row.FirstUS
		s.insert(row)
		rows = []*refRow{row}
	}
	return history.Reply{Key: strconv.FormatUint(op.ID, 10),
		Value: int64(max(0, s.until(rows[0].FirstUS)))}, nil
}

// due is when the occurrence of a row is.
func (s *refScheduler) due(row *refRow) int64 {
	at := row.from.Truncate(s.w.params.Granularity.D())
	if row.Cron != "" {
		cron, err := parseCron(row.Cron, row.Zone)
		for k := int64(0); err == nil && k < row.Occurrence; k++ {
			at, err = cron.next(at)
		}
		if err != nil {
			panic(err)
		}
	}
	c := calendar{begins: moment((storeOffset + s.begins).Microseconds()), day: s.w.params.day(),
		scale: s.w.params.TimeScale}
	return c.clock(at).UnixMicro()
}

func (s *refScheduler) insert(row *refRow) {
	s.rows = append(s.rows, row)
	s.byTask[row.Task] = append(s.byTask[row.Task], row)
	s.wake(row)
}

// wake starts a row once it is due, if it still waits for that.
func (s *refScheduler) wake(row *refRow) {
	due := row.DueUS
	s.w.After(max(0, s.until(due))+time.Microsecond+s.w.Some(refDelay), func() {
		if row.DueUS == due && row.State == Waiting && !row.Paused {
			s.start(row)
		}
	})
}

func (s *refScheduler) start(row *refRow) {
	p := s.w.params
	row.Fence++
	run := &RunAudit{Task: row.Task, Occurrence: row.Occurrence, Fence: row.Fence,
		Queue: row.Queue, DueUS: row.DueUS, PickedUS: s.clock(), StartedUS: s.clock(),
		Executor: fmt.Sprintf("executor-%d", len(s.runs)%2)}
	row.State, row.run, row.LeaseUS = Running, run, run.StartedUS+p.Lease.D().Microseconds()
	s.runs = append(s.runs, run)
	if p.Recurrence == Insert {
		s.insertNext(row)
	}
	work := time.Duration(row.WorkMS) * time.Millisecond
	switch u := s.w.Rand.Float64(); {
	case u < s.w.dies:
		if s.w.Rand.IntN(2) == 0 {
			s.w.After(work, func() { s.effect(row, run) })
		}
		s.w.After(p.Lease.D()+s.w.Some(p.RescueEvery.D()), func() { s.rescue(row, run) })
	case u < s.w.dies+s.w.sleeps:
		s.w.After(p.Lease.D()+s.w.Some(p.RescueEvery.D()), func() { s.rescue(row, run) })
		s.w.After(2*p.Lease.D()+s.w.Some(p.Lease.D()), func() {
			if s.end(row, run); run.Outcome != Lost {
				return
			}
			if at := s.clock(); s.w.Rand.IntN(2) == 0 {
				run.TurnedUS = at
			} else {
				run.LetGoUS = at
			}
		})
	default:
		s.w.After(work, func() { s.end(row, run) })
	}
}

func (s *refScheduler) insertNext(row *refRow) {
	exists := slices.ContainsFunc(s.byTask[row.Task], func(r *refRow) bool {
		return r.Occurrence == row.Occurrence+1
	})
	if row.Cron == "" || row.Occurrence >= row.Times || exists {
		return
	}
	next := *row
	next.Origin, next.run, next.Fence, next.LeaseUS, next.Paused = false, nil, 0, 0, false
	next.State, next.Stops, next.CreatedUS = Waiting, false, s.clock()
	next.readyUS = next.CreatedUS
	s.toNext(&next)
	s.insert(&next)
}

// toNext makes a row the next occurrence.
func (s *refScheduler) toNext(row *refRow) {
	row.Occurrence++
	row.DueUS = s.due(row)
}

// effect happens once, and only by who has the token.
func (s *refScheduler) effect(row *refRow, run *RunAudit) bool {
	if row.run != run || row.State != Running {
		return false
	}
	had := slices.ContainsFunc(s.effects, func(e EffectAudit) bool {
		return e.Task == run.Task && e.Occurrence == run.Occurrence
	})
	if !had {
		s.effects = append(s.effects, EffectAudit{Task: run.Task, Occurrence: run.Occurrence,
			Fence: run.Fence, AtUS: s.clock()})
	}
	return true
}

func (s *refScheduler) end(row *refRow, run *RunAudit) {
	outcome := Done
	if row.Fails {
		outcome = Failed
	} else if !s.effect(row, run) {
		return
	}
	if row.run != run || row.State != Running {
		return
	}
	run.EndedUS, run.Outcome = s.clock(), outcome
	row.State, row.LeaseUS, row.run = outcome, 0, nil
	more := outcome == Done && row.Cron != "" && row.Occurrence < row.Times &&
		s.w.params.Recurrence == Reset
	if more && row.Stops {
		row.State = Cancelled
	} else if more {
		row.State, row.readyUS = Waiting, s.clock()
		s.toNext(row)
		s.wake(row)
	}
}

// stop lets an executor see by its next heartbeat that somebody cancelled what it runs.
func (s *refScheduler) stop(row *refRow, run *RunAudit) {
	s.w.After(s.w.Some(s.w.params.Lease.D()/4), func() {
		if row.run != run || row.State != Running {
			return
		}
		run.EndedUS, run.Outcome = s.clock(), Cancelled
		row.State, row.LeaseUS, row.run = Cancelled, 0, nil
	})
}

func (s *refScheduler) rescue(row *refRow, run *RunAudit) {
	if row.run != run || row.State != Running {
		return
	}
	run.LeaseUS, run.EndedUS, run.Outcome = row.LeaseUS, s.clock(), Lost
	row.run, row.LeaseUS, row.readyUS, row.State = nil, 0, s.clock(), Waiting
	if row.Stops {
		row.State = Cancelled
		return
	}
	s.wake(row)
}

func (s *refScheduler) change(op history.Op, id uint64, rows []*refRow) (history.Reply, error) {
	for _, c := range s.changes {
		if c.Op == op.ID {
			return history.Reply{Key: string(c.Outcome)}, nil
		}
	}
	state, at := State(""), s.clock()
	for _, row := range rows {
		open := row.State == Waiting
		runs := row.State == Running
		switch {
		case op.Kind == KindCancel && open:
			row.State, state = Cancelled, Cancelled
		case op.Kind == KindCancel && runs:
			row.Stops, state = true, Stopping
			s.stop(row, row.run)
		case op.Kind == KindPause && (open || runs):
			row.Paused, state = true, Paused
		case op.Kind == KindResume && (open || runs):
			row.Paused, row.readyUS, state = false, at, row.State
			s.wake(row)
		case op.Kind == KindRerun && row.State == Failed:
			row.Fails, row.State, state = false, Waiting, Waiting
			row.Stops, row.readyUS = false, at
			s.wake(row)
		}
	}
	if state == "" {
		return history.Reply{}, ErrState
	}
	s.changes = append(s.changes, ChangeAudit{Op: op.ID, Task: id, What: op.Kind,
		Outcome: state, AtUS: at})
	return history.Reply{Key: string(state)}, nil
}

func (s *refScheduler) look() Look {
	now := (storeOffset + s.w.Now).Microseconds()
	l := Look{NowUS: now, Executors: 1}
	for _, row := range s.rows {
		switch row.State {
		case Running:
			l.Running++
			l.LeaseUS = max(l.LeaseUS, now-row.LeaseUS)
		case Waiting:
			l.Waiting++
			if since := now - max(row.DueUS, row.readyUS); since >= 0 && !row.Paused {
				l.Due, l.DueUS = l.Due+1, max(l.DueUS, since)
			}
		}
	}
	return l
}

func (s *refScheduler) audit() Audit {
	a := Audit{Tasks: []TaskAudit{}, Runs: []RunAudit{},
		Effects: append([]EffectAudit{}, s.effects...),
		Changes: append([]ChangeAudit{}, s.changes...)}
	if s.begins >= 0 {
		a.Begins = (storeOffset + s.begins).Microseconds()
	}
	for _, row := range s.rows {
		a.Tasks = append(a.Tasks, row.TaskAudit)
	}
	for _, run := range s.runs {
		a.Runs = append(a.Runs, *run)
		a.Now = max(a.Now, run.StartedUS, run.EndedUS)
	}
	return a
}
