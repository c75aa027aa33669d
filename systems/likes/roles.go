package likes

import (
	"context"
	"fmt"
	"time"

	"stampede/harness/stores"
	"stampede/harness/sut"
)

const (
	// roleConns is how many connections a role opens to each store.
	roleConns = 2
	// roleTimeout bounds one operation of a role, where users are given more.
	roleTimeout = 2 * time.Second
	// rolePause is how long a role waits after an error.
	rolePause = 100 * time.Millisecond
)

// run opens a role's own connections and calls work, which goes on until ctx is
// cancelled or something fails, then again after a pause. Errors are logged and
// survived.
func (d design) run(
	ctx context.Context, cfg sut.Config, role string,
	work func(context.Context, *backend) error,
) error {
	cfg.MaxConns, cfg.Timeout = roleConns, min(stores.Timeout(cfg), roleTimeout)
	for {
		err := d.runOnce(ctx, cfg, work)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // it was told to stop
		}
		warn(cfg, fmt.Sprintf("likes %s %s goes on after an error", d.name, role), err)
		if !sut.Pause(ctx, rolePause) {
			return nil
		}
	}
}

func (d design) runOnce(
	ctx context.Context, cfg sut.Config, work func(context.Context, *backend) error,
) error {
	b, err := d.backend(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { _ = b.close() }() // nothing is left to lose
	return work(ctx, b)
}

// every calls step, with a pause between two calls, until ctx is cancelled or
// step fails.
func (b *backend) every(ctx context.Context, pause time.Duration, step func() error) error {
	for {
		if err := step(); err != nil {
			return err
		}
		b.cfg.Worked()
		if !b.cfg.Rest(ctx, pause) {
			return nil
		}
	}
}

func warn(cfg sut.Config, message string, err error) {
	if cfg.Logger != nil {
		cfg.Logger.Warn(message, "error", err)
	}
}
