package scheduler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/harness/stores"
)

// claim is a started run in an executor's hands.
type claim struct {
	id, series, occurrence, fence, run int64
	due                                time.Time
	cron, zone                         string
	times, workMS                      int64
	fails                              bool
	// late is how long after it was due it started, since how long after it was picked,
	// and at when that was by this process's clock.
	late, since time.Duration
	at          time.Time
}

// ending is how a run ended, with the due time of the task's next occurrence if
// its row goes on with that.
type ending struct {
	claim
	outcome State
	next    *time.Time
}

// args are those of endSQL.
func (e ending) args() []any {
	return []any{e.id, e.fence, e.run, string(e.outcome), e.next, e.series, e.occurrence}
}

// pickSQL finds what is due within the look-ahead, $1 in microseconds by the
// database's clock or, if $3 is given, by another. The index is tasks_waiting.
func (o overrides) pickSQL() string {
	return `SELECT id, series, occurrence, schedule, zone, times, scheduled_at FROM tasks
		WHERE state = 'waiting' AND NOT paused AND scheduled_at <=
			coalesce($3::timestamptz, statement_timestamp()) + $1 * interval '1 microsecond'` +
		o.among + `
		ORDER BY scheduled_at LIMIT $2` + o.lock
}

// markSQL marks the tasks $1.
func (o overrides) markSQL() string {
	return `UPDATE tasks SET state = 'picked', picked_at = clock_timestamp()` + o.marks + `
	WHERE id = ANY ($1)`
}

// insertNextSQL inserts occurrence $2 of the task whose row is $1.
const insertNextSQL = `INSERT INTO tasks (series, occurrence, born, queue, client, task, work_ms,
		fails, schedule, zone, times, first_at, scheduled_at)
	SELECT series, $2, $2, queue, client, task, work_ms, fails, schedule, zone, times, first_at, $3
	FROM tasks WHERE id = $1 ON CONFLICT (series, born) DO NOTHING RETURNING id`

// claimSQL starts at most $1 tasks for executor $3 under a lease of $2
// microseconds: what is due by the database's clock or, if $4 is given, by
// another. The index is tasks_picked, or tasks_waiting where nobody picks.
// statement_timestamp is stable, so that the index serves the comparison, and
// never later than clock_timestamp: no start is early.
func (o overrides) claimSQL() string {
	return `WITH due AS MATERIALIZED (SELECT id FROM tasks
		WHERE state = '` + string(o.takes) + `' AND NOT paused
			AND scheduled_at <= coalesce($4::timestamptz, statement_timestamp())
		ORDER BY scheduled_at LIMIT $1` + o.lock + `)` + startSQL
}

// startSQL starts the tasks in the query due. They come as an array, for a join the
// planner would count on a tenth of the table where the LIMIT is a parameter, and read
// the whole index of numbers. The number of the run is drawn with the update, so that
// nothing is to be joined there either: of CTEs that change rows the planner thinks
// that they have one, and would compare each with each.
const startSQL = `, claimed AS (
    UPDATE tasks t SET state = 'running', fence = t.fence + 1, attempts = t.attempts + 1,
        picked_at = coalesce(t.picked_at, clock_timestamp()), started_at = clock_timestamp(),
        lease_until = clock_timestamp() + $2 * interval '1 microsecond', executor = $3
    WHERE t.id = ANY (ARRAY(SELECT id FROM due))
    RETURNING t.*, nextval('runs_id_seq') AS run
), history AS (
    INSERT INTO runs (id, series, occurrence, fence, queue, due, picked_at, started_at, executor)
    SELECT run, series, occurrence, fence, queue, scheduled_at, picked_at, started_at, executor
    FROM claimed
)
SELECT id, series, occurrence, fence, run, scheduled_at, schedule, zone, times, work_ms,
    fails AND reruns = 0, started_at - scheduled_at, started_at - picked_at
FROM claimed`

// runningFence is the token of a row that runs, none of any other. Compared with it a
// row is found by its number. Of state = 'running' the planner thinks that hardly any
// row is so, as it was when it last looked, and would go through the index of leases,
// with all that has been in it, for each row.
const runningFence = `CASE t.state WHEN 'running' THEN t.fence END`

// heartbeatSQL renews the leases of the rows $1 with the tokens $2, and returns
// those that are still their executor's. It locks them in the order of their numbers, as
// the end of a batch and the start of what was handed over do, which wait for several as
// well. poll_for_update waits in the order of due times, for rows that do not run.
const heartbeatSQL = `WITH mine AS MATERIALIZED (
    SELECT t.id FROM tasks t JOIN unnest($1::bigint[], $2::bigint[]) AS g (id, fence) ON t.id = g.id
    WHERE g.fence = ` + runningFence + ` ORDER BY t.id FOR UPDATE OF t
)
UPDATE tasks t SET lease_until = clock_timestamp() + $3 * interval '1 microsecond'
WHERE t.id = ANY (ARRAY(SELECT id FROM mine)) RETURNING t.id, t.fence, t.stops`

// letGoSQL notes of the runs $3, of the occurrences $2 of the tasks $1, that their
// executor was told that it has lost them, and let go of them.
const letGoSQL = `UPDATE runs r SET let_go_at = clock_timestamp()
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS g (series, occurrence, run)
WHERE r.series = g.series AND r.occurrence = g.occurrence AND r.id = g.run
    AND r.outcome = 'lost' AND r.let_go_at IS NULL`

// mineSQL locks the task of run $1 with token $2, if that is still its token.
const mineSQL = `SELECT id FROM tasks t WHERE id = $1 AND $2 = ` + runningFence + ` FOR UPDATE`

// effectSQL has the effect of occurrence $4 of task $3 with the salt $5.
func (o overrides) effectSQL() string {
	return `WITH mine AS MATERIALIZED (` + cmp.Or(o.mine, mineSQL) + `), put AS (
    INSERT INTO effects (series, occurrence, salt, fence, at)
    SELECT $3::bigint, $4::bigint, $5::bigint, $2::bigint, clock_timestamp() FROM mine
    ON CONFLICT DO NOTHING
)
SELECT count(*) FROM mine`
}

// endSQL ends run $3 of occurrence $7 of task $6 with outcome $4. If $5 is given, the
// row becomes the next occurrence, due then. A run that comes to its end when its task
// is somebody else's ends nothing, and that it was turned away is noted.
func (o overrides) endSQL() string {
	return `WITH mine AS MATERIALIZED (` + cmp.Or(o.mine, mineSQL) + `), moved AS (
    UPDATE tasks t SET ` + endedSQL(`$4::text`, `$5::timestamptz`) + `,
        fence = greatest(t.fence, $2)
    FROM mine WHERE t.id = mine.id RETURNING t.id
), ended AS (
    UPDATE runs r SET ` + runEndedSQL(`EXISTS (SELECT FROM moved)`, `$4`) + `
    WHERE r.series = $6 AND r.occurrence = $7 AND r.id = $3
        AND (r.outcome IN ('', 'lost') OR EXISTS (SELECT FROM moved))
)
SELECT count(*) FROM mine`
}

// runEndedSQL sets what an end makes of a run: its outcome if the task was its own, and
// else when it was turned away.
func runEndedSQL(own, outcome string) string {
	return `outcome = CASE WHEN ` + own + ` THEN ` + outcome + ` WHEN r.outcome = '' THEN 'fenced'
            ELSE r.outcome END,
        ended_at = CASE WHEN ` + own + ` OR r.outcome = '' THEN clock_timestamp() ELSE r.ended_at END,
        turned_at = CASE WHEN NOT ` + own + ` THEN clock_timestamp() END`
}

// endedSQL sets what the end of a run makes of its task's row. A task that was
// cancelled while it ran does not come again.
func endedSQL(outcome, next string) string {
	goesOn := `(` + next + ` IS NOT NULL AND NOT t.stops)`
	keep := func(column string) string {
		return column + ` = CASE WHEN ` + goesOn + ` THEN NULL ELSE t.` + column + ` END`
	}
	return `state = CASE WHEN ` + goesOn + ` THEN 'waiting'
            WHEN ` + next + ` IS NOT NULL THEN 'cancelled' ELSE ` + outcome + ` END,
        occurrence = t.occurrence + CASE WHEN ` + goesOn + ` THEN 1 ELSE 0 END,
        scheduled_at = CASE WHEN ` + goesOn + ` THEN ` + next + ` ELSE t.scheduled_at END,
        attempts = CASE WHEN ` + goesOn + ` THEN 0 ELSE t.attempts END,
        ended_at = CASE WHEN ` + goesOn + ` THEN NULL ELSE clock_timestamp() END,
        ` + keep("picked_at") + `, ` + keep("started_at") + `, ` + keep("executor") + `,
        ready_at = clock_timestamp(), lease_until = NULL`
}

// expiredSQL finds at most $1 tasks whose lease has ended.
const expiredSQL = `SELECT id, fence, lease_until FROM tasks
	WHERE state = 'running' AND lease_until < statement_timestamp()
	ORDER BY lease_until LIMIT $1`

// rescueSQL takes back at most $1 tasks whose lease has ended, for another start
// unless there were $2. Rows that are being ended or renewed are left for the
// next look, and what a lock was waited for is looked at again under it.
const rescueSQL = `WITH expired AS MATERIALIZED (` + expiredSQL + ` FOR UPDATE SKIP LOCKED
), back AS (
    UPDATE tasks t SET ` + takenBackSQL + `
    FROM expired WHERE t.id = expired.id
    RETURNING t.series, t.occurrence, t.fence, expired.lease_until
), lost AS (
    UPDATE runs r SET outcome = 'lost', ended_at = clock_timestamp(), lease_until = back.lease_until
    FROM back WHERE r.series = back.series AND r.occurrence = back.occurrence
        AND r.fence = back.fence AND r.outcome = ''
)
SELECT FROM back`

// takenBackSQL sets what the loss of an executor makes of a task's row, after $2 starts
// at most.
const takenBackSQL = `state = CASE WHEN t.stops THEN 'cancelled' WHEN t.attempts >= $2 THEN 'failed'
            ELSE 'waiting' END,
        ended_at = CASE WHEN t.stops OR t.attempts >= $2 THEN clock_timestamp() END,
        ready_at = clock_timestamp(), picked_at = NULL, started_at = NULL, lease_until = NULL,
        executor = NULL`

// releaseSQL gives back the task $1 with token $3 that was started, as run $4 of
// occurrence $6 of task $5, and not worked on to its end. It was a start like any other:
// after $2 of them there is no more.
const releaseSQL = `WITH back AS (
    UPDATE tasks t SET ` + takenBackSQL + `
    WHERE t.id = $1 AND $3 = ` + runningFence + ` RETURNING t.id
)
UPDATE runs SET outcome = 'lost', ended_at = clock_timestamp(), lease_until = clock_timestamp()
WHERE series = $5 AND occurrence = $6 AND id = $4 AND outcome = ''`

// now is what designs compare with that have a clock of their own, nil for those that ask
// the database.
func (t *tasks) now() *time.Time {
	if t.overrides.clock == nil {
		return nil
	}
	at := t.overrides.clock(t.Params)
	return &at
}

// picking is what a picker needs besides.
type picking struct {
	part int
	// selected is called between the look and the mark.
	selected func()
}

// pickRow is a task that a picker has locked.
type pickRow struct {
	id, series, occurrence, times int64
	cron, zone                    string
	due                           time.Time
}

// pick marks one batch of what is due within the look-ahead, and inserts what
// follows it if that is how tasks recur here. It returns how many it took.
func (t *tasks) pick(ctx context.Context, how picking) (taken int, err error) {
	c, err := t.calendar(ctx, false)
	if errors.Is(err, errNotBegun) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	err = t.DB.Transaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := t.look(ctx, tx, how)
		if err != nil || len(rows) == 0 {
			return err
		}
		how.selected()
		ids := column(rows, func(r pickRow) int64 { return r.id })
		if _, err := tx.Exec(ctx, t.markSQL(), ids); err != nil {
			return err
		}
		for _, r := range rows {
			if err := t.insertNext(ctx, tx, c, r); err != nil {
				return err
			}
		}
		taken = len(rows)
		return t.tell(ctx, tx, channelPicked)
	})
	if err != nil {
		return 0, fmt.Errorf("picking: %w", err)
	}
	if taken > 0 {
		t.counts.count(func(sum totals) { sum["pulled"] += float64(taken) })
	}
	return taken, nil
}

// look locks what is to be picked.
func (t *tasks) look(ctx context.Context, tx pgx.Tx, how picking) (rows []pickRow, err error) {
	args := []any{t.Params.clock(t.Params.LookAhead).Microseconds(), t.Params.PickBatch, t.now()}
	if t.mayPick != nil {
		if mine, err := t.mayPick(ctx, tx, how.part); err != nil || !mine {
			return nil, err
		}
		args = append(args, how.part)
	}
	err = stores.Each(ctx, tx, t.pickSQL(), args, func(row pgx.CollectableRow) error {
		var r pickRow
		err := row.Scan(&r.id, &r.series, &r.occurrence, &r.cron, &r.zone, &r.times, &r.due)
		rows = append(rows, r)
		return err
	})
	return rows, err
}

// tell notifies those who listen on a channel, in designs that do.
func (t *tasks) tell(ctx context.Context, tx pgx.Tx, channel string) error {
	if t.tells == nil {
		return nil
	}
	return t.tells(ctx, tx, channel)
}

// inserts says whether who picks inserts the next occurrence. Where nobody picks
// the end of one makes the next.
func (t *tasks) inserts() bool { return t.Params.Recurrence == Insert && t.picks() }

// insertNext inserts the occurrence after one that was picked. One that is there
// already was inserted when this one was picked before.
func (t *tasks) insertNext(ctx context.Context, tx pgx.Tx, c calendar, r pickRow) error {
	if !t.inserts() {
		return nil
	}
	next, err := t.nextDue(c, r.cron, r.zone, r.due, r.occurrence, r.times)
	if err != nil || next == nil {
		return err
	}
	row := dueRow{due: *next}
	err = tx.QueryRow(ctx, insertNextSQL, r.id, r.occurrence+1, *next).Scan(&row.id)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err == nil && t.added != nil {
		err = t.added(ctx, tx, row)
	}
	return err
}

// nextDue is when the occurrence after one is due, nil if there is none. It
// follows from when that one was due, whenever it ran.
func (t *tasks) nextDue(
	c calendar, cron, zone string, due time.Time, occurrence, times int64,
) (*time.Time, error) {
	if cron == "" || times > 0 && occurrence >= times {
		return nil, nil
	}
	schedule, err := parseCron(cron, zone)
	if err != nil {
		return nil, err
	}
	from := c.business(due).Round(time.Minute) // due is a whole minute of business time
	if t.overrides.after != nil {
		from = t.overrides.after(c, due)
	}
	next, err := schedule.next(from)
	if errors.Is(err, errNever) {
		return nil, nil
	}
	at := c.clock(next)
	return &at, err
}

// column is one column of the rows of a list.
func column[T, V any](list []T, of func(T) V) []V {
	values := make([]V, len(list))
	for i, row := range list {
		values[i] = of(row)
	}
	return values
}

// claim starts at most n tasks that are due.
func (t *tasks) claim(ctx context.Context, executor string, n int, hands []int64) (
	list []claim, err error,
) {
	sql, args := t.claimSQL(), []any{n, t.Params.Lease.D().Microseconds(), executor, t.now()}
	if t.overrides.claim != nil {
		sql, args = t.overrides.claim(args, hands)
	}
	err = t.DB.Rows(ctx, sql, args, func(row pgx.CollectableRow) error {
		c, err := scanClaim(row)
		list = append(list, c)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("claiming: %w", err)
	}
	t.started(list...)
	return list, nil
}

func scanClaim(row pgx.CollectableRow) (c claim, err error) {
	err = row.Scan(&c.id, &c.series, &c.occurrence, &c.fence, &c.run, &c.due, &c.cron, &c.zone,
		&c.times, &c.workMS, &c.fails, &c.late, &c.since)
	c.at = time.Now()
	return c, err
}

// heartbeat renews the leases of claims. It says which are lost, and which are to
// be stopped because somebody cancelled them.
func (t *tasks) heartbeat(ctx context.Context, claims []claim) (lost, stopped []claim, err error) {
	list, err := stores.Collect[struct {
		handed // by its token too: a row may be started again by the same executor
		Stops  bool
	}](ctx, t.DB, heartbeatSQL, column(claims, func(c claim) int64 { return c.id }),
		column(claims, func(c claim) int64 { return c.fence }), t.Params.Lease.D().Microseconds())
	if err != nil {
		return nil, nil, fmt.Errorf("renewing leases: %w", err)
	}
	stops := make(map[handed]bool, len(list))
	for _, kept := range list {
		stops[kept.handed] = kept.Stops
	}
	for _, c := range claims {
		switch stop, kept := stops[handed{c.id, c.fence}]; {
		case !kept:
			lost = append(lost, c)
		case stop:
			stopped = append(stopped, c)
		}
	}
	return lost, stopped, nil
}

// letGo notes that an executor let go of runs that were not its own any more.
func (t *tasks) letGo(ctx context.Context, list []claim) error {
	if len(list) == 0 {
		return nil
	}
	_, err := t.DB.Exec(ctx, letGoSQL, column(list, func(c claim) int64 { return c.series }),
		column(list, func(c claim) int64 { return c.occurrence }),
		column(list, func(c claim) int64 { return c.run }))
	if err != nil {
		return fmt.Errorf("noting that runs were let go: %w", err)
	}
	return nil
}

// salt makes an effect another one than that of any other run of the occurrence, in
// designs whose effects have no key.
func (t *tasks) salt(c claim) int64 {
	if t.overrides.salt != nil {
		return t.overrides.salt(c)
	}
	return 0
}

// effect does what the task is there for. It reports false if the task is not
// this run's any more.
func (t *tasks) effect(ctx context.Context, c claim) (mine bool, err error) {
	var n int
	err = t.DB.Row(ctx, t.effectSQL(),
		[]any{c.id, c.fence, c.series, c.occurrence, t.salt(c)}, &n)
	if err != nil {
		return false, fmt.Errorf("doing a task's work: %w", err)
	}
	return n > 0, nil
}

// end ends a run.
func (t *tasks) end(ctx context.Context, e ending) error {
	var n int
	err := t.DB.Row(ctx, t.endSQL(), e.args(), &n)
	if err != nil {
		return fmt.Errorf("ending a run: %w", err)
	}
	if n > 0 {
		t.counts.ended(e.claim)
	}
	return nil
}

// ended is the ending of a run with an outcome.
func (t *tasks) ended(ctx context.Context, c claim, outcome State) (ending, error) {
	e := ending{claim: c, outcome: outcome}
	if outcome != Done || t.inserts() || c.cron == "" {
		return e, nil
	}
	days, err := t.calendar(ctx, false)
	if err != nil {
		return e, err
	}
	e.next, err = t.nextDue(days, c.cron, c.zone, c.due, c.occurrence, c.times)
	return e, err
}

// release gives back a task that was not worked on to its end.
func (t *tasks) release(ctx context.Context, c claim) error {
	_, err := t.DB.Exec(ctx, releaseSQL, c.id, t.Params.MaxAttempts, c.fence, c.run, c.series,
		c.occurrence)
	if err != nil {
		return fmt.Errorf("giving a task back: %w", err)
	}
	return nil
}

// rescueBatch bounds the rows that one statement of the rescuer locks, purgeBatch
// those that one of retention deletes.
const (
	rescueBatch = 200
	purgeBatch  = 1000
)

// rescue takes back one batch of tasks whose executors are gone.
func (t *tasks) rescue(ctx context.Context, found func()) (n int, err error) {
	if t.overrides.rescue != nil {
		return t.overrides.rescue(t, ctx, found)
	}
	back, err := t.DB.Exec(ctx, rescueSQL, rescueBatch, t.Params.MaxAttempts)
	if err != nil {
		return 0, fmt.Errorf("taking tasks back: %w", err)
	}
	return int(back), nil
}

// purgeSQL deletes at most $2 tasks of which every occurrence ended more than $1
// microseconds ago, with all that belongs to them. Between the look and the locks a user
// may have them run again: what counts is what they are once all their rows are locked,
// in the order in which a change locks them. The index is tasks_ended.
const purgeSQL = `WITH old AS MATERIALIZED (
    SELECT DISTINCT series FROM (
        SELECT series FROM tasks t WHERE ended_at < statement_timestamp() - $1 * interval '1 microsecond'
            AND NOT EXISTS (SELECT FROM tasks o WHERE o.series = t.series AND (o.ended_at IS NULL
                OR o.ended_at >= statement_timestamp() - $1 * interval '1 microsecond'))
        ORDER BY ended_at LIMIT $2) AS finished
), held AS MATERIALIZED (
    SELECT series, ended_at FROM tasks WHERE series = ANY (ARRAY(SELECT series FROM old))
    ORDER BY series, id FOR UPDATE
), gone AS MATERIALIZED (
    SELECT series FROM held GROUP BY series HAVING bool_and(ended_at IS NOT NULL
        AND ended_at < statement_timestamp() - $1 * interval '1 microsecond')
), run AS (DELETE FROM runs WHERE series = ANY (ARRAY(SELECT series FROM gone))
), effect AS (DELETE FROM effects WHERE series = ANY (ARRAY(SELECT series FROM gone))
), change AS (DELETE FROM changes WHERE series = ANY (ARRAY(SELECT series FROM gone)))
DELETE FROM tasks WHERE series = ANY (ARRAY(SELECT series FROM gone))`

// purge deletes one batch of what is older than the retention.
func (t *tasks) purge(ctx context.Context) error {
	_, err := t.DB.Exec(ctx, purgeSQL, t.Params.Retention.D().Microseconds(), purgeBatch)
	if err != nil {
		return fmt.Errorf("deleting what is old: %w", err)
	}
	return nil
}

// overdue reads how long it is until the first task in a state is due, less what
// is looked ahead; false if there is none.
func (t *tasks) overdue(
	ctx context.Context, state State, ahead time.Duration,
) (in time.Duration, some bool, err error) {
	var left *time.Duration
	err = t.DB.Row(ctx, `SELECT min(scheduled_at) - clock_timestamp() FROM tasks
		WHERE state = '`+string(state)+`' AND NOT paused`, nil, &left)
	if err != nil || left == nil {
		return 0, false, err
	}
	return max(0, *left-ahead), true, nil
}
