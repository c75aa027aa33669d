package flashsale

import (
	"context"

	"github.com/redis/go-redis/v9"

	"stampede/harness/sut"
)

// redisLuaSilentRetry sends a Lua decrement by go-redis as it comes: with three retries on
// network errors. Wrong when a reply is lost: the driver runs the script again, so that one
// order costs two units. Nobody sees an error, and there is no token from which to tell.
func redisLuaSilentRetry() variant {
	return offered{unitRows(), plain}.sells(variant{
		Name: "redis_lua_silent_retry",
		Idea: "a Lua decrement without idempotency, retried by the driver; unit rows in Postgres " +
			"decide",
		Guarantees: "every unit has at most one owner",
		GivesUp:    "a unit whenever a reply is lost: the driver decrements again",
		Places:     []string{placeAdmitted},
		Breaks: []sut.Break{
			{Invariant: RedisDrift, Under: sut.LostAck},
			{Invariant: RedisDrift, Under: sut.RedisLoss}, // nothing rebuilds the counter
			{Invariant: RedisDrift, Under: sut.PowerLoss}, // nor sets it right
			{Invariant: RedisDrift, Under: sut.RoleCrash}, // nor returns what a dead process took
		},
		NotApplicable: noKeys(map[string]string{
			SellThrough:    "the units that the retries leak cannot be sold, and redis-drift reports them",
			NoFalseSoldOut: "the units that the retries leak are free, and redis-drift reports them",
		}),
		Redis: silentRetries,
		Open: func(_ context.Context, st *opened) (Shop, error) {
			return unitsBehind(st, plain(st)), nil
		},
	})
}

// silentRetries makes the driver what it is by default: it repeats what it has
// no answer to, up to three times, and nobody is told.
func silentRetries(_ *opened, opts *redis.Options) {
	opts.MaxRetries = 0 // the driver's default
	opts.ReadTimeout /= 4
}
