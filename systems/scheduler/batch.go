package scheduler

import (
	"context"
	"fmt"
	"time"

	"stampede/harness/stores"
)

// batched does everything for many at once.
//
// Idea: there are no pickers. An executor starts a batch of due tasks in one
// statement, and what ends meanwhile is ended, with its effects, in one statement.
//
// Guarantee: as skip_locked; effect and end of a task are one transaction.
//
// Gives up: there is nobody who looks ahead; and an end waits for company, a few
// milliseconds, without a slot, so that an executor that dies leaves more behind that
// will run again.
func batched() scheme {
	return scheme{variant{
		Name: "batch",
		Idea: "no pickers: executors start due tasks in batches, and end them in " +
			"batches with their effects",
		Guarantees: "as skip_locked, and effect and end of a task are one transaction",
		GivesUp:    "ends wait a little to be batched, and tasks are not picked ahead",
		Model: simulated(overrides{takes: Waiting}, func(m *taskModel) {
			m.together = true
		}),
	}, overrides{lock: skipLocked, takes: Waiting, ends: newBatchEnds}}
}

// batchEndSQL has the effects of the runs $3, of tasks $1 with tokens $2, which are
// of the occurrences $5 of the tasks $4, and ends them. $6 is when the rows' next
// occurrences are due. It returns which runs came to an end, and whether as their own.
func batchEndSQL() string {
	return `WITH given AS MATERIALIZED (
    SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[],
        $6::timestamptz[]) AS g (id, fence, run, series, occurrence, next)
), mine AS MATERIALIZED (
    SELECT g.* FROM tasks t JOIN given g ON t.id = g.id
    WHERE g.fence = ` + runningFence + ` ORDER BY t.id FOR UPDATE OF t
), put AS (
    INSERT INTO effects (series, occurrence, salt, fence, at)
    SELECT series, occurrence, 0, fence, clock_timestamp() FROM mine
    ON CONFLICT DO NOTHING
), moved AS (
    UPDATE tasks t SET ` + endedSQL(`'done'`, `mine.next`) + ` FROM mine WHERE t.id = mine.id
)
UPDATE runs r SET ` + runEndedSQL(`g.run IN (SELECT run FROM mine)`, `'done'`) + `
FROM given g
WHERE r.series = g.series AND r.occurrence = g.occurrence AND r.id = g.run
    AND r.outcome IN ('', 'lost')
RETURNING r.id, r.turned_at IS NULL`
}

const (
	// endsAtOnce bounds the runs that one statement ends, endsWait how long the
	// first of them waits for others.
	endsAtOnce = 500
	endsWait   = time.Millisecond
	// endsMost bounds the tasks that an executor has in hand, with those that wait
	// for their end to be stored.
	endsMost = 4 * endsAtOnce
)

// batchEnds ends runs in batches, one after the other.
type batchEnds struct {
	t    *tasks
	in   chan endRequest
	done chan struct{}
}

// endRequest is a run to be ended and who waits for that.
type endRequest struct {
	ending
	told chan error
}

func newBatchEnds(t *tasks) *batchEnds {
	e := &batchEnds{t: t, in: make(chan endRequest), done: make(chan struct{})}
	go e.loop()
	return e
}

// add returns when the run has ended, with others.
func (e *batchEnds) add(ctx context.Context, c claim) error {
	end, err := e.t.ended(ctx, c, Done)
	if err != nil {
		return err
	}
	told := make(chan error, 1)
	e.in <- endRequest{end, told}
	return <-told
}

// close ends the loop; nobody may add any more.
func (e *batchEnds) close() {
	close(e.in)
	<-e.done
}

func (e *batchEnds) loop() {
	defer close(e.done)
	for first := range e.in {
		batch := e.gather([]endRequest{first})
		err := e.flush(batch)
		for _, r := range batch {
			r.told <- err
		}
	}
}

// gather waits a little for more.
func (e *batchEnds) gather(batch []endRequest) []endRequest {
	timer := time.NewTimer(endsWait)
	defer timer.Stop()
	for len(batch) < endsAtOnce {
		select {
		case r, open := <-e.in:
			if !open {
				return batch
			}
			batch = append(batch, r)
		case <-timer.C:
			return batch
		}
	}
	return batch
}

// flush ends a batch.
func (e *batchEnds) flush(batch []endRequest) error {
	return e.t.endBatch(context.Background(),
		column(batch, func(r endRequest) ending { return r.ending }))
}

// endBatch ends runs with their effects.
func (t *tasks) endBatch(ctx context.Context, list []ending) error {
	rows, err := stores.Collect[struct {
		Run int64
		Own bool
	}](ctx, t.DB, batchEndSQL(), batchArgs(list)...)
	if err != nil {
		return fmt.Errorf("ending %d runs: %w", len(list), err)
	}
	ended := make(map[int64]bool, len(list))
	for _, r := range rows {
		ended[r.Run] = r.Own
	}
	for _, e := range list {
		if ended[e.run] {
			t.counts.ended(e.claim)
		}
	}
	return nil
}

// batchArgs are those of batchEndSQL.
func batchArgs(list []ending) []any {
	numbers := func(of func(ending) int64) []int64 { return column(list, of) }
	return []any{numbers(func(e ending) int64 { return e.id }),
		numbers(func(e ending) int64 { return e.fence }),
		numbers(func(e ending) int64 { return e.run }),
		numbers(func(e ending) int64 { return e.series }),
		numbers(func(e ending) int64 { return e.occurrence }),
		column(list, func(e ending) *time.Time { return e.next })}
}
