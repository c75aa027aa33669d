package scheduler

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"stampede/harness/design"
	"stampede/harness/sim"
	"stampede/harness/stores"
	"stampede/harness/sut"
	"stampede/systems/internal/queue"
)

// The statements whose costs the models of designs need.
const (
	costBeginDay = "begin_day"
	costDay      = "day" // reads when the day began
	costSchedule = "schedule"
	costLock     = "lock" // locks a task's rows for a change
	costChanged  = "changed"
	costSet      = "set" // changes a row
	costNote     = "note"
	costTask     = "task"
	costRuns     = "runs"
	costTasks    = "tasks"
	costStarts   = "starts" // looks for all who wait
	costPick     = "pick"
	costMark     = "mark"
	costInsert   = "insert"
	costClaim    = "claim"
	costBeat     = "beat"
	costLetGo    = "let_go"
	costEffect   = "effect"
	costEnd      = "end"
	costEndBatch = "end_batch" // for each run
	costRescue   = "rescue"
	costPurge    = "purge"
	costWatch    = "watch"

	// What each row costs beside the statement.
	costPicked  = "picked"
	costMarked  = "marked"
	costClaimed = "claimed"
	costSkipped = "skipped" // passed over, because it is locked
	costBeaten  = "beaten"
	costTaken   = "taken" // back by the rescuer
)

// assumedCosts are what statements cost on a CPU of 2023, until somebody measures them. A row of a
// batch is assumed to cost less than an end, which writes three.
func assumedCosts() sim.Costs {
	us := sim.Assumed
	return sim.Costs{
		App: map[string]sim.Cost{"postgres": us(60)},
		Postgres: map[string]sim.Cost{sim.Begin: us(25), costBeginDay: us(50), costDay: us(25),
			costSchedule: us(110), costLock: us(70), costChanged: us(35), costSet: us(70),
			costNote: us(60), costTask: us(60), costRuns: us(60), costTasks: us(100),
			costStarts: us(120), costPick: us(100), costMark: us(60), costInsert: us(110),
			costClaim: us(150), costBeat: us(60), costLetGo: us(60), costEffect: us(90),
			costEnd: us(120), costEndBatch: us(60), costRescue: us(60), costPurge: us(50),
			costWatch: us(400), costPicked: us(3), costMarked: us(15), costClaimed: us(40),
			costSkipped: us(1), costBeaten: us(15), costTaken: us(40)},
	}
}

// taskModel is what the models of designs have in common: the rows, by the statements of tasks.
// What processes count for metrics is left out, and nothing becomes old enough to be deleted.
type taskModel struct {
	*sim.Cluster
	p       Params
	rules   *tasks
	day     *sim.Table[bool, int64]
	rows    *sim.Table[int64, taskRow]
	series  *sim.Table[seriesKey, int64]
	runs    *sim.Table[int64, RunAudit]
	effects *sim.Table[occurrence, EffectAudit]
	changes *sim.Table[uint64, ChangeAudit]

	waiting, picked, leases *sim.Index[int64, taskRow] // tasks_…

	ids, runIDs int64
	// The rows of a series, its runs and the rows of a queue, and some that were rolled back.
	of, runsOf map[uint64][]int64
	inQueue    map[string][]int64

	// What designs do in their own way: skew is how far their clock is ahead, mine locks a run's
	// task as mineSQL does, start is what a claim makes of a row, idle says that there are no
	// leases, and together that runs end in batches.
	skew     time.Duration
	mine     func(taskRow, claim) bool
	start    func(row taskRow, executor string) (taskRow, claim)
	idle     bool
	together bool
}

// taskRow is a row of tasks. Its times are microseconds of the simulation.
type taskRow struct {
	TaskAudit

	id, born, attempts, reruns, readyUS, pickedUS, run int64
}

type seriesKey struct {
	task uint64
	born int64
}

// simulated is the model of a design, by what it does in its own way.
func simulated(
	o overrides, own func(*taskModel),
) func(*sim.Cluster, Params, sut.Config) design.Model[Scheduler] {
	return func(c *sim.Cluster, p Params, cfg sut.Config) design.Model[Scheduler] {
		o := scheme{overrides: o}.full()
		m := newTaskModel(c, p, &tasks{opened: &opened{Params: p}, overrides: o})
		if own != nil {
			own(m)
		}
		limit := stores.Timeout(cfg)
		conns := c.Postgres.Conns()
		serve := func(*sim.Replica) (Scheduler, []func(*sim.Process)) {
			api := &modelAPI{modelServer: modelServer{m, conns, nil},
				late: map[uint64]time.Duration{}, waits: map[uint64]*modelAwait{}}
			return api, []func(*sim.Process){func(p *sim.Process) { api.look(p, limit) }}
		}
		m.roles(cfg, limit)
		gauge := c.Postgres.OwnConns("gauge", 1, limit)
		return design.Model[Scheduler]{Open: serve, Pending: m.pending,
			Audit: func() any { return m.audit() },
			Gauge: func(p *sim.Process) any { return m.watch(p, gauge) }}
	}
}

func newTaskModel(c *sim.Cluster, p Params, rules *tasks) *taskModel {
	pg := c.Postgres
	m := &taskModel{Cluster: c, p: p, rules: rules,
		day:     sim.NewTable[bool, int64](pg, "calendar"),
		rows:    sim.NewTable[int64, taskRow](pg, "tasks"),
		series:  sim.NewTable[seriesKey, int64](pg, "tasks_series"),
		runs:    sim.NewTable[int64, RunAudit](pg, "runs"),
		effects: sim.NewTable[occurrence, EffectAudit](pg, "effects"),
		changes: sim.NewTable[uint64, ChangeAudit](pg, "changes"),
		of:      map[uint64][]int64{}, runsOf: map[uint64][]int64{}, inQueue: map[string][]int64{}}
	m.mine, m.start = ownRun, m.started
	in := func(state State, at func(taskRow) int64) *sim.Index[int64, taskRow] {
		return sim.NewIndex(m.rows,
			func(r taskRow) bool { return r.State == state && (!r.Paused || state == Running) },
			func(a, b taskRow) int { return cmp.Or(cmp.Compare(at(a), at(b)), cmp.Compare(a.id, b.id)) })
	}
	due := func(r taskRow) int64 { return r.DueUS }
	m.waiting, m.picked = in(Waiting, due), in(Picked, due)
	m.leases = in(Running, func(r taskRow) int64 { return r.LeaseUS })
	return m
}

// now is the database's clock in microseconds, from 1971 on: some tasks are due before the load.
func (m *taskModel) now() int64 { return (m.Sim.Now() + 365*24*time.Hour).Microseconds() }

// modelServer is a process with connections, which remembers when the day began.
type modelServer struct {
	*taskModel
	conns *sim.Conns
	begun *calendar
}

// calendar is tasks.calendar.
func (s *modelServer) calendar(p *sim.Process, begin bool) (c calendar, is bool) {
	if s.begun != nil {
		return *s.begun, true
	}
	if begin {
		s.conns.Exec(p, costBeginDay, func() {
			p.Do(s.day.Lock(true))
			if _, begun := s.day.Get(true); !begun {
				s.day.Set(true, s.now())
			}
		})
	}
	s.conns.Exec(p, costDay, func() {
		var at int64
		if at, is = s.day.Get(true); is {
			c = calendar{begins: moment(at), day: s.p.day(), scale: s.p.TimeScale}
			s.begun = &c
		}
	})
	return c, is
}

// insert adds a row, whose place in the series the transaction has.
func (m *taskModel) insert(row taskRow) {
	m.ids++
	row.id = m.ids
	row.State, row.CreatedUS, row.readyUS = Waiting, m.now(), m.now()
	m.series.Set(seriesKey{row.Task, row.born}, row.id)
	m.of[row.Task] = append(m.of[row.Task], row.id)
	m.inQueue[row.Queue] = append(m.inQueue[row.Queue], row.id)
	m.rows.TryLock(row.id) // nobody else knows it
	m.rows.Set(row.id, row)
}

// modelAPI is what users call.
type modelAPI struct {
	modelServer
	late   map[uint64]time.Duration
	waits  map[uint64]*modelAwait
	failed error
}

// modelAwait are those who wait for a task.
type modelAwait struct {
	signal *sim.Signal
	n      int
}

// Schedule is tasks.Schedule.
func (a *modelAPI) Schedule(ctx context.Context, req Request) (Scheduled, error) {
	p := sim.In(ctx)
	c, _ := a.calendar(p, true)
	due, err := req.first(a.p.Granularity.D())
	if err != nil {
		return Scheduled{}, err
	}
	at := c.clock(due).UnixMicro()
	asked := taskRow{born: 1, TaskAudit: TaskAudit{Task: req.ID, Occurrence: 1, Origin: true,
		Queue: req.Queue, Client: req.Client, Name: req.Task, WorkMS: req.WorkMS, Fails: req.Fails,
		Cron: req.Cron, Zone: req.Zone, Times: req.Times, FirstUS: at, DueUS: at}}
	same, in := true, time.Duration(0)
	a.conns.Exec(p, costSchedule, func() {
		key := seriesKey{req.ID, 1}
		p.Do(a.series.Lock(key))
		if id, is := a.series.Get(key); is {
			p.Do(a.rows.Lock(id))
			row, _ := a.rows.Get(id)
			a.rows.Set(id, row)
			same = row.asked() == asked.asked()
		} else {
			a.insert(asked)
		}
		in = max(0, micros(at-a.now()))
	})
	if !same {
		return Scheduled{}, ErrConflict
	}
	return Scheduled{in}, nil
}

// asked is a row as it was asked for.
func (r taskRow) asked() TaskAudit {
	return TaskAudit{Queue: r.Queue, Client: r.Client, Name: r.Name, WorkMS: r.WorkMS, Fails: r.Fails,
		Cron: r.Cron, Zone: r.Zone, Times: r.Times, FirstUS: r.FirstUS}
}

// Change is tasks.Change.
func (a *modelAPI) Change(ctx context.Context, c Change) (state State, err error) {
	p := sim.In(ctx)
	err = a.conns.Transaction(p, func() error {
		rows, err := a.lockSeries(p, c.Task)
		if err != nil {
			return err
		}
		var before ChangeAudit
		var made bool
		a.conns.Query(p, costChanged, func() { before, made = a.changes.Get(c.ID) })
		switch {
		case made && (before.Task != c.Task || before.What != c.What):
			return ErrOpTaken
		case made:
			state = before.Outcome
			return nil
		}
		for _, row := range rows {
			if set, becomes := transition(c.What, row.State); set != "" {
				state = becomes
				a.conns.Query(p, costSet, func() { a.rows.Set(row.id, a.changed(row, c.What)) })
			}
		}
		if state == "" {
			return ErrState
		}
		a.conns.Query(p, costNote, func() {
			p.Do(a.changes.Lock(c.ID))
			if _, taken := a.changes.Get(c.ID); taken {
				err = ErrOpTaken
				return
			}
			a.changes.Set(c.ID, ChangeAudit{c.ID, c.Task, c.What, state, a.now()})
		})
		return err
	})
	if err != nil {
		return "", err
	}
	return state, nil
}

// lockSeries is the same of tasks.
func (a *modelAPI) lockSeries(p *sim.Process, task uint64) (rows []taskRow, err error) {
	for seen := 0; ; seen = len(rows) {
		rows = nil
		a.conns.Query(p, costLock, func() {
			for _, id := range slices.Clone(a.of[task]) {
				if _, is := a.rows.Get(id); !is {
					continue
				}
				p.Do(a.rows.Lock(id))
				row, _ := a.rows.Get(id)
				rows = append(rows, row)
			}
		})
		switch len(rows) {
		case 0:
			return nil, ErrUnknownTask
		case seen:
			return rows, nil
		}
	}
}

// changed is a row as transition sets it.
func (m *taskModel) changed(row taskRow, what string) taskRow {
	switch now := m.now(); {
	case what == KindCancel && row.State == Running:
		row.Stops = true
	case what == KindCancel:
		row.State = Cancelled
	case what == KindPause:
		row.Paused = true
	case what == KindResume:
		row.Paused, row.readyUS = false, now
	case what == KindRerun:
		row.State, row.Stops, row.attempts, row.readyUS = Waiting, false, 0, now
		row.reruns, row.pickedUS, row.LeaseUS = row.reruns+1, 0, 0
	}
	return row
}

// Task is tasks.Task.
func (a *modelAPI) Task(ctx context.Context, id uint64) (k Task, err error) {
	p := sim.In(ctx)
	c, _ := a.calendar(p, true)
	err = ErrUnknownTask
	a.conns.Exec(p, costTask, func() {
		for _, number := range a.of[id] {
			if row, is := a.rows.Get(number); is {
				k, err = row.task(c), nil
			}
		}
	})
	if err != nil {
		return k, err
	}
	a.conns.Exec(p, costRuns, func() {
		for _, number := range a.runsOf[id] {
			if r, is := a.runs.Get(number); is {
				k.Runs = append(k.Runs, Run{Occurrence: r.Occurrence, Fence: r.Fence, Outcome: r.Outcome,
					Due: c.business(moment(r.DueUS)), Started: moment(r.StartedUS)})
				if r.EndedUS > 0 {
					k.Runs[len(k.Runs)-1].Ended = moment(r.EndedUS)
				}
			}
		}
	})
	return k, nil
}

func (r taskRow) task(c calendar) Task {
	k := Task{ID: r.Task, Queue: r.Queue, Client: r.Client, Occurrence: r.Occurrence,
		Spec: Spec{Task: r.Name, WorkMS: r.WorkMS, Fails: r.Fails, Cron: r.Cron, Zone: r.Zone,
			Times: r.Times}, Due: c.business(moment(r.DueUS)), State: r.State, Paused: r.Paused}
	if r.Stops && r.State == Running {
		k.State = Stopping
	}
	return k
}

// Tasks is tasks.Tasks.
func (a *modelAPI) Tasks(ctx context.Context, queue string, limit int) ([]Task, error) {
	p, list := sim.In(ctx), []Task{}
	c, _ := a.calendar(p, true)
	a.conns.Exec(p, costTasks, func() {
		for _, id := range slices.Backward(a.inQueue[queue]) {
			if row, is := a.rows.Get(id); is && len(list) < limit {
				list = append(list, row.task(c))
			} else if is {
				break
			}
		}
	})
	return list, nil
}

// Await is instance.Await.
func (a *modelAPI) Await(ctx context.Context, id uint64) (time.Duration, error) {
	p, w := sim.In(ctx), a.waits[id]
	if w == nil {
		w = &modelAwait{signal: sim.NewSignal(a.Sim)}
		a.waits[id] = w
	}
	w.n++
	defer func() {
		if w.n--; w.n == 0 && a.waits[id] == w {
			delete(a.waits, id)
		}
	}()
	if _, known := a.late[id]; !known && a.failed == nil {
		_ = p.Within(a.p.AwaitFor.D(), func() { p.Do(w.signal.Wait()) }) // it ends with the deadline
	}
	switch late, known := a.late[id]; {
	case known && late < 0:
		return 0, ErrState
	case known:
		return late, nil
	case a.failed != nil:
		return 0, a.failed
	}
	return 0, ErrNotStarted
}

// look is instance.look, again and again, on the connections of users.
func (a *modelAPI) look(p *sim.Process, limit time.Duration) {
	for {
		p.Do(a.Sim.Delay(lookEvery))
		ids := make([]uint64, 0, len(a.waits))
		for id := range a.waits { // sorted below
			ids = append(ids, id)
		}
		if slices.Sort(ids); len(ids) == 0 {
			a.failed = nil
			continue
		}
		found := map[uint64]time.Duration{}
		a.failed = p.Within(limit, func() {
			a.conns.Exec(p, costStarts, func() {
				for _, id := range ids {
					if late, is := a.firstStart(id); is {
						found[id] = late
					}
				}
			})
		})
		for _, id := range ids {
			late, is := found[id]
			if is {
				a.late[id] = late
			}
			for is || a.failed != nil {
				if w := a.waits[id]; w == nil || !w.signal.Wake() {
					break
				}
			}
		}
	}
}

// firstStart says how late a task started first, -1 if it was cancelled before.
func (m *taskModel) firstStart(id uint64) (late time.Duration, is bool) {
	late = math.MaxInt64
	started := false
	for _, number := range m.runsOf[id] {
		if r, known := m.runs.Get(number); known {
			started = true
			if r.Occurrence == 1 {
				late, is = min(late, max(0, micros(r.StartedUS-r.DueUS))), true
			}
		}
	}
	for _, number := range m.of[id] {
		if row, _ := m.rows.Get(number); row.State == Cancelled && !started {
			return -1, true
		}
	}
	return late, is
}

// roles begins pickers, executors and rescuers. Their errors end none of them.
func (m *taskModel) roles(cfg sut.Config, limit time.Duration) {
	begin := func(
		role string, conns int, steps func(n int, s *modelServer) []func(*sim.Process),
	) {
		m.Role(role, max(1, cfg.Replicas[role]), sut.AfterError,
			func(r *sim.Replica) (works []func(*sim.Process)) {
				s := &modelServer{m, m.Postgres.OwnConns(r.Name, conns, limit), nil}
				for _, step := range steps(r.Number, s) {
					works = append(works, func(p *sim.Process) { m.steady(p, step) })
				}
				return works
			})
	}
	if m.rules.picks() {
		begin("picker", 1, func(n int, s *modelServer) []func(*sim.Process) {
			return []func(*sim.Process){func(p *sim.Process) { s.pickAll(p, n) }}
		})
	}
	begin("executor", max(2*takers, min(cfg.MaxConns, executorConns)), m.executors)
	begin("rescuer", 1, func(_ int, s *modelServer) []func(*sim.Process) {
		return []func(*sim.Process){func(p *sim.Process) {
			s.rescueAll(p)
			p.Do(m.Sim.Delay(m.p.RescueEvery.D()))
		}}
	})
}

// executors are what a process of that role does.
func (m *taskModel) executors(n int, s *modelServer) (steps []func(*sim.Process)) {
	for half := range takers {
		e := &modelExecutor{modelServer: s, name: fmt.Sprintf("executor-%d.%d", n+1, half),
			half: half, hands: map[int64]*modelHand{}, freed: sim.NewSignal(m.Sim),
			ending: sim.NewSignal(m.Sim)}
		steps = append(steps, e.step)
		if !m.idle {
			steps = append(steps, func(p *sim.Process) {
				p.Do(m.Sim.Delay(m.p.Lease.D() / beats))
				e.beat(p)
			})
		}
		if m.together {
			steps = append(steps, e.endSome)
		}
	}
	return steps
}

// steady is tasks.steady.
func (m *taskModel) steady(p *sim.Process, step func(*sim.Process)) {
	for {
		if p.Try(func() { step(p) }) != nil {
			p.Do(m.Sim.Delay(sut.AfterError))
		}
	}
}

// rest is idle.rest of those whom nobody notifies.
func (m *taskModel) rest(p *sim.Process, who string) {
	wait := m.p.PollEvery.D()
	uneven := time.Duration(m.Sim.Stream(who).IntN(int(wait)))
	p.Do(m.Sim.Delay(wait/2 + uneven))
}

// pickAll is tasks.pickAll.
func (s *modelServer) pickAll(p *sim.Process, n int) {
	_ = queue.Batches(context.Background(), s.p.PickBatch, func(context.Context) (int, error) {
		return s.pick(p), nil
	})
	s.rest(p, fmt.Sprintf("picker-%d", n+1))
}

// pick is tasks.pick.
func (s *modelServer) pick(p *sim.Process) (taken int) {
	c, begun := s.calendar(p, false)
	if !begun {
		return 0
	}
	_ = s.conns.Transaction(p, func() error {
		var rows []taskRow
		s.conns.Query(p, costPick, func() {
			until := s.now() + (s.skew + s.p.clock(s.p.LookAhead)).Microseconds()
			rows = s.locked(p, costPicked, s.waiting, until, s.p.PickBatch, nil)
		})
		if taken = len(rows); taken == 0 {
			return nil
		}
		p.Passed(placeSelected)
		s.conns.Query(p, costMark, func() {
			p.Do(s.Postgres.BurnTimes(costMarked, float64(taken)))
			for _, row := range rows {
				row.State, row.pickedUS = Picked, s.now()
				s.rows.Set(row.id, row)
			}
		})
		for _, row := range rows {
			s.insertNext(p, c, row)
		}
		return nil
	})
	return taken
}

// locked locks the first rows of an index that are due, that nobody else has locked and that are
// not left out. Cost is what each costs.
func (m *taskModel) locked(
	p *sim.Process, cost string, of *sim.Index[int64, taskRow], until int64, most int, not []int64,
) []taskRow {
	rows, skipped := m.rows.Claim(of.All(), most,
		func(row taskRow) bool { return row.DueUS <= until },
		func(row taskRow) bool { return !slices.Contains(not, row.id) })
	p.Do(m.Postgres.BurnTimes(cost, float64(len(rows))),
		m.Postgres.BurnTimes(costSkipped, float64(skipped)))
	return rows
}

// insertNext is tasks.insertNext.
func (s *modelServer) insertNext(p *sim.Process, c calendar, row taskRow) {
	if !s.rules.inserts() {
		return
	}
	due := moment(row.DueUS)
	next, err := s.rules.nextDue(c, row.Cron, row.Zone, due, row.Occurrence, row.Times)
	if err != nil {
		p.Fail(err)
	}
	if next == nil {
		return
	}
	s.conns.Query(p, costInsert, func() {
		key := seriesKey{row.Task, row.Occurrence + 1}
		p.Do(s.series.Lock(key))
		if _, is := s.series.Get(key); is {
			return
		}
		after := taskRow{born: key.born, TaskAudit: row.asked()}
		after.Task, after.Occurrence, after.DueUS = row.Task, key.born, next.UnixMicro()
		s.insert(after)
	})
}

// modelExecutor is executor: half of the tasks of a process.
type modelExecutor struct {
	*modelServer
	name  string
	half  int
	hands map[int64]*modelHand
	// freed is woken when a task has ended, which free remembers.
	freed *sim.Signal
	free  bool
	// ends wait to be ended together; ending is woken when there is one.
	ends   []*modelEnd
	ending *sim.Signal
}

// modelHand is hand.
type modelHand struct {
	claim
	abandoned       *sim.Signal
	stopped, ending bool
}

// modelEnd is a run to be ended and who waits for that.
type modelEnd struct {
	ending
	told *sim.Signal
	err  error
}

// step is executor.step.
func (e *modelExecutor) step(p *sim.Process) {
	working := 0
	var hands []int64
	for _, h := range e.hands { // the order does not matter
		hands = append(hands, h.id)
		if !h.ending {
			working++
		}
	}
	free := min((e.p.Executors+e.half)/takers-working, endsMost-len(hands))
	if free <= 0 {
		if !e.free {
			_ = p.Within(e.p.PollEvery.D(), func() { p.Do(e.freed.Wait()) }) // it ends with the deadline
		}
		e.free = false
		return
	}
	list := e.claims(p, min(free, e.p.PickBatch), hands)
	if len(list) == 0 {
		e.rest(p, e.name)
	} else {
		p.Passed(placeClaimed)
	}
	for _, c := range list {
		h := &modelHand{claim: c, abandoned: sim.NewSignal(e.Sim)}
		e.hands[c.run] = h
		p.Go(func(p *sim.Process) {
			_ = p.Try(func() { e.perform(p, h) }) // its lease will end
			delete(e.hands, c.run)
			e.left()
		})
	}
}

// left says that there may be room.
func (e *modelExecutor) left() {
	e.free = true
	e.freed.Wake()
}

// claims is claimSQL.
func (e *modelExecutor) claims(p *sim.Process, n int, hands []int64) (list []claim) {
	of, not := e.picked, hands
	if !e.rules.picks() {
		of = e.waiting
	}
	if !e.idle {
		not = nil // what is in hand is marked
	}
	e.conns.Exec(p, costClaim, func() {
		for _, row := range e.locked(p, costClaimed, of, e.now()+e.skew.Microseconds(), n, not) {
			started, c := e.start(row, e.name)
			if started != row {
				e.rows.Set(row.id, started)
			}
			list = append(list, c)
		}
	})
	return list
}

// started is startSQL: a run begins, and the row says so.
func (m *taskModel) started(row taskRow, executor string) (taskRow, claim) {
	now := m.now()
	row.State, row.pickedUS = Running, cmp.Or(row.pickedUS, now)
	row.Fence++
	row.attempts++
	row.LeaseUS = now + m.p.Lease.D().Microseconds()
	c := m.run(row, row.Fence, executor)
	row.run = c.run
	return row, c
}

// run adds a run of a row.
func (m *taskModel) run(row taskRow, fence int64, executor string) claim {
	m.runIDs++
	m.runsOf[row.Task] = append(m.runsOf[row.Task], m.runIDs)
	m.runs.TryLock(m.runIDs) // nobody else knows it
	m.runs.Set(m.runIDs, RunAudit{Task: row.Task, Occurrence: row.Occurrence, Fence: fence,
		Queue: row.Queue, DueUS: row.DueUS, PickedUS: row.pickedUS, StartedUS: m.now(),
		Executor: executor})
	return claim{id: row.id, series: int64(row.Task), occurrence: row.Occurrence, fence: fence,
		run: m.runIDs, due: moment(row.DueUS), cron: row.Cron, zone: row.Zone, times: row.Times,
		workMS: row.WorkMS, fails: row.Fails && row.reruns == 0}
}

// perform is executor.perform.
func (e *modelExecutor) perform(p *sim.Process, h *modelHand) {
	work := time.Duration(h.workMS) * time.Millisecond
	whole := p.Within(work, func() { p.Do(h.abandoned.Wait()) }) != nil
	switch {
	case !whole && !h.stopped:
		return // somebody else has it
	case !whole:
		e.endAs(p, h.claim, Cancelled)
	case h.fails:
		e.endAs(p, h.claim, Failed)
	case e.together:
		h.ending = true
		e.left()
		e.endTogether(p, h.claim)
	default:
		if e.effect(p, h.claim) {
			p.Passed(placeEffected)
		}
		e.endAs(p, h.claim, Done)
	}
}

// ownRun is mineSQL.
func ownRun(row taskRow, c claim) bool { return row.State == Running && row.Fence == c.fence }

// own locks the task of a run if it is still the run's.
func (m *taskModel) own(p *sim.Process, c claim) (row taskRow, is bool) {
	if row, is = m.rows.Get(c.id); !is || !m.mine(row, c) {
		return row, false
	}
	p.Do(m.rows.Lock(c.id))
	row, is = m.rows.Get(c.id)
	return row, is && m.mine(row, c)
}

// effect is effectSQL.
func (e *modelExecutor) effect(p *sim.Process, c claim) (mine bool) {
	e.conns.Exec(p, costEffect, func() {
		if _, mine = e.own(p, c); mine {
			e.put(p, c)
		}
	})
	return mine
}

func (m *taskModel) put(p *sim.Process, c claim) {
	key := occurrence{uint64(c.series), c.occurrence}
	p.Do(m.effects.Lock(key))
	if _, is := m.effects.Get(key); !is {
		m.effects.Set(key, EffectAudit{key.task, key.k, c.fence, m.now()})
	}
}

// endAs is endSQL.
func (e *modelExecutor) endAs(p *sim.Process, c claim, outcome State) {
	end := e.ended(p, c, outcome)
	e.conns.Exec(p, costEnd, func() {
		row, mine := e.own(p, c)
		if mine {
			row.Fence = max(row.Fence, c.fence)
			e.rows.Set(row.id, e.moved(row, end))
		}
		e.endRun(p, end, mine, mine)
	})
}

// ended is tasks.ended.
func (e *modelExecutor) ended(p *sim.Process, c claim, outcome State) ending {
	end := ending{claim: c, outcome: outcome}
	if outcome != Done || e.rules.inserts() || c.cron == "" {
		return end
	}
	days, _ := e.calendar(p, false)
	next, err := e.rules.nextDue(days, c.cron, c.zone, c.due, c.occurrence, c.times)
	if err != nil {
		p.Fail(err)
	}
	end.next = next
	return end
}

// moved is endedSQL.
func (m *taskModel) moved(row taskRow, end ending) taskRow {
	now := m.now()
	row.readyUS, row.LeaseUS = now, 0
	switch {
	case end.next != nil && !row.Stops:
		row.State, row.DueUS, row.attempts = Waiting, end.next.UnixMicro(), 0
		row.Occurrence++
		row.pickedUS = 0
	case end.next != nil:
		row.State = Cancelled
	default:
		row.State = end.outcome
	}
	return row
}

// endRun is runEndedSQL, of a run that has ended or been taken back only if that is forced.
func (m *taskModel) endRun(p *sim.Process, end ending, own, force bool) {
	p.Do(m.runs.Lock(end.run))
	r, _ := m.runs.Get(end.run)
	if r.Outcome != "" && r.Outcome != Lost && !force {
		return
	}
	now := m.now()
	if own || r.Outcome == "" {
		r.EndedUS = now
	}
	r.TurnedUS = now
	switch {
	case own:
		r.Outcome, r.TurnedUS = end.outcome, 0
	case r.Outcome == "":
		r.Outcome = Fenced
	}
	m.runs.Set(end.run, r)
}

// endTogether is batchEnds.add.
func (e *modelExecutor) endTogether(p *sim.Process, c claim) {
	end := &modelEnd{ending: e.ended(p, c, Done), told: sim.NewSignal(e.Sim)}
	e.ends = append(e.ends, end)
	e.ending.Wake()
	if p.Do(end.told.Wait()); end.err != nil {
		p.Fail(end.err)
	}
}

// endSome is a turn of batchEnds.loop.
func (e *modelExecutor) endSome(p *sim.Process) {
	if len(e.ends) == 0 {
		p.Do(e.ending.Wait())
	}
	if len(e.ends) < endsAtOnce {
		p.Do(e.Sim.Delay(endsWait))
	}
	n := min(len(e.ends), endsAtOnce)
	batch := slices.Clone(e.ends[:n])
	e.ends = e.ends[n:]
	err := p.Try(func() {
		e.conns.ExecTimes(p, costEndBatch, float64(n), func() { e.endBatch(p, batch) })
	})
	for _, end := range batch {
		end.err = err
		end.told.Wake()
	}
}

// endBatch is batchEndSQL.
func (e *modelExecutor) endBatch(p *sim.Process, batch []*modelEnd) {
	slices.SortFunc(batch, func(a, b *modelEnd) int { return cmp.Compare(a.id, b.id) })
	for _, end := range batch {
		row, mine := e.own(p, end.claim)
		if mine {
			e.put(p, end.claim)
			e.rows.Set(row.id, e.moved(row, end.ending))
		}
		e.endRun(p, end.ending, mine, false)
	}
}

// beat is executor.beat.
func (e *modelExecutor) beat(p *sim.Process) {
	hands := make([]*modelHand, 0, len(e.hands))
	for _, h := range e.hands { // sorted below
		hands = append(hands, h)
	}
	if len(hands) == 0 {
		return
	}
	slices.SortFunc(hands, func(a, b *modelHand) int {
		return cmp.Or(cmp.Compare(a.id, b.id), cmp.Compare(a.run, b.run))
	})
	var lost, stopped []*modelHand
	e.conns.Exec(p, costBeat, func() {
		lost, stopped = nil, nil
		p.Do(e.Postgres.BurnTimes(costBeaten, float64(len(hands))))
		for _, h := range hands {
			row, mine := e.own(p, h.claim)
			switch {
			case !mine:
				lost = append(lost, h)
				continue
			case row.Stops:
				stopped = append(stopped, h)
			}
			row.LeaseUS = e.now() + e.p.Lease.D().Microseconds()
			e.rows.Set(row.id, row)
		}
	})
	e.abandon(stopped, true)
	if lost = e.abandon(lost, false); len(lost) == 0 {
		return
	}
	e.conns.Exec(p, costLetGo, func() {
		for _, h := range lost {
			p.Do(e.runs.Lock(h.run))
			if r, _ := e.runs.Get(h.run); r.Outcome == Lost && r.LetGoUS == 0 {
				r.LetGoUS = e.now()
				e.runs.Set(h.run, r)
			}
		}
	})
}

// abandon is executor.abandon.
func (e *modelExecutor) abandon(list []*modelHand, stopped bool) (found []*modelHand) {
	for _, h := range list {
		if e.hands[h.run] == h {
			h.stopped = stopped
			h.abandoned.Wake()
			found = append(found, h)
		}
	}
	return found
}

// rescueAll is tasks.rescueAll.
func (s *modelServer) rescueAll(p *sim.Process) {
	_ = queue.Batches(context.Background(), rescueBatch, func(context.Context) (int, error) {
		n := 0
		s.conns.Exec(p, costRescue, func() {
			expired, skipped := s.rows.Claim(s.leases.All(), rescueBatch,
				func(row taskRow) bool { return row.LeaseUS < s.now() },
				func(taskRow) bool { return true })
			p.Do(s.Postgres.BurnTimes(costTaken, float64(len(expired))),
				s.Postgres.BurnTimes(costSkipped, float64(skipped)))
			for _, row := range expired {
				s.takeBack(p, row)
			}
			n = len(expired)
		})
		return n, nil
	})
	s.conns.Exec(p, costPurge, func() {})
}

// takeBack is rescueSQL of a row.
func (s *modelServer) takeBack(p *sim.Process, row taskRow) {
	lease, now := row.LeaseUS, s.now()
	row.readyUS, row.pickedUS, row.LeaseUS = now, 0, 0
	switch {
	case row.Stops:
		row.State = Cancelled
	case row.attempts >= int64(s.p.MaxAttempts):
		row.State = Failed
	default:
		row.State = Waiting
	}
	s.rows.Set(row.id, row)
	p.Do(s.runs.Lock(row.run))
	if r, _ := s.runs.Get(row.run); r.Outcome == "" {
		r.Outcome, r.EndedUS, r.LeaseUS = Lost, now, lease
		s.runs.Set(row.run, r)
	}
}

// pending is the same of the rows.
func (m *taskModel) pending() (left int64, what string) {
	var waiting, running int64
	for _, of := range []*sim.Index[int64, taskRow]{m.waiting, m.picked} {
		for _, row := range of.All() {
			if row.Cron == "" || row.Times > 0 || row.DueUS <= m.now() {
				waiting++
			}
		}
	}
	for range m.leases.All() {
		running++
	}
	return waiting + running, stillToRun(waiting, running)
}

// watch is tasks.watch; what is paused it does not count.
func (m *taskModel) watch(p *sim.Process, conns *sim.Conns) (look Look) {
	ahead := int64(0)
	if m.rules.picks() {
		ahead = m.p.clock(m.p.LookAhead).Microseconds()
	}
	conns.Exec(p, costWatch, func() {
		now := m.now()
		look = Look{NowUS: now, Executors: int64(m.p.Executors)}
		see := func(of *sim.Index[int64, taskRow], picked bool) (n int64) {
			for _, row := range of.All() {
				n++
				if row.DueUS <= now {
					look.Due++
					look.DueUS = max(look.DueUS, now-max(row.DueUS, row.readyUS))
				}
				if !picked {
					look.PickerLagUS = max(look.PickerLagUS, now-max(row.DueUS-ahead, row.readyUS))
				}
			}
			return n
		}
		look.Waiting, look.Picked = see(m.waiting, false), see(m.picked, true)
		for _, row := range m.leases.All() {
			look.Running++
			look.LeaseUS = max(look.LeaseUS, now-row.LeaseUS)
		}
	})
	return look
}

// audit is tasks.audit.
func (m *taskModel) audit() Audit {
	a := Audit{Tasks: []TaskAudit{}, Runs: []RunAudit{},
		Effects: []EffectAudit{}, Changes: []ChangeAudit{},
		StartSlackUS:  m.rules.startSlack.Microseconds(),
		RescueSlackUS: m.rules.rescueSlack.Microseconds()}
	a.Begins, _ = m.day.Get(true)
	for _, id := range slices.Sorted(slices.Values(m.runs.Keys())) {
		r, _ := m.runs.Get(id)
		a.Runs = append(a.Runs, r)
		a.Now = max(a.Now, r.StartedUS, r.EndedUS)
	}
	for _, id := range m.rows.Keys() {
		row, _ := m.rows.Get(id)
		row.Fails = row.Fails && row.reruns == 0
		a.Tasks = append(a.Tasks, row.TaskAudit)
	}
	slices.SortStableFunc(a.Tasks, func(x, y TaskAudit) int {
		return cmp.Or(cmp.Compare(x.Task, y.Task), cmp.Compare(x.Occurrence, y.Occurrence))
	})
	for _, key := range m.effects.Keys() {
		e, _ := m.effects.Get(key)
		a.Effects = append(a.Effects, e)
	}
	for _, op := range m.changes.Keys() {
		c, _ := m.changes.Get(op)
		a.Changes = append(a.Changes, c)
	}
	slices.SortFunc(a.Effects, func(x, y EffectAudit) int {
		return cmp.Or(cmp.Compare(x.AtUS, y.AtUS), cmp.Compare(x.Task, y.Task),
			cmp.Compare(x.Occurrence, y.Occurrence))
	})
	slices.SortFunc(a.Changes, func(x, y ChangeAudit) int {
		return cmp.Or(cmp.Compare(x.AtUS, y.AtUS), cmp.Compare(x.Op, y.Op))
	})
	return a
}

var _ Scheduler = (*modelAPI)(nil)
