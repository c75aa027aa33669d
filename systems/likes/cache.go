package likes

import (
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// readCache keeps counts for a time to live. It recomputes one early with a
// probability that grows towards its expiry (XFetch: Vattani, Chierichetti and
// Lowenstein, Optimal Probabilistic Cache Stampede Prevention, VLDB 2015), so
// that most of the time one reader has replaced it before all of them have to.
// Nobody waits for anybody: readers of a count that has expired each compute it,
// which is the stampede.
type readCache struct {
	ttl  time.Duration
	beta float64 // how early; 0 waits for the expiry

	now     func() time.Time
	mu      sync.Mutex
	draw    *rand.Rand
	entries map[cacheKey]cached

	// early and expired count the recomputations by their reason.
	early, expired atomic.Int64
}

type cacheKey struct {
	region int
	video  uint64
}

// cached is a count, how long it took to compute and until when it is good. The
// time to live begins before the computation: a count is never older.
type cached struct {
	count  Count
	took   time.Duration
	expiry time.Time
}

func newReadCache(ttl time.Duration, beta float64, seed uint64) *readCache {
	return &readCache{ttl: ttl, beta: beta, now: time.Now, draw: rand.New(rand.NewPCG(seed, 1)),
		entries: map[cacheKey]cached{}}
}

// get returns a count that is no older than the time to live.
func (c *readCache) get(
	ctx context.Context, key cacheKey, compute func(context.Context) (Count, error),
) (Count, error) {
	if c.ttl <= 0 {
		return compute(ctx)
	}
	began := c.now()
	if entry, good := c.look(key, began); good {
		return entry.count, nil
	}
	count, err := compute(ctx)
	if err != nil {
		return Count{}, err
	}
	count.Approx = true
	c.keep(key, cached{count: count, took: c.now().Sub(began), expiry: began.Add(c.ttl)})
	return count, nil
}

// look finds an entry and decides whether this reader makes do with it.
func (c *readCache) look(key cacheKey, now time.Time) (cached, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	entry, found := c.entries[key]
	if !found || !now.Before(entry.expiry) {
		c.expired.Add(1)
		return entry, false
	}
	if c.beta > 0 {
		// -took·beta·ln(u) is exponentially distributed with mean took·beta.
		head := float64(entry.took) * c.beta * -math.Log(1-c.draw.Float64())
		if head >= float64(entry.expiry.Sub(now)) {
			c.early.Add(1)
			return entry, false
		}
	}
	return entry, true
}

// keep replaces an entry unless the one that is there is younger.
func (c *readCache) keep(key cacheKey, entry cached) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if entry.expiry.After(c.entries[key].expiry) {
		c.entries[key] = entry
	}
}

// writeRecomputations tells how often a count was read from Redis: early, by one
// reader that was ahead of the expiry, or expired, by every reader that came
// before the first one had it.
func (c *readCache) writeRecomputations(out io.Writer) {
	fmt.Fprintf(out, "# TYPE likes_count_recomputations counter\n"+
		"# HELP likes_count_recomputations Counts that were read anew, by reason.\n"+
		"likes_count_recomputations_total{reason=\"early\"} %d\n"+
		"likes_count_recomputations_total{reason=\"expired\"} %d\n",
		c.early.Load(), c.expired.Load())
}
