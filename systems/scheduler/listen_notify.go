package scheduler

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/harness/sut"
)

// listenNotify is told instead of asking.
//
// Idea: a new task notifies the pickers and a pick the executors; whoever has
// nothing to do sleeps until somebody rings, or until the next task is due. A slow
// poll behind it finds what a lost notification would have told.
//
// Guarantee: as skip_locked. A notification is a hint and nothing else.
//
// Gives up: a lock over all notifying commits, which Postgres makes one after the
// other, and a connection for each listener.
func listenNotify() design {
	return design{
		name: "listen_notify",
		idea: "skip_locked that waits for NOTIFY or the next due time, with a slow poll as a " +
			"fallback",
		guarantees: "as skip_locked; a lost notification costs one slow poll",
		givesUp:    "commits that notify wait for each other, and each listener needs a connection",
		lock:       skipLocked, notify: true,
	}
}

// bell rings when a notification comes. A nil one never does.
type bell struct {
	quit context.CancelFunc
	done sync.WaitGroup

	mu   sync.Mutex
	rung chan struct{}
}

// bell listens on a channel, in designs that do, over a connection of its own.
func (d design) bell(cfg sut.Config, channel string) *bell {
	if !d.notify {
		return nil
	}
	ctx, quit := context.WithCancel(context.Background())
	b := &bell{quit: quit, rung: make(chan struct{})}
	b.done.Go(func() {
		for ctx.Err() == nil {
			err := b.listen(ctx, cfg, channel)
			if ctx.Err() != nil {
				return
			}
			d.warn(cfg, "listener", err)
			sut.Pause(ctx, sut.AfterError)
		}
	})
	return b
}

// listen rings until the connection ends. It rings at first, too: what was
// notified before it listened is not repeated.
func (b *bell) listen(ctx context.Context, cfg sut.Config, channel string) error {
	conf, err := pgx.ParseConfig(cfg.PostgresURL)
	if err != nil {
		return fmt.Errorf("reading the Postgres URL: %w", err)
	}
	conf.ConnectTimeout = roleTimeout
	conn, err := pgx.ConnectConfig(ctx, conf)
	if err != nil {
		return fmt.Errorf("connecting to listen: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := conn.Exec(ctx, `LISTEN `+channel); err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	for {
		b.ring()
		if _, err := conn.WaitForNotification(ctx); err != nil {
			return fmt.Errorf("waiting for a notification: %w", err)
		}
	}
}

func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.rung)
	b.rung = make(chan struct{})
}

// next is closed when it rings for the next time.
func (b *bell) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.rung
}

// close ends it.
func (b *bell) close() {
	if b != nil {
		b.quit()
		b.done.Wait()
	}
}

// untilRung waits for a ring, but no longer than d.
func untilRung(ctx context.Context, ring <-chan struct{}, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ring:
	case <-timer.C:
	case <-ctx.Done():
	}
}
