package views

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// ruleBook keeps the versions of the rules that were loaded, and loads them
// again every while.
type ruleBook struct {
	books books
	every time.Duration
	log   *slog.Logger
	now   func() time.Time

	mu      sync.Mutex // held while loading
	state   sync.RWMutex
	sets    map[int64]*ruleSet
	newest  *ruleSet
	loaded  time.Time
	authors map[string]string
}

func newRuleBook(b books, p Params, log *slog.Logger) *ruleBook {
	return &ruleBook{books: b, every: p.clock(p.RulesReload), log: log, now: time.Now,
		sets: make(map[int64]*ruleSet)}
}

// latest returns the newest rules as of a while ago. One caller in a while
// waits for them to be loaded; if that fails, those that are known stay.
func (b *ruleBook) latest(ctx context.Context) (*ruleSet, error) {
	newest, loaded := b.known()
	if newest != nil && b.now().Sub(loaded) < b.every {
		return newest, nil
	}
	if newest == nil {
		b.mu.Lock()
	} else if !b.mu.TryLock() {
		return newest, nil
	}
	defer b.mu.Unlock()
	if newest, loaded = b.known(); newest != nil && b.now().Sub(loaded) < b.every {
		return newest, nil
	}
	err := b.load(ctx)
	newest, _ = b.known()
	if err != nil && newest != nil {
		b.log.Warn("views goes on with the rules that it has", "version", newest.Version,
			"error", err)
		return newest, nil
	}
	return newest, err
}

func (b *ruleBook) known() (*ruleSet, time.Time) {
	b.state.RLock()
	defer b.state.RUnlock()
	return b.newest, b.loaded
}

// version returns one version, which is loaded if it is not known.
func (b *ruleBook) version(ctx context.Context, version int64) (*ruleSet, error) {
	if set := b.set(version); set != nil {
		return set, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if set := b.set(version); set != nil {
		return set, nil
	}
	if err := b.load(ctx); err != nil {
		return nil, err
	}
	set := b.set(version)
	if set == nil {
		return nil, fmt.Errorf("there is no version %d of the rules", version)
	}
	return set, nil
}

func (b *ruleBook) set(version int64) *ruleSet {
	b.state.RLock()
	defer b.state.RUnlock()
	return b.sets[version]
}

// load reads the versions that are not known, and once who made which video.
func (b *ruleBook) load(ctx context.Context) error {
	above := int64(0)
	if newest, _ := b.known(); newest != nil {
		above = newest.Version
	}
	list, err := b.books.rules(ctx, above)
	if err != nil {
		return err
	}
	if b.authors == nil {
		if b.authors, err = b.books.creators(ctx); err != nil {
			return err
		}
	}
	b.state.Lock()
	defer b.state.Unlock()
	for _, rules := range list {
		set := newRuleSet(rules)
		b.sets[set.Version], b.newest = set, set
	}
	if b.newest == nil {
		return fmt.Errorf("there are no rules")
	}
	b.loaded = b.now()
	return nil
}

// creator says who made a video, once rules were loaded.
func (b *ruleBook) creator(video string) (name string, known bool) {
	name, known = b.authors[video]
	return name, known
}
