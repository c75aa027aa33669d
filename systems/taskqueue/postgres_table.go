package taskqueue

import (
	"cmp"
	"context"
	_ "embed" // the schema
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/harness/stores"
)

// postgresTable keeps jobs in a table and claims one at a time.
//
// The idea: a claim goes round the tenants, and takes of the next one that has any the first row
// of an index of ready jobs (SKIP LOCKED). The row gets a lease and its next attempt, which is the
// fence. Jobs that wait for their time are in another index until upkeep makes them ready, so that
// a claim reads no row that it does not take, however many are pending. A tenant that has a rate
// has a row that says until when it is used up, and who claims for the tenant locks that row.
//
// The guarantee: no job is lost, whoever dies when; each tenant is served as often as any other,
// and its most urgent job first.
//
// It gives up: a commit for each claim and another for each end of a job.
func postgresTable() variant {
	return inPostgres(variant{
		Name:       "postgres_table",
		Idea:       "a row for each job; a claim goes round the tenants and takes one row (SKIP LOCKED)",
		Guarantees: "nothing is lost or done twice, and tenants take turns",
		GivesUp:    "two commits for each job, and its dead rows",
	}, func(st *opened) keeper { return &table{opened: st, batch: 1, backoff: fullJitter} })
}

//go:embed postgres.sql
var postgresSchema string

// inPostgres completes a design whose jobs are in the table.
func inPostgres(v variant, keep func(*opened) keeper) variant {
	v.State = state{Schema: postgresSchema, Empty: []string{"jobs", "tenants"},
		Reset:   func(context.Context, *opened) error { return nil },
		Pending: openJobs, Audit: audit}
	return around(v, func(st *opened) (keeper, error) { return keep(st), nil })
}

// table is the jobs in Postgres.
type table struct {
	*opened
	batch   int
	backoff string
}

// fullJitter is a pause between $4 and $5 microseconds: any, so that those that failed together
// do not come together again.
const fullJitter = `$4::bigint + random() * ($5::bigint - $4::bigint)`

// errUnclaimed: the job of a claim cannot be read.
var errUnclaimed = errors.New("a payload cannot be read")

// Put inserts the job, and its tenant if that is new.
func (t *table) Put(ctx context.Context, req EnqueueRequest) error {
	payload, err := json.Marshal(req)
	if err != nil {
		return fmt.Errorf("writing a payload: %w", err)
	}
	stored, err := t.DB.Exec(ctx, `WITH known AS (INSERT INTO tenants SELECT $2
			WHERE NOT EXISTS (SELECT FROM tenants WHERE tenant = $2) ON CONFLICT DO NOTHING)
		INSERT INTO jobs (id, tenant, priority, unique_key, payload, state, due_at)
		SELECT $1, $2, $3, $4, $5, CASE $6::bigint WHEN 0 THEN 'ready' ELSE 'waiting' END,
			clock_timestamp() + $6::bigint * interval '1 millisecond'
		ON CONFLICT DO NOTHING`,
		int64(req.ID), req.Tenant, req.Priority, req.Unique, payload, req.DelayMS)
	if err != nil || stored > 0 {
		return stores.Failed("enqueueing a job", err)
	}
	// What is in the way may be younger than the statement, so that only another one sees it.
	there, err := t.known(ctx, req.ID)
	if err == nil && !there {
		return ErrDuplicate
	}
	return err
}

// known says whether there is a job.
func (t *table) known(ctx context.Context, job uint64) (there bool, err error) {
	err = t.DB.Row(ctx, `SELECT EXISTS (SELECT FROM jobs WHERE id = $1)`, []any{int64(job)}, &there)
	return there, stores.Failed("looking for a job", err)
}

// Cancel ends a job that is ready or waits.
func (t *table) Cancel(ctx context.Context, job uint64) error {
	return t.change(ctx, ErrTooLate, `UPDATE jobs SET state = 'cancelled', ended_at = clock_timestamp()
		WHERE id = $1 AND state IN ('ready', 'waiting')`, job)
}

// Replay makes a dead letter ready, with as many attempts as at first.
func (t *table) Replay(ctx context.Context, job uint64) error {
	err := t.change(ctx, ErrNotDead, `UPDATE jobs SET state = 'ready', replays = replays + 1,
		attempts = $2 * (replays + 1), reason = '', ended_at = NULL
		WHERE id = $1 AND state = 'dead'`, job, t.Params.MaxAttempts)
	if stores.Constraint(err) == "jobs_unique" {
		return ErrNotDead
	}
	return err
}

func (t *table) change(
	ctx context.Context, refusal error, sql string, job uint64, more ...any,
) error {
	n, err := t.DB.Exec(ctx, sql, append([]any{int64(job)}, more...)...)
	if err != nil || n > 0 {
		return stores.Failed("changing a job", err)
	}
	there, err := t.known(ctx, job)
	switch {
	case err != nil:
		return err
	case !there:
		return ErrUnknownJob
	}
	return refusal
}

// takeSQL claims at most $1 jobs for $3 microseconds, of each tenant its share, beginning after
// tenant $2. The index is jobs_ready. Tenants are few, and the limit ends the walk.
const takeSQL = `WITH picked AS MATERIALIZED (
		SELECT j.id FROM (SELECT tenant FROM tenants ORDER BY tenant <= $2, tenant) t
		CROSS JOIN LATERAL (SELECT id FROM jobs WHERE tenant = t.tenant AND state = 'ready'
			ORDER BY priority, id LIMIT (SELECT greatest(1, $1 / count(*)) FROM tenants)
			FOR UPDATE SKIP LOCKED) j LIMIT $1
	)
	UPDATE jobs SET state = 'running', attempts = attempts + 1,
		lease_until = clock_timestamp() + $3::bigint * interval '1 microsecond'
	WHERE id = ANY (ARRAY(SELECT id FROM picked))
	RETURNING payload, attempts, ns(statement_timestamp()), ns(clock_timestamp())`

// takeWithinSQL is takeSQL where a tenant may have a claim each $4 microseconds, and $5 at once. It
// locks as many tenants as it takes jobs at most, of those that have some and may have them, and
// passes over those that another claim has locked. A claim's time is read with its tenant's row:
// a row that has changed meanwhile is read anew. A job that has failed and become ready after that
// time is left to the next claim.
const takeWithinSQL = `WITH served AS MATERIALIZED (
		SELECT tenant, ns(clock_timestamp()) / 1000 AS at, spent_until FROM tenants t
		WHERE EXISTS (SELECT FROM jobs WHERE tenant = t.tenant AND state = 'ready')
			AND spent_until - ns(clock_timestamp()) / 1000 <= ($5 - 1) * $4::bigint
		ORDER BY tenant <= $2, tenant LIMIT $1 FOR UPDATE SKIP LOCKED
	), picked AS MATERIALIZED (
		SELECT j.id, t.tenant FROM served t
		CROSS JOIN LATERAL (SELECT id FROM jobs WHERE tenant = t.tenant AND state = 'ready'
			AND ns(due_at) / 1000 <= t.at ORDER BY priority, id
			LIMIT (SELECT least(greatest(1, $1 / count(*)),
				$5 - greatest(t.spent_until - t.at + $4::bigint - 1, 0) / $4::bigint) FROM tenants)
			FOR UPDATE SKIP LOCKED) j LIMIT $1
	), spent AS (
		UPDATE tenants t SET spent_until = greatest(s.spent_until, s.at) + p.n * $4::bigint
		FROM served s JOIN (SELECT tenant, count(*) AS n FROM picked GROUP BY tenant) p USING (tenant)
		WHERE t.tenant = s.tenant
	)
	UPDATE jobs j SET state = 'running', attempts = attempts + 1,
		lease_until = clock_timestamp() + $3::bigint * interval '1 microsecond'
	FROM served s WHERE j.tenant = s.tenant AND j.id = ANY (ARRAY(SELECT id FROM picked))
	RETURNING payload, attempts, ns(statement_timestamp()), s.at * 1000`

// Take claims jobs.
func (t *table) Take(ctx context.Context, last *turn) ([]claim, error) {
	sql, args := takeSQL, []any{t.batch, last.tenant, t.Params.Lease.D().Microseconds()}
	if every := t.Params.every(); every > 0 {
		sql, args = takeWithinSQL, append(args, every, t.Params.TenantBurst)
	}
	list, err := t.claims(ctx, sql, args...)
	last.next(list)
	return list, err
}

// claims runs a statement that claims jobs.
func (t *table) claims(ctx context.Context, sql string, args ...any) (list []claim, err error) {
	err = t.DB.Rows(ctx, sql, args, func(row pgx.CollectableRow) error {
		var c claim
		var payload []byte
		if err := row.Scan(&payload, &c.attempt, &c.askedNS, &c.atNS); err != nil {
			return err
		}
		if err := json.Unmarshal(payload, &c.job); err != nil {
			return fmt.Errorf("%w: %w", errUnclaimed, err)
		}
		list = append(list, c)
		return nil
	})
	// In this order the rows are locked, when claims are renewed and when they end.
	slices.SortFunc(list, func(x, y claim) int { return cmp.Compare(x.job.ID, y.job.ID) })
	return list, stores.Failed("claiming jobs", err)
}

// next is the turn after some claims, whose last tenant is the one that comes latest after the
// tenant before: behind the end of the list it begins anew.
func (t *turn) next(claims []claim) {
	if len(claims) == 0 {
		return
	}
	t.tenant = slices.MaxFunc(claims, func(x, y claim) int {
		if x, y := x.job.Tenant <= t.tenant, y.job.Tenant <= t.tenant; x != y {
			if x {
				return 1
			}
			return -1
		}
		return cmp.Compare(x.job.Tenant, y.job.Tenant)
	}).job.Tenant
}

// Beat renews leases.
func (t *table) Beat(ctx context.Context, claims []claim) (int, error) {
	jobs, attempts := numbers(claims)
	n, err := t.DB.Exec(ctx, `WITH mine AS MATERIALIZED (SELECT j.id FROM jobs j
			JOIN unnest($1::bigint[], $2::bigint[]) AS c (id, attempt) ON j.id = c.id
			WHERE j.attempts = c.attempt AND j.state = 'running' ORDER BY j.id FOR UPDATE OF j)
		UPDATE jobs SET lease_until = clock_timestamp() + $3::bigint * interval '1 microsecond'
		WHERE id = ANY (ARRAY(SELECT id FROM mine))`,
		jobs, attempts, t.Params.Lease.D().Microseconds())
	return int(n), stores.Failed("renewing leases", err)
}

// Done ends jobs.
func (t *table) Done(ctx context.Context, claims []claim) error {
	jobs, attempts := numbers(claims)
	_, err := t.DB.Exec(ctx, `UPDATE jobs j SET state = 'done', ended_by = attempts,
			ended_at = clock_timestamp(), lease_until = NULL
		FROM unnest($1::bigint[], $2::bigint[]) AS c (id, attempt)
		WHERE j.id = c.id AND j.attempts = c.attempt AND j.state = 'running'`, jobs, attempts)
	return stores.Failed("ending jobs", err)
}

// Fail has a job tried again, or makes it a dead letter.
func (t *table) Fail(ctx context.Context, c claim, permanent bool) (*failure, error) {
	return t.fail(ctx, c, permanent, running)
}

// fail is Fail of a job in some state. The time is read under the row's lock.
func (t *table) fail(ctx context.Context, c claim, permanent bool, from string) (*failure, error) {
	reason := t.Params.reason(c, permanent)
	var how failure
	err := t.DB.Row(ctx, `WITH mine AS MATERIALIZED (
			SELECT id FROM jobs WHERE id = $1 AND attempts = $2 AND state = $6 FOR UPDATE
		), now AS MATERIALIZED (SELECT id, clock_timestamp() AS at FROM mine)
		UPDATE jobs j SET state = CASE $3 WHEN '' THEN 'waiting' ELSE 'dead' END, reason = $3,
			ended_at = CASE $3 WHEN '' THEN NULL ELSE now.at END, ended_by = 0,
			lease_until = NULL,
			due_at = CASE $3 WHEN '' THEN now.at + (`+t.backoff+`) * interval '1 microsecond'
				ELSE j.due_at END
		FROM now WHERE j.id = now.id
		RETURNING ns(now.at), CASE $3 WHEN '' THEN ns(j.due_at) ELSE 0 END`,
		[]any{int64(c.job.ID), c.attempt, reason, t.Params.BackoffFloor.D().Microseconds(),
			t.Params.ceiling(c.attempt).Microseconds(), from}, &how.atNS, &how.nextNS)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	return &how, stores.Failed("failing a job", err)
}

// Upkeep makes jobs ready.
func (t *table) Upkeep(ctx context.Context) (int, error) { return t.upkeep(ctx, 0) }

// upkeep makes jobs ready, those that have failed some time later than they are due.
func (t *table) upkeep(ctx context.Context, later time.Duration) (int, error) {
	due, err := t.DB.Exec(ctx, `UPDATE jobs SET state = 'ready' WHERE id = ANY (ARRAY(
		SELECT id FROM jobs WHERE state = 'waiting' AND due_at <= statement_timestamp()
			AND due_at + sign(attempts) * $2::bigint * interval '1 microsecond' <= statement_timestamp()
		ORDER BY due_at LIMIT $1 FOR UPDATE SKIP LOCKED))`, upkeepMost, later.Microseconds())
	if err != nil {
		return 0, stores.Failed("making jobs ready", err)
	}
	lost, err := t.DB.Exec(ctx, `UPDATE jobs SET lease_until = NULL,
			state = CASE WHEN attempts < $2 * (replays + 1) THEN 'ready' ELSE 'dead' END,
			reason = CASE WHEN attempts < $2 * (replays + 1) THEN '' ELSE 'attempts' END,
			ended_at = CASE WHEN attempts < $2 * (replays + 1) THEN NULL ELSE clock_timestamp() END
		WHERE id = ANY (ARRAY(SELECT id FROM jobs WHERE state = 'running'
			AND lease_until <= statement_timestamp() ORDER BY lease_until LIMIT $1
			FOR UPDATE SKIP LOCKED))`, upkeepMost, t.Params.MaxAttempts)
	return int(max(due, lost)), stores.Failed("taking jobs back", err)
}

// openJobs counts the live jobs.
func openJobs(ctx context.Context, st *opened) (left int64, what string, err error) {
	err = st.DB.Row(ctx, `SELECT count(*) FROM jobs WHERE state IN ('ready', 'waiting', 'running')`,
		nil, &left)
	return left, fmt.Sprintf("%d jobs are not over", left), err
}

// audit reads everything in one snapshot.
func audit(ctx context.Context, st *opened) (any, error) {
	var a Audit
	err := st.DB.Snapshot(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
		if a, err = handled(ctx, tx); err != nil {
			return err
		}
		a.Jobs, err = stores.CollectOn[JobRow](ctx, tx, `SELECT id, 'job-' || id, tenant, unique_key,
			priority, state, attempts, replays, reason, ended_by, ns(created_at),
			coalesce(ns(ended_at), 0) FROM jobs ORDER BY id`)
		return err
	})
	return a, err
}

// handled is what the handler did.
func handled(ctx context.Context, tx pgx.Tx) (a Audit, err error) {
	a.Runs, err = stores.CollectOn[RunRow](ctx, tx, `SELECT job, tenant, attempt, batch, size, result,
		asked_ns, claimed_ns, failed_ns, next_ns FROM runs ORDER BY job, attempt, size DESC`)
	if err == nil {
		a.Effects, err = stores.CollectOn[EffectRow](ctx, tx, `SELECT job, attempt FROM effects
			ORDER BY job, salt`)
	}
	return a, err
}
