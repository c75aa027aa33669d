package textsearch

import (
	"context"
	"sync"
	"time"

	"stampede/harness/sut"
	"stampede/systems/textsearch/index"
)

// staleReader is memory, whose searches take turns with two snapshots.
//
// The idea: to make a snapshot costs something, so two readers keep one each, and take another one
// now and then, each at its own time. Two searches of one client go to two readers, and the
// second one may be of an earlier generation than the first.
//
// The guarantee: each answer is exact and of one generation.
//
// It gives up: that a client who has seen a change, or made it, sees it the next time.
func staleReader() variant {
	return served(variant{Name: "stale_reader",
		Idea:       "memory, with two readers that keep a snapshot each and renew it now and then",
		Guarantees: "each answer is exact, and of one generation",
		GivesUp:    "that a client who has seen or made a change sees it the next time",

		KeepsFiles: true, Places: []string{index.PlaceLogged}, NotApplicable: noSegments(),
		Breaks: []sut.Break{{Invariant: NeverBack, Under: sut.Load}},
	}, func(st *opened) engine { return &readers{segmented: newSegmented(st, inMemory)} })
}

// renewEvery is how old the snapshot of each reader becomes.
func renewEvery() [2]time.Duration { return [2]time.Duration{200 * time.Millisecond, time.Second} }

// readers search snapshots that they keep.
type readers struct {
	*segmented

	mu   sync.Mutex
	turn int
	kept [2]reader
}

// reader is a snapshot of an index, and when it was taken.
type reader struct {
	of *index.Index
	*index.Snapshot
	taken time.Time
}

// search asks the reader whose turn it is.
func (r *readers) search(ctx context.Context, req SearchRequest) (found Found, err error) {
	err = r.use(ctx, func(x *index.Index) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.turn = 1 - r.turn
		one := &r.kept[r.turn]
		if one.of != x || time.Since(one.taken) > renewEvery()[r.turn] {
			*one = reader{x, x.Snapshot(), time.Now()}
		}
		found = foundIn(one.Snapshot, req)
		return nil
	})
	return found, err
}
