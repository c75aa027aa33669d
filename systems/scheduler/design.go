package scheduler

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/harness/api"
	"stampede/harness/design"
	"stampede/harness/stores"
)

//go:embed schema.sql
var schema string

// What package design opens for this system.
type (
	variant = design.Variant[Scheduler, Params]
	role    = design.Role[Params]
	opened  = design.Stores[Params]
)

// scheme is a design: what to say of it, and what it does differently from the scheduler that
// all of them are.
type scheme struct {
	variant

	overrides overrides
}

// overrides are what a design does differently from most. The zero value of a field is the default.
type overrides struct {
	// lock is how pickers and executors lock what they have found.
	lock string
	// takes is the state of the tasks that executors take; Waiting: there are no pickers.
	takes State
	// parts is how many parts a picker goes through, of each what mayPick allows and among, a
	// condition on $4, selects.
	parts   int
	mayPick func(ctx context.Context, tx pgx.Tx, part int) (bool, error)
	among   string
	// marks are further columns that a pick sets, and so does a resume.
	marks string
	// tells notifies, in a transaction, those who listen on a channel. scheduled is what does so
	// in the statement that schedules.
	tells     func(ctx context.Context, tx pgx.Tx, channel string) error
	scheduled string
	// carry opens what takes picked tasks to executors, nil: the table does.
	carry func(*opened) (carrier, error)
	// ends makes what ends runs in batches.
	ends func(*tasks) *batchEnds
	// fleet reads how many executors are up; ahead is how far their orchestrator looks.
	fleet func(t *tasks, ctx context.Context) (int, error)
	ahead func(Params) time.Duration
	// execute is the executor of who does not claim tasks step by step.
	execute func(context.Context, *tasks) error
	// added, if set, makes what is called in the transaction that makes tasks due at some
	// time: those that were scheduled, inserted or are to run again.
	added func(*tasks) (addedFunc, error)
	// startSlack and rescueSlack are by how much later it starts tasks and takes them back.
	startSlack, rescueSlack time.Duration

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

// addedFunc is told of tasks that are to run.
type addedFunc func(ctx context.Context, tx pgx.Tx, rows ...dueRow) error

// The locks that a query takes.
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
func (o overrides) picks() bool { return o.takes == Picked }

// opener returns the tasks over opened stores, the same each time.
type opener func(*opened) (*tasks, error)

// newTasks are those of a design over opened stores.
func (d scheme) newTasks(st *opened) (*tasks, error) {
	t := &tasks{opened: st, overrides: d.full(), name: d.Name}
	if d.overrides.added != nil {
		var err error
		if t.added, err = d.overrides.added(t); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// full are its overrides, with the defaults filled in.
func (d scheme) full() overrides {
	o := d.overrides
	o.takes = cmp.Or(o.takes, Picked)
	return o
}

// built is the design as package design has it.
func (d scheme) built() variant {
	v, o := d.variant, d.full()
	of := func(st *opened) (*tasks, error) {
		return design.Keep(st, func() (*tasks, error) { return d.newTasks(st) })
	}
	v.Open = func(_ context.Context, st *opened) (Scheduler, error) {
		t, err := of(st)
		if err != nil {
			return nil, err
		}
		return newInstance(t), nil
	}
	if o.picks() {
		v.Roles = append(v.Roles, pickerRole(of, o))
	}
	v.Roles = append(v.Roles, executorRole(of, o), rescuerRole(of))
	if o.fleet != nil {
		v.Roles = append(v.Roles, orchestratorRole(of))
		v.State.Schema += latestIndex
	}
	if o.carry != nil {
		v.State.Schema += carriedSchema
		v.State.Ready = func(ctx context.Context, st *opened) error {
			c, err := o.carry(st)
			if err != nil {
				return err
			}
			defer c.close()
			return c.prepare(ctx)
		}
	}
	v.State.Audit, v.State.Gauge = reading(of, (*tasks).audit), reading(of, (*tasks).watch)
	return v
}

// reading is what reads something of a design's tasks.
func reading[T any](
	of opener, read func(*tasks, context.Context) (T, error),
) func(context.Context, *opened) (any, error) {
	return func(ctx context.Context, st *opened) (any, error) {
		t, err := of(st)
		if err != nil {
			return nil, err
		}
		return read(t, ctx)
	}
}

// stillToRun says what is left to do, "" if nothing is.
func stillToRun(waiting, running int64) string {
	if waiting+running == 0 {
		return ""
	}
	return fmt.Sprintf("%d tasks wait and %d run", waiting, running)
}

// pending counts the tasks that have still to run: all but those that are paused, and but
// recurring ones whose next occurrence is not due yet.
func pending(ctx context.Context, st *opened) (left int64, what string, err error) {
	var waiting, running int64
	err = st.DB.Row(ctx, `SELECT
		count(*) FILTER (WHERE state IN ('waiting', 'picked') AND NOT paused
			AND (schedule = '' OR times > 0 OR scheduled_at <= clock_timestamp())),
		count(*) FILTER (WHERE state = 'running')
		FROM tasks WHERE ended_at IS NULL`, nil, &waiting, &running)
	return waiting + running, stillToRun(waiting, running),
		stores.Failed("counting unfinished tasks", err)
}

// errBadTask: what is asked for can never be.
var errBadTask = fmt.Errorf("no such time: %w", api.ErrBadRequest)
