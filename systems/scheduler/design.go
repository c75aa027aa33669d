package scheduler

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/harness/api"
	"stampede/harness/history"
	"stampede/harness/stores"
	"stampede/harness/sut"
)

//go:embed schema.sql
var schema string

// design is a variant as its file states it: what to say of it, and what it does
// differently from the scheduler that all of them are.
type design struct {
	name, idea, guarantees, givesUp string
	breaks                          []sut.Break
	notApplicable                   map[string]string

	// lock is how pickers and executors lock what they have found.
	lock string
	// partitions: a picker has a part of the tasks to itself.
	partitions bool
	// notify: pickers and executors are told that there is something.
	notify bool
	// direct: executors take what is due themselves, and end it in batches.
	direct bool
	// carried is how picked tasks are handed over, nil for by the table itself.
	carried *carried
	// river: River keeps the queue and runs the executors.
	river bool
	// scaling says by what the orchestrator scales executors; "" for not at all.
	scaling string

	// settings are what its connections set in Postgres.
	settings map[string]string

	own ways
}

// ways are what a design does in its own way; nil and "" are how all others do it.
type ways struct {
	// clock is what due times are compared with instead of the database's.
	clock func(Params) time.Time
	// claim makes a claim of the arguments of claimSQL and of the rows that the executor has
	// in hand.
	claim func(args []any, hands []int64) (sql string, _ []any)
	// mine locks a run's task, as mineSQL.
	mine string
	// renew renews the leases of what an executor has in hand.
	renew func(*executor, context.Context, []claim) error
	// salt makes effects of an occurrence different.
	salt func(claim) int64
	// rescue takes back one batch of tasks whose executors are gone.
	rescue func(t *tasks, ctx context.Context, found func()) (int, error)
	// after is from when on the next occurrence is reckoned, in business time.
	after func(c calendar, due time.Time) time.Time
	// handed is the condition on which what was handed over, h, is started.
	handed string
}

// The ways to lock.
const (
	skipLocked = ` FOR UPDATE SKIP LOCKED`
	forUpdate  = ` FOR UPDATE`
)

// The channels of notifications.
const (
	channelTasks  = "scheduler_tasks"
	channelPicked = "scheduler_picked"
)

// picks says whether pickers mark what executors take.
func (d design) picks() bool { return !d.direct && !d.river }

// variant is the design as the harness sees it.
func (d design) variant() sut.Variant {
	v := sut.Variant{
		Name: d.name, Idea: d.idea, Guarantees: d.guarantees, GivesUp: d.givesUp,
		Needs: []sut.Service{sut.Postgres}, Breaks: d.breaks, NotApplicable: d.notApplicable,
		Gauge: d.gauge,
		Open: func(ctx context.Context, cfg sut.Config) (sut.Instance, error) {
			return d.instance(ctx, cfg)
		},
	}
	if d.carried != nil {
		v.Needs = append(v.Needs, d.carried.needs)
	}
	if d.picks() {
		v.Roles = append(v.Roles, d.pickerRole())
	}
	v.Roles = append(v.Roles, d.executorRole(), d.rescuerRole())
	if d.scaling != "" {
		v.Roles = append(v.Roles, d.orchestratorRole())
	}
	return v
}

// backend is what instances and roles are built on.
type backend struct {
	*tasks
	cfg sut.Config
	// queue is River, if the design has it.
	queue *riverQueue
	// carrier takes tasks from pickers to executors, if the design has one.
	carrier carrier
	// uneven draws how long a role's loop rests between polls; nil: evenly.
	uneven *rand.Rand
}

func (d design) backend(ctx context.Context, cfg sut.Config) (*backend, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	params, err := sut.ParamsOf[Params](cfg.Params)
	if err == nil {
		err = params.Validate()
	}
	if err != nil {
		return nil, fmt.Errorf("scheduler parameters: %w", err)
	}
	db, err := stores.OpenPostgres(ctx, cfg, "scheduler", d.settings)
	if err != nil {
		return nil, err
	}
	b := &backend{tasks: &tasks{db: db, params: params, design: d}, cfg: cfg}
	if d.river {
		if b.queue, err = newRiverQueue(b); err != nil {
			db.Close()
			return nil, err
		}
		b.added = b.queue.add
	}
	if d.carried != nil {
		if b.carrier, err = d.carried.open(cfg, params); err != nil {
			db.Close()
			return nil, err
		}
	}
	return b, nil
}

func (b *backend) close() error {
	b.db.Close()
	if b.carrier == nil {
		return nil
	}
	return b.carrier.close()
}

// instance is an opened design: its API. It is a Scheduler too.
type instance struct {
	*backend
	api     *api.Table[Scheduler]
	room    *waitingRoom
	closing sync.Once
}

var _ Scheduler = (*instance)(nil)

func (d design) instance(ctx context.Context, cfg sut.Config) (*instance, error) {
	b, err := d.backend(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("opening scheduler %s: %w", d.name, err)
	}
	return &instance{backend: b, api: API(), room: newWaitingRoom(b.tasks)}, nil
}

// Prepare makes the tables. Where one of them exists already it fails.
func (i *instance) Prepare(ctx context.Context) error {
	err := i.db.Prepare(ctx, func(ctx context.Context, tx pgx.Tx) error {
		statements := schema
		if i.design.partitions {
			statements += partitionIndex
		}
		if i.design.scaling != "" {
			statements += latestIndex
		}
		if i.carrier != nil {
			statements += carriedSchema
		}
		_, err := tx.Exec(ctx, statements)
		return err
	})
	if err == nil && i.queue != nil {
		err = i.queue.migrate(ctx, i.db)
	}
	if err == nil && i.carrier != nil {
		err = i.carrier.prepare(ctx)
	}
	if err != nil {
		return fmt.Errorf("making the tables: %w", err)
	}
	return nil
}

// Do performs one operation.
func (i *instance) Do(ctx context.Context, op history.Op) (history.Reply, error) {
	return i.api.Do(ctx, i, op)
}

// Schedule stores a task.
func (i *instance) Schedule(ctx context.Context, req Request) (Scheduled, error) {
	return i.schedule(ctx, req)
}

// Change changes a task.
func (i *instance) Change(ctx context.Context, c Change) (State, error) { return i.change(ctx, c) }

// Task reads a task.
func (i *instance) Task(ctx context.Context, id uint64) (Task, error) { return i.read(ctx, id) }

// Tasks lists tasks.
func (i *instance) Tasks(ctx context.Context, queue string, limit int) ([]Task, error) {
	return i.list(ctx, queue, limit)
}

// Await waits for a start.
func (i *instance) Await(ctx context.Context, id uint64) (time.Duration, error) {
	return i.room.await(ctx, id)
}

// Quiesced says which tasks have still to run: all but those that are paused, and
// but recurring ones whose next occurrence is not due yet.
func (i *instance) Quiesced(ctx context.Context) (pending string, err error) {
	waiting, running, err := i.left(ctx)
	return stillToRun(waiting, running), err
}

// stillToRun says what is left to do, "" if nothing is.
func stillToRun(waiting, running int64) string {
	if waiting+running == 0 {
		return ""
	}
	return fmt.Sprintf("%d tasks wait and %d run", waiting, running)
}

// Backlog counts the tasks that have still to run.
func (i *instance) Backlog(ctx context.Context) (int64, error) {
	waiting, running, err := i.left(ctx)
	return waiting + running, err
}

func (i *instance) left(ctx context.Context) (waiting, running int64, err error) {
	err = i.db.Row(ctx, `SELECT
		count(*) FILTER (WHERE state IN ('waiting', 'picked') AND NOT paused
			AND (schedule = '' OR times > 0 OR scheduled_at <= clock_timestamp())),
		count(*) FILTER (WHERE state = 'running')
		FROM tasks WHERE ended_at IS NULL`, nil, &waiting, &running)
	if err != nil {
		err = stores.Failed("counting unfinished tasks", err)
	}
	return waiting, running, err
}

// Empty says what was scheduled before the load.
func (i *instance) Empty(ctx context.Context) (string, error) {
	var tasks, runs, effects int64
	err := i.db.Row(ctx, `SELECT (SELECT count(*) FROM tasks), (SELECT count(*) FROM runs),
		(SELECT count(*) FROM effects)`, nil, &tasks, &runs, &effects)
	if err != nil {
		return "", stores.Failed("checking that the tables are empty", err)
	}
	if tasks+runs+effects > 0 {
		return fmt.Sprintf("%d tasks, %d runs and %d effects", tasks, runs, effects), nil
	}
	return "", nil
}

// Audit reads an Audit in one snapshot.
func (i *instance) Audit(ctx context.Context) (json.RawMessage, error) {
	a, err := i.audit(ctx)
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(a)
	if err != nil {
		return nil, fmt.Errorf("encoding the audit: %w", err)
	}
	return raw, nil
}

// Close sends away who waits and closes the connections. Further calls do nothing.
func (i *instance) Close() (err error) {
	i.closing.Do(func() {
		i.room.close()
		err = i.backend.close()
	})
	return err
}

// errBadTask: what is asked for can never be.
var errBadTask = fmt.Errorf("no such time: %w", sut.ErrRefused)
