package design

import (
	"cmp"
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
	// Needs are the stores that it opens beside Postgres; nil are all that the design needs.
	Needs []sut.Service
	// Timeout bounds one operation of it on a store, 2 s where it does not say.
	Timeout time.Duration
	// Conns is how many connections it has to each store, 2 where it does not say. ConnsOf
	// reckons them from the parameters and from how many an instance has.
	Conns   int
	ConnsOf func(p P, instance int) int
	// Step does what there is to do, and says after how long it wants to be called again. It
	// is called until the role is told to stop; an error is logged, and followed by a pause.
	Step func(context.Context, *Stores[P]) (again time.Duration, err error)
	// Do is what a role does that has no steps, such as a consumer, which keeps what it holds
	// when something fails: it works until ctx is cancelled, and calls Config.Worked. After an
	// error it is called again, with stores that were opened anew.
	Do func(context.Context, *Stores[P]) error
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
	conns := cmp.Or(r.Conns, roleConns)
	if r.ConnsOf != nil {
		params, err := sut.ParamsOf[P](cfg.Params)
		if err != nil {
			return err
		}
		conns = r.ConnsOf(params, stores.MaxConns(cfg))
	}
	cfg.MaxConns = conns
	cfg.Timeout = min(stores.Timeout(cfg), cmp.Or(r.Timeout, roleTimeout))
	needs := o.variant.Needs
	if r.Needs != nil {
		needs = r.Needs
	}
	do := r.Do
	if do == nil {
		do = func(ctx context.Context, st *Stores[P]) error {
			return cfg.Steps(ctx, func() (time.Duration, error) { return r.Step(ctx, st) })
		}
	}
	work := sut.Work[*Stores[P]]{
		Name: o.system.Name + " " + o.variant.Name + " " + r.Name,
		Open: func(ctx context.Context, cfg sut.Config) (*Stores[P], error) {
			return o.stores(ctx, cfg, needs)
		},
		Close: func(st *Stores[P]) {
			if err := st.close(); err != nil {
				cfg.Warn("closing the stores of a role", err)
			}
		},
		Do: do,
	}
	return work.Run(ctx, cfg)
}
