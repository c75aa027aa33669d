package env

import (
	"context"
	"sync"
	"time"
)

const (
	// followEvery is how often an engine is asked about generators that it has placed, followAnswer
	// how long each answer may take.
	followEvery  = 500 * time.Millisecond
	followAnswer = 5 * time.Second
)

// Follower calls a batch's Ended once for each generator that the engine reports as lost.
type Follower struct {
	batch  Batch
	look   Look
	told   map[int]bool
	cancel context.CancelFunc
	done   sync.WaitGroup
}

// Look asks an engine which generators, by index, have ended otherwise than in order, and why.
type Look func(ctx context.Context) (ended map[int]string, err error)

// Follow begins to look, twice a second. An engine that does not answer for a while has lost
// nothing: generators talk to the run without it.
func Follow(b Batch, look Look) *Follower {
	ctx, cancel := context.WithCancel(context.Background())
	f := &Follower{batch: b, look: look, told: map[int]bool{}, cancel: cancel}
	f.done.Go(func() { f.follow(ctx) })
	return f
}

// Metered implements Placed: generators on other machines are not metered.
func (*Follower) Metered() []Metered { return nil }

// End stops looking. It is idempotent, and Ended is not called any more when it returns.
func (f *Follower) End() {
	f.cancel()
	f.done.Wait()
}

func (f *Follower) follow(ctx context.Context) {
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		within, cancel := context.WithTimeout(ctx, followAnswer)
		ended, err := f.look(within)
		cancel()
		if err != nil {
			continue
		}
		for index, why := range ended {
			if index >= 0 && index < f.batch.Count && !f.told[index] {
				f.told[index] = true
				f.batch.Ended(index, why)
			}
		}
	}
}
