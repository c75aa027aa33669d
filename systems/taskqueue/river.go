package taskqueue

import (
	"context"
	_ "embed" // the view
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver"
	"github.com/riverqueue/river/rivertype"

	"stampede/harness/stores"
	"stampede/systems/internal/queue"
)

// riverPeer keeps jobs in River (github.com/riverqueue/river), a Go product on Postgres.
//
// The idea: River's statements insert jobs, with its unique keys (InsertTx), fetch them
// (JobGetAvailable), end them (JobSetStateIfRunningMany), schedule, rescue, cancel and retry them.
// The loops around them are ours, because River's own look for what is scheduled every 5 s and for
// what is stuck every 30 s. Its statements look at a job's state and not at whose attempt it is:
// that is asked first, under the row's lock.
//
// The guarantee: that of postgres_batch, but for what concerns tenants.
//
// It gives up: fairness between tenants and limits of their rates, which River has in its paid
// edition; a heartbeat, for which the beginning of an attempt is moved; and the extra writes of
// River's indexes.
func riverPeer() variant {
	none := "River does not tell tenants apart (its paid edition does)"
	return around(variant{
		Name:          "river",
		Idea:          "jobs are River (v0.51.0) jobs; its statements insert, fetch, end and rescue them",
		Guarantees:    "what postgres_batch guarantees, except among tenants",
		GivesUp:       "fairness and limits of tenants, and the extra writes of River's indexes",
		NotApplicable: map[string]string{TenantsFair: none, RatesKept: none},
		Settings:      queue.RiverSettings(),
		State: state{Empty: []string{"river_job"}, Pending: openJobs, Audit: audit,
			Ready: func(ctx context.Context, st *opened) error {
				return queue.MigrateRiver(ctx, st.DB, riverSQL)
			},
			Reset: func(context.Context, *opened) error { return nil }},
	}, func(st *opened) (keeper, error) {
		client, err := queue.RiverOver(st.DB, &river.Config{})
		return &riverJobs{&table{opened: st}, client}, err
	})
}

//go:embed river.sql
var riverSQL string

// riverJobs is the jobs in River.
type riverJobs struct {
	*table
	queue.River
}

// riverArgs are a job as the arguments of one of River's.
type riverArgs struct {
	EnqueueRequest
	Key string `json:"river_key" river:"unique"`
}

// Kind names the job to River.
func (riverArgs) Kind() string { return "stampede_job" }

// riverLive are the states in which a job has its unique key.
func riverLive() []rivertype.JobState {
	return []rivertype.JobState{rivertype.JobStateAvailable, rivertype.JobStatePending,
		rivertype.JobStateRetryable, rivertype.JobStateRunning, rivertype.JobStateScheduled}
}

// riverAttempts bounds how many clients a job remembers, as River does.
const riverAttempts = 100

// Put inserts a job.
func (r *riverJobs) Put(ctx context.Context, req EnqueueRequest) error {
	opts := &river.InsertOpts{Priority: int(req.Priority), MaxAttempts: r.Params.MaxAttempts}
	if req.Unique != "" {
		opts.UniqueOpts = river.UniqueOpts{ByArgs: true, ByState: riverLive()}
	}
	var other bool
	err := r.DB.Transaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if req.DelayMS > 0 {
			err := tx.QueryRow(ctx, `SELECT clock_timestamp() + $1::bigint * interval '1 millisecond'`,
				req.DelayMS).Scan(&opts.ScheduledAt)
			if err != nil {
				return err
			}
		}
		res, err := r.Client.InsertTx(ctx, tx, riverArgs{req, req.Unique}, opts)
		other = err == nil && res.UniqueSkippedAsDuplicate
		return err
	})
	switch {
	case stores.Constraint(err) == "river_job_op":
		return nil
	case err != nil || !other:
		return stores.Failed("enqueueing a job", err)
	}
	there, err := r.known(ctx, req.ID)
	if err == nil && !there {
		return ErrDuplicate
	}
	return err
}

// locked is one of River's jobs under its lock.
type locked struct {
	id  int64
	now time.Time
}

// change changes a job that is in one of some states, under its lock.
func (r *riverJobs) change(
	ctx context.Context, job uint64, refusal error, states []string,
	do func(context.Context, pgx.Tx, locked) error,
) error {
	err := r.DB.Transaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var l locked
		var fits bool
		err := tx.QueryRow(ctx, `SELECT id, state::text = ANY ($2) FROM river_job
			WHERE (args->>'op_id')::bigint = $1 FOR UPDATE`, int64(job), states).Scan(&l.id, &fits)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return ErrUnknownJob
		case err == nil && !fits:
			return refusal
		case err == nil:
			err = tx.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&l.now)
		}
		if err != nil {
			return err
		}
		return do(ctx, tx, l)
	})
	return stores.Failed("changing a job", err)
}

// Cancel ends a job that is not claimed.
func (r *riverJobs) Cancel(ctx context.Context, job uint64) error {
	return r.change(ctx, job, ErrTooLate, []string{"available", "scheduled", "retryable"},
		func(ctx context.Context, tx pgx.Tx, l locked) error {
			_, err := r.Driver.UnwrapExecutor(tx).JobCancel(ctx, &riverdriver.JobCancelParams{ID: l.id,
				CancelAttemptedAt: l.now, Now: &l.now, ControlTopic: "river_control"})
			return err
		})
}

// Replay retries a job. River gives it one attempt more, and here it has as many as at first.
func (r *riverJobs) Replay(ctx context.Context, job uint64) error {
	err := r.change(ctx, job, ErrNotDead, []string{"discarded"},
		func(ctx context.Context, tx pgx.Tx, l locked) error {
			_, err := r.Driver.UnwrapExecutor(tx).JobRetry(ctx,
				&riverdriver.JobRetryParams{ID: l.id, Now: &l.now})
			if err != nil {
				return err
			}
			_, err = tx.Exec(ctx, `WITH n AS (
					SELECT coalesce(metadata->>'replays', '0')::int + 1 AS n FROM river_job WHERE id = $1)
				UPDATE river_job SET metadata = metadata - 'reason' || jsonb_build_object('replays', n.n),
					attempt = $2 * n.n, max_attempts = $2 * (n.n + 1) FROM n WHERE id = $1`,
				l.id, r.Params.MaxAttempts)
			return err
		})
	if stores.Constraint(err) == "river_job_unique_idx" {
		return ErrNotDead
	}
	return err
}

// Take has River fetch jobs.
func (r *riverJobs) Take(ctx context.Context, last *turn) ([]claim, error) {
	ctx, cancel := context.WithTimeout(ctx, r.DB.Timeout)
	defer cancel()
	found, err := r.Driver.GetExecutor().JobGetAvailable(ctx, &riverdriver.JobGetAvailableParams{
		ClientID: last.worker, MaxAttemptedBy: riverAttempts, MaxToLock: r.Params.Batch,
		Queue: river.QueueDefault})
	if err != nil {
		return nil, stores.Failed("claiming jobs", err)
	}
	list := make([]claim, len(found.Jobs))
	for i, job := range found.Jobs {
		var args riverArgs
		if err := json.Unmarshal(job.EncodedArgs, &args); err != nil {
			return nil, fmt.Errorf("%w: %w", errUnclaimed, err)
		}
		at := job.AttemptedAt.UnixNano() // not before scheduled_at, set with what makes it available
		list[i] = claim{job: args.EnqueueRequest, attempt: int64(job.Attempt), askedNS: at, atNS: at,
			entry: strconv.FormatInt(job.ID, 10)}
	}
	return list, nil
}

// riverMine is which of River's jobs $1 are claimed by the attempts $2.
const riverMine = `SELECT j.id FROM river_job j
	JOIN unnest($1::bigint[], $2::bigint[]) AS c (id, attempt) USING (id)
	WHERE j.attempt = c.attempt AND j.state = 'running' ORDER BY j.id FOR UPDATE OF j`

// riverNumbers are River's numbers of the jobs of claims, and the attempts.
func riverNumbers(claims []claim) (ids, attempts []int64) {
	_, attempts = numbers(claims)
	for _, c := range claims {
		id, _ := strconv.ParseInt(c.entry, 10, 64) // it is ours
		ids = append(ids, id)
	}
	return ids, attempts
}

// Beat moves the beginning of attempts, which is all that River's rescuer goes by.
func (r *riverJobs) Beat(ctx context.Context, claims []claim) (int, error) {
	ids, attempts := riverNumbers(claims)
	n, err := r.DB.Exec(ctx, `WITH mine AS MATERIALIZED (`+riverMine+`)
		UPDATE river_job SET attempted_at = clock_timestamp()
		WHERE id = ANY (ARRAY(SELECT id FROM mine))`, ids, attempts)
	return int(n), stores.Failed("renewing leases", err)
}

// end has River change the claims that are still their worker's.
func (r *riverJobs) end(
	ctx context.Context, claims []claim,
	to func(id int64, now time.Time, c claim) *riverdriver.JobSetStateIfRunningParams,
) error {
	ids, attempts := riverNumbers(claims)
	err := r.DB.Transaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		mine, err := stores.CollectOn[struct{ ID int64 }](ctx, tx, riverMine, ids, attempts)
		if err != nil || len(mine) == 0 {
			return err
		}
		var now time.Time
		if err := tx.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&now); err != nil {
			return err
		}
		p := &riverdriver.JobSetStateIfRunningManyParams{}
		for i, c := range claims {
			for _, m := range mine {
				if m.ID == ids[i] {
					riverSet(p, to(m.ID, now, c))
				}
			}
		}
		_, err = r.Driver.UnwrapExecutor(tx).JobSetStateIfRunningMany(ctx, p)
		return err
	})
	return stores.Failed("ending jobs", err)
}

// riverSet adds one change of a job's state to others.
func riverSet(
	p *riverdriver.JobSetStateIfRunningManyParams, one *riverdriver.JobSetStateIfRunningParams,
) {
	p.ID, p.State = append(p.ID, one.ID), append(p.State, one.State)
	p.Attempt, p.ErrData = append(p.Attempt, one.Attempt), append(p.ErrData, one.ErrData)
	p.FinalizedAt = append(p.FinalizedAt, one.FinalizedAt)
	p.ScheduledAt = append(p.ScheduledAt, one.ScheduledAt)
	p.MetadataDoMerge = append(p.MetadataDoMerge, one.MetadataDoMerge)
	p.MetadataUpdates = append(p.MetadataUpdates, one.MetadataUpdates)
}

// Done ends jobs.
func (r *riverJobs) Done(ctx context.Context, claims []claim) error {
	return r.end(ctx, claims, func(id int64, now time.Time, c claim,
	) *riverdriver.JobSetStateIfRunningParams {
		return riverdriver.JobSetStateCompleted(id, now, fmt.Appendf(nil, `{"ended_by": %d}`, c.attempt))
	})
}

// Fail has a job tried again, or makes it a dead letter.
func (r *riverJobs) Fail(ctx context.Context, c claim, permanent bool) (how *failure, err error) {
	reason := r.Params.reason(c, permanent)
	floor, most := r.Params.BackoffFloor.D(), r.Params.ceiling(c.attempt)
	err = r.end(ctx, []claim{c}, func(id int64, now time.Time, c claim,
	) *riverdriver.JobSetStateIfRunningParams {
		how = &failure{atNS: now.UnixNano()}
		if reason != "" {
			return riverdriver.JobSetStateDiscarded(id, now, nil, fmt.Appendf(nil, `{"reason": %q}`, reason))
		}
		next := now.Add(time.Duration(between(int64(floor), int64(most)))).Truncate(time.Microsecond)
		how.nextNS = next.UnixNano()
		return riverdriver.JobSetStateErrorRetryable(id, next, nil, nil)
	})
	if err != nil {
		return nil, err
	}
	return how, nil
}

// Upkeep schedules what waited and rescues what is stuck. River would make that wait for a backoff.
func (r *riverJobs) Upkeep(ctx context.Context) (int, error) {
	within, cancel := context.WithTimeout(ctx, r.DB.Timeout)
	defer cancel()
	due, err := r.Driver.GetExecutor().JobSchedule(within,
		&riverdriver.JobScheduleParams{Max: upkeepMost})
	if err != nil {
		return 0, stores.Failed("making jobs ready", err)
	}
	n := len(due)
	err = r.DB.Transaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		p := &riverdriver.JobRescueManyParams{}
		err := stores.Each(ctx, tx, `SELECT id, attempt, attempt >= max_attempts, clock_timestamp()
			FROM river_job WHERE state = 'running'
				AND attempted_at <= clock_timestamp() - $2::bigint * interval '1 microsecond'
			ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED`,
			[]any{upkeepMost, r.Params.Lease.D().Microseconds()}, func(row pgx.CollectableRow) error {
				return riverStuck(p, row)
			})
		if err != nil || len(p.ID) == 0 {
			return err
		}
		n = max(n, len(p.ID))
		_, err = r.Driver.UnwrapExecutor(tx).JobRescueMany(ctx, p)
		return err
	})
	return n, stores.Failed("taking jobs back", err)
}

// riverStuck adds a job to those that are rescued.
func riverStuck(p *riverdriver.JobRescueManyParams, row pgx.CollectableRow) error {
	var job int64
	var last bool
	failure := rivertype.AttemptError{Error: "the worker was silent for too long"}
	if err := row.Scan(&job, &failure.Attempt, &last, &p.StuckHorizon); err != nil {
		return err
	}
	failure.At = p.StuckHorizon
	text, err := json.Marshal(failure)
	state, ended := rivertype.JobStateAvailable, (*time.Time)(nil)
	if last {
		state, ended = rivertype.JobStateDiscarded, &failure.At
	}
	p.ID, p.Error, p.State = append(p.ID, job), append(p.Error, text), append(p.State, string(state))
	p.FinalizedAt, p.ScheduledAt = append(p.FinalizedAt, ended), append(p.ScheduledAt, failure.At)
	return err
}
