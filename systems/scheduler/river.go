package scheduler

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"

	"stampede/harness/design"
	"stampede/harness/sut"
	"stampede/systems/internal/queue"
)

// riverPeer has River (github.com/riverqueue/river) do what it does.
//
// Idea: a task is a job of River's, inserted in the transaction that stores the
// task. River's leader makes scheduled jobs available, its clients fetch them,
// and its worker writes the run, has the effect and completes the job in one
// transaction (JobCompleteTx).
//
// Guarantee: as skip_locked; the fencing token is ours, because River's completion
// guards a job's state and not its attempt.
//
// Gives up: punctuality of what is asked for at short notice. Every 5 s River looks for
// the jobs of the next 5 s, so that one asked for less than that before it is due may wait
// for the next look; for those whose worker is gone it looks every 30 s. Neither can be set.
// What failed or was lost is tried again after a second (riverRetry); River's own policy
// waits for 81 s after the third time, which is past the time of any task here.
func riverPeer() scheme {
	const late = riverSchedules + riverElects
	return scheme{variant{
		Name:       "river",
		Idea:       "each task is a River (v0.51.0) job, completed in the transaction of its effect",
		Guarantees: "as skip_locked, with a fencing token in addition to River's attempts",
		GivesUp: "punctuality at short notice: River schedules the jobs of the next 5 s every 5 s and " +
			"rescues lost ones every 30 s",
		Settings: queue.RiverSettings(),
		State: design.State[Params]{Ready: func(ctx context.Context, st *opened) error {
			return queue.MigrateRiver(ctx, st.DB, "")
		}},
	}, overrides{takes: Waiting, execute: runRiver, added: riverJobs, startSlack: late,
		rescueSlack: riverRescues + riverRetry + late,
		rescue:      func(*tasks, context.Context, func()) (int, error) { return 0, nil }}}
}

const (
	// riverSchedules is how often River's leader looks for the jobs that are due until its
	// next look, which is how late one asked for in between may be; riverRescues for those whose
	// workers are gone. Retries wait riverRetry besides.
	riverSchedules = 5 * time.Second
	riverRetry     = time.Second
	// riverAttempts is after how many attempts River discards a job: never. Those that are
	// allowed are counted by the task's row, which knows which of them started anything.
	riverAttempts = math.MaxInt16
	riverRescues  = 30 * time.Second
	// riverElects is how long there may be no leader at the start or after one died.
	riverElects = 10 * time.Second
	// riverPing is how often a role asks whether Postgres answers.
	riverPing = 500 * time.Millisecond
	// riverCooldown is the least time between two fetches of a client.
	riverCooldown = 2 * time.Millisecond
)

// taskJob is a job of River's: one occurrence of a task.
type taskJob struct {
	Row        int64 `json:"row"`
	Occurrence int64 `json:"occurrence"`
}

// Kind names the job to River.
func (taskJob) Kind() string { return "stampede_task" }

// riverJobs inserts jobs for tasks in the transaction that makes them due.
func riverJobs(t *tasks) (addedFunc, error) {
	q, err := queue.RiverOver(t.DB, &river.Config{})
	return func(ctx context.Context, tx pgx.Tx, rows ...dueRow) error {
		for _, r := range rows {
			job := taskJob{Row: r.id}
			err := tx.QueryRow(ctx, `SELECT occurrence FROM tasks WHERE id = $1`, r.id).
				Scan(&job.Occurrence)
			if err == nil {
				_, err = q.Client.InsertTx(ctx, tx, job, &river.InsertOpts{ScheduledAt: r.due,
					MaxAttempts: riverAttempts})
			}
			if err != nil {
				return fmt.Errorf("inserting a job of River's: %w", err)
			}
		}
		return nil
	}, err
}

// runRiver is the executor: a client of River's.
func runRiver(ctx context.Context, t *tasks) error {
	client, err := startRiver(ctx, t)
	if err != nil {
		return err
	}
	t.steady(ctx, "executor", t.Config.Worked, func() (time.Duration, error) {
		return riverPing, t.DB.Row(ctx, `SELECT 1`, nil, new(int))
	}, func() {
		ctx, cancel := context.WithTimeout(context.Background(), drainFor)
		defer cancel()
		if err := client.Stop(ctx); err != nil {
			t.warn("executor", err)
		}
		<-client.Stopped()
	})
	return nil
}

// startRiver starts a client that works. Its lease is the time that River gives a
// job, after which it takes it for lost.
func startRiver(ctx context.Context, t *tasks) (*river.Client[pgx.Tx], error) {
	workers := river.NewWorkers()
	river.AddWorker(workers, &taskWorker{t: t, name: fmt.Sprintf("river-%d", t.Config.Replica)})
	q, err := queue.RiverOver(t.DB, &river.Config{
		Queues: map[string]river.QueueConfig{
			river.QueueDefault: {MaxWorkers: t.Params.Executors}},
		Workers: workers, FetchCooldown: riverCooldown,
		FetchPollInterval: max(riverCooldown, t.Params.PollEvery.D()),
		JobTimeout:        t.Params.Lease.D(), RescueStuckJobsAfter: t.Params.Lease.D(),
		RetryPolicy: riverRetries{},
	})
	if err == nil {
		err = q.Client.Start(context.WithoutCancel(ctx))
	}
	if err != nil {
		return nil, fmt.Errorf("starting River: %w", err)
	}
	return q.Client, nil
}

// riverRetries is River's retry policy here: each time the same.
type riverRetries struct{}

// NextRetry is riverRetry from now.
func (riverRetries) NextRetry(*rivertype.JobRow) time.Time { return time.Now().Add(riverRetry) }

// taskWorker works on jobs.
type taskWorker struct {
	river.WorkerDefaults[taskJob]
	t    *tasks
	name string
}

// riverClaimSQL starts occurrence $4 of row $1: River gives a job to one client,
// and after a rescue to another, whose token is higher.
const riverClaimSQL = `WITH due AS MATERIALIZED (
    SELECT id FROM tasks WHERE id = $1 AND occurrence = $4 AND state IN ('waiting', 'running')
        AND NOT paused AND scheduled_at <= statement_timestamp() FOR UPDATE
)` + startSQL

// riverLostSQL ends the runs before token $3 of occurrence $2 of task $1, which
// River has given up; a lease is $4 microseconds.
const riverLostSQL = `UPDATE runs SET outcome = 'lost', ended_at = clock_timestamp(),
    lease_until = started_at + $4 * interval '1 microsecond'
WHERE series = $1 AND occurrence = $2 AND fence < $3 AND outcome = ''`

// snooze is when a job of a paused task is looked at again.
const snooze = time.Second

// Work is one attempt at a job.
func (w *taskWorker) Work(ctx context.Context, job *river.Job[taskJob]) error {
	// A row has no more starts than its job had attempts before this one.
	if job.Attempt > w.t.Params.MaxAttempts {
		if over, err := w.giveUp(ctx, job.Args); over || err != nil {
			return err
		}
	}
	c, err := w.claim(ctx, job.Args)
	if errors.Is(err, pgx.ErrNoRows) {
		return w.passedOver(ctx, job.Args)
	}
	if err != nil {
		return err
	}
	w.t.Config.Passed(placeClaimed)
	if !sut.Pause(ctx, time.Duration(c.workMS)*time.Millisecond) {
		return ctx.Err()
	}
	outcome := Done
	if c.fails {
		outcome = Failed
	}
	return w.end(ctx, job, c, outcome)
}

// riverGiveUpSQL gives up occurrence $3 of row $1, which runs no more, after $2 starts.
const riverGiveUpSQL = `UPDATE tasks t SET ` + takenBackSQL + `
WHERE t.id = $1 AND t.occurrence = $3 AND t.state = 'running' AND t.attempts >= $2
RETURNING t.series, t.fence`

// giveUp ends a task that has started as often as it may, and says whether it did.
func (w *taskWorker) giveUp(ctx context.Context, job taskJob) (over bool, err error) {
	err = w.t.DB.Transaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var series, fence int64
		err := tx.QueryRow(ctx, riverGiveUpSQL, job.Row, w.t.Params.MaxAttempts,
			job.Occurrence).Scan(&series, &fence)
		if err == nil {
			_, err = tx.Exec(ctx, riverLostSQL, series, job.Occurrence, fence+1,
				w.t.Params.Lease.D().Microseconds())
		}
		return err
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

func (w *taskWorker) claim(ctx context.Context, job taskJob) (c claim, err error) {
	lease := w.t.Params.Lease.D().Microseconds()
	err = w.t.DB.Transaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, riverClaimSQL, job.Row, lease, w.name, job.Occurrence)
		if err != nil {
			return err
		}
		if c, err = pgx.CollectExactlyOneRow(rows, scanClaim); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, riverLostSQL, c.series, c.occurrence, c.fence, lease)
		return err
	})
	if err == nil {
		w.t.started(c)
	}
	return c, err
}

// passedOver says why a job has nothing to start: its task is paused, or is not
// waiting for it any more.
func (w *taskWorker) passedOver(ctx context.Context, job taskJob) error {
	var paused bool
	err := w.t.DB.Row(ctx, `SELECT count(*) > 0 FROM tasks WHERE id = $1 AND occurrence = $2
		AND state = 'waiting'`, []any{job.Row, job.Occurrence}, &paused)
	if err == nil && paused {
		return river.JobSnooze(snooze)
	}
	return err
}

// end has the effect, ends the run and completes the job in one transaction.
func (w *taskWorker) end(
	ctx context.Context, job *river.Job[taskJob], c claim, outcome State,
) error {
	e, err := w.t.ended(ctx, c, outcome)
	if err != nil {
		return err
	}
	var n int
	err = w.t.DB.Transaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if outcome == Done {
			err := tx.QueryRow(ctx, w.t.effectSQL(), c.id, c.fence, c.series, c.occurrence,
				w.t.salt(c)).Scan(&n)
			if err != nil {
				return fmt.Errorf("doing a task's work: %w", err)
			}
		}
		err := tx.QueryRow(ctx, w.t.endSQL(), e.args()...).Scan(&n)
		if err != nil {
			return fmt.Errorf("ending a run: %w", err)
		}
		if n == 0 {
			return nil // somebody else has it
		}
		if e.next != nil {
			if err := w.t.added(ctx, tx, dueRow{c.id, *e.next}); err != nil {
				return err
			}
		}
		w.t.Config.Passed(placeEffected)
		_, err = river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, job)
		return err
	})
	if err == nil && n > 0 {
		w.t.counts.ended(c)
	}
	return err
}
