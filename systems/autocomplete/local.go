package autocomplete

import (
	"context"
	"fmt"
	"sync"
	"time"

	"stampede/harness/stores"
	"stampede/systems/internal/prefix"
)

// ranking orders phrases in memory.
type ranking interface {
	// Prepare makes changes, of which nobody sees anything before publish is called. A score of 0
	// takes a phrase away.
	Prepare(list []prefix.Phrase) (publish func())
	// Best are the first phrases that fit.
	Best(q prefix.Typed) []prefix.Phrase
	Get(phrase string) (prefix.Phrase, bool)
	// Bytes is about how much memory it takes.
	Bytes() int64
}

// local is an index in the memory of an API, which reads the log from its beginning.
type local struct {
	*opened
	log *follower

	writing sync.Mutex // one of the log and of the blocks changes the index

	mu      sync.RWMutex
	removed map[string]bool // changed with both locks
	ranking ranking
	version int64
	users   map[uint64][]string

	until int64         // where the log ended when the API began
	ready chan struct{} // closed once that is in the index
}

// inMemory opens an API with an index in its memory. what knows what is blocked, if it is not nil.
func inMemory(
	st *opened, r ranking, know func(st *opened, removed func([]string)) (blocks, func()),
) *service {
	l := &local{opened: st, log: follow(st), ranking: r,
		removed: map[string]bool{}, users: map[uint64][]string{}, until: -1, ready: make(chan struct{})}
	stopReading := beside(st, "the log is not read", st.Params.ReadEvery, l.read)
	b, stopKnowing := know(st, l.remove)
	return serve(st, l, b, stopReading, stopKnowing, l.log.tail.Close)
}

// read takes in what is in the log.
func (l *local) read(ctx context.Context) error {
	if l.until < 0 {
		end, err := l.log.tail.End(ctx)
		if err != nil {
			return err
		}
		l.until = end
	}
	err := l.log.take(ctx)
	list, users := l.log.changes()
	l.change(list, users, l.log.version)
	if err == nil && l.log.version >= l.until {
		select {
		case <-l.ready:
		default:
			close(l.ready)
		}
	}
	return err
}

// change brings changes to the index, all at once.
func (l *local) change(list []prefix.Phrase, users map[uint64][]string, version int64) {
	l.writing.Lock()
	defer l.writing.Unlock()
	for i := range list {
		if l.removed[list[i].Text] {
			list[i].Score = 0
		}
	}
	publish := l.ranking.Prepare(list)
	l.mu.Lock()
	defer l.mu.Unlock()
	publish()
	l.version = max(l.version, version)
	for user, own := range users {
		l.users[user] = own
	}
}

// remove takes phrases away that are blocked.
func (l *local) remove(phrases []string) {
	list := make([]prefix.Phrase, len(phrases))
	l.writing.Lock()
	l.mu.Lock()
	for i, p := range phrases {
		l.removed[p], list[i].Text = true, p
	}
	l.mu.Unlock()
	l.writing.Unlock()
	l.change(list, nil, 0)
}

// suggest waits until the log is read to where it was when the API began.
func (l *local) suggest(ctx context.Context, q question) (Suggestions, error) {
	select {
	case <-l.ready:
	default:
		if err := l.wait(ctx); err != nil {
			return Suggestions{}, err
		}
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	q.blocked = l.removed // or what is gone would have no score
	own := q.own(l.users[q.user], l.ranking.Get)
	return Suggestions{l.version, merge(own, l.ranking.Best(q.Typed), q.most)}, nil
}

func (l *local) wait(ctx context.Context) error {
	patience := time.NewTimer(stores.Timeout(l.Config) / 2)
	defer patience.Stop()
	select {
	case <-l.ready:
		return nil
	case <-patience.C:
	case <-ctx.Done():
	}
	return fmt.Errorf("%w: the log is still being read", ErrUnavailable)
}

func (l *local) reached(context.Context) (int64, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.version, nil
}

func (l *local) bytes(context.Context) (int64, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.ranking.Bytes(), nil
}
