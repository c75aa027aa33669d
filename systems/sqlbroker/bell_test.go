package sqlbroker_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"stampede/systems/sqlbroker"
)

// counter is a queue that only counts, and how often it was looked at.
type counter struct {
	mu              sync.Mutex
	messages, looks int
}

// take is a look that takes up to n messages.
func (c *counter) take(n int) []sqlbroker.Delivery {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.looks++
	n = min(n, c.messages)
	c.messages -= n
	return make([]sqlbroker.Delivery, n)
}

func (c *counter) publish(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.messages += n
}

// patient waits for an hour, in which it looks twice by itself.
func patient(most int) sqlbroker.Demand {
	return sqlbroker.Demand{Most: most, WaitMS: time.Hour.Milliseconds()}
}

const rarely = 30 * time.Minute

// TestBellWakesNoMoreThanItTakes: of those who wait, as many look again as can receive
// what was published.
func TestBellWakesNoMoreThanItTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		bell, queue := sqlbroker.NewBell(), &counter{}
		var waiting sync.WaitGroup
		for range 5 {
			waiting.Go(func() {
				// Who is left waiting at the end is told so; the others have messages.
				_, _ = bell.Await(ctx, patient(2), rarely, func() ([]sqlbroker.Delivery, error) {
					return queue.take(2), nil
				})
			})
		}
		synctest.Wait()
		queue.publish(3)
		bell.Ring(3)
		synctest.Wait()
		if queue.looks != 5+2 || queue.messages != 0 || bell.Waiting() != 3 {
			t.Errorf("%d looks, %d messages left, %d wait; want 7, 0, 3",
				queue.looks, queue.messages, bell.Waiting())
		}
		bell.Ring(0)
		synctest.Wait()
		if queue.looks != 7 {
			t.Errorf("%d looked where nothing was published", queue.looks-7)
		}
		cancel()
		waiting.Wait()
		if bell.Waiting() != 0 {
			t.Errorf("%d wait after the end", bell.Waiting())
		}
	})
}

// look is a claim during which a bell may ring, messages be published, and the wait end.
type look func(bell sqlbroker.Bell, queue *counter, end func()) ([]sqlbroker.Delivery, error)

// TestBellIsPassedOn: if who is told does not look for what was published, because it has
// something else, or gives up, or its look fails, then the next is told, at once.
func TestBellIsPassedOn(t *testing.T) {
	for name, first := range map[string]look{
		"it has another message": func(bell sqlbroker.Bell, queue *counter, _ func()) (
			[]sqlbroker.Delivery, error,
		) {
			queue.publish(2)
			bell.Ring(1)
			return queue.take(1), nil
		},
		"its look fails": func(bell sqlbroker.Bell, queue *counter, _ func()) (
			[]sqlbroker.Delivery, error,
		) {
			queue.publish(1)
			bell.Ring(1)
			return nil, errors.New("the store is away")
		},
		"it gives up": func(bell sqlbroker.Bell, queue *counter, end func()) (
			[]sqlbroker.Delivery, error,
		) {
			got := queue.take(1)
			queue.publish(1)
			bell.Ring(1)
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
	bell, queue, began := sqlbroker.NewBell(), &counter{}, time.Now()
	hold := make(chan struct{})
	var waiting sync.WaitGroup
	waiting.Go(func() {
		// What becomes of the first is not what is asked.
		_, _ = bell.Await(ctx, patient(1), rarely, func() ([]sqlbroker.Delivery, error) {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			<-hold
			return first(bell, queue, cancel)
		})
	})
	synctest.Wait()
	waiting.Go(func() {
		got, err := bell.Await(t.Context(), patient(1), rarely, func() ([]sqlbroker.Delivery, error) {
			return queue.take(1), nil
		})
		if err != nil || len(got) != 1 || time.Since(began) > 0 {
			t.Errorf("the second has %d messages after %v, %v", len(got), time.Since(began), err)
		}
	})
	synctest.Wait()
	close(hold)
	waiting.Wait()
}
