package scheduler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/interleave"
	"stampede/harness/stores"
	"stampede/harness/sut"
)

// table is a scheduler's tables with one design's statements, and what was asked
// of it. Its connections can be stopped before each statement.
type table struct {
	*tasks
	params  Params
	url     string
	pool    *pgxpool.Pool
	watch   *pgx.Conn
	variant string
	wrong   string
	records []history.Record
}

// wholeSchema makes the tables as they are for any variant but River.
func wholeSchema() string { return schema + partitionIndex + latestIndex + carriedSchema }

// newTable makes the tables; be fills in whose they are.
func newTable(t *testing.T) *table {
	t.Helper()
	url := places.Namespace(t).PostgresURL
	conf, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	conf.ConnConfig.Tracer = interleave.Tracer{}
	pool, err := pgxpool.NewWithConfig(t.Context(), conf)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	if _, err := pool.Exec(t.Context(), wholeSchema()); err != nil {
		t.Fatal(err)
	}
	watch, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = watch.Close(context.Background()) })
	return &table{url: url, pool: pool, watch: watch}
}

// be empties the tables for a variant, with an error of a mutant or "".
func (b *table) be(t tb, p Params, variant, wrong string) {
	t.Helper()
	b.params, b.variant, b.wrong = p, variant, wrong
	b.fresh(t)
}

// fresh empties the tables. The day began three hours ago, so that everything that
// was asked for is due.
func (b *table) fresh(t tb) {
	t.Helper()
	_, err := b.pool.Exec(context.Background(), `DELETE FROM tasks; DELETE FROM runs;
		DELETE FROM effects; DELETE FROM changes; DELETE FROM fleet; DELETE FROM counts; DELETE FROM calendar;
		INSERT INTO calendar (begins_at) VALUES (now() - interval '3 hours')`)
	if err != nil {
		t.Fatal(err)
	}
	b.tasks, b.records = b.again(), nil
}

// again are the statements of another process.
func (b *table) again() *tasks {
	return statementsOf(&stores.Postgres{Pool: b.pool, Timeout: 20 * time.Second}, b.params, b.variant,
		b.wrong)
}

// statementsOf are a design's statements over any connections; wrong plants one of the errors that
// no design has.
func statementsOf(db *stores.Postgres, p Params, name, wrong string) *tasks {
	d := schemeOf(name)
	switch wrong {
	case "drifts":
		d.overrides.after = func(c calendar, _ time.Time) time.Time { return c.business(time.Now()) }
	case "rescues by id":
		d.overrides.rescue = (*tasks).rescueByID
	case "ends by id":
		d.overrides.mine = unfencedReclaim().overrides.mine
	case "starts by id":
		d.overrides.handed = `h.fence IS NOT NULL`
	}
	cfg := sut.Config{Logger: slog.New(slog.DiscardHandler)}
	t, err := d.newTasks(&opened{Config: cfg, Params: p, DB: db})
	if err != nil {
		panic(err)
	}
	return t
}

func schemeOf(name string) scheme {
	all := schemes()
	return all[slices.IndexFunc(all, func(d scheme) bool { return d.Name == name })]
}

// The steps of roles, one at a time.

func (b *table) claims(ctx context.Context, n int) ([]claim, error) {
	return b.claim(ctx, "executor", n, []int64{})
}

func (b *table) starts(ctx context.Context, list []handed) ([]claim, error) {
	return b.startHanded(ctx, "executor", list)
}

// picksAll marks what is due soon; in a design without pickers it does nothing.
func (b *table) picksAll(ctx context.Context) (err error) {
	for part := 0; b.picks() && err == nil && part < max(1, b.parts); part++ {
		err = b.picksPart(ctx, part)
	}
	return err
}

func (b *table) picksPart(ctx context.Context, part int) error {
	_, err := b.pick(ctx, picking{part: part, selected: func() {}})
	return err
}

func (b *table) orchestrates(ctx context.Context) error {
	return (&orchestrator{}).step(ctx, b.tasks)
}

func (b *table) rescues(ctx context.Context) error {
	_, err := b.rescue(ctx, func() {})
	return err
}

// renews renews the leases of runs.
func (b *table) renews(ctx context.Context, list []claim) error {
	_, _, err := b.heartbeat(ctx, list)
	return err
}

// executor is one that nobody moves but the test.
func (b *table) executor(t *testing.T) *executor {
	e := newExecutor(b.tasks, "executor", 0, b.idle(nil, 0))
	e.begin(context.Background())
	t.Cleanup(func() {
		e.quit()
		e.beatOn.Wait()
	})
	return e
}

// ends ends a run, of a design that ends in batches by its batch.
func (b *table) ends(ctx context.Context, c claim, outcome State) error {
	e, err := b.ended(ctx, c, outcome)
	if err == nil && (b.overrides.ends == nil || outcome != Done) {
		return b.end(ctx, e)
	}
	if err == nil {
		err = b.endBatch(ctx, []ending{e})
	}
	return err
}

// ask schedules a task some business time after the beginning.
func (b *table) ask(t tb, id uint64, after time.Duration, spec Spec) {
	t.Helper()
	if err := b.asks(context.Background(), id, after, spec); err != nil {
		t.Fatal(err)
	}
}

func (b *table) asks(
	ctx context.Context, id uint64, after time.Duration, spec Spec,
) error {
	day := b.params.day()
	_, err := b.does(ctx, API().Op(KindSchedule, Request{ID: id << 8, Queue: "queue-1",
		Client: "client-1", Spec: spec, At: day.Add(after)}))
	return err
}

// does performs an operation of a user's, and remembers it.
func (b *table) does(ctx context.Context, op history.Op) (history.Reply, error) {
	at := time.Duration(len(b.records)+1) * time.Second
	reply, err := API().Do(ctx, &instance{tasks: b.tasks}, op)
	outcome := history.OK
	if errors.Is(err, sut.ErrRefused) {
		outcome = history.Refused
	}
	b.records = append(b.records, history.Record{Seq: uint64(len(b.records)), Op: op, Reply: reply,
		Outcome: outcome, Intended: at, Start: at, End: at + ms})
	return reply, err
}

// changes changes a task; that it is too late is no error.
func (b *table) changes(ctx context.Context, id uint64, what string, slot uint64) error {
	_, err := b.does(ctx, history.Op{ID: id<<8 | slot, Kind: what, Key: fmt.Sprint(id << 8)})
	if errors.Is(err, ErrState) {
		return nil
	}
	return err
}

// broken lists the invariants that are broken.
func (b *table) broken(ctx context.Context) (names []string, err error) {
	audit, err := b.audit(ctx)
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(audit)
	if err != nil {
		return nil, err
	}
	for _, v := range check.All(ctx, Invariants(b.params), history.Slice(b.records), raw) {
		if v.Status == check.Broken {
			names = append(names, v.Invariant)
		}
	}
	return names, nil
}

// expire ends all leases.
func (b *table) expire(ctx context.Context) error {
	_, err := b.pool.Exec(ctx, `UPDATE tasks SET lease_until = clock_timestamp() - interval '10 ms'
		WHERE state = 'running'`)
	return err
}

// tableParams are those of tables: business time is that of the clock, and nothing
// is late.
func tableParams() Params {
	p := DefaultParams()
	p.TimeScale, p.SLA = 1, sut.Duration(30*time.Minute)
	p.StarveWithin, p.Lease = sut.Duration(time.Hour), sut.Duration(time.Hour)
	p.Awaits, p.Poison = 0, 0
	return p
}

// takes starts one task, as an executor of the design does: what it finds, or what was
// handed over.
func (b *table) takes(ctx context.Context) ([]claim, error) {
	if b.carry == nil {
		return b.claims(ctx, 1)
	}
	list, err := b.handOver(ctx)
	if err != nil {
		return nil, err
	}
	return b.starts(ctx, list)
}

// executes takes one task, has its effect and ends it.
func (b *table) executes(ctx context.Context) error {
	list, err := b.takes(ctx)
	for _, c := range list {
		err = errors.Join(err, b.works(ctx, c))
	}
	return err
}

func (b *table) works(ctx context.Context, c claim) error {
	if b.variant != "batch" { // whose end has the effect
		if _, err := b.effect(ctx, c); err != nil {
			return err
		}
	}
	return b.ends(ctx, c, Done)
}

// orders runs sessions in every order, from one task that is due, and what is left
// to an executor after them; it says which invariants are broken in some of them.
func (b *table) orders(
	t *testing.T, begin func(context.Context) ([]interleave.Session, error),
) (broken []string, orders int) {
	t.Helper()
	result, err := interleave.Explore(t.Context(), b.watch,
		func(ctx context.Context) (interleave.World, error) {
			b.fresh(t)
			b.ask(t, 1, time.Minute, Spec{Task: "report", WorkMS: 1})
			sessions, err := begin(ctx)
			return interleave.World{Sessions: sessions,
				Judge: func(ctx context.Context, errs []error) error {
					errs = append(errs, b.drain(ctx))
					names, err := b.broken(ctx)
					if err == nil && len(names) > 0 {
						err = fmt.Errorf("broken: %v", names)
						broken = append(broken, names...)
					}
					return errors.Join(append(errs, err)...)
				}}, err
		})
	if err != nil {
		t.Fatal(err)
	}
	if len(result.Violations) > 0 {
		t.Logf("%d of %d orders, the first: %v", len(result.Violations), result.Orders,
			result.Violations[0])
	}
	slices.Sort(broken)
	return slices.Compact(broken), result.Orders
}

// twoPickers want the same task.
func (b *table) twoPickers(context.Context) ([]interleave.Session, error) {
	picks := func(ctx context.Context) error { return b.picksPart(ctx, 1) }
	return []interleave.Session{{Name: "a", Do: picks}, {Name: "b", Do: picks}}, nil
}

// twoExecutors want the same task (M40).
func (b *table) twoExecutors(ctx context.Context) ([]interleave.Session, error) {
	both := []interleave.Session{{Name: "a", Do: b.executes}, {Name: "b", Do: b.executes}}
	return both, b.picksAll(ctx)
}

// orchestrated are an executor and an orchestrator.
func (b *table) orchestrated(ctx context.Context) ([]interleave.Session, error) {
	return []interleave.Session{{Name: "executor", Do: b.executes},
		{Name: "orchestrator", Do: b.orchestrates}}, b.picksAll(ctx)
}

// zombie is an executor whose lease has ended, and who wakes up while the task is
// taken back and run by another (M41, M42).
func (b *table) zombie(ctx context.Context) ([]interleave.Session, error) {
	err := b.picksAll(ctx)
	if err != nil {
		return nil, err
	}
	list, err := b.takes(ctx)
	if err != nil || len(list) != 1 {
		return nil, fmt.Errorf("claimed %d tasks: %w", len(list), err)
	}
	if err := b.expire(ctx); err != nil {
		return nil, err
	}
	return []interleave.Session{
		{Name: "zombie", Do: func(ctx context.Context) error { return b.works(ctx, list[0]) }},
		{Name: "other", Do: func(ctx context.Context) error {
			err := b.rescues(ctx)
			if err == nil && b.picks() {
				_, err = b.pool.Exec(ctx, `UPDATE tasks SET state = 'picked', picked_at = now(),
					hand_at = scheduled_at WHERE state = 'waiting'`)
			}
			if err != nil {
				return err
			}
			return b.executes(ctx)
		}},
	}, nil
}

// twice hands a task over twice, because it was not started in time, to two
// executors.
func (b *table) twice(ctx context.Context) ([]interleave.Session, error) {
	var sessions []interleave.Session
	if err := b.picksAll(ctx); err != nil {
		return nil, err
	}
	for _, name := range []string{"a", "b"} {
		list, err := b.handOver(ctx)
		if err == nil {
			_, err = b.pool.Exec(ctx, `UPDATE tasks SET hand_at = clock_timestamp()`)
		}
		if err != nil || len(list) != 1 {
			return nil, fmt.Errorf("handed over %d tasks: %w", len(list), err)
		}
		sessions = append(sessions, interleave.Session{Name: name,
			Do: func(ctx context.Context) error { return b.startsHanded(ctx, list) }})
	}
	return sessions, nil
}

func (b *table) startsHanded(ctx context.Context, list []handed) error {
	claims, err := b.starts(ctx, list)
	for _, c := range claims {
		err = errors.Join(err, b.works(ctx, c))
	}
	return err
}

// cancels hands a task over that somebody cancels.
func (b *table) cancels(ctx context.Context) ([]interleave.Session, error) {
	if err := b.picksAll(ctx); err != nil {
		return nil, err
	}
	list, err := b.handOver(ctx)
	return []interleave.Session{
		{Name: "executor", Do: func(ctx context.Context) error { return b.startsHanded(ctx, list) }},
		{Name: "user", Do: func(ctx context.Context) error {
			return b.changes(ctx, 1, KindCancel, 2)
		}},
	}, err
}

// meanwhile are an executor that wants a task and a user who changes it.
func meanwhile(what string) func(*table, context.Context) ([]interleave.Session, error) {
	return func(b *table, ctx context.Context) ([]interleave.Session, error) {
		err := b.picksAll(ctx)
		switch what {
		case KindResume:
			err = errors.Join(err, b.changes(ctx, 1, KindPause, 3))
		case KindRerun:
			list, claimed := b.takes(ctx)
			if err = errors.Join(err, claimed); err == nil {
				err = b.ends(ctx, list[0], Failed)
			}
		}
		return []interleave.Session{
			{Name: "executor", Do: b.executes},
			{Name: "user", Do: func(ctx context.Context) error { return b.changes(ctx, 1, what, 4) }},
		}, err
	}
}

// inserts are a picker that inserts what follows an occurrence, and a user who changes the
// recurring task meanwhile.
func inserts(what string) func(*table, context.Context) ([]interleave.Session, error) {
	return func(b *table, ctx context.Context) ([]interleave.Session, error) {
		err := b.asks(ctx, 2, time.Minute, Spec{Task: "report", WorkMS: 1,
			Cron: "*/10 * * * *", Zone: "UTC", Times: 3})
		// Task 2 is in part 2, where there are parts.
		picks := func(ctx context.Context) error { return b.picksPart(ctx, 2) }
		return []interleave.Session{{Name: "picker", Do: picks},
			{Name: "user", Do: func(ctx context.Context) error { return b.changes(ctx, 2, what, 4) }},
		}, err
	}
}

// beats is an executor that renews its lease, late, while others take its task back.
func (b *table) beats(ctx context.Context) ([]interleave.Session, error) {
	err := b.picksAll(ctx)
	list, claimed := b.takes(ctx)
	return []interleave.Session{
		{Name: "late", Do: func(ctx context.Context) error {
			return errors.Join(b.renews(ctx, list), b.works(ctx, list[0]))
		}},
		{Name: "rescuer", Do: b.rescues},
	}, errors.Join(err, claimed, b.expire(ctx))
}

// order is two sessions of a design, and the invariants that they break in some order.
type order struct {
	name, variant, wrong string
	world                func(*table, context.Context) ([]interleave.Session, error)
	params               func(*Params)
	breaks               []string
}

// onlyOnce has each task start once at most; whose executor is lost has failed.
func onlyOnce(p *Params) { p.MaxAttempts = 1 }

func inserting(p *Params) { p.Recurrence = Insert }

// soundOrders are all worlds of all designs that are not known to be wrong, but River's.
func soundOrders() (list []order) {
	for _, v := range System().Variants {
		if len(v.Breaks) > 0 || v.Name == "river" {
			continue
		}
		w := schemeOf(v.Name).full()
		for _, o := range []struct {
			order
			applies bool
		}{
			{order{name: "two pickers", world: (*table).twoPickers}, w.picks()},
			{order{name: "two executors", world: (*table).twoExecutors}, w.carry == nil},
			{order{name: "handed over twice", world: (*table).twice}, w.carry != nil},
			{order{name: "handed over and cancelled", world: (*table).cancels}, w.carry != nil},
			{order{name: "an executor and an orchestrator", world: (*table).orchestrated}, w.fleet != nil},
			{order{name: "an executor and a pause", world: meanwhile(KindPause)}, true},
			{order{name: "an executor and a resume", world: meanwhile(KindResume)}, true},
			{order{name: "an executor and a cancel", world: meanwhile(KindCancel)}, true},
			{order{name: "an executor and a rerun", world: meanwhile(KindRerun)}, true},
			{order{name: "a late heartbeat", world: (*table).beats}, true},
			{order{name: "zombie", world: (*table).zombie}, true},
			{order{name: "zombie over a last attempt", world: (*table).zombie, params: onlyOnce}, true},
			{order{name: "a picker that inserts and a cancel", world: inserts(KindCancel),
				params: inserting}, w.picks()},
			{order{name: "a picker that inserts and a pause", world: inserts(KindPause),
				params: inserting}, w.picks()},
		} {
			if o.variant = v.Name; o.applies {
				list = append(list, o.order)
			}
		}
	}
	return list
}

// wrongOrders are those in which the wrong designs and the mutants show, and some in which
// a wrong design does not.
func wrongOrders() []order {
	final, fenced := []string{FinalStates}, []string{FencedRuns}
	return []order{
		{name: "two executors", variant: "application_clock", world: (*table).twoExecutors},
		{name: "two executors", variant: "effect_without_key", world: (*table).twoExecutors},
		{name: "two executors", variant: "async_commit", world: (*table).twoExecutors},
		{name: "M45 effects without key", variant: "effect_without_key", world: (*table).zombie,
			breaks: []string{OneEffect}},
		{name: "M40 claim without marking", variant: "claim_without_marking",
			world: (*table).twoExecutors, breaks: fenced},
		{name: "started by id", variant: "redis_streams", wrong: "starts by id", world: (*table).twice,
			breaks: final},
		{name: "started by id, cancelled", variant: "redis_streams", wrong: "starts by id",
			world: (*table).cancels, breaks: []string{CancelledRests}},
		{name: "M41 rescue by id", variant: "skip_locked", wrong: "rescues by id",
			world: (*table).zombie, breaks: final},
		// What was done becomes failed, and nothing starts again.
		{name: "M41 over a last attempt", variant: "skip_locked", wrong: "rescues by id",
			world: (*table).zombie, params: onlyOnce, breaks: final},
		{name: "M42 end by id", variant: "skip_locked", wrong: "ends by id", world: (*table).zombie,
			breaks: fenced},
		{name: "M41 and M42", variant: "unfenced_reclaim", world: (*table).zombie,
			breaks: slices.Concat(fenced, final)},
		{name: "M41 and M42 over a last attempt", variant: "unfenced_reclaim",
			world: (*table).zombie, params: onlyOnce, breaks: final},
	}
}

// TestEveryOrder: no order of the statements of correct designs breaks anything;
// of the wrong ones some do, and the invariants that are named see it.
func TestEveryOrder(t *testing.T) {
	b := newTable(t)
	for group, orders := range map[string][]order{"right/": soundOrders(), "wrong/": wrongOrders()} {
		for _, c := range orders {
			t.Run(group+c.name+" "+c.variant, func(t *testing.T) { b.inEveryOrder(t, c) })
		}
	}
}

// inEveryOrder runs the sessions of a design in every order of their statements.
func (b *table) inEveryOrder(t *testing.T, c order) {
	p := tableParams()
	if c.params != nil {
		c.params(&p)
	}
	b.be(t, p, c.variant, c.wrong)
	broken, orders := b.orders(t, func(ctx context.Context) ([]interleave.Session, error) {
		return c.world(b, ctx)
	})
	if orders < 2 || len(c.breaks) == 0 && len(broken) > 0 {
		t.Errorf("broken in %d orders: %v", orders, broken)
	}
	for _, name := range c.breaks {
		if !slices.Contains(broken, name) {
			t.Errorf("%s is not broken in any order; broken are %v", name, broken)
		}
	}
}

// mutant is an error that shows in one order of events, and the invariant that
// names it.
type mutant struct {
	name, variant, wrong, named string
	params                      func(*Params)
	live                        func(t *testing.T, b *table, planted bool) error
}

func mutants() []mutant {
	return []mutant{
		{"M43 due by the application's clock", "application_clock", "", NeverEarly,
			func(p *Params) { p.ClockSkew = sut.Duration(5 * time.Hour) }, dueLater},
		{"M44 the next occurrence from when one has ended", "skip_locked", "drifts", AllRun,
			nil, threeTimes},
		{"M46 a poisoned task holds up all behind it", "batch", "", AllRun,
			func(p *Params) { p.Poison = 0.5 }, poison},
	}
}

// TestMutants: each planted error is named by its invariant, and the same without
// it breaks nothing.
func TestMutants(t *testing.T) {
	b := newTable(t)
	for _, m := range mutants() {
		for _, planted := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, planted %v", m.name, planted), func(t *testing.T) {
				p, variant, wrong := tableParams(), m.variant, m.wrong
				if m.params != nil {
					m.params(&p)
				}
				if !planted {
					wrong = ""
					if variant == "application_clock" {
						variant = "skip_locked"
					}
				}
				b.be(t, p, variant, wrong)
				if err := m.live(t, b, planted); err != nil {
					t.Fatal(err)
				}
				broken, err := b.broken(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if planted != slices.Contains(broken, m.named) || !planted && len(broken) > 0 {
					t.Errorf("broken: %v", broken)
				}
			})
		}
	}
}

// drain picks and executes until nothing is due.
func (b *table) drain(ctx context.Context) error {
	for {
		if err := b.picksAll(ctx); err != nil {
			return err
		}
		list, err := b.claims(ctx, 1)
		if err != nil || len(list) == 0 {
			return err
		}
		if err := b.works(ctx, list[0]); err != nil {
			return err
		}
	}
}

// dueLater asks for a task that is due in an hour, and one that is due.
func dueLater(t *testing.T, b *table, _ bool) error {
	b.ask(t, 1, 4*time.Hour, Spec{Task: "later"})
	b.ask(t, 2, time.Hour, Spec{Task: "now"})
	return b.drain(t.Context())
}

// threeTimes asks for a task that was due three times, and catches up.
func threeTimes(t *testing.T, b *table, _ bool) error {
	b.ask(t, 1, time.Minute, Spec{Task: "report", Cron: "* * * * *", Times: 3})
	return b.drain(t.Context())
}

// poison asks for a task that fails and for others behind it. The mutant tries it
// again and again.
func poison(t *testing.T, b *table, planted bool) error {
	b.ask(t, 1, time.Minute, Spec{Task: "poison", Fails: true})
	for id := range uint64(3) {
		b.ask(t, 2+id, time.Duration(2+id)*time.Minute, Spec{Task: "report"})
	}
	for range 8 {
		list, err := b.claims(t.Context(), 1)
		if err != nil {
			return err
		}
		for _, c := range list {
			switch {
			case c.fails && planted:
				err = b.release(t.Context(), c)
			case c.fails:
				err = b.ends(t.Context(), c, Failed)
			default:
				err = b.works(t.Context(), c)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}
