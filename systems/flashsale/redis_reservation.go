package flashsale

import (
	"context"
	"time"

	"stampede/harness/sut"
)

// redisReservation: reserve in Redis, claim in Postgres, commit in Redis.
//
// Idea: the script's token has a deadline until it is committed, so Redis
// itself knows which units were taken by purchases that never finished.
//
// Guarantee: every unit has one owner, because the claim in Postgres decides.
// A buyer who vanishes between the two stores blocks a unit for one token TTL
// (90 s where carts live 12 minutes), not until somebody notices a drift: the
// reconciler asks the ledger about each token that lapsed.
//
// Gives up: a third round trip for each unit sold.
func redisReservation() design {
	return design{
		name:       "redis_reservation",
		idea:       "two phases: a token with a deadline in Redis, a unit row in Postgres, then commit",
		guarantees: "every unit has at most one owner; an abandoned token blocks a unit for one TTL only",
		givesUp:    "one more round trip per unit sold, and a second store",
		places:     []string{placeAdmitted},
		stock:      unitRows(),
		counter: &counterKind{
			counts: true, tokens: true, tokenTTL: tokenTTL, reconciled: true,
		},
		open: func(_ context.Context, b *backend) (Shop, error) {
			return &reservationShop{newGatedShop(b, tokenGate{b.redis}, newUnitShop(b.books))}, nil
		},
	}
}

// tokenTTL is an eighth of a cart's life, but long enough for what the
// reconciler takes for a purchase that is still alive. One that takes longer
// still is settled by the ledger (see patience).
func tokenTTL(p Params, cfg sut.Config) time.Duration {
	return max(p.CartTTL.D()/8, patience(cfg))
}

// reservationShop commits what it has claimed.
type reservationShop struct{ *gatedShop }

// Buy reserves, claims and commits. If the commit fails the unit is sold all
// the same; the token lapses and is then found to be in the ledger.
func (s *reservationShop) Buy(ctx context.Context, req BuyRequest) (Order, error) {
	order, err := s.gatedShop.Buy(ctx, req)
	if err != nil {
		return order, err
	}
	c := cart(req)
	if err := s.redis.commit(context.WithoutCancel(ctx), c); err != nil {
		s.warn("flashsale could not commit a token", err)
	}
	return order, nil
}
