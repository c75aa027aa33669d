package flashsale

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"stampede/harness/stores"
	"stampede/harness/sut"
)

const (
	// reconcileEvery is how often the reconciler compares Redis and ledger.
	reconcileEvery = 250 * time.Millisecond
	// settleBatch bounds the lapsed tokens of one item settled in one look.
	settleBatch = 500
)

// reconciler is the role that keeps Redis in line with the ledger. For each
// item, drift = units - (stock in Redis + held + paid in the ledger):
//
//   - A missing counter, as after Redis lost its data, is rebuilt at once.
//     Until then the sale of the item is paused, because no variant sells
//     from a missing counter.
//   - A positive drift is what purchases under way have taken from Redis and
//     not yet from the ledger, or a leak. It is a leak when neither side has
//     moved for longer than a purchase takes.
//   - A negative drift that is seen twice in a row is Redis offering too much,
//     as after it came back with an old state.
//   - Where Redis offers a unit too many, one buyer after the other may reserve
//     it and be refused by the ledger: there is always one on the way, and the
//     drift as above looks like none. Where reservations have tokens, those
//     without an order are counted too.
//
// A purchase that took a unit of the old counter may reach the ledger after
// the rebuild has read it, which makes the new counter too high. That cannot
// oversell, because the ledger refuses what it does not have; the negative
// drift is seen by the next look. Its token is missing until then, so for some
// time after a repair buyers are told "sold out" by the ledger (doubtfulKey). So
// that a gauge can tell this from a fault, each repair leaves a mark.
func (d design) reconciler() sut.Role {
	return sut.Role{
		Name:    "reconciler",
		Summary: "rebuilds the counters in Redis from the ledger when they are lost or drift",
		Places:  []string{placeCompared},
		Run: func(ctx context.Context, cfg sut.Config) error {
			r := &reconciliation{mismatches: map[string]mismatch{}}
			return d.run(ctx, cfg, "reconciler", r.look)
		},
	}
}

// reconciliation remembers what looked wrong at the last look.
type reconciliation struct{ mismatches map[string]mismatch }

// mismatch is an item whose counter and ledger disagreed.
type mismatch struct {
	stock, active int64
	since         time.Time // neither has changed since
}

// balance is what both sides say of an item.
type balance struct {
	item          string
	present       bool
	stock, active int64
	drift         int64
	uncommitted   int64
}

// left is what there is to reconcile of an item.
func (l balance) left() int64 {
	if !l.present {
		return 1
	}
	return max(l.drift, -l.drift) + l.uncommitted
}

// balances reads the ledger first and Redis second, so that a purchase between
// the two readings makes the drift look too positive, never too negative.
func (b *backend) balances(ctx context.Context) ([]balance, error) {
	ctx, cancel := context.WithTimeout(ctx, stores.Timeout(b.cfg))
	defer cancel()
	active, err := b.books.active(ctx)
	if err != nil {
		return nil, err
	}
	redis, err := b.redis.audit(ctx, itemKeys(b.params))
	if err != nil {
		return nil, err
	}
	list := make([]balance, len(redis))
	for i, r := range redis {
		n := active[r.Item]
		list[i] = balance{
			item: r.Item, present: r.Present, stock: r.Stock, active: n,
			drift: int64(b.params.Units) - r.Stock - n, uncommitted: r.Holds,
		}
	}
	return list, nil
}

// unreconciled says what the reconciler has still to do, or "".
func (b *backend) unreconciled(ctx context.Context) (string, error) {
	balances, err := b.balances(ctx)
	if err != nil {
		return "", err
	}
	for _, l := range balances {
		switch {
		case !l.present:
			return fmt.Sprintf("%s has no counter in Redis", l.item), nil
		case l.drift != 0:
			return fmt.Sprintf("%s has %d in Redis and %d active orders: drift %d",
				l.item, l.stock, l.active, l.drift), nil
		case l.uncommitted != 0:
			return fmt.Sprintf("%s has %d tokens that are not settled", l.item, l.uncommitted), nil
		}
	}
	return "", nil
}

// placeCompared is where both sides have been read and nothing is repaired.
const placeCompared = "compared"

// look compares both sides once and repairs what is certainly wrong.
func (r *reconciliation) look(b *backend, ctx context.Context) (time.Duration, error) {
	if b.redis.ttl > 0 {
		if err := b.settleLapsed(ctx); err != nil {
			return 0, err
		}
	}
	balances, err := b.balances(ctx)
	if err != nil {
		return 0, err
	}
	b.cfg.Passed(placeCompared)
	excess, err := b.excess(ctx)
	if err != nil {
		return 0, err
	}
	for _, l := range balances {
		if !r.wrong(l, time.Now(), patience(b.cfg)) && !excess[l.item] {
			continue
		}
		if err := b.rebuild(ctx, l.item); err != nil {
			return 0, err
		}
		b.cfg.Logger.Info("flashsale reconciler rebuilt a counter", "item", l.item,
			"present", l.present, "stock", l.stock, "active", l.active, "drift", l.drift)
		delete(r.mismatches, l.item)
	}
	return reconcileEvery, nil
}

// excess is the items of which more units are in Redis, reservations included,
// and in the ledger than there are, for certain. Without tokens it is empty.
func (b *backend) excess(ctx context.Context) (map[string]bool, error) {
	if b.redis.ttl == 0 {
		return nil, nil
	}
	look, err := b.lookAtBoth(ctx)
	if err != nil {
		return nil, err
	}
	items := make(map[string]bool)
	for i := range look.Items {
		_, high := look.Items[i].Drift(int64(b.params.Units))
		items[look.Items[i].Item] = high < 0
	}
	return items, nil
}

// wrong decides whether an item's counter must be rebuilt. See reconciler.
func (r *reconciliation) wrong(l balance, now time.Time, patience time.Duration) bool {
	if !l.present {
		return true
	}
	if l.drift == 0 {
		delete(r.mismatches, l.item)
		return false
	}
	before, known := r.mismatches[l.item]
	if known && l.drift < 0 {
		return true
	}
	if known && before.stock == l.stock && before.active == l.active {
		return now.Sub(before.since) > patience
	}
	r.mismatches[l.item] = mismatch{stock: l.stock, active: l.active, since: now}
	return false
}

// rebuild replaces all that Redis has of an item by what the ledger says, in
// one transaction of Redis: nobody sees a counter without its tokens.
func (b *backend) rebuild(ctx context.Context, item string) error {
	ctx, cancel := context.WithTimeout(ctx, stores.Timeout(b.cfg))
	defer cancel()
	owners := []any{}
	err := b.books.db.Rows(ctx, `SELECT buyer, op_id FROM orders
		WHERE item = $1 AND state IN ('held', 'paid')`, []any{item},
		func(row pgx.CollectableRow) error {
			var buyer string
			var op int64
			err := row.Scan(&buyer, &op)
			owners = append(owners, buyer, tokenOf(uint64(op)))
			return err
		})
	if err != nil {
		return stores.Failed("reading the owners of "+item, err)
	}
	c := b.redis
	pipe := c.rdb.TxPipeline()
	pipe.Del(ctx, c.keys(item)...)
	pipe.Set(ctx, c.stockKey(item), c.units-int64(len(owners)/2), 0)
	pipe.Set(ctx, c.repairKey(item), repairMark(), 0)
	pipe.Set(ctx, c.doubtfulKey(item), 1, c.doubt)
	if c.kind.tokens {
		const chunk = 1000
		for rest := owners; len(rest) > 0; rest = rest[min(chunk, len(rest)):] {
			pipe.HSet(ctx, c.tokensKey(item), rest[:min(chunk, len(rest))]...)
		}
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return stores.Failed("rebuilding the counter of "+item, err)
	}
	return nil
}

// settleLapsed decides every token whose time is up by what the ledger says
// of its operation: an order that has a unit keeps it, anything else returns
// it to the counter.
func (b *backend) settleLapsed(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stores.Timeout(b.cfg))
	defer cancel()
	now, err := b.redis.rdb.Time(ctx).Result()
	if err != nil {
		return stores.Failed("reading the clock of Redis", err)
	}
	for _, item := range itemKeys(b.params) {
		carts, err := b.redis.lapsed(ctx, item, now)
		if err != nil {
			return err
		}
		for _, c := range carts {
			if err := b.settle(ctx, c); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *backend) settle(ctx context.Context, c cart) error {
	var active bool
	err := b.books.db.Row(ctx, `SELECT EXISTS (
		SELECT FROM orders WHERE op_id = $1 AND state IN ('held', 'paid'))`,
		[]any{int64(c.OpID)}, &active)
	switch {
	case err != nil:
		return stores.Failed("looking for the order of a lapsed token", err)
	case active:
		return b.redis.commit(ctx, c)
	default:
		return b.redis.revoke(ctx, c)
	}
}

// lapsed lists tokens of an item that were not committed in time. A deadline
// without a token is removed.
func (c *counters) lapsed(ctx context.Context, item string, now time.Time) ([]cart, error) {
	buyers, err := c.rdb.ZRangeArgs(ctx, redis.ZRangeArgs{
		Key: c.deadlinesKey(item), ByScore: true, Start: "-inf", Stop: now.UnixMilli(),
		Count: settleBatch,
	}).Result()
	if err != nil {
		return nil, stores.Failed("listing lapsed tokens", err)
	}
	var list []cart
	for _, buyer := range buyers {
		token, err := c.rdb.HGet(ctx, c.tokensKey(item), buyer).Result()
		next := cart{Item: item, Buyer: buyer}
		if errors.Is(err, redis.Nil) {
			err = c.rdb.ZRem(ctx, c.deadlinesKey(item), buyer).Err()
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

// commitToken makes the token of operation ARGV[2] of buyer ARGV[1] last.
const commitToken = `
local token = redis.call('HGET', KEYS[2], ARGV[1])
if token ~= ARGV[2] and token ~= ARGV[2] .. '+' then return 0 end
return redis.call('ZREM', KEYS[3], ARGV[1])`

// commit ends the time limit of a token: its unit is in the ledger.
func (c *counters) commit(ctx context.Context, cart cart) error {
	_, err := c.run(ctx, c.script.commitToken, c.keys(cart.Item),
		cart.Buyer, tokenOf(cart.OpID))
	if err != nil {
		return stores.Failed("committing a token", err)
	}
	return nil
}
