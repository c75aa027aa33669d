package taskqueue

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/harness/stores"
	"stampede/harness/sut"
)

// handler does jobs. It stands for the work of a queue's users: it writes what it was called
// with, and has its effects in tables of its own, in Postgres for all designs. A job's effect has
// the job's number as its key, so that a job which is done twice has one effect.
type handler struct{ *opened }

// failedCall says that a call failed, and not because of which job. Where all is down that any of
// them needs, none of them is to blame.
type failedCall struct{ permanent, down bool }

func (f *failedCall) Error() string { return fmt.Sprintf("the handler failed: %+v", *f) }

// begin writes that a call begins.
func (h handler) begin(ctx context.Context, batch string, claims []claim) error {
	jobs, attempts := numbers(claims)
	tenants, asked, at := make([]string, len(claims)), make([]int64, len(claims)),
		make([]int64, len(claims))
	for i, c := range claims {
		tenants[i], asked[i], at[i] = c.job.Tenant, c.askedNS, c.atNS
	}
	_, err := h.DB.Exec(ctx, `INSERT INTO runs (job, attempt, tenant, asked_ns, claimed_ns, batch, size)
		SELECT *, $6, $7 FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::bigint[], $5::bigint[])`,
		jobs, attempts, tenants, asked, at, batch, len(claims))
	return stores.Failed("beginning a run", err)
}

// numbers are the jobs and attempts of claims.
func numbers(claims []claim) (jobs, attempts []int64) {
	jobs, attempts = make([]int64, len(claims)), make([]int64, len(claims))
	for i, c := range claims {
		jobs[i], attempts[i] = int64(c.job.ID), c.attempt
	}
	return jobs, attempts
}

// do does all jobs or none.
func (h handler) do(ctx context.Context, batch string, claims []claim) error {
	var bad *failedCall
	calls, takes := []int64{}, time.Duration(0) // the attempts of those that call the dependency
	for _, c := range claims {
		takes = max(takes, time.Duration(c.job.WorkMS)*time.Millisecond)
		if c.job.Calls {
			calls = append(calls, c.attempt)
		}
		switch {
		case c.job.Poison:
			bad = &failedCall{permanent: true}
		case c.attempt <= c.job.Fails && bad == nil:
			bad = &failedCall{}
		}
	}
	if !sut.Pause(ctx, takes) && takes > 0 {
		return fmt.Errorf("working: %w", ctx.Err())
	}
	if bad != nil {
		return bad
	}
	if up, err := h.call(ctx, calls); err != nil {
		return err
	} else if !up {
		return &failedCall{down: true}
	}
	jobs, attempts := numbers(claims)
	return stores.Failed("having effects", h.DB.Transaction(ctx,
		func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `INSERT INTO effects (job, salt, attempt)
				SELECT job, 0, attempt FROM unnest($1::bigint[], $2::bigint[]) AS c (job, attempt)
				ORDER BY job ON CONFLICT DO NOTHING`, jobs, attempts)
			if err == nil {
				_, err = tx.Exec(ctx, resultSQL, jobs, attempts, len(claims), batch, succeeded)
			}
			return err
		}))
}

// resultSQL writes what became of a call.
const resultSQL = `UPDATE runs r SET result = $5
	FROM unnest($1::bigint[], $2::bigint[]) AS c (job, attempt)
	WHERE r.job = c.job AND r.attempt = c.attempt AND r.size = $3 AND r.batch = $4`

// end writes that a call has failed, before the queue hears of it: without a result the worker
// did not come to an end.
func (h handler) end(
	ctx context.Context, batch string, claims []claim, bad *failedCall,
) error {
	result := failed
	switch {
	case bad.down:
		result = down
	case len(claims) > 1:
		result = split
	case bad.permanent:
		result = gaveUp
	}
	jobs, attempts := numbers(claims)
	_, err := h.DB.Exec(ctx, resultSQL, jobs, attempts, len(claims), batch, result)
	return stores.Failed("ending a run", err)
}

// paused writes for how long the queue pauses after a failure in a call with so many jobs.
func (h handler) paused(
	ctx context.Context, batch string, c claim, size int, how failure,
) error {
	_, err := h.DB.Exec(ctx, `UPDATE runs SET failed_ns = $4, next_ns = $5
		WHERE job = $1 AND attempt = $2 AND size = $3 AND batch = $6`, int64(c.job.ID), c.attempt, size,
		how.atNS, how.nextNS, batch)
	return stores.Failed("writing a pause", err)
}

// call asks the dependency once for each of some attempts, and says whether it is up.
func (h handler) call(ctx context.Context, attempts []int64) (up bool, err error) {
	if len(attempts) == 0 {
		return true, nil
	}
	from := h.Params.OutageAfter.D()
	err = h.DB.Row(ctx, `WITH asked AS (INSERT INTO calls (attempt) SELECT unnest($1::bigint[]))
		SELECT NOT clock_timestamp() - coalesce((SELECT at FROM calls ORDER BY seq LIMIT 1),
				clock_timestamp())
			BETWEEN $2 * interval '1 microsecond' AND $3 * interval '1 microsecond'`,
		[]any{attempts, from.Microseconds(), (from + h.Params.Outage.D()).Microseconds() - 1}, &up)
	return up, stores.Failed("calling the dependency", err)
}
