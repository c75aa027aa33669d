package flashsale

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"stampede/harness/stores"
	"stampede/harness/sut"
)

// shelf is what a design keeps of its stock in Redis: a gate that decides who may go on to the
// ledger, and what gives back.
type shelf interface {
	// admit answers a buyer. An error that is not sut.ErrRefused may have taken a unit.
	admit(ctx context.Context, req BuyRequest) (admission, error)
	// unused says whether the ledger has no use for what an admitted request has taken, of
	// which it made a claim.
	unused(c claim) bool
	// putBack returns a unit that a request has taken and the ledger has refused to it. The
	// unit of an order that is closed by now goes back whoever took it.
	putBack(ctx context.Context, cart cart, closed bool) error
	// release returns the unit of a cart that the ledger has closed.
	release(ctx context.Context, cart cart) error
	// restore adds to a pipe who has units of an item: pairs of buyer and token.
	restore(ctx context.Context, pipe redis.Pipeliner, item string, owners []any)
	counter() *counters
}

// counters is a number in Redis for each item. The keys of a design are, after the prefix:
// stock:ITEM, the number; tokens:ITEM and deadlines:ITEM, see tokens; repair:ITEM, another mark
// after each repair by the reconciler; and doubtful:ITEM, for some time after one.
type counters struct {
	*opened
	limit time.Duration
	// doubt is how long after a repair an order may have no token.
	doubt                 time.Duration
	take, back, lookAtAll *redis.Script
}

func newCounters(st *opened) *counters {
	return &counters{
		opened: st, limit: stores.Timeout(st.Config),
		doubt: 4 * (patience(st.Config) + reconcileEvery),
		// Scripts are hashed once, here, and sent by their hash.
		take: redis.NewScript(takePlain), back: redis.NewScript(returnPlain),
		lookAtAll: redis.NewScript(lookAll),
	}
}

func plain(st *opened) shelf { return newCounters(st) }

func (c *counters) counter() *counters { return c }

func (c *counters) stockKey(item string) string     { return c.Key("stock:" + item) }
func (c *counters) tokensKey(item string) string    { return c.Key("tokens:" + item) }
func (c *counters) deadlinesKey(item string) string { return c.Key("deadlines:" + item) }

func (c *counters) repairKey(item string) string { return c.Key("repair:" + item) }

// keys are those that buyers use.
func (c *counters) keys(item string) []string {
	return []string{c.stockKey(item), c.tokensKey(item), c.deadlinesKey(item)}
}

// doubtfulKey is there while an order may have no token: its purchase was under way when the
// counter was rebuilt or its token revoked. An acknowledged request that comes again must not be
// told "sold out" meanwhile; the ledger knows it.
func (c *counters) doubtfulKey(item string) string { return c.Key("doubtful:" + item) }

// allKeys are the keys and the mark of repair.
func (c *counters) allKeys(item string) []string {
	return append(c.keys(item), c.repairKey(item))
}

// run executes a script that answers with a number.
func (c *counters) run(
	ctx context.Context, script *redis.Script, keys []string, args ...any,
) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, c.limit)
	defer cancel()
	return script.Run(ctx, c.Redis, keys, args...).Int64()
}

// takePlain decrements the counter if it is positive. It is not idempotent: run twice, it
// takes twice.
const takePlain = `
local stock = tonumber(redis.call('GET', KEYS[1]))
if not stock then return -2 end
if stock <= 0 then return -1 end
redis.call('DECR', KEYS[1])
return 1`

func (c *counters) admit(ctx context.Context, req BuyRequest) (admission, error) {
	n, err := c.run(ctx, c.take, []string{c.stockKey(req.Item)})
	return admission(n), err
}

// unused: every request takes, and only the one that made the order may keep it.
func (c *counters) unused(made claim) bool { return !made.fresh }

// returnPlain adds a unit to a counter that is there. A missing one stays
// missing, so that nobody takes 1 for the stock.
const returnPlain = `
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
return redis.call('INCR', KEYS[1])`

// release must not be tried again if its outcome is unknown, but by the reconciler.
func (c *counters) release(ctx context.Context, cart cart) error {
	_, err := c.run(ctx, c.back, []string{c.stockKey(cart.Item)})
	return stores.Failed("returning a unit to Redis", err)
}

func (c *counters) putBack(ctx context.Context, cart cart, _ bool) error {
	return c.release(ctx, cart)
}

func (c *counters) restore(context.Context, redis.Pipeliner, string, []any) {}

// leftovers makes sure that no item has a key yet.
func (c *counters) leftovers(ctx context.Context) error {
	var keys []string
	for _, item := range itemKeys(c.Params) {
		keys = append(keys, c.allKeys(item)...)
	}
	n, err := c.Redis.Exists(ctx, keys...).Result()
	if err != nil {
		return stores.Failed("looking for counters", err)
	}
	if n > 0 {
		return fmt.Errorf("%d keys of the sale are in Redis already under prefix %q", n,
			c.Config.Prefix)
	}
	return nil
}

// refill forgets who took what and sets every counter to the configured
// number of units, in one transaction.
func (c *counters) refill(ctx context.Context) error {
	pipe := c.Redis.TxPipeline()
	for _, item := range itemKeys(c.Params) {
		pipe.Del(ctx, c.allKeys(item)...)
		pipe.Set(ctx, c.stockKey(item), c.Params.Units, 0)
	}
	_, err := pipe.Exec(ctx)
	return stores.Failed("setting the counters", err)
}

// audit reads all counters.
func (c *counters) audit(ctx context.Context) (list []RedisAudit, err error) {
	seen, err := c.look(ctx)
	for i, l := range seen {
		list = append(list, RedisAudit{Item: ItemKey(i + 1), Present: l.Stock != nil, Stock: l.stock(),
			Holds: int64(len(l.Ops))})
	}
	return list, err
}

// tokens is counters with who took a unit and by which operation, so that taking and giving back
// can be repeated without harm. tokens:ITEM is a hash of buyer to operation, followed by a + if
// several requests with the operation's key rely on the token; deadlines:ITEM is a sorted set of
// the buyers of uncommitted tokens by when they lapse, in milliseconds of Redis' clock.
type tokens struct {
	*counters
	// ttl is how long a token may stay uncommitted; 0 is for ever.
	ttl            time.Duration
	own, committed *redis.Script
}

func newTokens(st *opened, ttl time.Duration) *tokens {
	c := newCounters(st)
	c.take, c.back = redis.NewScript(takeToken), redis.NewScript(returnToken)
	return &tokens{c, ttl, redis.NewScript(returnOwn), redis.NewScript(commitToken)}
}

func lasting(st *opened) shelf { return newTokens(st, 0) }

// takeToken takes a unit for operation ARGV[2] of buyer ARGV[1]. If ARGV[3] is positive, the token
// lapses that many milliseconds from now unless it is committed. A request that finds the token
// of its own operation shares it: either may make the order, so neither may give the unit back
// for the other. KEYS[4] says that tokens may be missing: see doubtfulKey.
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

// takeKeys are those of takeToken.
func (t *tokens) takeKeys(item string) []string { return append(t.keys(item), t.doubtfulKey(item)) }

func (t *tokens) admit(ctx context.Context, req BuyRequest) (admission, error) {
	n, err := t.run(ctx, t.take, t.takeKeys(req.Item), req.Buyer, tokenOf(req.OpID),
		t.ttl.Milliseconds())
	return admission(n), err
}

// unused: a token belongs to the order of its operation, whichever request took it and made
// that, for as long as the order has its unit.
func (t *tokens) unused(made claim) bool { return made.closed }

// returnToken gives back what the operation ARGV[2] of buyer ARGV[1] took, once, however often it
// runs. With a fourth key it leaves the mark of repair ARGV[3].
const returnToken = `
local token = redis.call('HGET', KEYS[2], ARGV[1])
if token ~= ARGV[2] and token ~= ARGV[2] .. '+' then return 0 end` + giveBack

// returnOwn is returnToken for a request that no other one shares its token
// with.
const returnOwn = `
if redis.call('HGET', KEYS[2], ARGV[1]) ~= ARGV[2] then return 0 end` + giveBack

const giveBack = `
if KEYS[4] then redis.call('SET', KEYS[4], ARGV[3]) end
redis.call('HDEL', KEYS[2], ARGV[1])
redis.call('ZREM', KEYS[3], ARGV[1])
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
redis.call('INCR', KEYS[1])
return 1`

func (t *tokens) release(ctx context.Context, cart cart) error {
	_, err := t.run(ctx, t.back, t.keys(cart.Item), cart.Buyer, tokenOf(cart.OpID))
	return stores.Failed("returning a unit to Redis", err)
}

func (t *tokens) putBack(ctx context.Context, cart cart, closed bool) error {
	if closed {
		return t.release(ctx, cart)
	}
	_, err := t.run(ctx, t.own, t.keys(cart.Item), cart.Buyer, tokenOf(cart.OpID))
	return stores.Failed("returning an unused unit to Redis", err)
}

func (t *tokens) restore(ctx context.Context, pipe redis.Pipeliner, item string, owners []any) {
	const chunk = 1000
	for rest := owners; len(rest) > 0; rest = rest[min(chunk, len(rest)):] {
		pipe.HSet(ctx, t.tokensKey(item), rest[:min(chunk, len(rest))]...)
	}
}

func tokenOf(op uint64) string { return strconv.FormatUint(op, 10) }

// opOf is the operation of a token, shared or not.
func opOf(token string) (uint64, error) {
	return strconv.ParseUint(strings.TrimSuffix(token, "+"), 10, 64)
}

// offered is how a design keeps stock: in Postgres, and what it offers of it in Redis.
type offered struct {
	stock
	in func(*opened) shelf
}

// sells completes a design whose counters nothing corrects.
func (o offered) sells(v variant) variant {
	v = o.seeded(v, nil)
	v.Needs = []sut.Service{sut.Redis}
	v.State.Pending = o.held
	v.State.Audit = o.auditAfter(reclaimSlack)
	v.State.Ready = func(ctx context.Context, st *opened) error {
		c := newCounters(st)
		if err := c.leftovers(ctx); err != nil {
			return err
		}
		return c.refill(ctx)
	}
	v.State.Reset = func(ctx context.Context, st *opened) error { return newCounters(st).refill(ctx) }
	if _, exempt := v.NotApplicable[RedisDrift]; !exempt {
		v.State.Gauge = func(ctx context.Context, st *opened) (any, error) {
			return newCounters(st).lookAtBoth(ctx)
		}
	}
	v.Roles = append(v.Roles, o.reclaimer(func(st *opened) release { return o.in(st).release }))
	return v
}

// auditAfter reads the ledger, and then Redis.
func (o offered) auditAfter(
	slack func(*opened) time.Duration,
) func(context.Context, *opened) (any, error) {
	return func(ctx context.Context, st *opened) (any, error) {
		a, err := o.audit(ctx, st, slack(st))
		if err == nil {
			a.Redis, err = newCounters(st).audit(ctx)
		}
		return a, err
	}
}

// noKeys says of a plain counter what it cannot promise, beside other reasons.
func noKeys(why map[string]string) map[string]string {
	all := maps.Clone(why)
	all[IdempotentBuy] = "its counter keeps no idempotency keys: once it is empty, a repeated " +
		"request is refused"
	return all
}
