package scheduler

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"stampede/harness/api"
	"stampede/harness/history"
	"stampede/harness/stores"
	"stampede/harness/sut"
)

// CronOracle is the judges' own reckoning.
func CronOracle(expression, zone string, from, to time.Time) ([]time.Time, error) {
	return cronOracle(expression, zone, from, to)
}

// CheckCron says why an expression is refused.
func CheckCron(expression, zone string) error {
	_, err := parseCron(expression, zone)
	return err
}

// CronNext is the first time of an expression after another.
func CronNext(expression, zone string, after time.Time) (time.Time, error) {
	s, err := parseCron(expression, zone)
	if err != nil {
		return time.Time{}, err
	}
	return s.next(after)
}

// RequestOf is the request that an operation sends.
func RequestOf(op history.Op) Request {
	req, err := api.RequestOf[Request](API(), op)
	if err != nil {
		panic(err)
	}
	return req
}

// ClockOf is the moment of a business time, in microseconds, on a day that began at
// another one.
func ClockOf(p Params, beginsUS int64, business time.Time) int64 {
	c := calendar{begins: moment(beginsUS), day: p.day(), scale: p.TimeScale}
	return c.clock(business).UnixMicro()
}

// BesideOthers counts the runs of a queue that were under way beside another executor's.
func BesideOthers(runs []RunAudit) int {
	list := make([]*RunAudit, len(runs))
	for i := range runs {
		list[i] = &runs[i]
	}
	return besideOthers(list)
}

// DayMS is the business time at which the day begins.
func DayMS(p Params) int64 { return p.day().UnixMilli() }

// ChangeLook changes the body of a sample.
func ChangeLook(body []byte, change func(*Look)) []byte {
	var l Look
	err := json.Unmarshal(body, &l)
	change(&l)
	body, failed := json.Marshal(l)
	if err = errors.Join(err, failed); err != nil {
		panic(err)
	}
	return body
}

// Statements are a design's statements over any connections, without roles.
type Statements struct{ t *tasks }

// StatementsOf are those of a variant; wrong plants one of the errors that no
// variant has.
func StatementsOf(db *stores.Postgres, p Params, variant, wrong string) Statements {
	d := schemeOf(variant)
	switch wrong {
	case "drifts":
		d.ways.after = func(c calendar, _ time.Time) time.Time { return c.business(time.Now()) }
	case "rescues by id":
		d.ways.rescue = (*tasks).rescueByID
	case "ends by id":
		d.ways.mine = unfencedReclaim().ways.mine
	case "starts by id":
		d.ways.handed = `h.fence IS NOT NULL`
	}
	cfg := sut.Config{Logger: slog.New(slog.DiscardHandler)}
	t, err := d.newTasks(&opened{Config: cfg, Params: p, DB: db})
	if err != nil {
		panic(err)
	}
	return Statements{t}
}

func schemeOf(variant string) scheme {
	all := schemes()
	return all[slices.IndexFunc(all, func(d scheme) bool { return d.Name == variant })]
}

// Schema makes the tables as they are for any variant but River.
func Schema() string { return schema + partitionIndex + latestIndex + carriedSchema }

// Do performs an operation of a user's.
func (s Statements) Do(ctx context.Context, op history.Op) (history.Reply, error) {
	return API().Do(ctx, &instance{tasks: s.t}, op)
}

// Claim is a started run.
type Claim struct{ claim }

// Fails says whether the task is to fail.
func (c Claim) Fails() bool { return c.fails }

// Row is the number of the task's row.
func (c Claim) Row() int64 { return c.id }

// Heartbeat renews the leases of runs.
func (s Statements) Heartbeat(ctx context.Context, list []Claim) error {
	claims := make([]claim, len(list))
	for i, c := range list {
		claims[i] = c.claim
	}
	_, _, err := s.t.heartbeat(ctx, claims)
	return err
}

// Pick marks what is due soon; in a design without pickers it does nothing.
func (s Statements) Pick(ctx context.Context) (err error) {
	for part := 0; s.t.picks() && err == nil && part < max(1, s.t.parts); part++ {
		err = s.PickPart(ctx, part)
	}
	return err
}

// Picks says whether the design has pickers.
func (s Statements) Picks() bool { return s.t.picks() }

// Carries says whether what is picked is handed over by more than the table.
func (s Statements) Carries() bool { return s.t.carry != nil }

// Scales says whether the design has an orchestrator.
func (s Statements) Scales() bool { return s.t.fleet != nil }

// PickPart is Pick in one part, where a design has parts.
func (s Statements) PickPart(ctx context.Context, part int) error {
	_, err := s.t.pick(ctx, picking{part: part, selected: func() {}})
	return err
}

// Orchestrate looks once how many executors are wanted.
func (s Statements) Orchestrate(ctx context.Context) error {
	return (&orchestrator{}).step(ctx, s.t)
}

// Claim starts at most n tasks that are due.
func (s Statements) Claim(ctx context.Context, n int) ([]Claim, error) {
	return told(s.t.claim(ctx, "executor", n, []int64{}))
}

func told(claims []claim, err error) (list []Claim, _ error) {
	for _, c := range claims {
		list = append(list, Claim{c})
	}
	return list, err
}

// Executor runs tasks step by step.
type Executor struct{ e *executor }

// Executor is an executor that nobody moves but the test.
func (s Statements) Executor() Executor {
	e := newExecutor(s.t, "executor", 0, s.t.idle(nil, 0))
	e.begin(context.Background())
	return Executor{e}
}

// Step starts what is due.
func (e Executor) Step(ctx context.Context) error { return e.e.step(ctx) }

// Beat renews the leases of what is under way.
func (e Executor) Beat(ctx context.Context) { e.e.beat(ctx) }

// Wait waits for what is under way.
func (e Executor) Wait() { e.e.work.Wait() }

// GiveBack gives back what is under way.
func (e Executor) GiveBack() {
	e.e.giveBack()
	e.Wait()
}

// Close ends the heartbeats.
func (e Executor) Close() {
	e.e.quit()
	e.e.beatOn.Wait()
}

// Handed are tasks on their way from a picker to an executor.
type Handed []handed

// HandOver notes that what is due is handed over, and returns it.
func (s Statements) HandOver(ctx context.Context) (Handed, error) { return s.t.handOver(ctx) }

// StartHanded starts what was handed over and is still to be started.
func (s Statements) StartHanded(ctx context.Context, h Handed) ([]Claim, error) {
	return told(s.t.startHanded(ctx, "executor", h))
}

// Carrier is how a variant hands over.
type Carrier struct{ carrier }

// CarrierOf opens the carrier of a variant.
func CarrierOf(cfg sut.Config, p Params, variant string) (Carrier, error) {
	st := &opened{Config: cfg, Params: p}
	if opts, err := stores.RedisOptions(cfg); err == nil {
		st.Redis = redis.NewClient(opts)
	}
	c, err := schemeOf(variant).ways.carry(st)
	return Carrier{c}, err
}

// Prepare makes what the carrier needs.
func (c Carrier) Prepare(ctx context.Context) error { return c.prepare(ctx) }

// Send sends the tasks with these numbers.
func (c Carrier) Send(ctx context.Context, ids ...int64) error {
	list := make([]handed, len(ids))
	for i, id := range ids {
		list[i] = handed{id: id, fence: 10 * id, attempt: 100 * id}
	}
	return c.send(ctx, list)
}

// Receive receives at most n tasks for an executor and returns their numbers, 0 for
// those that have not come as Send has sent them.
func (c Carrier) Receive(ctx context.Context, executor string, n int) (ids []int64, err error) {
	list, err := c.receive(ctx, executor, n)
	for _, h := range list {
		if h.fence != 10*h.id || h.attempt != 100*h.id {
			h.id = 0
		}
		ids = append(ids, h.id)
	}
	return ids, err
}

// Settle settles what was received last.
func (c Carrier) Settle(ctx context.Context) error { return c.settle(ctx) }

// Close closes the carrier: an executor that ends, or dies.
func (c Carrier) Close() { c.close() }

// Effect has a run's effect.
func (s Statements) Effect(ctx context.Context, c Claim) error {
	_, err := s.t.effect(ctx, c.claim)
	return err
}

// End ends a run, of a design that ends in batches by its batch.
func (s Statements) End(ctx context.Context, c Claim, outcome State) error {
	e, err := s.t.ended(ctx, c.claim, outcome)
	if err != nil {
		return err
	}
	if s.t.ends == nil || outcome != Done {
		return s.t.end(ctx, e)
	}
	return s.t.endBatch(ctx, []ending{e})
}

// Release gives a run's task back.
func (s Statements) Release(ctx context.Context, c Claim) error { return s.t.release(ctx, c.claim) }

// Rescue takes back what has no lease any more.
func (s Statements) Rescue(ctx context.Context) error {
	_, err := s.t.rescue(ctx, func() {})
	return err
}

// Purge deletes what is older than the retention.
func (s Statements) Purge(ctx context.Context) error { return s.t.purge(ctx) }

// Audit reads the final truth.
func (s Statements) Audit(ctx context.Context) (json.RawMessage, error) {
	a, err := s.t.audit(ctx)
	if err != nil {
		return nil, err
	}
	return json.Marshal(a)
}

// Orchestrator decides without a database.
type Orchestrator struct{ o orchestrator }

// Decide is how many executors there should be.
func (o *Orchestrator) Decide(at time.Time, p Params, now, need int) int {
	return o.o.decide(at, p, now, need)
}

// Needed is how many executors so many tasks at once need.
func Needed(p Params, rush int64, work time.Duration) int { return p.needed(rush, work.Seconds()) }

// Note writes down what was counted.
func (s Statements) Note(ctx context.Context) error { return s.t.note(ctx) }

// Metrics are those of an instance.
func (s Statements) Metrics() string {
	var out strings.Builder
	s.t.writeMetrics(&out)
	return out.String()
}

// Demand is how many tasks are due in the worst minute.
func (s Statements) Demand(ctx context.Context) (rush int64, err error) {
	rush, _, err = s.t.demand(ctx)
	return rush, err
}

// OpOf is the operation that sends a request.
func OpOf(req Request) history.Op { return API().Op(KindSchedule, req) }

// OpenPostgres opens connections as those of every design but River.
func OpenPostgres(ctx context.Context, cfg sut.Config) (*stores.Postgres, error) {
	return stores.OpenPostgres(ctx, cfg, "scheduler", nil)
}

// Prepared is a statement with arguments for EXECUTE.
type Prepared struct{ Name, SQL, Args string }

// AllPrepared are the statements that are executed all the time.
func AllPrepared() (list []Prepared) {
	for _, s := range schemes() {
		d := s.full()
		if d.execute != nil || d.claim != nil {
			continue
		}
		list = append(list, Prepared{s.Name + "'s claim", d.claimSQL(), `(50, 1000, 'e', NULL)`})
		if d.picks() {
			args := `(1000, 50, NULL)`
			if d.mayPick != nil {
				args = `(1000, 50, NULL, 3)`
			}
			list = append(list, Prepared{s.Name + "'s pick", d.pickSQL(), args})
		}
	}
	d := schemeOf("kafka_topic").full()
	return append(list,
		Prepared{"mark", d.markSQL(), `('{100,200}')`},
		Prepared{"hand-over", handOverSQL, `(50, 1000)`},
		Prepared{"start of what was handed over", d.startHandedSQL(),
			`('{100,200}', 1000, 'e', '{1,2}')`},
		Prepared{"heartbeat", heartbeatSQL, `('{100,200}', '{1,2}', 1000)`},
		Prepared{"letting go", letGoSQL, `('{25600,51200}', '{1,1}', '{1,2}')`},
		Prepared{"effect", d.effectSQL(), `(100, 1, 25600, 1, 0)`},
		Prepared{"end", d.endSQL(), `(100, 1, 1, 'done', NULL, 25600, 1)`},
		Prepared{"batch's end", batchEndSQL(),
			`('{100,200}', '{1,2}', '{1,2}', '{25600,51200}', '{1,1}', '{NULL,NULL}')`},
		Prepared{"release", releaseSQL, `(100, 10, 1, 1, 25600, 1)`},
		Prepared{"rescue", rescueSQL, `(200, 10)`},
		Prepared{"purge", purgeSQL, `(1000000, 1000)`})
}
