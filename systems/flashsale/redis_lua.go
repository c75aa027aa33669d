package flashsale

import "context"

// redisLua admits by a counter in Redis; a unit row in Postgres decides. One script looks at the
// counter, decrements it and leaves a token; nearly all who come too late are turned away
// there, without Postgres. A claim that is refused returns its token, unless another click
// with its key relies on it; that, and a claim whose outcome is unknown, is left to the
// reconciler, which also rebuilds a counter that Redis has lost. Until then the sale pauses.
func redisLua() variant {
	return offered{unitRows(), lasting}.reconciled(variant{
		Name: "redis_lua",
		Idea: "a Lua decrement that stops at 0 admits buyers; claiming a unit row in Postgres " +
			"decides",
		Guarantees: "every unit has at most one owner even if Redis is wrong, lost or late",
		GivesUp:    "a second store; units that leak from its counter wait for the reconciler",
		Places:     []string{placeAdmitted},
		Open: func(_ context.Context, st *opened) (Shop, error) {
			return unitsBehind(st, lasting(st)), nil
		},
		Model: offered{stock: unitRows()}.modelled(lastingModel, gated, true),
	})
}
