package sqlbroker

import (
	"context"
	"fmt"
	"time"

	"stampede/harness/stores"
	"stampede/harness/sut"
)

// The names of the roles.
const (
	RoleConsumer  = "consumer"
	RoleSweeper   = "sweeper"
	RoleCollector = "collector"
	RoleReporter  = "reporter"
)

const (
	// roleConns is how many connections a role opens that needs no more.
	roleConns = 2
	// roleTimeout bounds one statement of a role, where users are given more.
	roleTimeout = 2 * time.Second
	// rolePause is how long a role waits after an error.
	rolePause = 100 * time.Millisecond
)

// run opens a role's own connections and calls work, which goes on until ctx is
// cancelled or something fails, then again after a pause. Errors are logged and
// survived.
func (d design) run(
	ctx context.Context, cfg sut.Config, role string, conns int,
	work func(context.Context, *backend) error,
) error {
	cfg.MaxConns, cfg.Timeout = conns, min(stores.Timeout(cfg), roleTimeout)
	for {
		err := d.runOnce(ctx, cfg, work)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // it was told to stop
		}
		if cfg.Logger != nil {
			cfg.Logger.Warn(fmt.Sprintf("sqlbroker %s %s goes on after an error", d.name, role),
				"error", err)
		}
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
	defer b.close()
	return work(ctx, b)
}

// every calls step, with a pause between two calls, until ctx is cancelled or step
// fails.
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
