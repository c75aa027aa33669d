package known_test

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"stampede/harness/env/envtest"
	"stampede/harness/stores"
	"stampede/harness/sut"
	"stampede/systems/internal/known"
)

var shared = envtest.NewShared(sut.Postgres)

func TestMain(m *testing.M) { os.Exit(shared.Run(m)) }

func open(t *testing.T) *stores.Postgres {
	t.Helper()
	space := shared.Namespace(t)
	db, err := stores.OpenPostgres(t.Context(), sut.Config{PostgresURL: space.PostgresURL,
		MaxConns: 4, Timeout: 10 * time.Second}, "known", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	for _, sql := range []string{
		`CREATE TABLE known (seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
			op bigint NOT NULL UNIQUE, text text NOT NULL)`,
		`CREATE TABLE readers (id text PRIMARY KEY, seq bigint NOT NULL, until timestamptz NOT NULL)`,
	} {
		if _, err := db.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	return db
}

// add adds a text, and returns when nobody relies on a set without it.
func add(t *testing.T, db *stores.Postgres, op uint64, text string) {
	t.Helper()
	seq, err := known.Add(t.Context(), db, op, text)
	if err == nil {
		err = known.Wait(t.Context(), db, seq)
	}
	if err != nil {
		t.Fatal(err)
	}
}

const long = time.Hour

// TestLease: what was added is in the set of each process that relies on one; one that sleeps lets
// whoever adds wait until its lease is over, and has no set then.
func TestLease(t *testing.T) {
	db := open(t)
	var learnt atomic.Int64
	renewing := known.NewLease(db, long, func(texts []string) { learnt.Add(int64(len(texts))) })
	renew := func(l *known.Lease) {
		t.Helper()
		if err := l.Renew(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := renewing.Set(t.Context(), time.Millisecond); !errors.Is(err, known.ErrLapsed) {
		t.Errorf("before its first lease a process had a set, or %v", err)
	}
	add(t, db, 1, "a")
	renew(renewing)
	set, err := renewing.Set(t.Context(), time.Millisecond)
	if err != nil || !set["a"] || learnt.Load() != 1 {
		t.Errorf("the set is %v, %v, and %d texts were learnt", set, err, learnt.Load())
	}

	// One process looks while another one waits.
	added := make(chan struct{})
	go func() {
		defer close(added)
		add(t, db, 2, "b")
	}()
	for renew(renewing); learnt.Load() < 2; renew(renewing) {
	}
	<-added
	if set, _ := renewing.Set(t.Context(), time.Millisecond); !set["b"] {
		t.Errorf("b was added, and the set is %v", set)
	}

	const short = 300 * time.Millisecond
	sleeping := known.NewLease(db, short, func([]string) {})
	began := time.Now()
	renew(sleeping)
	if err := renewing.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	add(t, db, 3, "c")
	if took := time.Since(began); took < short {
		t.Errorf("a text was added %v after a lease of %v began that does not have it", took, short)
	}
	if set, err := sleeping.Set(t.Context(), time.Millisecond); err == nil {
		t.Errorf("a process whose lease is over has the set %v", set)
	}
}

// TestAgain: an operation adds its text once, and one that cannot wait leaves open what is known.
func TestAgain(t *testing.T) {
	db := open(t)
	first, err := known.Add(t.Context(), db, 1, "a")
	second, wrong := known.Add(t.Context(), db, 1, "a")
	if err != nil || wrong != nil || first != second {
		t.Errorf("one operation has the numbers %d and %d: %v, %v", first, second, err, wrong)
	}
	behind := known.NewLease(db, long, func([]string) {})
	if err := behind.Renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	seq, err := known.Add(t.Context(), db, 2, "b")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := known.Wait(ctx, db, seq); err == nil || errors.Is(err, sut.ErrRefused) {
		t.Errorf("a process has not looked, and whoever waits for it got %v", err)
	}
}
