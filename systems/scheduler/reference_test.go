package scheduler_test

import (
	"cmp"
	"container/heap"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/sut"
	"stampede/systems/scheduler"
)

// tb is what testing.T and rapid.T have in common.
type tb interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

// evidence is a history and an audit that a case may change.
type evidence struct {
	params  scheduler.Params
	records []history.Record
	windows []history.Window
	samples []history.Sample
	audit   scheduler.Audit
}

func (e *evidence) raw(t tb) json.RawMessage {
	t.Helper()
	raw, err := json.Marshal(e.audit)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// judge returns the verdicts by name.
func (e *evidence) judge(t tb) map[string]check.Verdict {
	t.Helper()
	verdicts := make(map[string]check.Verdict)
	h := history.Slice(e.records, e.windows...).WithSamples(e.samples)
	for _, v := range check.All(context.Background(), scheduler.Invariants(e.params), h, e.raw(t)) {
		verdicts[v.Invariant] = v
	}
	return verdicts
}

// verdict judges one invariant.
func (e *evidence) verdict(t tb, name string) check.Verdict {
	t.Helper()
	h := history.Slice(e.records, e.windows...).WithSamples(e.samples)
	for _, inv := range scheduler.Invariants(e.params) {
		if inv.Name() == name {
			return check.Judge(context.Background(), inv, h, e.raw(t), check.Timeout)
		}
	}
	panic("there is no invariant " + name)
}

// trouble is how often an attempt meets each mishap, and how often an executor dies
// over a task.
type trouble struct {
	lostRequest, lostReply, late, dialFails, dropped float64
	dies, sleeps                                     float64
}

// world is a whole run in virtual time: the workload, a network that loses and
// delays, and a correct scheduler. Everything follows from the seed.
type world struct {
	params scheduler.Params
	rng    *rand.Rand
	load   sut.Workload
	ref    *refScheduler
	trouble

	now     time.Duration
	events  events
	records []history.Record
	samples []history.Sample
	second  map[int]bool // the records of second sendings
}

// event is something that happens at a moment.
type event struct {
	at time.Duration
	n  int // breaks ties in the order of planning
	do func()
}

type events struct {
	list []event
	n    int
}

func (e *events) Len() int { return len(e.list) }
func (e *events) Less(i, k int) bool {
	a, b := e.list[i], e.list[k]
	return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.n, b.n)) < 0
}
func (e *events) Swap(i, k int) { e.list[i], e.list[k] = e.list[k], e.list[i] }
func (e *events) Push(x any)    { e.list = append(e.list, x.(event)) }
func (e *events) Pop() any {
	last := e.list[len(e.list)-1]
	e.list = e.list[:len(e.list)-1]
	return last
}

func (w *world) at(at time.Duration, do func()) {
	w.events.n++
	heap.Push(&w.events, event{max(at, w.now), w.events.n, do})
}

func (w *world) after(d time.Duration, do func()) { w.at(w.now+d, do) }

// some of a duration, uniform.
func (w *world) some(d time.Duration) time.Duration {
	return time.Duration(w.rng.Int64N(int64(d) + 1))
}

const (
	netDelay  = 2 * time.Millisecond
	opTimeout = 100 * time.Millisecond
	lookEvery = 250 * time.Millisecond
	// refDelay is how long the reference takes to start what is due, at most.
	refDelay = 30 * time.Millisecond
)

// morningOf is a morning of so many requests at a correct scheduler.
func morningOf(t tb, seed uint64, p scheduler.Params, tr trouble, ops int) *evidence {
	t.Helper()
	load, err := scheduler.NewWorkload(seed, p)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{params: p, rng: rand.New(rand.NewPCG(seed, 1)), load: load, trouble: tr,
		second: map[int]bool{}}
	w.ref = newRefScheduler(w)
	for i := range ops {
		op := load.Op(uint64(i))
		w.at(time.Duration(float64(i)/p.Rate*float64(time.Second)), func() { w.send(op, false) })
	}
	w.at(0, w.look)
	w.run()
	return &evidence{params: p, records: w.records, samples: w.samples, audit: w.ref.audit()}
}

// run lets everything happen in its order.
func (w *world) run() {
	for w.events.Len() > 0 {
		e := heap.Pop(&w.events).(event)
		w.now = max(w.now, e.at) // what came before may have looked at the clock, which moved it on
		e.do()
	}
}

// look takes a sample while anything is left to happen: every so often, or when the
// next thing happens if that is later. The next time of day may be tomorrow.
func (w *world) look() {
	if w.events.Len() == 0 {
		return
	}
	body, _ := json.Marshal(w.ref.look()) // numbers
	from := max(0, w.now-w.some(netDelay))
	w.samples = append(w.samples, history.Sample{From: from, To: w.now + w.some(netDelay), Body: body})
	w.at(max(w.now+lookEvery, w.events.list[0].at), w.look)
}

// send starts one attempt and decides what the network does to it. Some are sent twice: again
// is the second time.
func (w *world) send(op history.Op, again bool) {
	i := len(w.records)
	if w.second[i] = again; !again {
		w.resend(op, sut.Together)
	}
	w.records = append(w.records, history.Record{
		Seq: uint64(i), Op: op, Intended: w.now, Start: w.now, End: history.Never})
	u := w.rng.Float64()
	for _, fate := range []struct {
		share float64
		do    func()
	}{
		{w.dropped, func() { w.records[i].Outcome, w.records[i].Start = history.Dropped, history.Never }},
		{w.dialFails, func() { w.end(i, w.some(netDelay), history.Refused, history.Reply{}) }},
		{w.lostRequest, func() { w.lose(i) }},
		{w.lostReply, func() {
			w.after(w.some(netDelay), func() { _, _ = w.ref.do(op) })
			w.lose(i)
		}},
		{w.late, func() {
			w.after(opTimeout+w.some(2*opTimeout), func() { _, _ = w.ref.do(op) })
			w.lose(i)
		}},
	} {
		if u < fate.share {
			fate.do()
			return
		}
		u -= fate.share
	}
	w.after(w.some(netDelay), func() {
		reply, err := w.ref.do(op)
		outcome := history.OK
		if err != nil {
			outcome = history.Refused
		}
		w.end(i, w.some(netDelay), outcome, reply)
	})
}

func (w *world) lose(i int) { w.end(i, opTimeout, history.Unknown, history.Reply{}) }

func (w *world) end(i int, after time.Duration, outcome history.Outcome, reply history.Reply) {
	w.after(after, func() {
		rec := &w.records[i]
		rec.Outcome, rec.Reply, rec.End = outcome, reply, w.now
		if w.second[i] {
			return // nothing follows from it
		}
		for _, next := range w.load.Follow(rec.Op, outcome, reply) {
			w.after(next.After, func() { w.send(next.Op, false) })
		}
		if outcome == history.OK {
			w.resend(rec.Op, sut.Later)
		}
	})
}

// resend plans the second sending of an operation that has one at that time.
func (w *world) resend(op history.Op, when sut.Resending) {
	wanted, pause := w.load.(sut.Resender).Resend(op)
	if wanted == when {
		w.after(pause, func() { w.send(op, true) })
	}
}

// refScheduler is a correct scheduler: what is due starts a moment later, executors
// die and sleep, and nothing is decided by who has no lease any more.
type refScheduler struct {
	w       *world
	begins  time.Duration // -1 before the first request
	rows    []*refRow
	byTask  map[uint64][]*refRow
	runs    []*scheduler.RunAudit
	effects []scheduler.EffectAudit
	changes []scheduler.ChangeAudit
}

// refRow is a row of the table of tasks.
type refRow struct {
	scheduler.TaskAudit
	run *scheduler.RunAudit
}

func newRefScheduler(w *world) *refScheduler {
	return &refScheduler{w: w, begins: -1, byTask: map[uint64][]*refRow{}}
}

// storeOffset is how far the database's clock is ahead of the run's.
const storeOffset = 1_700_000_000 * time.Second

// clock is the database's clock in microseconds; it never shows a time twice.
func (s *refScheduler) clock() int64 {
	s.w.now += time.Microsecond
	return (storeOffset + s.w.now).Microseconds()
}

// until is how long it is until a moment of the database's clock.
func (s *refScheduler) until(us int64) time.Duration {
	return time.Duration(us)*time.Microsecond - storeOffset - s.w.now
}

var errNo = errors.New("refused")

func (s *refScheduler) do(op history.Op) (history.Reply, error) {
	if op.Kind == scheduler.KindSchedule {
		return s.schedule(op)
	}
	id, _ := strconv.ParseUint(op.Key, 10, 64)
	rows := s.byTask[id]
	switch {
	case op.Kind == scheduler.KindTask, op.Kind == scheduler.KindTasks, op.Kind == scheduler.KindAwait:
		return history.Reply{}, nil
	case len(rows) == 0:
		return history.Reply{}, errNo
	}
	return s.change(op, id, rows)
}

func (s *refScheduler) schedule(op history.Op) (history.Reply, error) {
	now := s.clock()
	if s.begins < 0 {
		s.begins = s.w.now
	}
	rows := s.byTask[op.ID]
	if len(rows) == 0 {
		req := scheduler.RequestOf(op)
		row := &refRow{TaskAudit: scheduler.TaskAudit{Task: op.ID, Occurrence: 1, Origin: true,
			Queue: req.Queue, Client: req.Client, Name: req.Task, WorkMS: req.WorkMS, Fails: req.Fails,
			Cron: req.Cron, Zone: req.Zone, Times: req.Times, CreatedUS: now, ReadyUS: now,
			State: scheduler.Waiting}}
		row.FirstUS = s.due(row, 1, req.At)
		row.DueUS = row.FirstUS
		s.insert(row)
		rows = []*refRow{row}
	}
	return history.Reply{Key: strconv.FormatUint(op.ID, 10),
		Value: int64(max(0, s.until(rows[0].FirstUS)))}, nil
}

// due is when the k-th occurrence is, from a business time on.
func (s *refScheduler) due(row *refRow, k int64, from time.Time) int64 {
	at := from.Truncate(s.w.params.Granularity.D())
	for range k {
		if row.Cron == "" {
			break
		}
		next, err := scheduler.CronNext(row.Cron, row.Zone, at)
		if err != nil {
			panic(err)
		}
		at = next
	}
	return scheduler.ClockOf(s.w.params, (storeOffset + s.begins).Microseconds(), at)
}

func (s *refScheduler) insert(row *refRow) {
	s.rows = append(s.rows, row)
	s.byTask[row.Task] = append(s.byTask[row.Task], row)
	s.wake(row)
}

// wake starts a row once it is due, if it still waits for that.
func (s *refScheduler) wake(row *refRow) {
	due := row.DueUS
	s.w.after(max(0, s.until(due))+time.Microsecond+s.w.some(refDelay), func() {
		if row.DueUS == due && row.State == scheduler.Waiting && !row.Paused {
			s.start(row)
		}
	})
}

func (s *refScheduler) start(row *refRow) {
	p := s.w.params
	row.Fence++
	run := &scheduler.RunAudit{Task: row.Task, Occurrence: row.Occurrence, Fence: row.Fence,
		Queue: row.Queue, DueUS: row.DueUS, PickedUS: s.clock(), StartedUS: s.clock(),
		Executor: fmt.Sprintf("executor-%d", len(s.runs)%2)}
	row.State, row.run, row.LeaseUS = scheduler.Running, run, run.StartedUS+p.Lease.D().Microseconds()
	s.runs = append(s.runs, run)
	if p.Recurrence == scheduler.Insert {
		s.insertNext(row)
	}
	work := time.Duration(row.WorkMS) * time.Millisecond
	switch u := s.w.rng.Float64(); {
	case u < s.w.dies:
		if s.w.rng.IntN(2) == 0 {
			s.w.after(work, func() { s.effect(row, run) })
		}
		s.w.after(p.Lease.D()+s.w.some(p.RescueEvery.D()), func() { s.rescue(row, run) })
	case u < s.w.dies+s.w.sleeps:
		s.w.after(p.Lease.D()+s.w.some(p.RescueEvery.D()), func() { s.rescue(row, run) })
		s.w.after(2*p.Lease.D()+s.w.some(p.Lease.D()), func() { s.end(row, run) })
	default:
		s.w.after(work, func() { s.end(row, run) })
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
	next.State, next.Stops, next.CreatedUS = scheduler.Waiting, false, s.clock()
	next.ReadyUS = next.CreatedUS
	s.toNext(&next)
	s.insert(&next)
}

// toNext makes a row the next occurrence.
func (s *refScheduler) toNext(row *refRow) {
	row.Occurrence++
	for _, r := range s.w.records {
		if r.Op.ID == row.Task && r.Op.Kind == scheduler.KindSchedule {
			row.DueUS = s.due(row, row.Occurrence, scheduler.RequestOf(r.Op).At)
			return
		}
	}
	panic("a row that nobody asked for")
}

// effect happens once, and only by who has the token.
func (s *refScheduler) effect(row *refRow, run *scheduler.RunAudit) bool {
	if row.run != run || row.State != scheduler.Running {
		return false
	}
	had := slices.ContainsFunc(s.effects, func(e scheduler.EffectAudit) bool {
		return e.Task == run.Task && e.Occurrence == run.Occurrence
	})
	if !had {
		s.effects = append(s.effects, scheduler.EffectAudit{Task: run.Task, Occurrence: run.Occurrence,
			Fence: run.Fence, AtUS: s.clock()})
	}
	return true
}

func (s *refScheduler) end(row *refRow, run *scheduler.RunAudit) {
	outcome := scheduler.Done
	if row.Fails {
		outcome = scheduler.Failed
	} else if !s.effect(row, run) {
		return
	}
	if row.run != run || row.State != scheduler.Running {
		return
	}
	run.EndedUS, run.Outcome = s.clock(), outcome
	row.State, row.EndedUS, row.LeaseUS, row.run = outcome, run.EndedUS, 0, nil
	more := outcome == scheduler.Done && row.Cron != "" && row.Occurrence < row.Times &&
		s.w.params.Recurrence == scheduler.Reset
	if more && row.Stops {
		row.State = scheduler.Cancelled
	} else if more {
		row.State, row.EndedUS, row.ReadyUS = scheduler.Waiting, 0, s.clock()
		s.toNext(row)
		s.wake(row)
	}
}

// stop lets an executor see by its next heartbeat that somebody cancelled what it runs.
func (s *refScheduler) stop(row *refRow, run *scheduler.RunAudit) {
	s.w.after(s.w.some(s.w.params.Lease.D()/4), func() {
		if row.run != run || row.State != scheduler.Running {
			return
		}
		run.EndedUS, run.Outcome = s.clock(), scheduler.Cancelled
		row.State, row.EndedUS, row.LeaseUS, row.run = scheduler.Cancelled, run.EndedUS, 0, nil
	})
}

func (s *refScheduler) rescue(row *refRow, run *scheduler.RunAudit) {
	if row.run != run || row.State != scheduler.Running {
		return
	}
	run.LeaseUS, run.EndedUS, run.Outcome = row.LeaseUS, s.clock(), scheduler.Lost
	row.run, row.LeaseUS, row.ReadyUS, row.State = nil, 0, s.clock(), scheduler.Waiting
	if row.Stops {
		row.State = scheduler.Cancelled
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
	state, at := scheduler.State(""), s.clock()
	for _, row := range rows {
		open := row.State == scheduler.Waiting
		runs := row.State == scheduler.Running
		switch {
		case op.Kind == scheduler.KindCancel && open:
			row.State, row.EndedUS, state = scheduler.Cancelled, at, scheduler.Cancelled
		case op.Kind == scheduler.KindCancel && runs:
			row.Stops, state = true, scheduler.Stopping
			s.stop(row, row.run)
		case op.Kind == scheduler.KindPause && (open || runs):
			row.Paused, state = true, scheduler.Paused
		case op.Kind == scheduler.KindResume && (open || runs):
			row.Paused, row.ReadyUS, state = false, at, row.State
			s.wake(row)
		case op.Kind == scheduler.KindRerun && row.State == scheduler.Failed:
			row.Fails, row.State, state = false, scheduler.Waiting, scheduler.Waiting
			row.Stops = false
			row.Reruns, row.EndedUS, row.ReadyUS = row.Reruns+1, 0, at
			s.wake(row)
		}
	}
	if state == "" {
		return history.Reply{}, errNo
	}
	s.changes = append(s.changes, scheduler.ChangeAudit{Op: op.ID, Task: id, What: op.Kind,
		Outcome: state, AtUS: at})
	return history.Reply{Key: string(state)}, nil
}

func (s *refScheduler) look() scheduler.Look {
	now := (storeOffset + s.w.now).Microseconds()
	l := scheduler.Look{NowUS: now, Executors: 1}
	for _, row := range s.rows {
		switch row.State {
		case scheduler.Running:
			l.Running++
			l.LeaseUS = max(l.LeaseUS, now-row.LeaseUS)
		case scheduler.Waiting:
			l.Waiting++
			if since := now - max(row.DueUS, row.ReadyUS); since >= 0 && !row.Paused {
				l.Due, l.DueUS = l.Due+1, max(l.DueUS, since)
			}
		}
	}
	return l
}

func (s *refScheduler) audit() scheduler.Audit {
	a := scheduler.Audit{Tasks: []scheduler.TaskAudit{}, Runs: []scheduler.RunAudit{},
		Effects: s.effects, Changes: s.changes, DayMS: scheduler.DayMS(s.w.params)}
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
	if a.Effects == nil {
		a.Effects = []scheduler.EffectAudit{}
	}
	if a.Changes == nil {
		a.Changes = []scheduler.ChangeAudit{}
	}
	return a
}
