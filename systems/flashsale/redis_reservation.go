package flashsale

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"stampede/harness/stores"
)

// redisReservation reserves in Redis, claims in Postgres and commits in Redis. A token has a
// deadline until it is committed, so that a buyer who vanishes between the two stores blocks a
// unit for one token TTL (90 s where carts live 12 minutes), not until somebody notices a drift.
// The reconciler asks the ledger about each token that lapsed.
func redisReservation() variant {
	return offered{unitRows(), func(st *opened) shelf { return reservations(st) }}.reconciled(variant{
		Name:       "redis_reservation",
		Idea:       "two phases: a token with a deadline in Redis, a unit row in Postgres, then commit",
		Guarantees: "every unit has at most one owner; an abandoned token blocks a unit for one TTL only",
		GivesUp:    "one more round trip per unit sold, and a second store",
		Places:     []string{placeAdmitted},
		Open: func(_ context.Context, st *opened) (Shop, error) {
			t := reservations(st)
			return &reservationShop{unitsBehind(st, t), t}, nil
		},
	})
}

// reservations have tokens that last an eighth of a cart's life, but as long as the reconciler
// takes a purchase to be alive. One that takes longer is settled by the ledger (see patience).
func reservations(st *opened) *tokens {
	return newTokens(st, max(st.Params.CartTTL.D()/8, patience(st.Config)))
}

// reservationShop commits what it has claimed.
type reservationShop struct {
	*gatedShop
	tokens *tokens
}

// Buy reserves, claims and commits. If the commit fails the unit is sold all
// the same; the token lapses and is then found to be in the ledger.
func (s *reservationShop) Buy(ctx context.Context, req BuyRequest) (Order, error) {
	order, err := s.gatedShop.Buy(ctx, req)
	if err != nil {
		return order, err
	}
	if err := s.tokens.commit(context.WithoutCancel(ctx), cart(req)); err != nil {
		s.st.Config.Warn("flashsale could not commit a token", err)
	}
	return order, nil
}

// commitToken makes the token of operation ARGV[2] of buyer ARGV[1] last.
const commitToken = `
local token = redis.call('HGET', KEYS[2], ARGV[1])
if token ~= ARGV[2] and token ~= ARGV[2] .. '+' then return 0 end
return redis.call('ZREM', KEYS[3], ARGV[1])`

// commit ends the time limit of a token: its unit is in the ledger.
func (t *tokens) commit(ctx context.Context, cart cart) error {
	_, err := t.run(ctx, t.committed, t.keys(cart.Item), cart.Buyer, tokenOf(cart.OpID))
	return stores.Failed("committing a token", err)
}

// excess is the items of which more units are in Redis, reservations included,
// and in the ledger than there are, for certain.
func (t *tokens) excess(ctx context.Context) (map[string]bool, error) {
	look, err := t.lookAtBoth(ctx)
	if err != nil {
		return nil, err
	}
	items := make(map[string]bool)
	for i := range look.Items {
		_, high := look.Items[i].Drift(int64(t.Params.Units))
		items[look.Items[i].Item] = high < 0
	}
	return items, nil
}

// settleBatch bounds the lapsed tokens of one item settled in one look.
const settleBatch = 500

// settleLapsed decides every token whose time is up by what the ledger says
// of its operation: an order that has a unit keeps it, anything else returns
// it to the counter.
func (t *tokens) settleLapsed(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, t.limit)
	defer cancel()
	now, err := t.Redis.Time(ctx).Result()
	if err != nil {
		return stores.Failed("reading the clock of Redis", err)
	}
	for _, item := range itemKeys(t.Params) {
		carts, err := t.lapsed(ctx, item, now)
		if err != nil {
			return err
		}
		for _, c := range carts {
			if err := t.settle(ctx, c); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *tokens) settle(ctx context.Context, c cart) error {
	var active bool
	err := t.DB.Row(ctx, `SELECT EXISTS (
		SELECT FROM orders WHERE op_id = $1 AND state IN ('held', 'paid'))`,
		[]any{int64(c.OpID)}, &active)
	switch {
	case err != nil:
		return stores.Failed("looking for the order of a lapsed token", err)
	case active:
		return t.commit(ctx, c)
	default:
		return t.revoke(ctx, c)
	}
}

// lapsed lists tokens of an item that were not committed in time. A deadline
// without a token is removed.
func (t *tokens) lapsed(ctx context.Context, item string, now time.Time) ([]cart, error) {
	buyers, err := t.Redis.ZRangeArgs(ctx, redis.ZRangeArgs{
		Key: t.deadlinesKey(item), ByScore: true, Start: "-inf", Stop: now.UnixMilli(),
		Count: settleBatch,
	}).Result()
	if err != nil {
		return nil, stores.Failed("listing lapsed tokens", err)
	}
	var list []cart
	for _, buyer := range buyers {
		token, err := t.Redis.HGet(ctx, t.tokensKey(item), buyer).Result()
		next := cart{Item: item, Buyer: buyer}
		if errors.Is(err, redis.Nil) {
			err = t.Redis.ZRem(ctx, t.deadlinesKey(item), buyer).Err()
		} else if err == nil {
			next.OpID, err = opOf(token)
			list = append(list, next)
		}
		if err != nil {
			return nil, stores.Failed("reading a lapsed token", err)
		}
	}
	return list, nil
}

// revoke returns a token of which nobody knows whether its purchase has died.
func (t *tokens) revoke(ctx context.Context, cart cart) error {
	err := t.Redis.Set(ctx, t.doubtfulKey(cart.Item), 1, t.doubt).Err()
	if err == nil {
		_, err = t.run(ctx, t.back, t.allKeys(cart.Item), cart.Buyer, tokenOf(cart.OpID),
			repairMark())
	}
	return stores.Failed("returning a lapsed token", err)
}
