// Package known keeps a set of texts in Postgres that every process knows without asking.
package known

import (
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/harness/stores"
	"stampede/harness/sut"
)

// ErrLapsed says that this process has no lease, and does not know what is in the set.
var ErrLapsed = errors.New("the lease has lapsed, and was not renewed")

// Row is a text of the set. Their numbers are in the order of commits.
type Row struct {
	Seq  int64
	Text string
}

// Add adds a text to the set on behalf of an operation, in the table
//
//	known (seq bigint GENERATED ALWAYS AS IDENTITY, op bigint UNIQUE, text text)
//
// A transaction locks the table before it takes a number: who has read up to a number has missed
// nothing before it.
func Add(ctx context.Context, db *stores.Postgres, op uint64, text string) (seq int64, err error) {
	err = db.Transaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `LOCK TABLE known IN EXCLUSIVE MODE`); err != nil {
			return err
		}
		return tx.QueryRow(ctx, `INSERT INTO known (op, text) VALUES ($1, $2)
			ON CONFLICT (op) DO UPDATE SET op = excluded.op RETURNING seq`, op, text).Scan(&seq)
	})
	return seq, stores.Failed("adding to the set", err)
}

// After are the texts after a number.
func After(ctx context.Context, db *stores.Postgres, seq int64) ([]Row, error) {
	return stores.Collect[Row](ctx, db, `SELECT seq, text FROM known WHERE seq > $1 ORDER BY seq`, seq)
}

// With is a set with more texts, and these.
func With(set map[string]bool, list []Row) (next map[string]bool, texts []string) {
	next = map[string]bool{}
	maps.Copy(next, set)
	for _, row := range list {
		next[row.Text] = true
		texts = append(texts, row.Text)
	}
	return next, texts
}

// Lease is what a process knows of the set, for as long as it may rely on that.
//
// A process notes in Postgres up to which number it knows the set, and until when it will rely on
// that. Then it reads what is new, and only then counts on the time. Who adds a text waits until
// each process has noted that it knows, or its time is over. So a reader asks no store, and an
// addition takes until the slowest process has looked, or as long as a lease after one has died.
// A process counts from before it sent its note, by a clock that goes on while it sleeps, and
// stops a quarter of the lease early, for clocks that do not run alike.
//
// The notes are in the table
//
//	readers (id text PRIMARY KEY, seq bigint, until timestamptz)
type Lease struct {
	db   *stores.Postgres
	id   string
	last time.Duration
	// learn is told what is new, before anybody is told that this process knows.
	learn func(texts []string)

	mu    sync.Mutex
	set   map[string]bool // replaced, never changed
	seq   int64
	until time.Time
	later chan struct{} // closed when until is later
}

// NewLease makes a lease that lasts for some time after each Renew. It tells learn what is new.
func NewLease(db *stores.Postgres, last time.Duration, learn func(texts []string)) *Lease {
	return &Lease{db: db, id: rand.Text(), last: last, learn: learn, later: make(chan struct{})}
}

// note says what this process knows.
func (l *Lease) note(ctx context.Context) error {
	_, err := l.db.Exec(ctx, `INSERT INTO readers VALUES ($1, $2, clock_timestamp() + $3::interval)
		ON CONFLICT (id) DO UPDATE SET seq = excluded.seq, until = excluded.until`, l.id, l.seq, l.last)
	return err
}

// Renew takes the lease for another while. One goroutine calls it, several times while a lease
// lasts.
func (l *Lease) Renew(ctx context.Context) error {
	began := time.Now()
	if err := l.note(ctx); err != nil {
		return err
	}
	list, err := After(ctx, l.db, l.seq)
	if err != nil {
		return err
	}
	set, texts := With(l.set, list)
	if len(list) > 0 {
		l.learn(texts)
		l.seq = list[len(list)-1].Seq
	}
	l.mu.Lock()
	l.set, l.until = set, began.Add(l.last*3/4)
	close(l.later)
	l.later = make(chan struct{})
	l.mu.Unlock()
	if len(list) > 0 { // somebody waits
		return l.note(ctx)
	}
	return nil
}

// Release gives the lease up, so that nobody waits for it, and removes those that have run out.
// Nobody may rely on it any more.
func (l *Lease) Release(ctx context.Context) error {
	_, err := l.db.Exec(ctx, `DELETE FROM readers WHERE id = $1 OR until < clock_timestamp()`, l.id)
	return stores.Failed("giving a lease up", err)
}

// Set is what has been added so far. It waits for a lease, for as long as it has patience; the
// error wraps ErrLapsed then.
func (l *Lease) Set(ctx context.Context, patience time.Duration) (map[string]bool, error) {
	var out <-chan time.Time
	for {
		l.mu.Lock()
		set, until, later := l.set, l.until, l.later
		l.mu.Unlock()
		if time.Now().Before(until) {
			return set, nil
		}
		if out == nil {
			timer := time.NewTimer(patience)
			defer timer.Stop()
			out = timer.C
		}
		select {
		case <-later:
		case <-out:
			return nil, ErrLapsed
		case <-ctx.Done():
			return nil, errors.Join(ErrLapsed, ctx.Err())
		}
	}
}

// waitEvery is how often an addition looks whether all processes know.
const waitEvery = 5 * time.Millisecond

// Wait returns once no process relies on a set without a number. Its errors leave open whether one
// does; the text is added already.
func Wait(ctx context.Context, db *stores.Postgres, seq int64) error {
	for sut.Pause(ctx, waitEvery) {
		var left int64
		err := db.Row(ctx, `SELECT count(*) FROM readers WHERE seq < $1 AND until > clock_timestamp()`,
			[]any{seq}, &left)
		if err == nil && left == 0 {
			return nil
		}
		if err != nil {
			return stores.Unknown("waiting until all processes know", err)
		}
	}
	return stores.Unknown("waiting until all processes know", ctx.Err())
}
