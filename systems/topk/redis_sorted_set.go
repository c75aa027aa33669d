package topk

import (
	"context"
	_ "embed" // the script
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"stampede/harness/stores"
	"stampede/harness/sut"
	"stampede/systems/internal/partitions"
	"stampede/systems/internal/sketch"
)

// redisSortedSet keeps a sorted set for each window.
//
// The idea: a member for each key with its count as the score, which all workers raise. One script
// raises the counts of a flush and moves the partition's offset on, or does nothing if the offset
// is another one. The top is ZREVRANGE.
//
// The guarantee: exact counts. Offsets and counts are lost together with Redis' memory, or its
// last second with the power; workers find that and count the log again from there.
//
// It gives up: memory, which grows with the number of keys, and of Redis, for which all workers
// queue.
func redisSortedSet() variant {
	return counted(variant{
		Name:       "redis_sorted_set",
		Idea:       "a sorted set for each window, and the offsets, changed by one script",
		Guarantees: "exact counts, which are rebuilt from the log if Redis loses them",
		GivesUp:    "memory for each key, in Redis, where all workers queue",
		Needs:      []sut.Service{sut.Redis},
	}, plan{
		summary: summary{empty: func(Params) sketch.Sketch { return sketch.NewExact() },
			fold: merging((*sketch.Exact).Merge), contract: func(Params) Contract { return Contract{} }},
		ledger: func(st *opened, _ summary) ledger { return sortedSets{st} },
	})
}

//go:embed redis_sorted_set.lua
var lua string

// sortedSets are the windows in Redis. A worker's summary of a pane has only what is not stored.
type sortedSets struct{ *opened }

func (r sortedSets) set(window int64) string { return r.Key(fmt.Sprint("window:", window)) }

// member is the name of a key: the highest first, so that of equal scores the lowest key is last,
// and ZREVRANGE has it first.
func member(key uint64) string { return fmt.Sprintf("%016x", math.MaxUint64-key) }

func (r sortedSets) start(ctx context.Context) (map[int32]int64, error) {
	return partitions.StartsInRedis(ctx, r.Redis, r.Key("progress"))
}

// field names a pane.
func field(window int64, shard int32) string { return fmt.Sprintf("%d:%d", window, shard) }

func (r sortedSets) load(ctx context.Context, shard int32, window int64) (*pane, error) {
	p := newPane(window, shard, sketch.NewExact())
	raw, err := r.Redis.HGet(ctx, r.Key("panes"), field(window, shard)).Result()
	if errors.Is(err, redis.Nil) {
		return p, nil
	}
	if err == nil {
		err = p.read([]byte(raw))
	}
	return p, stores.Failed("reading a pane", err)
}

func (r sortedSets) store(
	ctx context.Context, shard int32, from, to int64, panes []*pane,
) error {
	ctx, cancel := context.WithTimeout(ctx, stores.Timeout(r.Config))
	defer cancel()
	names := []string{r.Key("progress"), r.Key("panes"), r.Key("events")}
	args := []any{shard, from, to}
	for _, p := range panes {
		raw, err := p.rest()
		if err != nil {
			return err
		}
		added := p.keys.(*sketch.Exact)
		names = append(names, r.set(p.window))
		args = append(args, field(p.window, shard), raw, p.window, added.Total(), added.Keys())
		added.Each(func(key, count uint64) { args = append(args, count, member(key)) })
	}
	moved, err := redis.NewScript(lua).Run(ctx, r.Redis, names, args...).Int()
	if err == nil && moved == 0 {
		err = fmt.Errorf("partition %d is not at offset %d: %w", shard, from, partitions.ErrMoved)
	}
	if err != nil {
		return stores.Failed("storing counts", err)
	}
	for _, p := range panes {
		p.keys = sketch.NewExact()
	}
	r.Config.Passed(placeStored)
	return nil
}

func (r sortedSets) top(ctx context.Context, from, to int64, k int) ([]TopItem, int64, error) {
	var names, windows []string
	for window := from; window <= to; window++ {
		names = append(names, r.set(window))
		windows = append(windows, strconv.FormatInt(window, 10))
	}
	// In one transaction: no count may be from after the number of events.
	both := r.Redis.TxPipeline()
	sums := both.HMGet(ctx, r.Key("events"), windows...)
	list := both.ZRevRangeWithScores(ctx, names[0], 0, int64(k)-1)
	if len(names) > 1 {
		list = both.ZUnionWithScores(ctx, redis.ZStore{Keys: names})
	}
	if _, err := both.Exec(ctx); err != nil {
		return nil, 0, stores.Failed("reading the top", err)
	}
	total := int64(0)
	for _, sum := range sums.Val() {
		text, _ := sum.(string) // nil of a window without events
		n, _ := strconv.ParseInt(text, 10, 64)
		total += n
	}
	found, err := counts(list.Val())
	if err != nil {
		return nil, 0, err
	}
	return topOf(found, k), total, nil
}

// counts are the members of a set.
func counts(list []redis.Z) (*sketch.Exact, error) {
	e := sketch.NewExact()
	for _, z := range list {
		name, _ := z.Member.(string)
		inverse, err := strconv.ParseUint(name, 16, 64)
		if err != nil {
			return nil, stores.Failed("reading a member", err)
		}
		e.Raise(math.MaxUint64-inverse, uint64(z.Score))
	}
	return e, nil
}

func (r sortedSets) windows(ctx context.Context, see func(*pane, int) error) error {
	found, err := r.Redis.HGetAll(ctx, r.Key("panes")).Result()
	byWindow := map[int64][]string{}
	for name := range found {
		text, _, _ := strings.Cut(name, ":")
		window, wrong := strconv.ParseInt(text, 10, 64)
		byWindow[window], err = append(byWindow[window], name), errors.Join(err, wrong)
	}
	if err != nil {
		return stores.Failed("reading all panes", err)
	}
	for _, window := range sortedKeys(byWindow) {
		slices.Sort(byWindow[window])
		merged := newPane(window, -1, nil)
		for _, name := range byWindow[window] {
			p := newPane(window, -1, sketch.NewExact())
			if err := errors.Join(p.read([]byte(found[name])), merged.absorb(p)); err != nil {
				return err
			}
		}
		list, err := r.Redis.ZRangeWithScores(ctx, r.set(window), 0, -1).Result()
		if err != nil {
			return stores.Failed("reading a window", err)
		}
		if merged.keys, err = counts(list); err != nil {
			return err
		}
		// Of the set in Redis, not of what workers had not stored.
		if merged.bytes, err = r.Redis.MemoryUsage(ctx, r.set(window), 0).Result(); err != nil {
			return stores.Failed("asking for the size of a window", err)
		}
		if err := see(merged, len(byWindow[window])); err != nil {
			return err
		}
	}
	return nil
}
