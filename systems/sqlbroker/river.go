package sqlbroker

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver"
	"github.com/riverqueue/river/rivertype"

	"stampede/harness/design"
	"stampede/harness/stores"
	"stampede/systems/internal/queue"
)

// riverPeer keeps the messages in River (github.com/riverqueue/river), a Go product on
// Postgres.
//
// Idea: a message is a job of River's. Its client inserts jobs (InsertManyFastTx), its
// driver fetches them (JobGetAvailable), ends them (JobSetStateIfRunningMany),
// schedules, rescues and deletes them (JobSchedule, JobRescueMany, JobDeleteBefore):
// the statements are River's, the loops around them ours, because River hands jobs to
// functions and not to consumers that ask. Each demand is a client of River's with a
// name of its own, which is the receipt: a job remembers who attempts it.
//
// Guarantee: that of batched. River's statements look at a job's state and not at whose
// attempt it is; that, and whether its time is over, is asked first, under its lock.
//
// Gives up: the order within groups, which River has not; all but four priorities; and
// the writes to indexes over everything that a job says, which River has two of.
func riverPeer() variant {
	return built(variant{
		Name: "river",
		Idea: "messages are River (v0.51.0) jobs; River's statements insert, fetch, end and " +
			"rescue them",
		Guarantees: "what batched guarantees, except the order within groups",
		GivesUp:    "groups, all but four priorities, and the extra writes of River's indexes",
		NotApplicable: map[string]string{
			GroupOrder: "River has no order among its jobs (its paid edition has)",
		},
		Settings: queue.RiverSettings(),
		State: design.State[Params]{Ready: func(ctx context.Context, st *opened) error {
			return queue.MigrateRiver(ctx, st.DB, riverViews)
		}},
	}, func(t *table) (messages, error) {
		client, err := queue.RiverOver(t.DB, &river.Config{})
		return &riverQueue{t, client}, err
	})
}

// riverViews shows jobs as messages.
//
//go:embed river.sql
var riverViews string

// riverAttempts bounds how many clients a job remembers, as River does.
const riverAttempts = 100

// riverQueue is River as a Broker.
type riverQueue struct {
	*table
	queue.River
}

// riverMessage is a message as the arguments of a job.
type riverMessage struct {
	OpID     uint64 `json:"op"`
	Index    int    `json:"index"`
	Group    uint64 `json:"group"`
	Priority int    `json:"priority"`
	Body     string `json:"body"`
}

// Kind names the job to River.
func (riverMessage) Kind() string { return "stampede_message" }

// riverPriority is 1 for the highest of River's priorities and 4 for 0 and less.
func riverPriority(priority int) int { return 4 - min(max(priority, 0), 3) }

// Publish inserts jobs in the transaction that stores the publication. River knows no groups,
// so nothing waits for its turn.
func (r *riverQueue) Publish(ctx context.Context, queue string, p Publication) (int, error) {
	var first begun
	err := r.DB.Transaction(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
		if first, err = begin(ctx, tx, queue, p, nil); err == nil && first.fresh {
			_, err = r.Client.InsertManyFastTx(ctx, tx, riverJobs(queue, p, first.most, first.now))
		}
		return err
	})
	return r.published(ctx, queue, p, first.known, first.fresh, err)
}

func riverJobs(queue string, p Publication, most int, now time.Time) []river.InsertManyParams {
	jobs := make([]river.InsertManyParams, len(p.Messages))
	for i, m := range p.Messages {
		opts := &river.InsertOpts{Queue: queue, MaxAttempts: most, Priority: riverPriority(m.Priority)}
		if m.DelayMS > 0 {
			opts.ScheduledAt = now.Add(time.Duration(m.DelayMS) * time.Millisecond)
		}
		jobs[i] = river.InsertManyParams{InsertOpts: opts,
			Args: riverMessage{p.OpID, i, m.Group, m.Priority, m.Body}}
	}
	return jobs
}

// Receive fetches jobs and polls for a first one if there is none.
func (r *riverQueue) Receive(ctx context.Context, queue string, d Demand) ([]Delivery, error) {
	return r.await(ctx, queue, d, r.claim)
}

// claim has River fetch jobs, for a client that is called like the receipt.
func (r *riverQueue) claim(ctx context.Context, queue string, n int) ([]Delivery, error) {
	ctx, cancel := context.WithTimeout(ctx, r.DB.Timeout)
	defer cancel()
	var receipt pgtype.UUID
	var visibility int64
	err := r.DB.Row(ctx, `SELECT gen_random_uuid(), visibility FROM queues WHERE queue = $1`,
		[]any{queue}, &receipt, &visibility)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, ErrUnknownQueue
	}
	if err != nil {
		return nil, stores.Failed("claiming messages", err)
	}
	found, err := r.Driver.GetExecutor().JobGetAvailable(ctx, &riverdriver.JobGetAvailableParams{
		ClientID: receipt.String(), MaxAttemptedBy: riverAttempts, MaxToLock: n, Queue: queue})
	if err != nil {
		return nil, stores.Failed("claiming messages", err)
	}
	slices.SortFunc(found.Jobs, inRiversOrder)
	got := make([]Delivery, len(found.Jobs))
	for i, job := range found.Jobs {
		got[i], err = riverDelivery(job, receipt, time.Duration(visibility)*time.Microsecond)
		if err != nil {
			return nil, err
		}
	}
	return got, nil
}

// inRiversOrder is the order in which River fetches jobs.
func inRiversOrder(a, b *rivertype.JobRow) int {
	if a.Priority != b.Priority {
		return a.Priority - b.Priority
	}
	if order := a.ScheduledAt.Compare(b.ScheduledAt); order != 0 {
		return order
	}
	return int(a.ID - b.ID)
}

func riverDelivery(
	job *rivertype.JobRow, receipt pgtype.UUID, visibility time.Duration,
) (Delivery, error) {
	var m riverMessage
	if err := json.Unmarshal(job.EncodedArgs, &m); err != nil {
		return Delivery{}, fmt.Errorf("reading job %d of River's: %w", job.ID, err)
	}
	if job.AttemptedAt == nil {
		return Delivery{}, fmt.Errorf("job %d of River's was fetched at no time", job.ID)
	}
	return Delivery{OpID: m.OpID, Index: m.Index, Body: m.Body, Group: m.Group, Priority: m.Priority,
		Receipt: receiptOf(0, job.ID, receipt), Receives: job.Attempt,
		ReceivedNS: job.AttemptedAt.UnixNano(),
		VisibleNS:  job.AttemptedAt.Add(visibility).UnixNano()}, nil
}

// riverGoodSQL locks the jobs of receipts that are good: of the last client that
// attempts a job, which has its time still or has completed it. Parameters: those of
// asked, queue.
const riverGoodSQL = asked + `
SELECT a.n, m.id, m.state = 'completed', m.attempt >= m.max_attempts, clock_timestamp()
FROM asked a JOIN river_job m ON m.id = a.id JOIN queues q ON q.queue = m.queue
WHERE m.queue = $4 AND m.attempted_by[cardinality(m.attempted_by)] = a.receipt::text
    AND (m.state = 'completed' OR m.state = 'running'
        AND m.attempted_at + q.visibility * interval '1 us' > clock_timestamp())
ORDER BY m.id FOR UPDATE OF m`

// riverGood is a job whose receipt is good.
type riverGood struct {
	at            int // its place among the receipts
	job           int64
	ended, isLast bool
	now           time.Time
}

// Settle acknowledges, extends or releases.
func (r *riverQueue) Settle(
	ctx context.Context, queue string, how string, s Settlement,
) (Settled, error) {
	var done []settled
	err := r.DB.Transaction(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
		done, err = r.settle(ctx, tx, queue, how, parseReceipts(s.Receipts), s.ByMS)
		return err
	})
	if err != nil {
		return Settled{}, stores.Failed("settling receipts", err)
	}
	return s.result(done)
}

// work acknowledges by River's statement.
func (r *riverQueue) work(ctx context.Context, queue string, batch []Delivery) error {
	return r.effectAndAck(ctx, queue, batch, func(
		ctx context.Context, tx pgx.Tx, queue string, list receipts,
	) ([]settled, error) {
		return r.settle(ctx, tx, queue, KindAck, list, 0)
	})
}

func (r *riverQueue) settle(
	ctx context.Context, tx pgx.Tx, queue, how string, list receipts, byMS int64,
) ([]settled, error) {
	good, done, err := riverLocked(ctx, tx, queue, how, list)
	if err != nil || len(good) == 0 {
		return done, err
	}
	if how == KindExtend {
		return riverExtend(ctx, tx, good, byMS)
	}
	p := &riverdriver.JobSetStateIfRunningManyParams{}
	for _, g := range good {
		one := riverdriver.JobSetStateCompleted(g.job, g.now, nil)
		switch {
		case how == KindRelease && g.isLast:
			one = riverdriver.JobSetStateDiscarded(g.job, g.now, nil, nil)
		case how == KindRelease:
			one = riverdriver.JobSetStateErrorAvailable(g.job, g.now, nil, nil)
		}
		riverSet(p, one)
		done = append(done, settled{at: g.at, fresh: true})
	}
	_, err = r.Driver.UnwrapExecutor(tx).JobSetStateIfRunningMany(ctx, p)
	return done, err
}

// riverLocked locks the jobs that there is something to do for. An acknowledgement of
// one that was acknowledged with the receipt before is done already.
func riverLocked(
	ctx context.Context, tx pgx.Tx, queue, how string, list receipts,
) (good []riverGood, done []settled, err error) {
	args := []any{list.slots, list.ids, list.uuids, queue}
	err = stores.Each(ctx, tx, riverGoodSQL, args, func(row pgx.CollectableRow) error {
		var n int
		var g riverGood
		if err := row.Scan(&n, &g.job, &g.ended, &g.isLast, &g.now); err != nil {
			return err
		}
		g.at = list.at[n-1]
		switch {
		case !g.ended:
			good = append(good, g)
		case how == KindAck:
			done = append(done, settled{at: g.at})
		}
		return nil
	})
	return good, done, err
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

// riverExtendSQL moves the beginning of attempts, which is all that River's rescuer goes
// by: River has no extension.
const riverExtendSQL = `
UPDATE river_job m
SET attempted_at = greatest(m.attempted_at, clock_timestamp() + $2::bigint * interval '1 ms'
    - q.visibility * interval '1 us')
FROM queues q WHERE q.queue = m.queue AND m.id = ANY($1)
RETURNING m.id, (` + nanoseconds + `m.attempted_at + q.visibility * interval '1 us'))::bigint`

func riverExtend(
	ctx context.Context, tx pgx.Tx, good []riverGood, byMS int64,
) (done []settled, err error) {
	places, ids := map[int64]int{}, make([]int64, len(good))
	for i, g := range good {
		places[g.job], ids[i] = g.at, g.job
	}
	err = stores.Each(ctx, tx, riverExtendSQL, []any{ids, byMS}, func(row pgx.CollectableRow) error {
		var job int64
		s := settled{fresh: true}
		err := row.Scan(&job, &s.visibleNS)
		s.at = places[job]
		done = append(done, s)
		return err
	})
	return done, err
}
