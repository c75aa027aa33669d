package autocomplete

import (
	"context"
	"sync"

	"stampede/harness/sut"
	"stampede/systems/internal/known"
	"stampede/systems/internal/prefix"
)

// cachedBlocks asks now and then what is blocked. It is wrong.
//
// The idea: trie_top_k, in which a block is answered once it is stored. Every API reads now and
// then what is new, and takes it out of its trie.
//
// The guarantee: a blocked phrase is gone some time later, and suggestions go on while Postgres
// is away.
//
// It gives up: that it is gone when the block is answered.
func cachedBlocks() variant {
	return variant{Name: "cached_blocks",
		Idea:       "trie_top_k, whose APIs read now and then what is blocked",
		Guarantees: "a blocked phrase is gone some time later; suggestions do without Postgres",
		GivesUp:    "that it is gone when the block is answered",
		Breaks:     []sut.Break{{Invariant: NeverBlocked, Under: sut.Load}},
		Open: func(_ context.Context, st *opened) (Suggester, error) {
			return inMemory(st, new(prefix.Trie), now), nil
		},
	}
}

// cache is what was blocked when somebody last looked.
type cache struct {
	*opened
	removed func([]string)
	seq     int64

	mu  sync.Mutex
	all map[string]bool
}

func now(st *opened, removed func([]string)) (blocks, func()) {
	c := &cache{opened: st, removed: removed}
	return c, beside(st, "what is blocked is not read", st.Params.BlockRefresh, c.refresh)
}

// refresh reads what is new.
func (c *cache) refresh(ctx context.Context) error {
	list, err := known.After(ctx, c.DB, c.seq)
	if err != nil || len(list) == 0 {
		return err
	}
	all, phrases := known.With(c.all, list)
	c.removed(phrases)
	c.seq = list[len(list)-1].Seq
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = all
	return nil
}

func (c *cache) blocked(context.Context) (map[string]bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.all, nil
}

func (c *cache) block(ctx context.Context, req BlockRequest) error {
	_, err := keepBlock(ctx, c.opened, req)
	return err
}
