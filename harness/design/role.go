package design

import (
	"context"
	"time"

	"stampede/harness/stores"
	"stampede/harness/sut"
)

// Role is background work of a design.
type Role[P any] struct {
	// Name, Summary, Places and Single are those of sut.Role.
	Name, Summary string
	Places        []string
	Single        bool
	// Conns is how many connections it has to each store, 2 where it does not say.
	Conns int
	// Step does what there is to do, and says after how long it wants to be called again. It
	// is called until the role is told to stop; an error is logged, and followed by a pause.
	Step func(context.Context, *Stores[P]) (again time.Duration, err error)
}

const (
	roleConns = 2
	// roleTimeout bounds one operation of a role on a store.
	roleTimeout = 2 * time.Second
)

// role is a role as the harness sees it.
func (o *opener[S, P]) role(r Role[P]) sut.Role {
	return sut.Role{Name: r.Name, Summary: r.Summary, Places: r.Places, Single: r.Single,
		Run: func(ctx context.Context, cfg sut.Config) error {
			return o.run(ctx, cfg, r)
		}}
}

// run opens the stores, with patience, and calls the role's step until ctx is cancelled.
func (o *opener[S, P]) run(ctx context.Context, cfg sut.Config, r Role[P]) error {
	if cfg.MaxConns = r.Conns; cfg.MaxConns == 0 {
		cfg.MaxConns = roleConns
	}
	cfg.Timeout = min(stores.Timeout(cfg), roleTimeout)
	work := sut.Work[*Stores[P]]{
		Name: o.system.Name + " " + o.variant.Name + " " + r.Name,
		Open: o.stores,
		Close: func(st *Stores[P]) {
			if err := st.close(); err != nil {
				cfg.Warn("closing the stores of a role", err)
			}
		},
		Do: func(ctx context.Context, st *Stores[P]) error {
			return cfg.Steps(ctx, func() (time.Duration, error) { return r.Step(ctx, st) })
		},
	}
	return work.Run(ctx, cfg)
}
