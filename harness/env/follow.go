package env

import (
	"context"
	"fmt"
	"sync"
	"time"
)

const (
	// followEvery is how often an engine is asked about generators that it has placed, followBound
	// how long it may fail to answer, and followAnswer how long each answer may take.
	followEvery  = 500 * time.Millisecond
	followBound  = 20 * time.Second
	followAnswer = 5 * time.Second
)

// Follower tells a batch's Ended of what an engine says about its generators, of each of them once.
type Follower struct {
	batch  Batch
	engine string
	look   Look
	told   map[int]bool
	cancel context.CancelFunc
	done   sync.WaitGroup
}

// Look asks an engine which generators, by index, have ended otherwise than in order, and why.
type Look func(ctx context.Context) (ended map[int]string, err error)

// Follow begins to look, twice a second. The engine is what people call it, in case that it does
// not answer any more.
func Follow(b Batch, engine string, look Look) *Follower {
	ctx, cancel := context.WithCancel(context.Background())
	f := &Follower{batch: b, engine: engine, look: look, told: map[int]bool{}, cancel: cancel}
	f.done.Go(func() { f.follow(ctx) })
	return f
}

// End stops looking. It is idempotent, and nothing is told any more when it returns.
func (f *Follower) End() {
	f.cancel()
	f.done.Wait()
}

func (f *Follower) follow(ctx context.Context) {
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	for answered := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		within, cancel := context.WithTimeout(ctx, followAnswer)
		ended, err := f.look(within)
		cancel()
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			answered = time.Now()
		case time.Since(answered) > followBound:
			f.tell(-1, fmt.Sprintf("%s does not answer any more: %v", f.engine, err))
		}
		for index, why := range ended {
			if index >= 0 && index < f.batch.Count {
				f.tell(index, why)
			}
		}
	}
}

func (f *Follower) tell(index int, why string) {
	if !f.told[index] {
		f.told[index] = true
		f.batch.Ended(index, why)
	}
}
