package flashsale

import (
	"context"

	"stampede/harness/sut"
)

// redisLuaSilentRetry: a Lua decrement behind a driver that retries. Wrong
// when a reply is lost.
//
// Idea: the script of the textbooks, which decrements if there is stock, sent
// by go-redis as it comes: with three retries on network errors.
//
// Guarantee: never more orders than units, because claiming a unit row in
// Postgres decides.
//
// Gives up: the counter. If the reply of a script that ran is lost, the
// driver runs it again without a word: one buyer, one order, two units gone.
// Nobody sees an error, and there is no token from which to tell.
func redisLuaSilentRetry() design {
	return design{
		name: "redis_lua_silent_retry",
		idea: "a Lua decrement without idempotency, retried by the driver; unit rows in Postgres " +
			"decide",
		guarantees: "every unit has at most one owner",
		givesUp:    "a unit whenever a reply is lost: the driver decrements again",
		places:     []string{placeAdmitted},
		breaks: []sut.Break{
			{Invariant: RedisDrift, Under: sut.LostAck},
			{Invariant: RedisDrift, Under: sut.RedisLoss}, // nothing rebuilds the counter
			{Invariant: RedisDrift, Under: sut.PowerLoss}, // nor sets it right
			{Invariant: RedisDrift, Under: sut.RoleCrash}, // nor returns what a dead process took
		},
		notApplicable: map[string]string{
			SellThrough:    "the units that the retries leak cannot be sold, and redis-drift reports them",
			NoFalseSoldOut: "the units that the retries leak are free, and redis-drift reports them",
			IdempotentBuy: "its counter keeps no idempotency keys: once it is empty, a repeated request " +
				"is refused",
		},
		stock:   unitRows(),
		counter: &counterKind{counts: true, silentRetries: true},
		open: func(_ context.Context, b *backend) (Shop, error) {
			return newGatedShop(b, plainGate{b.redis}, newUnitShop(b.books)), nil
		},
	}
}
