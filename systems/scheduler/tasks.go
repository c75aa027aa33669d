package scheduler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/harness/stores"
)

// tasks is what all designs have in common: the table of tasks as users know it.
type tasks struct {
	*opened
	overrides
	name  string
	added addedFunc

	begun  atomic.Pointer[calendar]
	counts counts
}

// dueRow is a task that is to run.
type dueRow struct {
	id  int64
	due time.Time
}

// errNotBegun: the first request has not come yet.
var errNotBegun = errors.New("the day has not begun")

// calendar reads when the day began; begin says whether to begin it now.
func (t *tasks) calendar(ctx context.Context, begin bool) (calendar, error) {
	if c := t.begun.Load(); c != nil {
		return *c, nil
	}
	if begin {
		_, err := t.DB.Exec(ctx, `INSERT INTO calendar (begins_at)
			VALUES (clock_timestamp()) ON CONFLICT DO NOTHING`)
		if err != nil {
			return calendar{}, stores.Failed("beginning the day", err)
		}
	}
	c := calendar{day: t.Params.day(), scale: t.Params.TimeScale}
	err := t.DB.Row(ctx, `SELECT begins_at FROM calendar`, nil, &c.begins)
	if errors.Is(err, pgx.ErrNoRows) {
		return c, errNotBegun
	}
	if err != nil {
		return c, stores.Failed("reading when the day began", err)
	}
	t.begun.Store(&c)
	return c, nil
}

// The statement that schedules: a request that came before gets the task that it
// made, whatever has become of it. scheduled tells the pickers.
func (o overrides) scheduleSQL() string {
	return `
INSERT INTO tasks AS t (series, queue, client, task, work_ms, fails, schedule, zone, times,
    first_at, scheduled_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $10)
ON CONFLICT (series, born) DO UPDATE SET series = excluded.series
RETURNING id, first_at, xmax = 0,
    queue = $2 AND client = $3 AND task = $4 AND work_ms = $5 AND fails = $6 AND schedule = $7
        AND zone = $8 AND times = $9 AND first_at = $10,
    greatest(first_at - clock_timestamp(), interval '0'),
    ` + cmp.Or(o.scheduled, "NULL::text")
}

// Schedule stores a task.
func (t *tasks) Schedule(ctx context.Context, req Request) (Scheduled, error) {
	c, err := t.calendar(ctx, true)
	if err != nil {
		return Scheduled{}, err
	}
	due, err := req.first(t.Params.Granularity.D())
	if err != nil {
		return Scheduled{}, err
	}
	args := []any{int64(req.ID), req.Queue, req.Client, req.Task, req.WorkMS, req.Fails, req.Cron,
		req.Zone, req.Times, c.clock(due)}
	var row dueRow
	var fresh, same bool
	var in time.Duration
	into := []any{&row.id, &row.due, &fresh, &same, &in, new(*string)}
	if t.added == nil {
		err = t.DB.Row(ctx, t.scheduleSQL(), args, into...)
	} else {
		err = t.DB.Transaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
			if err := tx.QueryRow(ctx, t.scheduleSQL(), args...).Scan(into...); err != nil || !fresh {
				return err
			}
			return t.added(ctx, tx, row)
		})
	}
	switch {
	case err != nil:
		return Scheduled{}, stores.Failed("scheduling a task", err)
	case !same:
		return Scheduled{}, ErrConflict
	}
	return Scheduled{in}, nil
}

// first is when a task is due for the first time, in whole units of the granularity.
func (r Request) first(granularity time.Duration) (time.Time, error) {
	due := r.At.Truncate(granularity)
	if r.Cron == "" {
		return due, nil
	}
	schedule, err := parseCron(r.Cron, r.Zone)
	if err == nil {
		due, err = schedule.next(due)
	}
	if err != nil {
		return due, fmt.Errorf("%w: %w", errBadTask, err)
	}
	return due, nil
}

// Change does to a task what a user wants, once for each operation. What was made
// before is looked for under the locks of the task's rows: whoever had them may just
// have made it.
func (t *tasks) Change(ctx context.Context, c Change) (state State, err error) {
	err = t.DB.Transaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := lockSeries(ctx, tx, c.Task)
		if err != nil {
			return err
		}
		if state, err = changed(ctx, tx, c); !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		if state, err = t.apply(ctx, tx, c, rows); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `INSERT INTO changes (op_id, series, what, outcome, at)
			VALUES ($1, $2, $3, $4, clock_timestamp())`, int64(c.ID), int64(c.Task), c.What, state)
		if err == nil && (c.What == KindResume || c.What == KindRerun) {
			err = errors.Join(t.tell(ctx, tx, channelTasks), t.tell(ctx, tx, channelPicked))
		}
		return err
	})
	switch {
	case stores.Constraint(err) == "changes_pkey": // another task was changed by it meanwhile
		return "", ErrOpTaken
	case errors.Is(err, ErrUnknownTask), errors.Is(err, ErrState), errors.Is(err, ErrOpTaken):
		return "", err
	case err != nil:
		return "", stores.Failed("changing a task", err)
	}
	return state, nil
}

// changed reads what became of a change that was made, pgx.ErrNoRows if it was not.
func changed(ctx context.Context, tx pgx.Tx, c Change) (state State, err error) {
	var task int64
	var what string
	err = tx.QueryRow(ctx, `SELECT series, what, outcome FROM changes WHERE op_id = $1`,
		int64(c.ID)).Scan(&task, &what, &state)
	if err == nil && (uint64(task) != c.Task || what != c.What) {
		return "", ErrOpTaken
	}
	return state, err
}

// lockedRow is a row of a task that a change has locked.
type lockedRow struct {
	ID    int64
	State State
	Fails bool
	Due   time.Time
}

// lockSeries locks all rows of a task. Whoever inserts the next occurrence holds
// the lock of the last one until it is there: when a second look finds no more
// rows than the first, there will be none.
func lockSeries(ctx context.Context, tx pgx.Tx, task uint64) ([]lockedRow, error) {
	seen := 0
	for {
		rows, err := tx.Query(ctx, `SELECT id, state, fails, scheduled_at FROM tasks
			WHERE series = $1 ORDER BY id FOR UPDATE`, int64(task))
		if err != nil {
			return nil, err
		}
		list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[lockedRow])
		switch {
		case err != nil:
			return nil, err
		case len(list) == 0:
			return nil, ErrUnknownTask
		case len(list) == seen:
			return list, nil
		}
		seen = len(list)
	}
}

// apply changes the locked rows and says what the task is by that: of a recurring
// one with several rows, of the last that was changed.
func (t *tasks) apply(
	ctx context.Context, tx pgx.Tx, c Change, rows []lockedRow,
) (state State, err error) {
	for _, r := range rows {
		set, becomes := transition(c.What, r.State)
		if set == "" {
			continue
		}
		if c.What == KindResume {
			set += t.marks // it was passed over while it was paused
		}
		state = becomes
		if _, err := tx.Exec(ctx, `UPDATE tasks SET `+set+` WHERE id = $1`, r.ID); err != nil {
			return "", err
		}
		if c.What == KindRerun && t.added != nil {
			if err := t.added(ctx, tx, dueRow{r.ID, r.Due}); err != nil {
				return "", err
			}
		}
	}
	if state == "" {
		return "", ErrState
	}
	return state, nil
}

// transition says what a change sets in a row of a state, and what the task is
// then; nothing if it cannot be.
func transition(what string, from State) (set string, becomes State) {
	open := from == Waiting || from == Picked
	switch {
	case what == KindCancel && open:
		return `state = 'cancelled', ended_at = clock_timestamp()`, Cancelled
	case what == KindCancel && from == Running:
		return `stops = true`, Stopping
	case what == KindPause && (open || from == Running):
		return `paused = true`, Paused
	case what == KindResume && (open || from == Running):
		return `paused = false, ready_at = clock_timestamp()`, from
	case what == KindRerun && from == Failed:
		return `state = 'waiting', stops = false, reruns = reruns + 1, attempts = 0,
			ready_at = clock_timestamp(), picked_at = NULL, started_at = NULL, ended_at = NULL, lease_until = NULL`, Waiting
	}
	return "", ""
}

// selectTask reads a Task, but for its runs and with its due time on the clock.
const selectTask = `SELECT series, queue, client, task, work_ms, fails, schedule, zone, times,
	occurrence, scheduled_at, CASE WHEN stops AND state = 'running' THEN 'stopping' ELSE state END,
	paused FROM tasks `

func (t *tasks) scanTask(row pgx.CollectableRow, c calendar) (Task, error) {
	var k Task
	var id int64
	err := row.Scan(&id, &k.Queue, &k.Client, &k.Task, &k.WorkMS, &k.Fails, &k.Cron, &k.Zone, &k.Times,
		&k.Occurrence, &k.Due, &k.State, &k.Paused)
	k.ID, k.Due = uint64(id), c.business(k.Due)
	return k, err
}

// Task reads a task, its last occurrence if it has several rows, with its runs.
func (t *tasks) Task(ctx context.Context, id uint64) (k Task, err error) {
	c, err := t.calendar(ctx, true)
	if err != nil {
		return k, err
	}
	found := false
	err = t.DB.Rows(ctx, selectTask+`WHERE series = $1 ORDER BY occurrence DESC LIMIT 1`,
		[]any{int64(id)}, func(row pgx.CollectableRow) (err error) {
			k, err = t.scanTask(row, c)
			found = true
			return err
		})
	switch {
	case err != nil:
		return k, stores.Failed("reading a task", err)
	case !found:
		return k, ErrUnknownTask
	}
	err = t.DB.Rows(ctx, `SELECT occurrence, fence, due, started_at, ended_at, outcome FROM runs
		WHERE series = $1 ORDER BY occurrence, fence, id`, []any{int64(id)},
		func(row pgx.CollectableRow) error {
			var r Run
			var ended *time.Time
			err := row.Scan(&r.Occurrence, &r.Fence, &r.Due, &r.Started, &ended, &r.Outcome)
			if ended != nil {
				r.Ended = ended.UTC()
			}
			r.Due, r.Started = c.business(r.Due), r.Started.UTC()
			k.Runs = append(k.Runs, r)
			return err
		})
	if err != nil {
		return k, stores.Failed("reading a task's runs", err)
	}
	return k, nil
}

// Tasks reads the newest tasks of a queue.
func (t *tasks) Tasks(ctx context.Context, queue string, limit int) ([]Task, error) {
	c, err := t.calendar(ctx, true)
	if err != nil {
		return nil, err
	}
	list := []Task{}
	err = t.DB.Rows(ctx, selectTask+`WHERE queue = $1 ORDER BY id DESC LIMIT $2`,
		[]any{queue, limit}, func(row pgx.CollectableRow) error {
			k, err := t.scanTask(row, c)
			list = append(list, k)
			return err
		})
	if err != nil {
		return nil, stores.Failed("listing tasks", err)
	}
	return list, nil
}

// firstStarts says of which tasks the first occurrence has started, and how late; of
// those that were cancelled before it is -1.
func (t *tasks) firstStarts(
	ctx context.Context, ids []uint64,
) (late map[uint64]time.Duration, err error) {
	series := column(ids, func(id uint64) int64 { return int64(id) })
	slices.Sort(series)
	late = make(map[uint64]time.Duration, len(ids))
	err = t.DB.Rows(ctx, `SELECT series, min(started_at - due) FROM runs
			WHERE series = ANY ($1) AND occurrence = 1 GROUP BY series
		UNION ALL SELECT series, NULL FROM tasks t WHERE series = ANY ($1) AND state = 'cancelled'
			AND NOT EXISTS (SELECT FROM runs r WHERE r.series = t.series)`, []any{series},
		func(row pgx.CollectableRow) error {
			var id int64
			var by *time.Duration
			if err := row.Scan(&id, &by); err != nil {
				return err
			}
			late[uint64(id)] = -1
			if by != nil {
				late[uint64(id)] = max(0, *by)
			}
			return nil
		})
	if err != nil {
		return nil, stores.Failed("looking for starts", err)
	}
	return late, nil
}
