package scheduler

import (
	"context"
	"fmt"
	"time"
)

// batched does everything for many at once.
//
// Idea: there are no pickers. An executor starts a batch of due tasks in one
// statement, and what ends meanwhile is ended, with its effects, in one statement.
//
// Guarantee: as skip_locked; effect and end of a task are one transaction.
//
// Gives up: the slots of an executor wait for each other's end, a few
// milliseconds; and there is nobody who looks ahead.
func batched() design {
	return design{
		name: "batch",
		idea: "no pickers: executors start due tasks in batches, and end them in " +
			"batches with their effects",
		guarantees: "as skip_locked, and effect and end of a task are one transaction",
		givesUp:    "an end waits a little for company, and nobody looks ahead",
		lock:       skipLocked, direct: true,
	}
}

// batchEndSQL has the effects of the runs $3, of tasks $1 with tokens $2, under
// the keys $4, and ends them. $5 is when the rows' next occurrences are due.
const batchEndSQL = `WITH given AS MATERIALIZED (
    SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[], $5::timestamptz[])
        AS g (id, fence, run, effect_key, next)
), mine AS MATERIALIZED (
    SELECT t.id, t.series, t.occurrence, g.fence, g.effect_key, g.next
    FROM tasks t JOIN given g ON t.id = g.id
    WHERE t.fence = g.fence AND t.state = 'running' ORDER BY t.id FOR UPDATE OF t
), put AS (
    INSERT INTO effects (effect_key, series, occurrence, fence, at)
    SELECT effect_key, series, occurrence, fence, clock_timestamp() FROM mine
    ON CONFLICT (effect_key) DO NOTHING
), moved AS (
    UPDATE tasks t SET %s FROM mine WHERE t.id = mine.id
)
UPDATE runs r SET ended_at = clock_timestamp(),
    outcome = CASE WHEN m.id IS NULL THEN 'fenced' ELSE 'done' END
FROM given g LEFT JOIN mine m ON m.id = g.id WHERE r.id = g.run AND r.outcome = ''`

const (
	// endsAtOnce bounds the runs that one statement ends, endsWait how long the
	// first of them waits for others.
	endsAtOnce = 500
	endsWait   = time.Millisecond
)

// batchEnds ends runs in batches, one after the other.
type batchEnds struct {
	b    *backend
	sql  string
	in   chan endRequest
	done chan struct{}
}

// endRequest is a run to be ended and who waits for that.
type endRequest struct {
	ending
	told chan error
}

func newBatchEnds(b *backend) *batchEnds {
	e := &batchEnds{b: b, sql: fmt.Sprintf(batchEndSQL, endedSQL(`'done'`, `mine.next`)),
		in: make(chan endRequest), done: make(chan struct{})}
	go e.loop()
	return e
}

// add returns when the run has ended, with others.
func (e *batchEnds) add(ctx context.Context, c claim) error {
	end, err := e.b.ended(ctx, c, Done)
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
	n := len(batch)
	ids, fences, runs := make([]int64, n), make([]int64, n), make([]int64, n)
	keys, nexts := make([]*string, n), make([]*time.Time, n)
	for i, r := range batch {
		ids[i], fences[i], runs[i] = r.id, r.fence, r.run
		keys[i], nexts[i] = e.b.effectKey(r.claim), r.next
	}
	_, err := e.b.db.Exec(context.Background(), e.sql, ids, fences, runs, keys, nexts)
	if err != nil {
		return fmt.Errorf("ending %d runs: %w", n, err)
	}
	return nil
}
