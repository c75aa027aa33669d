package queue

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/harness/stores"
	"stampede/harness/sut"
)

// Listener hears notifications on a connection of its own, which it makes again after an error.
type Listener struct {
	cfg     sut.Config
	conf    *pgx.ConnConfig
	channel string
	heard   func(payload string) error
	began   func()

	end  context.CancelFunc
	done sync.WaitGroup
}

// Listen calls heard for each notification on a channel until the listener is closed. It calls
// began each time that it has a new connection: what was notified before is not repeated.
func Listen(
	cfg sut.Config, db *stores.Postgres, channel string, began func(), heard func(string) error,
) *Listener {
	ctx, end := context.WithCancel(context.Background())
	l := &Listener{cfg: cfg, conf: db.Pool.Config().ConnConfig, channel: channel, heard: heard,
		began: began, end: end}
	l.conf.Tracer = nil // what is heard belongs to no session of a test
	l.done.Go(func() {
		for retry := (sut.Retry{}); ctx.Err() == nil; {
			if err := l.once(ctx); ctx.Err() == nil {
				cfg.Warn("listening for notifications begins anew", err)
				retry.Rest(ctx)
			}
		}
	})
	return l
}

func (l *Listener) once(ctx context.Context) error {
	conn, err := pgx.ConnectConfig(ctx, l.conf)
	if err != nil {
		return fmt.Errorf("connecting to listen: %w", err)
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(closing) // nothing is left to lose
	}()
	if _, err := conn.Exec(ctx, "LISTEN "+l.channel); err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	l.began()
	for {
		told, err := conn.WaitForNotification(ctx)
		if err == nil {
			err = l.heard(told.Payload)
		}
		if err != nil {
			return fmt.Errorf("waiting for a notification: %w", err)
		}
	}
}

// Close ends it. A nil listener is closed.
func (l *Listener) Close() {
	if l != nil {
		l.end()
		l.done.Wait()
	}
}
