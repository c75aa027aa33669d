package likes

import (
	"context"
	"time"

	"stampede/harness/stores"
	"stampede/harness/sut"
)

const (
	// roleConns is how many connections a role opens to each store.
	roleConns = 2
	// roleTimeout bounds one operation of a role, where users are given more.
	roleTimeout = 2 * time.Second
)

// run opens a role's own connections and calls work, which goes on until ctx is
// cancelled or something fails, then again after a pause.
func (d design) run(
	ctx context.Context, cfg sut.Config, role string,
	work func(context.Context, *backend) error,
) error {
	cfg.MaxConns, cfg.Timeout = roleConns, min(stores.Timeout(cfg), roleTimeout)
	return sut.Work[*backend]{Name: "likes " + d.name + " " + role, Open: d.backend,
		Close: func(b *backend) { _ = b.close() }, // nothing is left to lose
		Do:    work}.Run(ctx, cfg)
}
