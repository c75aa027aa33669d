package flashsale

import "context"

// redisLua: a counter in Redis admits, the ledger in Postgres decides.
//
// Idea: one script in Redis looks at the counter, decrements it and leaves a
// token; nearly all who come too late are turned away there, in one round
// trip and without Postgres. Who is admitted claims a unit row.
//
// Guarantee: every unit has one owner, whatever Redis says, because the claim
// is the same as in units_skip_locked. A claim that is refused returns its
// token, unless another click with its key relies on it; that, and a claim
// whose outcome is unknown, is left to the reconciler, which also rebuilds the
// counter when Redis has lost it. Until then the sale pauses.
//
// Gives up: a second store to run. Units that leak from the counter are not
// for sale until the reconciler has found them.
func redisLua() design {
	return design{
		name: "redis_lua",
		idea: "a Lua decrement that stops at 0 admits buyers; claiming a unit row in Postgres " +
			"decides",
		guarantees: "every unit has at most one owner even if Redis is wrong, lost or late",
		givesUp:    "a second store; units that leak from its counter wait for the reconciler",
		places:     []string{placeAdmitted},
		stock:      unitRows(),
		counter:    &counterKind{counts: true, tokens: true, reconciled: true},
		open: func(_ context.Context, b *backend) (Shop, error) {
			return newGatedShop(b, tokenGate{b.redis}, newUnitShop(b.books)), nil
		},
	}
}
