package flashsale

import (
	"context"
	"encoding/json"
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
// At that moment no fewer orders had been made than before it and no more than after it, and
// likewise closed. A reservation without an order afterwards had none then, either; of the others
// no more may have got theirs since than orders were made. Only if high is below zero a unit
// could certainly be sold twice.
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
	seen, err := c.look(ctx)
	if err != nil {
		return Look{}, err
	}
	for i, item := range itemKeys(c.Params) {
		l := LookItem{Item: item, Before: before[item], Present: seen[i].Stock != nil,
			Stock: seen[i].stock(), Tokens: int64(len(seen[i].Ops)), Repair: seen[i].Repair}
		if l.Unclaimed, err = withoutOrder(ctx, c.DB, seen[i].Ops); err != nil {
			return Look{}, err
		}
		look.Items = append(look.Items, l)
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
func withoutOrder(ctx context.Context, db *stores.Postgres, ops []string) (n int64, err error) {
	if len(ops) == 0 {
		return 0, nil
	}
	err = db.Row(ctx, `SELECT count(*) FROM unnest($1::text[]) AS op
		WHERE NOT EXISTS (SELECT FROM orders WHERE op_id = op::bigint)`, []any{ops}, &n)
	return n, stores.Failed("looking for the orders of tokens", err)
}

// redisLook is what Redis has of an item: its counter, its mark of repair, and the operations
// of the tokens that are not committed.
type redisLook struct {
	Stock  *int64   `json:"stock,string"` // nil if there is no counter
	Repair string   `json:"repair"`
	Ops    []string `json:"ops"`
}

func (l redisLook) stock() int64 {
	if l.Stock == nil {
		return 0
	}
	return *l.Stock
}

// lookAll answers with all items, each of which has four keys. It changes nothing.
const lookAll = `
local items = {}
for i = 1, #KEYS, 4 do
    local ops = {}
    for _, buyer in ipairs(redis.call('ZRANGE', KEYS[i + 2], 0, -1)) do
        local token = redis.call('HGET', KEYS[i + 1], buyer)
        if token then ops[#ops + 1] = string.gsub(token, '%+', '') end
    end
    items[#items + 1] = {stock = redis.call('GET', KEYS[i]) or nil,
        repair = redis.call('GET', KEYS[i + 3]) or nil, ops = #ops > 0 and ops or nil}
end
return cjson.encode(items)`

// look reads all counters at one moment.
func (c *counters) look(ctx context.Context) (list []redisLook, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.limit)
	defer cancel()
	var keys []string
	for _, item := range itemKeys(c.Params) {
		keys = append(keys, c.allKeys(item)...)
	}
	text, err := c.lookAtAll.Run(ctx, c.Redis, keys).Text()
	if err == nil {
		err = json.Unmarshal([]byte(text), &list)
	}
	if err == nil && len(list) != c.Params.Items {
		err = fmt.Errorf("%d answers for %d items", len(list), c.Params.Items)
	}
	return list, stores.Failed("looking at the counters", err)
}

// repairMark is another text at each call.
func repairMark() string { return strconv.FormatInt(time.Now().UnixNano(), 36) }
