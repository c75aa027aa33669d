package autocomplete

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"stampede/harness/design"
	"stampede/harness/stores"
	"stampede/systems/internal/objects"
	"stampede/systems/internal/prefix"
)

// fstSegments publishes a small index, whole.
//
// The idea: a builder reads the log and makes an immutable segment of it now and then: a finite
// state transducer, in which phrases share how they begin and how they end. Its values are how
// much less than the highest score a phrase has, and the transducer adds them up on the way: so
// each transition knows the best phrase behind it, and a search that always follows the best one
// finds them in their order. What a segment does not have, the users' own phrases and which ones
// rise, is a second object. Both are stored, and then a row says that they are the newest; APIs
// load both, and begin to use both at once. What is blocked is left out on the way.
//
// The guarantee: each suggestion is the exact top of one version; APIs begin at once, and their
// memory is a fraction of a trie's. A builder that dies leaves objects that nobody uses.
//
// It gives up: freshness, because a query is counted with the next segment, which is built of all
// phrases again; and time: a suggestion is tens of steps and not one.
func fstSegments() variant {
	return variant{Name: "fst_segments",
		Idea: "a builder makes a transducer of all phrases now and then, and publishes it by a row; " +
			"APIs search it best first",
		Guarantees: "the exact top of one version, in process, in little memory; blocked phrases are " +
			"gone at once",
		GivesUp: "freshness, by the time between two segments, and the work of building each of all " +
			"phrases",
		Roles: []role{builder(publish)},
		State: design.State[Params]{
			Schema: `CREATE TABLE published (version bigint NOT NULL); INSERT INTO published VALUES (0);`},
		Open: func(_ context.Context, st *opened) (Suggester, error) {
			return searching(st, newest), nil
		},
	}
}

// The fail points of a rebuild.
const (
	placeBuilt  = "built"  // a segment is in memory
	placeStored = "stored" // objects are stored, and nobody uses them
)

// builder is the role that builds segments, which publish brings to the APIs.
func builder(publish func(context.Context, *opened, *tally) error) role {
	return role{Name: "builder", Summary: "makes segments of the log",
		Places: []string{placeBuilt, placeStored},
		Step: func(ctx context.Context, st *opened) (time.Duration, error) {
			b, err := design.Keep(st, func() (*building, error) {
				return &building{follow(st), 0}, nil
			})
			if err == nil {
				err = b.build(ctx, publish)
			}
			return st.Params.BuildEvery.D(), err
		}}
}

// building is what a builder has read, and the version that it has published.
type building struct {
	*follower
	published int64
}

// build publishes a segment if there is anything new.
func (b *building) build(
	ctx context.Context, publish func(context.Context, *opened, *tally) error,
) error {
	if err := b.catchUp(ctx); err != nil {
		return err
	}
	if b.version == b.published {
		return nil
	}
	if err := publish(ctx, b.opened, b.tally); err != nil {
		return err
	}
	b.published = b.version
	return nil
}

// The objects of a version; their names are in its order.
func segmentOf(version int64) string   { return fmt.Sprintf("segment-%020d", version) }
func companionOf(version int64) string { return fmt.Sprintf("companion-%020d", version) }

// companion is what a segment does not have: what it was made of, and what is not of one phrase.
type companion struct {
	prefix.Head
	Version int64
	Users   map[uint64][]string
}

// built makes a segment and its companion.
func (t *tally) built() (raw, about []byte, err error) {
	raw, head, err := prefix.Build(t.phrases(slices.Collect(maps.Keys(t.counter.Counts()))))
	if err == nil {
		about, err = json.Marshal(companion{head, t.version, t.own})
	}
	return raw, about, err
}

// loaded is a segment with its companion.
type loaded struct {
	companion
	*prefix.Segment
}

// load opens what was built.
func load(raw, about []byte) (l *loaded, err error) {
	l = new(loaded)
	if err := json.Unmarshal(about, &l.companion); err != nil {
		return nil, fmt.Errorf("reading a companion: %w", err)
	}
	l.Segment, err = prefix.Open(raw, l.companion.Head)
	return l, err
}

// publish stores a segment and its companion, and then says that they are the newest.
func publish(ctx context.Context, st *opened, t *tally) error {
	raw, about, err := t.built()
	if err != nil {
		return err
	}
	st.Config.Passed(placeBuilt)
	store := objects.In(st.DB)
	if err = store.Put(ctx, segmentOf(t.version), raw); err == nil {
		err = store.Put(ctx, companionOf(t.version), about)
	}
	if err != nil {
		return err
	}
	st.Config.Passed(placeStored)
	_, err = st.DB.Exec(ctx, `UPDATE published SET version = $1 WHERE version < $1`, t.version)
	if err != nil {
		return stores.Failed("publishing a segment", err)
	}
	return tidy(ctx, store)
}

// keptObjects is how many segments and companions stay, for APIs that are still loading one.
const keptObjects = 3

// tidy deletes the oldest objects.
func tidy(ctx context.Context, store objects.Store) error {
	for _, prefix := range []string{"segment-", "companion-"} {
		names, err := store.List(ctx, prefix)
		for ; err == nil && len(names) > keptObjects; names = names[1:] {
			err = store.Delete(ctx, names[0])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// segments is the index of an API that loads segments.
type segments struct {
	*opened
	// next loads another segment; nil if there is none.
	next func(context.Context, *segments) (*loaded, error)

	loading sync.Mutex
	now     atomic.Pointer[loaded]
}

// searching opens an API with segments that a function loads.
func searching(
	st *opened, next func(context.Context, *segments) (*loaded, error),
) *service {
	s := &segments{opened: st, next: next}
	stopLoading := beside(st, "no segment is loaded", st.Params.ReadEvery, s.load)
	b, stopKnowing := byLease(st, func([]string) {})
	return serve(st, s, b, stopLoading, stopKnowing)
}

// load loads the next segment.
func (s *segments) load(ctx context.Context) error {
	s.loading.Lock()
	defer s.loading.Unlock()
	found, err := s.next(ctx, s)
	if found != nil {
		s.now.Store(found)
	}
	return err
}

// newest loads what is published, if that is another version.
func newest(ctx context.Context, s *segments) (*loaded, error) {
	var version int64
	if err := s.DB.Row(ctx, `SELECT version FROM published`, nil, &version); err != nil {
		return nil, stores.Failed("looking for a segment", err)
	}
	if now := s.now.Load(); version == 0 || now != nil && now.Version >= version {
		return nil, nil
	}
	store := objects.In(s.DB)
	raw, err := store.Get(ctx, segmentOf(version))
	if err != nil {
		return nil, err
	}
	about, err := store.Get(ctx, companionOf(version))
	if err != nil {
		return nil, err
	}
	return load(raw, about)
}

// suggest searches the segment. An API that has just begun loads one first.
func (s *segments) suggest(ctx context.Context, q question) (Suggestions, error) {
	if s.now.Load() == nil {
		if err := s.load(ctx); err != nil {
			return Suggestions{}, fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
	}
	if now := s.now.Load(); now != nil {
		own := q.own(now.Users[q.user], now.Get)
		return Suggestions{now.Version, merge(own, now.Best(q.Typed, q.blocked), q.most)}, nil
	}
	return Suggestions{Phrases: []Suggestion{}}, nil
}

func (s *segments) reached(context.Context) (int64, error) {
	if now := s.now.Load(); now != nil {
		return now.Version, nil
	}
	return 0, nil
}

func (s *segments) bytes(context.Context) (int64, error) {
	if now := s.now.Load(); now != nil {
		return now.Bytes(), nil
	}
	return 0, nil
}
