package flashsale

import (
	"context"
	"errors"
	"fmt"

	"stampede/harness/stores"
	"stampede/harness/sut"
)

// admission is what a gate in Redis says to a buyer.
type admission int64

// The scripts answer with these numbers.
const (
	notReady admission = -2 // the counter is missing
	empty    admission = -1 // nothing is left
	admitted admission = 1  // a unit was taken from the counter
	repeated admission = 2  // this operation took one before
	occupied admission = 3  // the buyer has taken one by another operation
	unsure   admission = 4  // nothing is left, but tokens of orders may be missing
)

// gate decides in Redis who may go on to the ledger. An error of admit that
// is not sut.ErrRefused may have taken a unit; only the reconciler knows.
type gate interface {
	admit(ctx context.Context, req BuyRequest) (admission, error)
}

// till makes the order of a buyer who was admitted.
type till interface {
	claim(ctx context.Context, req BuyRequest) (claim, error)
}

// gatedShop asks the gate first and the till second.
type gatedShop struct {
	ledgerShop
	gate  gate
	till  till
	redis *counters
	warn  func(message string, err error)
	// passed marks a fail point.
	passed func(place string)
}

// placeAdmitted is where a purchase has a unit of Redis and none of the ledger.
const placeAdmitted = "admitted"

func newGatedShop(b *backend, g gate, t till) *gatedShop {
	return &gatedShop{
		ledgerShop: ledgerShop{b.books}, gate: g, till: t, redis: b.redis,
		warn:   b.cfg.Warn,
		passed: b.cfg.Passed,
	}
}

// Buy passes the gate, then claims.
func (s *gatedShop) Buy(ctx context.Context, req BuyRequest) (Order, error) {
	a, err := s.pass(ctx, req)
	if err != nil {
		return Order{}, err
	}
	switch a {
	case occupied:
		return s.second(ctx, req)
	case unsure:
		return s.books.soldOut(ctx, req)
	case admitted:
		s.passed(placeAdmitted)
	}
	return s.claim(ctx, req, a)
}

// pass asks the gate. Without an error the answer is admitted, repeated,
// occupied or unsure.
func (s *gatedShop) pass(ctx context.Context, req BuyRequest) (admission, error) {
	if !s.redis.items[req.Item] {
		return 0, ErrUnknownItem
	}
	a, err := s.gate.admit(ctx, req)
	switch {
	case err != nil:
		return 0, stores.Failed("asking Redis for a unit", err)
	case a == notReady:
		return 0, ErrNotReady
	case a == empty:
		return 0, ErrSoldOut
	}
	return a, nil
}

// claim makes the order. What the gate took goes back if, and only if, the
// ledger certainly does not use it. If it is not known whether the ledger
// does, or will for another request, or whether it went back, the reconciler
// will find out.
func (s *gatedShop) claim(ctx context.Context, req BuyRequest, a admission) (Order, error) {
	c, err := s.till.claim(ctx, req)
	if a != admitted || !s.unused(c, err) {
		return c.Order, err
	}
	back := s.redis.putBack(context.WithoutCancel(ctx), cart(req), c.closed)
	if back != nil {
		s.warn("flashsale could not return an unused unit to Redis", back)
		if err != nil {
			// Not refused: the unit it took is missing from the sale.
			//nolint:errorlint // thus neither error may be found in it
			return Order{}, fmt.Errorf("%v, and its unit was not returned: %v", err, back)
		}
	}
	return c.Order, err
}

// unused says whether the ledger has no use for what this request took from
// Redis. Without tokens every request takes, and only the one that made the
// order may keep it; a token belongs to the order of its operation, whichever
// request took it and made that, for as long as the order has its unit.
func (s *gatedShop) unused(c claim, err error) bool {
	if err != nil {
		return errors.Is(err, sut.ErrRefused)
	}
	if s.redis.kind.tokens {
		return c.closed
	}
	return !c.fresh
}

// second answers a buyer whose token is of another operation. The ledger
// knows whether that one has a unit; if it has none, it is under way or its
// token has not been removed yet.
func (s *gatedShop) second(ctx context.Context, req BuyRequest) (Order, error) {
	order, err := s.books.standing(ctx, req)
	if errors.Is(err, errBusy) {
		return Order{}, fmt.Errorf("another request of %s is under way: %w", req.Buyer, ErrConflict)
	}
	return order, err
}

// PaymentResult applies a delivery; a unit that goes back to the shelf goes
// back to Redis too.
func (s *gatedShop) PaymentResult(ctx context.Context, p Payment) (PaymentState, error) {
	state, released, err := s.books.payment(ctx, p)
	if err == nil && released != nil {
		if err := s.redis.release(context.WithoutCancel(ctx), *released); err != nil {
			s.warn("flashsale could not return a unit of a failed payment to Redis", err)
		}
	}
	return state, err
}

// plainGate takes from a bare counter by a script that looks before it takes.
// It is not idempotent: run twice, it takes twice.
type plainGate struct{ redis *counters }

// takePlain decrements the counter if it is positive.
const takePlain = `
local stock = tonumber(redis.call('GET', KEYS[1]))
if not stock then return -2 end
if stock <= 0 then return -1 end
redis.call('DECR', KEYS[1])
return 1`

func (g plainGate) admit(ctx context.Context, req BuyRequest) (admission, error) {
	n, err := g.redis.run(ctx, g.redis.script.takePlain, []string{g.redis.stockKey(req.Item)})
	return admission(n), err
}

// tokenGate takes from a counter and leaves a token: the buyer and the
// operation. A repeated request finds its own token and takes nothing, so the
// script may run any number of times.
type tokenGate struct{ redis *counters }

// takeToken takes a unit for operation ARGV[2] of buyer ARGV[1]. If ARGV[3]
// is positive, the token lapses that many milliseconds from now, by Redis'
// clock, unless it is committed. A request that finds the token of its own
// operation shares it from then on with the request that took it: either may
// make the order, so neither may give the unit back for the other. KEYS[4] says
// that tokens may be missing: see doubtfulKey.
const takeToken = `
local stock = tonumber(redis.call('GET', KEYS[1]))
if not stock then return -2 end
local token = redis.call('HGET', KEYS[2], ARGV[1])
if token == ARGV[2] or token == ARGV[2] .. '+' then
    redis.call('HSET', KEYS[2], ARGV[1], ARGV[2] .. '+')
    return 2
end
if token then return 3 end
if stock <= 0 then return redis.call('EXISTS', KEYS[4]) == 1 and 4 or -1 end
redis.call('DECR', KEYS[1])
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
if tonumber(ARGV[3]) > 0 then
    local now = redis.call('TIME')
    redis.call('ZADD', KEYS[3], now[1] * 1000 + math.floor(now[2] / 1000) + ARGV[3], ARGV[1])
end
return 1`

func (g tokenGate) admit(ctx context.Context, req BuyRequest) (admission, error) {
	n, err := g.redis.run(ctx, g.redis.script.takeToken, g.redis.takeKeys(req.Item),
		req.Buyer, tokenOf(req.OpID), g.redis.ttl.Milliseconds())
	return admission(n), err
}
