package likes

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"stampede/harness/sut"
)

// recomputed lets readers come at a steady rate for some times to live, in virtual
// time, and returns how many of them went to the store in each.
func recomputed(t *testing.T, beta float64) (perTTL float64) {
	const (
		ttl   = time.Second
		lives = 50
		rate  = 5000 // reads a second
		took  = 20 * time.Millisecond
	)
	synctest.Test(t, func(t *testing.T) {
		c := newReadCache(ttl, beta, 1)
		base := time.Now()
		compute := func(ctx context.Context) (Count, error) {
			value := time.Since(base) // what the store says at this moment
			sut.Pause(ctx, took)
			return Count{Count: int64(value)}, nil
		}
		if _, err := c.get(t.Context(), cacheKey{}, compute); err != nil {
			t.Fatal(err)
		}
		var readers sync.WaitGroup
		for range lives * rate {
			sut.Pause(t.Context(), time.Second/rate)
			readers.Go(func() {
				began := time.Since(base)
				count, err := c.get(t.Context(), cacheKey{}, compute)
				if err != nil {
					t.Error(err)
				}
				if age := began - time.Duration(count.Count); age > ttl {
					t.Errorf("a reader at %v was told what was true %v before", began, age)
				}
			})
		}
		readers.Wait()
		perTTL = float64(c.early.Load()+c.expired.Load()) / lives
	})
	return perTTL
}

// TestStampede: when a count expires, all readers recompute it that come before
// the first one has; with early recomputation few do. No reader is told anything
// older than the time to live.
func TestStampede(t *testing.T) {
	without, with := recomputed(t, 0), recomputed(t, 1)
	t.Logf("5,000 readers a second of a count that takes 20 ms and lives for 1 s: "+
		"%.1f recomputations for each life without, %.1f with early recomputation", without, with)
	if without < 90 || without > 110 {
		t.Errorf("%.1f readers recompute at an expiry, want the 100 that come within 20 ms", without)
	}
	if with > without/10 {
		t.Errorf("%.1f readers recompute early, want no more than a tenth of %.1f", with, without)
	}
}

// TestNoCache: without a time to live every reader asks, and nothing is called
// approximate.
func TestNoCache(t *testing.T) {
	c, asked := newReadCache(0, 1, 1), 0
	for range 3 {
		count, err := c.get(t.Context(), cacheKey{}, func(context.Context) (Count, error) {
			asked++
			return Count{Count: 7}, nil
		})
		if err != nil || count.Approx || count.Count != 7 {
			t.Errorf("got %+v, %v", count, err)
		}
	}
	if asked != 3 {
		t.Errorf("the store was asked %d times", asked)
	}
}

// TestFailureIsNotKept: an error is the reader's own, and the next one asks again.
func TestFailureIsNotKept(t *testing.T) {
	c, broken := newReadCache(time.Minute, 0, 1), errors.New("gone")
	if _, err := c.get(t.Context(), cacheKey{}, func(context.Context) (Count, error) {
		return Count{}, broken
	}); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	count, err := c.get(t.Context(), cacheKey{}, func(context.Context) (Count, error) {
		return Count{Count: 1}, nil
	})
	if err != nil || count.Count != 1 || !count.Approx {
		t.Errorf("got %+v, %v", count, err)
	}
}
