package sqlbroker

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// tally counts what one process has done since it began.
type tally struct {
	// consumed are messages of which effects were stored.
	consumed atomic.Int64
	// claims are those that got messages, and took claiming in all, in nanoseconds.
	claims, claiming atomic.Int64
}

// claim counts a claim that began at a time, if it got messages.
func (t *tally) claim(began time.Time, messages int) {
	if messages > 0 {
		t.claims.Add(1)
		t.claiming.Add(int64(time.Since(began)))
	}
}

// tellEvery is how often a consumer tells what it has done.
const tellEvery = 200 * time.Millisecond

// tell writes the tally of a consumer into a row of its own, for gauges, until ctx is
// cancelled or something fails.
func (t *table) tell(ctx context.Context) error {
	var row int64
	err := t.DB.Row(ctx, `INSERT INTO consumers DEFAULT VALUES RETURNING consumer`, nil, &row)
	if err != nil {
		return fmt.Errorf("beginning to tell what is consumed: %w", err)
	}
	var told [3]int64
	for t.Config.Rest(ctx, tellEvery) {
		now := [3]int64{t.tally.consumed.Load(), t.tally.claims.Load(), t.tally.claiming.Load() / 1000}
		if now == told {
			continue
		}
		_, err := t.DB.Exec(ctx, `UPDATE consumers SET consumed = $2, claims = $3, claiming = $4
			WHERE consumer = $1`, row, now[0], now[1], now[2])
		if err != nil {
			return fmt.Errorf("telling what is consumed: %w", err)
		}
		told = now
	}
	return nil
}
