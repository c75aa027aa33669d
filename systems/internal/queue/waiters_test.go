package queue_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"stampede/systems/internal/queue"
)

// counter is a queue that only counts, and how often it was looked at.
type counter struct {
	mu              sync.Mutex
	messages, looks int
}

// take is a look that takes up to n messages.
func (c *counter) take(n int) []struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.looks++
	n = min(n, c.messages)
	c.messages -= n
	return make([]struct{}, n)
}

func (c *counter) publish(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.messages += n
}

const key = "queue-1"

// await waits for an hour, in which it looks twice by itself.
func await(
	ctx context.Context, waiters *queue.Waiters, most int, take func() ([]struct{}, error),
) ([]struct{}, error) {
	return queue.Await(ctx, waiters, key, most, time.Hour, rarely, take)
}

const rarely = 30 * time.Minute

// TestWakingWakesNoMoreThanItTakes: of those who wait, as many look again as can receive
// what was published.
func TestWakingWakesNoMoreThanItTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		waiters, store := queue.NewWaiters(), &counter{}
		var waiting sync.WaitGroup
		for range 5 {
			waiting.Go(func() {
				// Who is left waiting at the end is told so; the others have messages.
				_, _ = await(ctx, waiters, 2, func() ([]struct{}, error) {
					return store.take(2), nil
				})
			})
		}
		synctest.Wait()
		store.publish(3)
		waiters.Wake(key, 3)
		synctest.Wait()
		if store.looks != 5+2 || store.messages != 0 || waiters.Waiting(key) != 3 {
			t.Errorf("%d looks, %d messages left, %d wait; want 7, 0, 3",
				store.looks, store.messages, waiters.Waiting(key))
		}
		waiters.Wake(key, 0)
		synctest.Wait()
		if store.looks != 7 {
			t.Errorf("%d looked where nothing was published", store.looks-7)
		}
		cancel()
		waiting.Wait()
		if waiters.Waiting(key) != 0 {
			t.Errorf("%d wait after the end", waiters.Waiting(key))
		}
	})
}

// look is a claim during which a waiters may ring, messages be published, and the wait end.
type look func(waiters *queue.Waiters, store *counter, end func()) ([]struct{}, error)

// TestWakingIsPassedOn: if who is told does not look for what was published, because it has
// something else, or gives up, or its look fails, then the next is told, at once.
func TestWakingIsPassedOn(t *testing.T) {
	for name, first := range map[string]look{
		"it has another message": func(waiters *queue.Waiters, store *counter, _ func()) (
			[]struct{}, error,
		) {
			store.publish(2)
			waiters.Wake(key, 1)
			return store.take(1), nil
		},
		"its look fails": func(waiters *queue.Waiters, store *counter, _ func()) (
			[]struct{}, error,
		) {
			store.publish(1)
			waiters.Wake(key, 1)
			return nil, errors.New("the store is away")
		},
		"it gives up": func(waiters *queue.Waiters, store *counter, end func()) (
			[]struct{}, error,
		) {
			got := store.take(1)
			store.publish(1)
			waiters.Wake(key, 1)
			end()
			return got, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { passedOn(t, first) })
		})
	}
}

// passedOn has two wait, of whom the first is told during its first look.
func passedOn(t *testing.T, first look) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	waiters, store, began := queue.NewWaiters(), &counter{}, time.Now()
	hold := make(chan struct{})
	var waiting sync.WaitGroup
	waiting.Go(func() {
		// What becomes of the first is not what is asked.
		_, _ = await(ctx, waiters, 1, func() ([]struct{}, error) {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			<-hold
			return first(waiters, store, cancel)
		})
	})
	synctest.Wait()
	waiting.Go(func() {
		got, err := await(t.Context(), waiters, 1, func() ([]struct{}, error) {
			return store.take(1), nil
		})
		if err != nil || len(got) != 1 || time.Since(began) > 0 {
			t.Errorf("the second has %d messages after %v, %v", len(got), time.Since(began), err)
		}
	})
	synctest.Wait()
	close(hold)
	waiting.Wait()
}

// TestNobodyMissesTheWaking: who waits is woken by a waiters that rings after it has looked
// and before it waits; nothing else would wake it here.
func TestNobodyMissesTheWaking(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	waiters := queue.NewWaiters()
	for rings, ring := range map[string]func(){
		"its queue": func() { waiters.Wake(key, 1) }, "any queue": waiters.WakeAll,
	} {
		looks := 0
		got, err := await(ctx, waiters, 1, func() ([]struct{}, error) {
			if looks++; looks == 1 {
				ring()
				return nil, nil
			}
			return make([]struct{}, 1), nil
		})
		if err != nil || len(got) != 1 || looks != 2 {
			t.Errorf("a waiters for %s: %d messages after %d looks, %v", rings, len(got), looks, err)
		}
	}
}
