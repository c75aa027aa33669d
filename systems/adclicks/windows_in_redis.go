package adclicks

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"stampede/harness/stores"
	"stampede/harness/sut"
)

//go:embed windows_in_redis.lua
var windowsInRedisLua string

// The hashes of a partition in Redis, by their number among the keys of the script.
const (
	hashSeen    = 2
	hashFarms   = 3
	hashWindows = 4
)

// windowsInRedis keeps windows in Redis.
//
// The idea: what a partition remembers and its windows are in Redis, and so is its offset. Every
// flush stores what has changed by one script that does nothing if the offset has moved. The script
// also appends what is to be copied to Postgres to a list; it is copied, and removed afterwards.
// Whoever takes a partition over reads it from Redis.
//
// The guarantee: as long as the log keeps the clicks everything is decided exactly once. A Redis
// that forgets its last second forgets the offset of that second too, and comes to the same again.
//
// It gives up: memory, and a second copy of all results.
func windowsInRedis() variant {
	return streaming(variant{
		Name:       "windows_in_redis",
		Idea:       "windows, dedup and offsets in Redis, changed by one script; results are copied",
		Guarantees: "each click is decided exactly once, also if Redis forgets its last second",
		GivesUp:    "memory of Redis, and a copy of all results",
		Needs:      []sut.Service{sut.Redis},
	}, aggregatorRole(func(a *aggregator) {
		a.load, a.store = loadRedis, storeRedis
	}))
}

// redisKeys are the keys of a partition.
func redisKeys(st *opened, part int32) []string {
	var keys []string
	for _, name := range []string{"offsets", "seen", "farms", "windows", "ages", "outbox"} {
		keys = append(keys, st.Key(fmt.Sprintf("%s:%d", name, part)))
	}
	return keys
}

// copied is an entry of the outbox.
type copied struct {
	From      int64      `json:"from"`
	Next      int64      `json:"next"`
	MaxMS     int64      `json:"max_ms"`
	Decisions []decision `json:"decisions"`
	Windows   []named    `json:"windows"`
}

// named is a window with its name.
type named struct {
	Campaign string `json:"campaign"`
	Ad       string `json:"ad"`
	StartMS  int64  `json:"start_ms"`
	sums
}

func (n *named) key() windowKey { return windowKey{n.Campaign, n.Ad, n.StartMS} }

// loadRedis takes partitions over as they are in Redis, when what that has for Postgres is copied.
func loadRedis(
	ctx context.Context, st *opened, numbers []int32,
) (map[int32]*partition, error) {
	list := map[int32]*partition{}
	for _, n := range numbers {
		if err := copyOut(ctx, st, n); err != nil {
			return nil, err
		}
		keys := redisKeys(st, n)
		var offsets *redis.SliceCmd
		var hashes [hashWindows + 1]*redis.MapStringStringCmd
		_, err := st.Redis.TxPipelined(ctx, func(tx redis.Pipeliner) error {
			offsets = tx.HMGet(ctx, keys[0], "next", "max_ms")
			for h := hashSeen; h <= hashWindows; h++ {
				hashes[h] = tx.HGetAll(ctx, keys[h-1])
			}
			return nil
		})
		p := newPartition(n, st.Params.rules())
		if err == nil {
			p.from, p.decider.maxMS = number(offsets.Val()[0]), number(offsets.Val()[1])
			p.read, p.decider.next = p.from, p.from
			err = p.recall(hashes[hashSeen].Val(), hashes[hashFarms].Val(), hashes[hashWindows].Val())
		}
		if err != nil {
			return nil, fmt.Errorf("reading the state of partition %d: %w", n, err)
		}
		list[n] = p
	}
	return list, nil
}

// recall takes what the hashes have.
func (p *partition) recall(seen, farms, windows map[string]string) error {
	for click, end := range seen {
		p.decider.seen[click] = number(end)
	}
	for field, n := range farms {
		var k farmKey
		if _, err := fmt.Sscanf(field, farmFormat, &k.window, &k.campaign, &k.ad, &k.ip); err != nil {
			return fmt.Errorf("the field %q: %w", field, err)
		}
		p.decider.from[k] = int(number(n))
	}
	for _, value := range windows {
		var w named
		if err := json.Unmarshal([]byte(value), &w); err != nil {
			return err
		}
		p.windows[w.key()] = &w.sums
	}
	return nil
}

// storeRedis stores what was decided in Redis, and copies it.
func storeRedis(ctx context.Context, st *opened, list []*partition) error {
	for _, p := range list {
		if err := p.storeInRedis(ctx, st); err != nil {
			return err
		}
		if err := copyOut(ctx, st, p.number); err != nil {
			return err
		}
	}
	return nil
}

// farmFormat is that of a field, whatever characters are in a name.
const farmFormat = "%d %q %q %q"

func farmField(k farmKey) string {
	return fmt.Sprintf(farmFormat, k.window, k.campaign, k.ad, k.ip)
}

// number reads a number that Redis has, 0 if it has none.
func number(v any) int64 {
	text, _ := v.(string)
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// storeInRedis stores what was decided, if the partition has not moved on meanwhile.
func (p *partition) storeInRedis(ctx context.Context, st *opened) error {
	d := p.decider
	entry := copied{From: p.from, Next: d.next, MaxMS: d.maxMS, Decisions: p.pending}
	oldest := d.maxMS - d.lateness - d.horizon
	args := []any{p.from, d.next, d.maxMS, oldest, nil}
	for _, k := range p.windows.dirty() {
		s := p.windows[k]
		if err := s.seal(); err != nil {
			return err
		}
		w := named{k.campaign, k.ad, k.startMS, *s}
		value, err := json.Marshal(w)
		if err != nil {
			return fmt.Errorf("encoding a window: %w", err)
		}
		entry.Windows = append(entry.Windows, w)
		args = append(args, hashWindows, k.startMS+d.window,
			fmt.Sprintf("%d %q %q", k.startMS, k.campaign, k.ad), value)
	}
	for i := range p.pending {
		c := &p.pending[i]
		farm, end := c.farm(), c.WindowMS+d.window
		if c.counts() {
			args = append(args, hashFarms, end, farmField(farm), d.from[farm])
		}
		if c.counts() || c.Verdict == fraud {
			args = append(args, hashSeen, end, c.Click, end)
		}
	}
	body, err := json.Marshal(entry)
	if err != nil {
		return fmt.Errorf("encoding what is to be copied: %w", err)
	}
	args[4] = body
	moved, err := redis.NewScript(windowsInRedisLua).
		Run(ctx, st.Redis, redisKeys(st, p.number), args...).Int()
	if err == nil && moved == 0 {
		err = errFenced
	}
	if err != nil {
		return fmt.Errorf("storing partition %d in Redis: %w", p.number, err)
	}
	return nil
}

// copyOut copies what is in the outbox of a partition to Postgres.
func copyOut(ctx context.Context, st *opened, part int32) error {
	outbox := redisKeys(st, part)[5]
	for {
		body, err := st.Redis.LIndex(ctx, outbox, 0).Result()
		if errors.Is(err, redis.Nil) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading the outbox: %w", err)
		}
		var c copied
		if err := json.Unmarshal([]byte(body), &c); err != nil {
			return fmt.Errorf("an entry of the outbox cannot be read: %w", err)
		}
		if err := c.store(ctx, st, part); err != nil {
			return err
		}
		// This entry, whoever else removes it too.
		if err := st.Redis.LRem(ctx, outbox, 1, body).Err(); err != nil {
			return fmt.Errorf("removing an entry of the outbox: %w", err)
		}
	}
}

// store stores what Postgres has not got yet. A Redis that went back decides the same clicks in
// other batches.
func (c *copied) store(ctx context.Context, st *opened, part int32) error {
	p := newPartition(part, st.Params.rules())
	p.pending, p.read, p.decider.next, p.decider.maxMS = c.Decisions, c.Next, c.Next, c.MaxMS
	for i := range c.Windows {
		w := &c.Windows[i]
		w.dirty = true
		p.windows[w.key()] = &w.sums
	}
	err := st.DB.Transaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		err := tx.QueryRow(ctx, `SELECT next_offset FROM progress WHERE part = $1 FOR UPDATE`, part).
			Scan(&p.from)
		switch {
		case err != nil || p.from >= c.Next:
			return err
		case p.from < c.From:
			return fmt.Errorf("clicks %d to %d of partition %d are missing", p.from, c.From, part)
		}
		if err := p.moveOn(ctx, tx); err != nil {
			return err
		}
		return p.write(ctx, tx)
	})
	return stores.Failed("copying results to Postgres", err)
}
