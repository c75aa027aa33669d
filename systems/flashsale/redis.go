package flashsale

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"stampede/harness/stores"
	"stampede/harness/sut"
)

// counterKind is what a design keeps in Redis.
type counterKind struct {
	// counts: the stock of each item.
	counts bool
	// tokens: beside the stock, who took a unit of it and by which operation,
	// so that taking and giving back can be repeated without harm.
	tokens bool
	// tokenTTL, if not nil, is how long a token may stay uncommitted.
	tokenTTL func(Params, sut.Config) time.Duration
	// reconciled: a role rebuilds all of it from the ledger.
	reconciled bool
	// silentRetries leaves the driver's own retries on.
	silentRetries bool
}

// counters is a design's part in Redis. Its keys are, after the prefix:
// stock:ITEM, a number; tokens:ITEM, a hash of buyer to operation, followed by
// a + if several requests with the operation's key rely on the token;
// deadlines:ITEM, a sorted set of the buyers of uncommitted tokens by the
// time, in milliseconds of Redis' clock, at which they lapse; repair:ITEM, a
// mark that is another one after each repair by the reconciler; and
// doubtful:ITEM, which is there for some time after one.
type counters struct {
	rdb    *redis.Client
	kind   counterKind
	prefix string
	limit  time.Duration
	ttl    time.Duration
	// doubt is how long after a repair an order may have no token.
	doubt  time.Duration
	units  int64
	items  map[string]bool
	script scripts
}

// scripts are hashed once, here, and sent by their hash.
type scripts struct {
	takePlain, takeToken, takeForgetful *redis.Script
	returnPlain, returnToken, returnOwn *redis.Script
	commitToken, lookAll                *redis.Script
}

func newScripts() scripts {
	return scripts{
		takePlain: redis.NewScript(takePlain), takeToken: redis.NewScript(takeToken),
		takeForgetful: redis.NewScript(takeForgetful),
		returnPlain:   redis.NewScript(returnPlain), returnToken: redis.NewScript(returnToken),
		returnOwn:   redis.NewScript(returnOwn),
		commitToken: redis.NewScript(commitToken), lookAll: redis.NewScript(lookAll),
	}
}

func openCounters(
	ctx context.Context, cfg sut.Config, p Params, kind counterKind,
) (*counters, error) {
	var changes []func(*redis.Options)
	if kind.silentRetries {
		changes = append(changes, silentRetries)
	}
	rdb, err := stores.OpenRedis(ctx, cfg, changes...)
	if err != nil {
		return nil, err
	}
	c := &counters{
		rdb: rdb, kind: kind, prefix: cfg.Prefix,
		limit: stores.Timeout(cfg), units: int64(p.Units), items: map[string]bool{},
		doubt:  4 * (patience(cfg) + reconcileEvery),
		script: newScripts(),
	}
	for _, item := range itemKeys(p) {
		c.items[item] = true
	}
	if kind.tokenTTL != nil {
		c.ttl = kind.tokenTTL(p, cfg)
	}
	return c, nil
}

// silentRetries makes the driver what it is by default: it repeats what it has
// no answer to, up to three times, and nobody is told.
func silentRetries(opts *redis.Options) {
	opts.MaxRetries = 0 // the driver's default
	opts.ReadTimeout /= 4
}

func (c *counters) close() error {
	if err := c.rdb.Close(); err != nil {
		return fmt.Errorf("closing the Redis client: %w", err)
	}
	return nil
}

func (c *counters) stockKey(item string) string     { return c.prefix + "stock:" + item }
func (c *counters) tokensKey(item string) string    { return c.prefix + "tokens:" + item }
func (c *counters) deadlinesKey(item string) string { return c.prefix + "deadlines:" + item }

func (c *counters) repairKey(item string) string { return c.prefix + "repair:" + item }

// keys are those that buyers use.
func (c *counters) keys(item string) []string {
	return []string{c.stockKey(item), c.tokensKey(item), c.deadlinesKey(item)}
}

// doubtfulKey is there while an order may have no token: its purchase was under way when the
// counter was rebuilt or its token revoked, and the next rebuild has not found it yet. An
// acknowledged request that comes again must not be told "sold out" meanwhile; the ledger
// knows it.
func (c *counters) doubtfulKey(item string) string { return c.prefix + "doubtful:" + item }

// takeKeys are those of takeToken.
func (c *counters) takeKeys(item string) []string {
	return append(c.keys(item), c.doubtfulKey(item))
}

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
	return script.Run(ctx, c.rdb, keys, args...).Int64()
}

// returnPlain adds a unit to a counter that is there. A missing one stays
// missing, so that nobody takes 1 for the stock.
const returnPlain = `
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
return redis.call('INCR', KEYS[1])`

// returnToken gives back what the operation ARGV[2] of buyer ARGV[1] took. It
// does so once, however often it runs: the token is what it gives back. With
// a fourth key it leaves the mark of repair ARGV[3].
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

// release returns a unit to the counter. If the outcome is unknown it must
// not be tried again (but by the reconciler), unless the design has tokens.
func (c *counters) release(ctx context.Context, cart cart) error {
	if !c.kind.counts {
		return nil
	}
	var err error
	if c.kind.tokens {
		_, err = c.run(ctx, c.script.returnToken, c.keys(cart.Item),
			cart.Buyer, tokenOf(cart.OpID))
	} else {
		_, err = c.run(ctx, c.script.returnPlain, []string{c.stockKey(cart.Item)})
	}
	if err != nil {
		return stores.Failed("returning a unit to Redis", err)
	}
	return nil
}

// putBack returns a unit that a request has taken and the ledger has refused
// to it. The unit of an order that is closed by now goes back whoever took it.
func (c *counters) putBack(ctx context.Context, cart cart, closed bool) error {
	if !c.kind.tokens || closed {
		return c.release(ctx, cart)
	}
	_, err := c.run(ctx, c.script.returnOwn, c.keys(cart.Item), cart.Buyer, tokenOf(cart.OpID))
	if err != nil {
		return stores.Failed("returning an unused unit to Redis", err)
	}
	return nil
}

// revoke returns a token of which nobody knows whether its purchase has died.
func (c *counters) revoke(ctx context.Context, cart cart) error {
	err := c.rdb.Set(ctx, c.doubtfulKey(cart.Item), 1, c.doubt).Err()
	if err == nil {
		_, err = c.run(ctx, c.script.returnToken, c.allKeys(cart.Item),
			cart.Buyer, tokenOf(cart.OpID), repairMark())
	}
	if err != nil {
		return stores.Failed("returning a lapsed token", err)
	}
	return nil
}

func tokenOf(op uint64) string { return strconv.FormatUint(op, 10) }

// opOf is the operation of a token, shared or not.
func opOf(token string) (uint64, error) {
	return strconv.ParseUint(strings.TrimSuffix(token, "+"), 10, 64)
}

// empty makes sure that none of the items has a key yet.
func (c *counters) empty(ctx context.Context, items []string) error {
	var keys []string
	for _, item := range items {
		keys = append(keys, c.allKeys(item)...)
	}
	n, err := c.rdb.Exists(ctx, keys...).Result()
	if err != nil {
		return stores.Failed("looking for counters", err)
	}
	if n > 0 {
		return fmt.Errorf("%d keys of the sale are in Redis already under prefix %q", n, c.prefix)
	}
	return nil
}

// prepare sets every counter to the configured number of units.
func (c *counters) prepare(ctx context.Context, items []string) error {
	if !c.kind.counts {
		return nil
	}
	pipe := c.rdb.TxPipeline()
	for _, item := range items {
		pipe.Set(ctx, c.stockKey(item), c.units, 0)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return stores.Failed("setting the counters", err)
	}
	return nil
}

// audit reads all counters in one transaction.
func (c *counters) audit(ctx context.Context, items []string) ([]RedisAudit, error) {
	pipe := c.rdb.TxPipeline()
	stocks := make([]*redis.StringCmd, len(items))
	holds := make([]*redis.IntCmd, len(items))
	for i, item := range items {
		stocks[i] = pipe.Get(ctx, c.stockKey(item))
		holds[i] = pipe.ZCard(ctx, c.deadlinesKey(item))
	}
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return nil, stores.Failed("auditing Redis", err)
	}
	list := make([]RedisAudit, len(items))
	for i, item := range items {
		stock, err := stocks[i].Int64()
		if err != nil && !errors.Is(err, redis.Nil) {
			return nil, fmt.Errorf("auditing Redis: the counter of %s: %w", item, err)
		}
		list[i] = RedisAudit{Item: item, Present: err == nil, Stock: stock, Holds: holds[i].Val()}
	}
	return list, nil
}
