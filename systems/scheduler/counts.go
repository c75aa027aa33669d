package scheduler

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"stampede/harness/stores"
)

// noteEvery is how often a process writes down what it has counted. One that dies
// takes what it has counted since with it.
const noteEvery = time.Second

// startBounds are the upper bounds of the times from due and from pick to start, in
// seconds. Most tasks are picked as much earlier as pickers look ahead.
func startBounds() []float64 {
	return []float64{0.01, 0.1, 1, 5, 10, 30, 60, 120, 300, math.Inf(1)}
}

// le is a bound as OpenMetrics has it, which writes bounds as floats.
func le(bound float64) string {
	text := strconv.FormatFloat(bound, 'f', -1, 64)
	if !strings.ContainsAny(text, ".I") {
		text += ".0"
	}
	return text
}

// totals are counts and sums of seconds, by their metrics.
type totals map[string]float64

// took adds a time to a histogram.
func (t totals) took(name string, d time.Duration) {
	bounds := startBounds()
	i := slices.IndexFunc(bounds, func(bound float64) bool { return d.Seconds() <= bound })
	t[name+" "+le(bounds[i])]++
	t[name] += d.Seconds()
}

// counts is what a process has counted. What runs in one process several times counts
// several times, each on its own.
type counts struct {
	mu     sync.Mutex
	totals totals
	fresh  bool // since it was noted
	tried  time.Time
	// process names the row in which it is noted, from the first note on.
	process string
	notes   int64

	// writing is held by who notes, and by nobody who counts.
	writing sync.Mutex
}

// count adds to the totals.
func (c *counts) count(add func(totals)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.totals == nil {
		c.totals = totals{}
	}
	add(c.totals)
	c.fresh = true
}

// started counts starts. Where nobody picks, a start is the pick as well.
func (t *tasks) started(list ...claim) {
	if len(list) == 0 {
		return
	}
	t.counts.count(func(sum totals) {
		for _, run := range list {
			sum["started"]++
			sum.took("due_to_start", run.late)
			sum.took("pick_to_start", run.since)
			if run.late > t.Params.clock(t.Params.SLA) {
				sum["misfires"]++
			}
			if !t.picks() {
				sum["pulled"]++
			}
		}
	})
}

// ended counts an end.
func (c *counts) ended(run claim) {
	c.count(func(sum totals) {
		sum["ended"]++
		sum["completion_seconds"] += time.Since(run.at).Seconds()
	})
}

// noteSoon notes what was counted if that was last tried some time ago.
func (t *tasks) noteSoon(ctx context.Context) error {
	c := &t.counts
	c.mu.Lock()
	soon := c.fresh && time.Since(c.tried) >= noteEvery
	if soon {
		c.tried = time.Now()
	}
	c.mu.Unlock()
	if !soon {
		return nil
	}
	return t.note(ctx)
}

// noteSQL notes what process $1 has counted, by its note $2. A note that comes twice is
// one, and one that comes after a later one changes nothing.
const noteSQL = `INSERT INTO counts AS c (process, note, totals) VALUES ($1, $2, $3)
	ON CONFLICT (process) DO UPDATE SET note = $2, totals = $3 WHERE c.note < $2`

// note writes down what was counted, all of it, in a row of its own: so a note of
// unknown outcome is made good by the next. Nobody who counts waits for Postgres.
func (t *tasks) note(ctx context.Context) error {
	c := &t.counts
	c.writing.Lock()
	defer c.writing.Unlock()
	c.mu.Lock()
	fresh, sum := c.fresh, maps.Clone(c.totals)
	if c.process == "" {
		c.process = rand.Text()
	}
	c.fresh, c.notes = false, c.notes+1
	c.mu.Unlock()
	if !fresh {
		return nil
	}
	if _, err := t.DB.Exec(ctx, noteSQL, c.process, c.notes, sum); err != nil {
		c.count(func(totals) {})
		return fmt.Errorf("noting what was counted: %w", err)
	}
	return nil
}

// counted sums up what all processes have noted: one row for each.
func (t *tasks) counted(ctx context.Context) (totals, error) {
	list, err := stores.Collect[struct {
		Name string
		Sum  float64
	}](ctx, t.DB, `SELECT key, sum(value::float8) FROM counts, jsonb_each_text(totals) GROUP BY key`)
	all := make(totals, len(list))
	for _, one := range list {
		all[one.Name] = one.Sum
	}
	return all, stores.Failed("reading what was counted", err)
}
