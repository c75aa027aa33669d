package sut

import (
	"context"
	"time"
)

// AfterError is how long a role waits after an error.
const AfterError = 100 * time.Millisecond

// longestRest is how long a Retry waits at most.
const longestRest = time.Second

// Retry rests after errors: for AfterError, and twice as long after each more that follows soon,
// so that those who wait for a store do not keep it from coming back. The zero value is ready.
type Retry struct {
	rest  time.Duration
	ended time.Time
}

// Rest waits, and says whether to go on: ctx is not cancelled.
func (r *Retry) Rest(ctx context.Context) bool {
	if r.rest = min(2*r.rest, longestRest); r.rest == 0 || time.Since(r.ended) > longestRest {
		r.rest = AfterError
	}
	on := Pause(ctx, r.rest)
	r.ended = time.Now()
	return on
}

// Work is what a role does with stores that it opens for itself.
type Work[B any] struct {
	// Name is the role in the log: "likes redis_key repairer".
	Name  string
	Open  func(ctx context.Context, cfg Config) (B, error)
	Close func(B)
	// Do works until ctx is cancelled or something fails.
	Do func(ctx context.Context, stores B) error
}

// Run opens, works and closes until ctx is cancelled. After an error, which is logged, it opens
// anew.
func (w Work[B]) Run(ctx context.Context, cfg Config) error {
	for retry := (Retry{}); ; {
		err := w.once(ctx, cfg)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // it was told to stop
		}
		cfg.Warn(w.Name+" goes on after an error", err)
		if !retry.Rest(ctx) {
			return nil
		}
	}
}

func (w Work[B]) once(ctx context.Context, cfg Config) error {
	stores, err := w.Open(ctx, cfg)
	if err != nil {
		return err
	}
	defer w.Close(stores)
	return w.Do(ctx, stores)
}

// Every calls step, with a rest between two calls, until ctx is cancelled or step fails.
func (c Config) Every(ctx context.Context, rest time.Duration, step func() error) error {
	return c.Steps(ctx, func() (time.Duration, error) { return rest, step() })
}

// Steps is Every for a step that says itself how long to rest after it.
func (c Config) Steps(ctx context.Context, step func() (rest time.Duration, err error)) error {
	for {
		rest, err := step()
		if err != nil {
			return err
		}
		c.Worked()
		if !c.Rest(ctx, rest) {
			return nil
		}
	}
}

// Warn logs an error that is survived, with the replica of the role that has it.
func (c Config) Warn(message string, err error) {
	if c.Logger == nil {
		return
	}
	if c.Replica > 0 {
		c.Logger.Warn(message, "replica", c.Replica, "error", err)
		return
	}
	c.Logger.Warn(message, "error", err)
}
