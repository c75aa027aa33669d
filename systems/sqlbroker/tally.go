package sqlbroker

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// tally counts what one process has claimed and worked off. A nil tally counts nothing.
type tally struct {
	mu sync.Mutex
	totals
}

// totals are sums since a process began.
type totals struct {
	// consumed are messages of which effects were stored.
	consumed int64
	// claims are those that got messages, and took claiming in all.
	claims   int64
	claiming time.Duration
}

// claim counts a claim that began at a time, if it got messages.
func (t *tally) claim(began time.Time, messages int) {
	if t == nil || messages == 0 {
		return
	}
	took := time.Since(began)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.claims++
	t.claiming += took
}

// consume counts messages that were worked off.
func (t *tally) consume(messages int) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.consumed += int64(messages)
}

func (t *tally) read() totals {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.totals
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
	var told totals
	for t.Config.Rest(ctx, tellEvery) {
		now := t.tally.read()
		if now == told {
			continue
		}
		_, err := t.DB.Exec(ctx, `UPDATE consumers SET consumed = $2, claims = $3, claiming = $4
			WHERE consumer = $1`, row, now.consumed, now.claims, now.claiming.Microseconds())
		if err != nil {
			return fmt.Errorf("telling what is consumed: %w", err)
		}
		told = now
	}
	return nil
}
