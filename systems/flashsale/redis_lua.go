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
func redisLua() variant {
	return offered{unitRows(), lasting}.byPatience(variant{
		Name: "redis_lua",
		Idea: "a Lua decrement that stops at 0 admits buyers; claiming a unit row in Postgres " +
			"decides",
		Guarantees: "every unit has at most one owner even if Redis is wrong, lost or late",
		GivesUp:    "a second store; units that leak from its counter wait for the reconciler",
		Places:     []string{placeAdmitted},
		Open: func(_ context.Context, st *opened) (Shop, error) {
			return unitsBehind(st, lasting(st)), nil
		},
	})
}
