package flashsale

import (
	"context"

	"github.com/redis/go-redis/v9"

	"stampede/harness/sut"
)

// redisOnly has a Lua decrement and no gate behind it. Wrong when Redis forgets: a counter that
// is lost with half of the units sold comes back full, and one that is a second old, after a
// loss of power, sells that second's units again.
func redisOnly() variant {
	return offered{ordersOnly(), plain}.sells(variant{
		Name:       "redis_only",
		Idea:       "only a Lua decrement that stops at 0; a missing counter is reset to all units",
		Guarantees: "never more orders than units while Redis keeps its data",
		GivesUp:    "correct stock when Redis loses its data or its last second: the counter is too high",
		Places:     []string{placeAdmitted},
		Breaks: []sut.Break{
			{Invariant: NoOversell, Under: sut.RedisLoss},
			{Invariant: NoOversell, Under: sut.PowerLoss}, // it takes back the last second's sales
		},
		NotApplicable: noKeys(map[string]string{
			Conservation: "overselling makes the stock negative, which no-oversell reports",
			RedisDrift:   "its counter is the only record of the stock: nothing corrects it",
			SellThrough:  "units that leak from its counter are lost for good: nothing finds them",
			NoFalseSoldOut: "a unit whose return does not reach Redis is lost for good, and a repeated " +
				"request takes one until it is noticed",
		}),
		Open: func(_ context.Context, st *opened) (Shop, error) {
			return ungated(st, forgetfulGate{newCounters(st), redis.NewScript(takeForgetful)}), nil
		},
	})
}

// forgetfulGate takes a missing counter for the beginning of the sale.
type forgetfulGate struct {
	*counters
	script *redis.Script
}

// takeForgetful decrements the counter if it is positive, and makes it out of
// the configured units ARGV[1] if it is missing.
const takeForgetful = `
local stock = tonumber(redis.call('GET', KEYS[1]))
if not stock then
    stock = tonumber(ARGV[1])
    redis.call('SET', KEYS[1], stock)
end
if stock <= 0 then return -1 end
redis.call('DECR', KEYS[1])
return 1`

func (g forgetfulGate) admit(ctx context.Context, req BuyRequest) (admission, error) {
	n, err := g.run(ctx, g.script, []string{g.stockKey(req.Item)}, g.Params.Units)
	return admission(n), err
}
