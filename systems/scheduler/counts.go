package scheduler

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/harness/stores"
)

// noteEvery is how often a process writes down what it has counted. One that dies
// takes what it has counted since with it.
const noteEvery = time.Second

// startBounds are the upper bounds of the times from due and from pick to start, in
// seconds; the last bucket has none. Most tasks are picked as much earlier as pickers look
// ahead.
func startBounds() []float64 { return []float64{0.01, 0.1, 1, 5, 10, 30, 60, 120, 300} }

// totals are counts, and sums of seconds. Starts are counted by the time since they were
// due (waits) and since they were picked (picks) as well, in the buckets of startBounds.
type totals struct {
	picked, starts, misfires, ends int64
	wait, completion, picking      float64
	waits, picks                   []int64
}

// counts is what a process has counted. What runs in one process several times counts
// several times, each on its own.
type counts struct {
	mu sync.Mutex
	totals
	fresh bool // since it was noted
	tried time.Time
	// process names the row in which it is noted, from the first note on.
	process string
	notes   int64

	// writing is held by who notes, and by nobody who counts.
	writing sync.Mutex
}

// picked counts a pick.
func (c *counts) picked(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.totals.picked += int64(n)
	c.fresh = c.fresh || n > 0
}

// started counts starts. Where nobody picks, a start is the pick as well.
func (t *tasks) started(list ...claim) {
	c := &t.counts
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.picks == nil {
		c.waits, c.picks = startBuckets(), startBuckets()
	}
	for _, run := range list {
		c.fresh = true
		c.starts++
		c.wait += run.late.Seconds()
		c.picking += run.since.Seconds()
		c.waits[bucketOf(run.late)]++
		c.picks[bucketOf(run.since)]++
		if run.late > t.Params.clock(t.Params.SLA) {
			c.misfires++
		}
		if !t.picks() {
			c.totals.picked++
		}
	}
}

// startBuckets are empty buckets.
func startBuckets() []int64 { return make([]int64, len(startBounds())+1) }

// bucketOf is the index of the first bucket that a time is not above.
func bucketOf(d time.Duration) int {
	bounds := startBounds()
	for i, bound := range bounds {
		if d.Seconds() <= bound {
			return i
		}
	}
	return len(bounds)
}

// ended counts an end.
func (c *counts) ended(run claim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ends++
	c.completion += time.Since(run.at).Seconds()
	c.fresh = true
}

// noteSoon notes what was counted if that was last tried some time ago.
func (t *tasks) noteSoon(ctx context.Context) error {
	if !t.counts.toBeNoted() {
		return nil
	}
	return t.note(ctx)
}

// toBeNoted says whether it is time for a note, to one who asks.
func (c *counts) toBeNoted() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.fresh || time.Since(c.tried) < noteEvery {
		return false
	}
	c.tried = time.Now()
	return true
}

// noteSQL notes what process $1 has counted, by its note $2. A note that comes twice is
// one, and one that comes after a later one changes nothing.
const noteSQL = `INSERT INTO counts AS c (process, note, picked, started, misfires, ended, wait,
		completion, picking, waits, picks) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
	ON CONFLICT (process) DO UPDATE SET note = $2, picked = $3, started = $4, misfires = $5,
		ended = $6, wait = $7, completion = $8, picking = $9, waits = $10, picks = $11
	WHERE c.note < $2`

// note writes down what was counted, all of it, in a row of its own: so a note of
// unknown outcome is made good by the next. Nobody who counts waits for Postgres.
func (t *tasks) note(ctx context.Context) error {
	c := &t.counts
	c.writing.Lock()
	defer c.writing.Unlock()
	args := c.args()
	if args == nil {
		return nil
	}
	if _, err := t.DB.Exec(ctx, noteSQL, args...); err != nil {
		c.mu.Lock()
		c.fresh = true
		c.mu.Unlock()
		return fmt.Errorf("noting what was counted: %w", err)
	}
	return nil
}

// args are those of noteSQL for the next note; nil if there is nothing new.
func (c *counts) args() []any {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.fresh {
		return nil
	}
	if c.process == "" {
		c.process = rand.Text()
	}
	c.fresh, c.notes = false, c.notes+1
	waits, picks := append([]int64{}, c.waits...), append([]int64{}, c.picks...)
	return []any{c.process, c.notes, c.totals.picked, c.starts, c.misfires, c.ends, c.wait,
		c.completion, c.picking, waits, picks}
}

// counted sums up what all processes have noted: one row for each.
func (t *tasks) counted(ctx context.Context) (all totals, err error) {
	all.waits, all.picks = startBuckets(), startBuckets()
	err = t.DB.Rows(ctx, `SELECT picked, started, misfires, ended, wait, completion, picking, waits,
			picks FROM counts`, nil, func(row pgx.CollectableRow) error {
		var one totals
		err := row.Scan(&one.picked, &one.starts, &one.misfires, &one.ends, &one.wait, &one.completion,
			&one.picking, &one.waits, &one.picks)
		if err != nil {
			return err
		}
		if max(len(one.waits), len(one.picks)) > len(all.picks) {
			return errors.New("a process counted in other buckets")
		}
		all.add(one)
		return nil
	})
	if err != nil {
		return all, stores.Failed("reading what was counted", err)
	}
	return all, nil
}

func (a *totals) add(b totals) {
	a.picked, a.starts, a.misfires = a.picked+b.picked, a.starts+b.starts, a.misfires+b.misfires
	a.ends, a.wait = a.ends+b.ends, a.wait+b.wait
	a.completion, a.picking = a.completion+b.completion, a.picking+b.picking
	for i, n := range b.waits {
		a.waits[i] += n
	}
	for i, n := range b.picks {
		a.picks[i] += n
	}
}
