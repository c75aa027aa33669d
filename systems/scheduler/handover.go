package scheduler

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"stampede/harness/stores"
	"stampede/systems/internal/queue"
)

// Hand-over is how tasks that were picked get to executors. In most designs that is
// the table itself: executors take what was picked and is due. In others a picker
// looks for what was picked and is due, and sends it over a carrier.
//
// Nothing is trusted that the carrier brings. An executor starts a task where the
// token of the message is still the row's, the row is picked and due, and under the
// row's lock: what comes twice, late or for a task that somebody has cancelled
// starts nothing. And nothing is entrusted to it: what was handed over and has not
// started within Params.HandAgain, because the picker died before it sent it or the
// carrier lost it, is handed over once more.

// handed is a picked task on its way to an executor, in JSON.
type handed struct {
	ID int64 `json:"id"`
	// Fence is the row's token when it was handed over; a start raises it.
	Fence int64 `json:"fence"`
}

func (h handed) encoded() []byte {
	text, _ := json.Marshal(h) // numbers
	return text
}

// handedIn reads a message. One that cannot be read names no task.
func handedIn(text []byte) (h handed) {
	if json.Unmarshal(text, &h) != nil {
		return handed{}
	}
	return h
}

// carrier takes tasks from pickers to executors. One goroutine uses it.
type carrier interface {
	// prepare makes what it needs, on empty services.
	prepare(ctx context.Context) error
	// send returns when all are stored.
	send(ctx context.Context, list []handed) error
	// receive brings an executor at most n of those that nobody else has, or none
	// if none come within a second.
	receive(ctx context.Context, executor string, n int) ([]handed, error)
	// settle says that what was received last need not come again.
	settle(ctx context.Context) error
	close()
}

// carried are the marks of a task that is to be handed over.
const carried = `, hand_at = scheduled_at`

// carriedSchema is for designs with a carrier: when a task is to be handed over
// (again), once it is picked.
const carriedSchema = `
ALTER TABLE tasks ADD COLUMN hand_at timestamptz;
CREATE INDEX tasks_hand ON tasks (hand_at) WHERE state = 'picked' AND NOT paused;`

// handOverSQL finds at most $1 tasks that are to be handed over, and puts off the
// next time by $2 microseconds. The index is tasks_hand.
const handOverSQL = `WITH due AS MATERIALIZED (
    SELECT id FROM tasks WHERE state = 'picked' AND NOT paused AND hand_at <= statement_timestamp()
    ORDER BY hand_at LIMIT $1 FOR UPDATE SKIP LOCKED
)
UPDATE tasks t SET hand_at = clock_timestamp() + $2 * interval '1 microsecond'
WHERE t.id = ANY (ARRAY(SELECT id FROM due)) RETURNING t.id, t.fence`

// startHandedSQL starts those of the tasks $1 whose tokens are still $4. The lock is
// waited for: who has it may leave the row as it was.
func (o overrides) startHandedSQL() string {
	// As runningFence: by its number, and not from the index of all that is picked.
	still := cmp.Or(o.handed,
		`h.fence = CASE WHEN t.state = 'picked' AND NOT t.paused THEN t.fence END`)
	return `WITH due AS MATERIALIZED (
    SELECT t.id FROM tasks t JOIN unnest($1::bigint[], $4::bigint[]) AS h (id, fence) ON t.id = h.id
    WHERE ` + still + ` AND t.scheduled_at <= statement_timestamp()
    ORDER BY t.id FOR UPDATE OF t
)` + startSQL
}

// handOver marks one batch of what is to be handed over, and returns it.
func (t *tasks) handOver(ctx context.Context) ([]handed, error) {
	list, err := stores.Collect[handed](ctx, t.DB, handOverSQL, t.Params.PickBatch,
		t.Params.HandAgain.D().Microseconds())
	return list, stores.Failed("marking what is handed over", err)
}

// startHanded starts what has come and is still to be started.
func (t *tasks) startHanded(
	ctx context.Context, executor string, list []handed,
) (claims []claim, err error) {
	err = t.DB.Rows(ctx, t.startHandedSQL(), []any{
		column(list, func(h handed) int64 { return h.ID }), t.Params.Lease.D().Microseconds(), executor,
		column(list, func(h handed) int64 { return h.Fence })},
		func(row pgx.CollectableRow) error {
			c, err := scanClaim(row)
			claims = append(claims, c)
			return err
		})
	if err != nil {
		return nil, fmt.Errorf("starting what was handed over: %w", err)
	}
	t.started(claims...)
	return claims, nil
}

// handOverAll hands over until nothing is left.
func (t *tasks) handOverAll(ctx context.Context, over carrier) error {
	return queue.Batches(ctx, t.Params.PickBatch, func(ctx context.Context) (int, error) {
		list, err := t.handOver(ctx)
		if err != nil || len(list) == 0 {
			return 0, err
		}
		t.Config.Passed(placeMarked)
		if err := over.send(ctx, list); err != nil {
			return 0, fmt.Errorf("handing over %d tasks: %w", len(list), err)
		}
		return len(list), nil
	})
}

// takeHanded receives at most n tasks and starts them. What is received and not
// settled comes again, and is void by then.
func (e *executor) takeHanded(ctx context.Context, n int) (claims []claim, err error) {
	list, err := e.carrier.receive(ctx, e.name, n)
	if err != nil {
		return nil, fmt.Errorf("receiving tasks: %w", err)
	}
	if len(list) == 0 {
		return nil, nil
	}
	e.Config.Passed(placeReceived)
	claims, err = e.startHanded(context.WithoutCancel(ctx), e.name, list) // as executor.take
	if err != nil {
		return nil, err
	}
	if err := e.carrier.settle(ctx); err != nil {
		e.warn("executor", fmt.Errorf("settling %d tasks: %w", len(list), err))
	}
	return claims, nil
}
