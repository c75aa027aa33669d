package stores_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/harness/env/envtest"
	"stampede/harness/stores"
	"stampede/harness/sut"
)

var places = envtest.NewShared(sut.Postgres)

func TestMain(m *testing.M) { os.Exit(places.Run(m)) }

// TestSlowToOpen: connections are made though one of them is not answered in time; where
// nobody listens that is told at once.
func TestSlowToOpen(t *testing.T) {
	direct, err := url.Parse(places.Namespace(t).PostgresURL)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var relays sync.WaitGroup
	relays.Go(func() {
		silent, err := listener.Accept()
		for err == nil {
			var client, server net.Conn
			if client, err = listener.Accept(); err != nil {
				break
			}
			if server, err = net.Dial("tcp", direct.Host); err != nil {
				t.Error(err)
				break
			}
			relays.Go(func() { _, _ = io.Copy(server, client); server.Close() })
			relays.Go(func() { _, _ = io.Copy(client, server); client.Close() })
		}
		if silent != nil {
			silent.Close()
		}
	})
	relayed := *direct
	relayed.Host = listener.Addr().String()
	cfg := sut.Config{MaxConns: 1, PostgresURL: relayed.String(), Timeout: 300 * time.Millisecond}
	db, err := stores.OpenPostgres(t.Context(), cfg, "test", nil)
	if err != nil {
		t.Error(err)
	} else {
		db.Close()
	}
	listener.Close()
	relays.Wait()
	if _, err := stores.OpenPostgres(t.Context(), cfg, "test", nil); !errors.Is(err,
		syscall.ECONNREFUSED) {
		t.Errorf("opened where nobody listens: %v", err)
	}
}

// patiently repeats what needs a new connection: on a busy machine that may take longer than an
// operation may.
func patiently(do func() error) (err error) {
	for range 20 {
		if err = do(); !errors.Is(err, context.DeadlineExceeded) {
			break
		}
	}
	return err
}

// TestPrepare: an initial state may take longer than an operation, and is flushed where
// operations are not; what comes after it is as it was, and what fails leaves nothing.
func TestPrepare(t *testing.T) {
	db, err := stores.OpenPostgres(t.Context(), sut.Config{MaxConns: 1,
		PostgresURL: places.Namespace(t).PostgresURL, Timeout: 200 * time.Millisecond},
		"test", map[string]string{"synchronous_commit": "off"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	const tooLong = `SELECT pg_sleep(0.4)`
	settings := func(on stores.Querier) (commit, timeout string) {
		err := stores.Each(t.Context(), on, `SELECT current_setting('synchronous_commit'),
			current_setting('statement_timeout')`, nil, func(row pgx.CollectableRow) error {
			return row.Scan(&commit, &timeout)
		})
		if err != nil {
			t.Error(err)
		}
		return commit, timeout
	}
	failed := errors.New("failed")
	for _, end := range []error{failed, nil} {
		err := db.Prepare(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
			if commit, timeout := settings(tx); commit != "on" || timeout != "0" {
				t.Errorf("prepared with synchronous_commit %s, statement_timeout %s", commit, timeout)
			}
			if _, err := tx.Exec(ctx, `CREATE TABLE made (); `+tooLong); err != nil {
				return err
			}
			return end
		})
		if !errors.Is(err, end) {
			t.Errorf("prepared: %v, want %v", err, end)
		}
	}
	pool, err := db.Preparer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if commit, timeout := settings(pool); commit != "on" || timeout != "0" {
		t.Errorf("a preparer's synchronous_commit is %s, its statement_timeout %s", commit, timeout)
	}
	if _, err := pool.Exec(t.Context(), tooLong); err != nil {
		t.Errorf("a preparer: %v", err)
	}
	if _, err := db.Exec(t.Context(), tooLong); err == nil {
		t.Error("an operation took longer than it may")
	}
	err = patiently(func() error {
		return db.With(t.Context(), func(_ context.Context, conn *pgx.Conn) error {
			if commit, timeout := settings(conn); commit != "off" || timeout != "180ms" {
				t.Errorf("afterwards synchronous_commit is %s, statement_timeout %s", commit, timeout)
			}
			return nil
		})
	})
	if err != nil {
		t.Error(err)
	}
	cancelled, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err = db.Prepare(cancelled, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, tooLong)
		return err
	})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a preparation that took longer than it may: %v", err)
	}
}

// TestSnapshot: what is read in one is of one moment, and may take longer than an operation.
func TestSnapshot(t *testing.T) {
	db, err := stores.OpenPostgres(t.Context(), sut.Config{MaxConns: 2,
		PostgresURL: places.Namespace(t).PostgresURL, Timeout: 200 * time.Millisecond}, "test", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	if _, err := db.Exec(t.Context(), `CREATE TABLE rows AS SELECT 1 AS n, 'one' AS name`); err != nil {
		t.Fatal(err)
	}
	type row struct {
		N    int
		Name string
	}
	err = db.Snapshot(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
		for range 2 {
			list, err := stores.CollectOn[row](ctx, tx, `SELECT n, name FROM rows, pg_sleep(0.3)`)
			if err != nil || len(list) != 1 || list[0] != (row{1, "one"}) {
				t.Errorf("the snapshot has %v, %v", list, err)
			}
			if _, err := db.Exec(ctx, `INSERT INTO rows VALUES (2, 'two')`); err != nil {
				return err
			}
		}
		_, err := tx.Exec(ctx, `INSERT INTO rows VALUES (3, 'three')`)
		return err
	})
	if err == nil {
		t.Error("a snapshot was written to")
	}
	if list, err := stores.Collect[row](t.Context(), db, `SELECT * FROM rows`); len(list) != 3 {
		t.Errorf("after the snapshot there are %v, %v", list, err)
	}
}
