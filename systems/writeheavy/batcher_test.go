package writeheavy_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"stampede/harness/sut"
	"stampede/systems/writeheavy"
)

// TestClose: a batcher that is closed writes what it has. If the store does not answer, it ends
// after two seconds, and each add has its answer: unknown if its write was under way, refused if it
// was in the queue.
func TestClose(t *testing.T) {
	for _, c := range []struct {
		name                      string
		store                     time.Duration // how long it takes for a batch
		took                      time.Duration
		written, unknown, refused int
	}{
		{"the store answers", 100 * ms, 500 * ms, 50, 0, 0},
		{"the store is slow", 900 * ms, 2 * time.Second, 20, 10, 20},
		{"the store hangs", time.Hour, 2 * time.Second, 0, 10, 40},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := writeheavy.DefaultParams()
				p.FlushMost, p.Queue = 5, 50
				join, end := writeheavy.Batching(p, func(ctx context.Context) error {
					if !sut.Pause(ctx, c.store) {
						return ctx.Err()
					}
					return nil
				})
				answers := make(chan error, 50)
				for range cap(answers) {
					go func() { answers <- join(t.Context()) }()
				}
				synctest.Wait()
				began := time.Now()
				err := end()
				if took := time.Since(began); took != c.took || (err != nil) != (c.refused > 0) {
					t.Errorf("closed after %v: %v", took, err)
				}
				written, unknown, refused := 0, 0, 0
				for range cap(answers) {
					switch err := <-answers; {
					case err == nil:
						written++
					case errors.Is(err, sut.ErrRefused):
						refused++
					default:
						unknown++
					}
				}
				if written != c.written || unknown != c.unknown || refused != c.refused {
					t.Errorf("%d are written, %d unknown and %d refused", written, unknown, refused)
				}
				if again := end(); !errors.Is(again, err) {
					t.Errorf("closed again: %v, and not %v", again, err)
				}
				if err := join(t.Context()); !errors.Is(err, sut.ErrRefused) {
					t.Errorf("an add to a closed batcher: %v", err)
				}
			})
		})
	}
}
