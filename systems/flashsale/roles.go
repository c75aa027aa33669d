package flashsale

import (
	"context"
	"fmt"
	"sync"
	"time"

	"stampede/harness/stores"
	"stampede/harness/sut"
)

const (
	// reclaimBatch bounds the rows that one statement of the reclaimer locks.
	reclaimBatch = 500
	// roleConns is how many connections a role opens to each service.
	roleConns = 2
	// roleTimeout bounds one operation of a role, where buyers are given more.
	roleTimeout = time.Second
	// stalemate is the most that the reconciler waits for a purchase that has
	// a unit of Redis and shows no sign of life, however long buyers may wait.
	stalemate = time.Second
)

// reclaimSlack is how late a cart may be returned while the stores answer:
// one round of waiting, one round of work, and half a second for a machine
// that is busy with the sale itself. Where Redis decides who may buy, a unit
// is for sale only when Redis has it; a return that Redis missed is found once
// the reconciler's patience has run out, and where units have tokens, when the
// token that a refused request left with another one has lapsed.
func (d design) reclaimSlack(p Params, cfg sut.Config) time.Duration {
	slack := p.ReclaimEvery.D() + min(stores.Timeout(cfg), roleTimeout) + time.Second/2
	if d.counter != nil && d.counter.reconciled {
		wait := patience(cfg)
		if d.counter.tokenTTL != nil {
			wait = d.counter.tokenTTL(p, cfg) // no shorter than patience
		}
		slack += wait + 2*reconcileEvery
	}
	return slack
}

// patience is how long a unit may be missing from both stores, with nothing
// moving, before it counts as lost. A purchase that takes longer than that
// does no harm: it makes the counter too high, which oversells nothing because
// the ledger decides, and which the reconciler's next look corrects.
func patience(cfg sut.Config) time.Duration { return min(stores.Timeout(cfg), stalemate) }

// reclaimer is the role that returns expired carts to the shelf.
func (d design) reclaimer() sut.Role {
	return sut.Role{
		Name:    "reclaimer",
		Summary: "returns carts that were not paid in time, by the database's clock",
		Places:  []string{placeReturned},
		Run: func(ctx context.Context, cfg sut.Config) error {
			return d.run(ctx, cfg, "reclaimer", (*backend).reclaimAll)
		},
	}
}

// run opens a role's own connections and calls step, again and again with the
// pause it asks for, until ctx is cancelled. Errors are logged and survived.
func (d design) run(
	ctx context.Context, cfg sut.Config, role string,
	step func(*backend, context.Context) (wait time.Duration, err error),
) error {
	cfg.MaxConns, cfg.Timeout = roleConns, min(stores.Timeout(cfg), roleTimeout)
	var b *backend
	defer func() {
		if b != nil {
			_ = b.close() // nothing is left to lose
		}
	}()
	for {
		var err error
		wait := sut.AfterError
		if b == nil {
			b, err = d.backend(ctx, cfg)
		}
		if err == nil {
			if wait, err = step(b, ctx); err == nil {
				cfg.Worked()
			}
		}
		if ctx.Err() != nil {
			return nil
		}
		rest := cfg.Rest
		if err != nil {
			rest, wait = sut.Pause, sut.AfterError
			cfg.Warn(fmt.Sprintf("flashsale %s %s goes on after an error", d.name, role), err)
		}
		if !rest(ctx, wait) {
			return nil
		}
	}
}

// placeReturned is where the ledger has carts back and Redis does not know it.
const placeReturned = "returned"

// reclaimAll returns every cart that has expired, batch by batch, and tells
// Redis of each.
func (b *backend) reclaimAll(ctx context.Context) (time.Duration, error) {
	for {
		carts, err := b.books.reclaim(ctx, b.params.CartTTL.D(), reclaimBatch)
		if err != nil {
			return 0, err
		}
		if len(carts) > 0 {
			b.cfg.Passed(placeReturned)
		}
		b.releaseAll(ctx, carts)
		if len(carts) < reclaimBatch {
			return b.params.ReclaimEvery.D(), nil
		}
	}
}

// releaseAll tells Redis of carts that the ledger has closed, also when ctx
// has just ended. It gives up at the first error, because a Redis that does
// not answer must not keep carts from expiring; the reconciler finds the rest.
func (b *backend) releaseAll(ctx context.Context, carts []cart) {
	if b.redis == nil {
		return
	}
	ctx = context.WithoutCancel(ctx)
	for i, c := range carts {
		if err := b.redis.release(ctx, c); err != nil {
			b.cfg.Warn(fmt.Sprintf("flashsale reclaimer left %d units to the reconciler",
				len(carts)-i), err)
			return
		}
	}
}

// onceError runs a function once and remembers its error.
type onceError struct {
	once sync.Once
	err  error
}

func (o *onceError) do(f func() error) error {
	o.once.Do(func() { o.err = f() })
	return o.err
}
