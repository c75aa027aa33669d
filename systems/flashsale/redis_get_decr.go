package flashsale

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"stampede/harness/sim"
	"stampede/harness/sut"
)

// redisGetDecr looks at the counter in Redis, sells, and then decrements it, so that a failed
// order costs no unit. Wrong: each command is atomic, the two together are not, and the ledger
// records orders without looking at any stock.
func redisGetDecr() variant {
	return offered{ordersOnly(), plain}.reconciled(variant{
		Name:       "redis_get_decr",
		Idea:       "GET the counter in Redis; if it is positive, insert the order, then DECR it",
		Guarantees: "one unit per buyer and item, one effect per payment; nothing about the stock",
		GivesUp:    "correct stock: every buyer who reads before the last decrement gets a unit",
		Breaks:     []sut.Break{{Invariant: NoOversell, Under: sut.Load}},
		NotApplicable: noKeys(map[string]string{
			Conservation: "overselling makes the stock negative, which no-oversell reports",
			RedisDrift:   "overselling makes the counter negative, which no-oversell reports",
			NoFalseSoldOut: "a rebuild between an order and its decrement leaves the counter " +
				"too low until the next one",
		}),
		Open: func(_ context.Context, st *opened) (Shop, error) {
			g := readGate{newCounters(st)}
			return &getDecrShop{ungated(st, g), g}, nil
		},
		Model: offered{stock: ordersOnly()}.modelled(readsOnly, decrementsAfter, false),
	})
}

// readsModel and decrementsAfter are its model.
type readsModel struct{ plainModel }

func readsOnly(s *modelSale) modelShelf { return readsModel{plainModel{s}} }

func (r readsModel) admit(p *sim.Process, req BuyRequest) (a admission) {
	r.command(p, costGet, func() {
		switch left, is := r.left.Get(req.Item); {
		case !is:
			a = notReady
		case left <= 0:
			a = empty
		default:
			a = admitted
		}
	})
	return a
}

func decrementsAfter(s *modelSale) func(*sim.Process, BuyRequest) (claim, error) {
	return func(p *sim.Process, req BuyRequest) (claim, error) {
		if _, err := s.passes(p, req); err != nil {
			return claim{}, err
		}
		c, err := s.claims(p, req,
			func(*sim.Process, string) (int64, bool, bool) { return 0, true, false })
		if err == nil && c.fresh {
			_ = s.outlives(p, s.call, func(p *sim.Process) { // if it fails, the reconciler finds it
				s.command(p, costDecr, func() {
					left, _ := s.left.Get(req.Item)
					s.left.Set(req.Item, left-1)
				})
			})
		}
		return c, err
	}
}

// getDecrShop takes from the counter what it has already sold.
type getDecrShop struct {
	*gatedShop
	counter readGate
}

// Buy reads, sells and decrements.
func (s *getDecrShop) Buy(ctx context.Context, req BuyRequest) (Order, error) {
	if _, err := s.pass(ctx, req); err != nil {
		return Order{}, err
	}
	c, err := s.till.claim(ctx, req)
	if err == nil && c.fresh {
		if err := s.counter.decrement(context.WithoutCancel(ctx), req.Item); err != nil {
			s.st.Config.Warn("flashsale could not decrement a counter", err)
		}
	}
	return c.Order, err
}

// readGate looks at the counter and takes nothing.
type readGate struct{ *counters }

func (g readGate) admit(ctx context.Context, req BuyRequest) (admission, error) {
	ctx, cancel := context.WithTimeout(ctx, g.limit)
	defer cancel()
	stock, err := g.Redis.Get(ctx, g.stockKey(req.Item)).Int64()
	switch {
	case errors.Is(err, redis.Nil):
		return notReady, nil
	case err != nil:
		return 0, err
	case stock <= 0:
		return empty, nil
	}
	return admitted, nil
}

func (g readGate) decrement(ctx context.Context, item string) error {
	ctx, cancel := context.WithTimeout(ctx, g.limit)
	defer cancel()
	return g.Redis.Decr(ctx, g.stockKey(item)).Err()
}

// ungatedTill records an order for everybody who comes. It keeps what has
// nothing to do with stock: keys are idempotent, buyers get one unit.
type ungatedTill struct {
	books     *books
	statement string
}

// ungated is a gatedShop whose ledger records whatever passes the gate.
func ungated(st *opened, s shelf) *gatedShop {
	b := newBooks(st.DB, ordersOnly())
	return newGatedShop(st, s, b, &ungatedTill{b, b.buyStatement(
		`SELECT 0::bigint, 0::bigint FROM items WHERE item = $1 AND EXISTS (SELECT FROM allowed)`,
		`false`)})
}

func (t *ungatedTill) claim(ctx context.Context, req BuyRequest) (claim, error) {
	return t.books.buy(ctx, t.statement, req)
}
