package sqlbroker

import (
	"context"
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
)

// run opens a role's own connections and calls work, which goes on until ctx is
// cancelled or something fails, then again after a pause.
func (d design) run(
	ctx context.Context, cfg sut.Config, role string, conns int,
	work func(context.Context, *backend) error,
) error {
	cfg.MaxConns, cfg.Timeout = conns, min(stores.Timeout(cfg), roleTimeout)
	return sut.Work[*backend]{Name: "sqlbroker " + d.name + " " + role, Open: d.backend,
		Close: (*backend).close, Do: work}.Run(ctx, cfg)
}
