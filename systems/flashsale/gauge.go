package flashsale

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"stampede/harness/stores"
)

// Look is what a gauge saw of the ledger and of Redis, and the body of its
// history.Sample. The two cannot be read at one instant, so the ledger is read
// before and after Redis; see LookItem.Drift.
type Look struct {
	Items []LookItem `json:"items"`
}

// LookItem is one item in a Look.
type LookItem struct {
	Item string `json:"item"`
	// Before and After are the ledger's counts before and after Redis was read.
	Before OrderCounts `json:"before"`
	After  OrderCounts `json:"after"`
	// Present is false if the counter was missing; Stock is then zero.
	Present bool  `json:"present"`
	Stock   int64 `json:"stock"`
	// Tokens counts the reservations that were not committed, Unclaimed those
	// of them for which the ledger had no order even after Redis was read.
	Tokens    int64 `json:"tokens"`
	Unclaimed int64 `json:"unclaimed"`
	// Repair is another text after each repair by the reconciler, and empty
	// before the first one. A purchase that is under way at a repair may reach
	// the ledger with what Redis has given back.
	Repair string `json:"repair,omitempty"`
}

// OrderCounts counts an item's orders. Neither number ever falls: an order is
// never deleted, and one that is closed stays so.
type OrderCounts struct {
	Made   int64 `json:"made"`
	Closed int64 `json:"closed"` // expired or failed; the others have a unit
}

// Drift bounds how many units neither store knew of when Redis was read:
//
//	drift = units - (stock + reservations without an order + active orders)
//
// At that moment no fewer orders had been made than before it and no more than
// after it, and likewise closed; active orders are those made less those
// closed. A reservation without an order afterwards had none then, either; the
// other reservations may have got theirs since, but no more of them than
// orders were made. A drift below zero is a unit that could be sold twice, and
// it is certain only if high is below zero.
func (l *LookItem) Drift(units int64) (low, high int64) {
	made := l.After.Made - l.Before.Made
	least := l.Before.Made - l.After.Closed + l.Unclaimed
	most := l.After.Made - l.Before.Closed + min(l.Tokens, l.Unclaimed+made)
	return units - l.Stock - most, units - l.Stock - least
}

// lookAtBoth reads the ledger, Redis, and the ledger again.
func (c *counters) lookAtBoth(ctx context.Context) (look Look, err error) {
	before, err := orderCounts(ctx, c.DB)
	if err != nil {
		return Look{}, err
	}
	seen, err := c.look(ctx, itemKeys(c.Params))
	if err != nil {
		return Look{}, err
	}
	for _, s := range seen {
		if s.Unclaimed, err = withoutOrder(ctx, c.DB, s.ops); err != nil {
			return Look{}, err
		}
		s.Before = before[s.Item]
		look.Items = append(look.Items, s.LookItem)
	}
	after, err := orderCounts(ctx, c.DB)
	if err != nil {
		return Look{}, err
	}
	for i := range look.Items {
		look.Items[i].After = after[look.Items[i].Item]
	}
	return look, nil
}

// orderCounts counts the orders of each item that has any, in one snapshot.
func orderCounts(ctx context.Context, db *stores.Postgres) (map[string]OrderCounts, error) {
	type row struct {
		Item string
		OrderCounts
	}
	rows, err := stores.Collect[row](ctx, db, `SELECT item, count(*),
		count(*) FILTER (WHERE state NOT IN ('held', 'paid')) FROM orders GROUP BY item`)
	if err != nil {
		return nil, stores.Failed("counting orders", err)
	}
	counts := make(map[string]OrderCounts, len(rows))
	for _, r := range rows {
		counts[r.Item] = r.OrderCounts
	}
	return counts, nil
}

// withoutOrder counts the operations that have not made an order.
func withoutOrder(ctx context.Context, db *stores.Postgres, ops []int64) (n int64, err error) {
	if len(ops) == 0 {
		return 0, nil
	}
	err = db.Row(ctx, `SELECT count(*) FROM unnest($1::bigint[]) AS op
		WHERE NOT EXISTS (SELECT FROM orders WHERE op_id = op)`, []any{ops}, &n)
	return n, stores.Failed("looking for the orders of tokens", err)
}

// redisLook is Redis' part in a LookItem, with the operations of the tokens
// that are not committed.
type redisLook struct {
	LookItem
	ops []int64
}

// lookAll answers, for each four keys of an item, with its stock, its mark of
// repair and the operations of its tokens that are not committed. It changes
// nothing.
const lookAll = `
local items = {}
for i = 1, #KEYS, 4 do
    local ops = {}
    for _, buyer in ipairs(redis.call('ZRANGE', KEYS[i + 2], 0, -1)) do
        local op = redis.call('HGET', KEYS[i + 1], buyer)
        if op then ops[#ops + 1] = op end
    end
    items[#items + 1] = {redis.call('GET', KEYS[i]), redis.call('GET', KEYS[i + 3]), ops}
end
return items`

// look reads all counters at one moment.
func (c *counters) look(ctx context.Context, items []string) ([]redisLook, error) {
	ctx, cancel := context.WithTimeout(ctx, c.limit)
	defer cancel()
	var keys []string
	for _, item := range items {
		keys = append(keys, c.allKeys(item)...)
	}
	rows, err := c.lookAtAll.Run(ctx, c.Redis, keys).Slice()
	if err != nil {
		return nil, stores.Failed("looking at the counters", err)
	}
	if len(rows) != len(items) {
		return nil, fmt.Errorf("looking at the counters: %d answers for %d items",
			len(rows), len(items))
	}
	list := make([]redisLook, len(items))
	for i, item := range items {
		if list[i], err = decodeLook(rows[i]); err != nil {
			return nil, fmt.Errorf("looking at the counter of %s: %w", item, err)
		}
		list[i].Item = item
	}
	return list, nil
}

// decodeLook decodes an element of what lookAll answers.
func decodeLook(row any) (l redisLook, err error) {
	fields, isList := row.([]any)
	if !isList || len(fields) != 3 {
		return l, fmt.Errorf("unexpected answer %v", row)
	}
	if text, present := fields[0].(string); present {
		l.Present = true
		if l.Stock, err = strconv.ParseInt(text, 10, 64); err != nil {
			return l, err
		}
	}
	l.Repair, _ = fields[1].(string)
	ops, isList := fields[2].([]any)
	if !isList {
		return l, errors.New("the tokens are not a list")
	}
	for _, op := range ops {
		text, _ := op.(string)
		id, err := opOf(text)
		if err != nil {
			return l, err
		}
		l.ops = append(l.ops, int64(id))
	}
	l.Tokens = int64(len(l.ops))
	return l, nil
}

// repairMark is another text at each call.
func repairMark() string { return strconv.FormatInt(time.Now().UnixNano(), 36) }
