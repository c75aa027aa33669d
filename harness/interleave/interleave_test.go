package interleave_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/harness/env/envtest"
	"stampede/harness/interleave"
	"stampede/harness/sut"
)

var stores = envtest.NewShared(sut.Postgres)

func TestMain(m *testing.M) { os.Exit(stores.Run(m)) }

// bank is two accounts of 100 each, which sessions change over traced connections.
type bank struct {
	pool  *pgxpool.Pool
	watch *pgx.Conn
}

func newBank(t *testing.T) *bank {
	t.Helper()
	url := stores.Namespace(t).PostgresURL
	conf, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	conf.ConnConfig.Tracer = interleave.Tracer{}
	// The server ends who has waited for so long when there is a deadlock: of two always the
	// first to wait, unless the second comes later than that.
	conf.ConnConfig.RuntimeParams["deadlock_timeout"] = "1s"
	pool, err := pgxpool.NewWithConfig(t.Context(), conf)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	b := &bank{pool: pool}
	b.watch = b.connect(t, nil)
	_, err = pool.Exec(t.Context(), `CREATE TABLE accounts (id int PRIMARY KEY, sum int)`)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// connect opens a connection of no session, with a tracer if there is one.
func (b *bank) connect(t *testing.T, tracer pgx.QueryTracer) *pgx.Conn {
	t.Helper()
	conf := b.pool.Config().ConnConfig.Copy()
	conf.Tracer = tracer
	conn, err := pgx.ConnectConfig(t.Context(), conf)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// afterQuery is called after each query of a connection.
type afterQuery func()

func (f afterQuery) TraceQueryStart(
	ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData,
) context.Context {
	return ctx
}

func (f afterQuery) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) { f() }

// explore runs sessions from two accounts of 100 each and judges their sums.
func (b *bank) explore(
	t *testing.T, judge func(first, second int, errs []error) error, sessions ...interleave.Session,
) interleave.Result {
	t.Helper()
	result, err := interleave.Explore(t.Context(), b.watch,
		func(ctx context.Context) (interleave.World, error) {
			_, err := b.pool.Exec(ctx, `TRUNCATE accounts`)
			if err == nil {
				_, err = b.pool.Exec(ctx, `INSERT INTO accounts VALUES (1, 100), (2, 100)`)
			}
			return interleave.World{Sessions: sessions,
				Judge: func(ctx context.Context, errs []error) error {
					var first, second int
					err := b.pool.QueryRow(ctx, `SELECT sum, (SELECT sum FROM accounts WHERE id = 2)
						FROM accounts WHERE id = 1`).Scan(&first, &second)
					if err != nil {
						return err
					}
					return judge(first, second, errs)
				}}, err
		})
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// tx is a session of one transaction.
func (b *bank) tx(name string, do func(context.Context, pgx.Tx) error) interleave.Session {
	return interleave.Session{Name: name, Do: func(ctx context.Context) error {
		return pgx.BeginFunc(ctx, b.pool, func(tx pgx.Tx) error { return do(ctx, tx) })
	}}
}

// addTen reads the first account and then writes it.
func addTen(read string) func(context.Context, pgx.Tx) error {
	return func(ctx context.Context, tx pgx.Tx) error {
		var sum int
		if err := tx.QueryRow(ctx, read).Scan(&sum); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `UPDATE accounts SET sum = $1 WHERE id = 1`, sum+10)
		return err
	}
}

func twenty(first, _ int, errs []error) error {
	if first != 120 {
		return fmt.Errorf("%d after adding ten twice", first)
	}
	return errors.Join(errs...)
}

// TestSixOrders: two sessions of two statements each have six orders.
func TestSixOrders(t *testing.T) {
	b := newBank(t)
	two := func(name string, id int) interleave.Session {
		return interleave.Session{Name: name, Do: func(ctx context.Context) error {
			for range 2 {
				if _, err := b.pool.Exec(ctx, `UPDATE accounts SET sum = sum + 1 WHERE id = $1`,
					id); err != nil {
					return err
				}
			}
			return nil
		}}
	}
	var orders []string
	result := b.explore(t, func(first, second int, errs []error) error {
		if first != 102 || second != 102 {
			return fmt.Errorf("%d and %d", first, second)
		}
		return errors.New("tell the order")
	}, two("a", 1), two("b", 2))
	for _, v := range result.Violations {
		if v.Err.Error() != "tell the order" {
			t.Error(v)
		}
		var names strings.Builder
		for _, statement := range v.Order {
			names.WriteByte(statement[0])
		}
		orders = append(orders, names.String())
	}
	want := []string{"aabb", "abab", "abba", "baab", "baba", "bbaa"}
	if result.Orders != 6 || !slices.Equal(orders, want) {
		t.Errorf("%d orders: %v, want %v", result.Orders, orders, want)
	}
}

// TestLostUpdate: whoever reads and then writes loses what another has written in
// between; whoever locks what it reads does not, in any order.
func TestLostUpdate(t *testing.T) {
	b := newBank(t)
	const read = `SELECT sum FROM accounts WHERE id = 1`
	result := b.explore(t, twenty, b.tx("a", addTen(read)), b.tx("b", addTen(read)))
	if n := len(result.Violations); n == 0 || n == result.Orders {
		t.Errorf("%d of %d orders lose an update", n, result.Orders)
	} else if text := result.Violations[0].String(); !strings.Contains(text, "110 after adding") ||
		!strings.Contains(text, "a: "+read) {
		t.Errorf("the first one: %s", text)
	}
	result = b.explore(t, twenty, b.tx("a", addTen(read+` FOR UPDATE`)),
		b.tx("b", addTen(read+` FOR UPDATE`)))
	if len(result.Violations) > 0 || result.Orders < 2 {
		t.Errorf("of %d orders these are wrong: %v", result.Orders, result.Violations)
	}
}

// TestDeadlock: where everybody waits for everybody the server ends one of them, and
// the others go on.
func TestDeadlock(t *testing.T) {
	b := newBank(t)
	move := func(from, to int) func(context.Context, pgx.Tx) error {
		return func(ctx context.Context, tx pgx.Tx) error {
			for _, id := range []int{from, to} {
				if _, err := tx.Exec(ctx, `UPDATE accounts SET sum = sum + 1 WHERE id = $1`,
					id); err != nil {
					return err
				}
			}
			return nil
		}
	}
	deadlocks := 0
	result := b.explore(t, func(first, second int, errs []error) error {
		switch failed := errors.Join(errs...); {
		case failed == nil && first == 102 && second == 102:
			return nil
		case failed != nil && strings.Contains(failed.Error(), "deadlock") && first == 101 &&
			second == 101:
			deadlocks++
			return nil
		default:
			return fmt.Errorf("%d and %d after %w", first, second, failed)
		}
	}, b.tx("a", move(1, 2)), b.tx("b", move(2, 1)))
	if len(result.Violations) > 0 || deadlocks == 0 {
		t.Errorf("%d deadlocks in %d orders; wrong: %v", deadlocks, result.Orders, result.Violations)
	}
}

// TestForeignLock: a lock that no session has, as an autovacuum takes it now and then,
// only takes time. It is let go when the search has looked at who waits for it.
func TestForeignLock(t *testing.T) {
	b := newBank(t)
	foreign, eye, looks := b.connect(t, nil), b.connect(t, nil), 0
	b.watch = b.connect(t, afterQuery(func() {
		waiting := false
		err := eye.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_locks
			WHERE $1 = ANY (pg_blocking_pids(pid)))`, int32(foreign.PgConn().PID())).Scan(&waiting)
		if err != nil {
			t.Error(err)
		}
		if !waiting {
			return
		}
		if looks++; looks%3 == 0 {
			if _, err := foreign.Exec(t.Context(), `COMMIT`); err != nil {
				t.Error(err)
			}
		}
	}))
	add := func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE accounts SET sum = sum + 10 WHERE id = 1`)
		return err
	}
	locked := func(ctx context.Context, tx pgx.Tx) error {
		if _, err := foreign.Exec(ctx, `BEGIN; LOCK TABLE accounts`); err != nil {
			return err
		}
		return add(ctx, tx)
	}
	alone := b.explore(t, twenty, b.tx("a", add), b.tx("b", add))
	result := b.explore(t, twenty, b.tx("a", locked), b.tx("b", add))
	if len(result.Violations) > 0 || result.Orders != alone.Orders || looks < result.Orders {
		t.Errorf("%d orders instead of %d after %d looks, of which these are wrong: %v",
			result.Orders, alone.Orders, looks, result.Violations)
	}
}

// TestSearchesThatCannotEnd are given up with an error.
func TestSearchesThatCannotEnd(t *testing.T) {
	b := newBank(t)
	fresh := func(sessions ...interleave.Session) func(context.Context) (interleave.World, error) {
		return func(context.Context) (interleave.World, error) {
			return interleave.World{Sessions: sessions,
				Judge: func(context.Context, []error) error { return nil }}, nil
		}
	}
	statements := func(n func() int) interleave.Session {
		return interleave.Session{Name: "s", Do: func(ctx context.Context) error {
			for range n() {
				if _, err := b.pool.Exec(ctx, `SELECT 1`); err != nil {
					return err
				}
			}
			return nil
		}}
	}
	calls := 0
	fickle := statements(func() int { calls++; return 2 - calls%2 })
	steady := statements(func() int { return 2 })
	_, err := interleave.Explore(t.Context(), b.watch, fresh(fickle, steady))
	if err == nil || !strings.Contains(err.Error(), "took other steps") {
		t.Errorf("a session that does not repeat itself: %v", err)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	stopper := interleave.Session{Name: "s", Do: func(context.Context) error {
		cancel()
		<-cancelled.Done()
		return nil
	}}
	if _, err := interleave.Explore(cancelled, b.watch, fresh(stopper)); !errors.Is(err,
		context.Canceled) {
		t.Errorf("a search that was cancelled: %v", err)
	}
	broken := errors.New("no beginning")
	_, err = interleave.Explore(t.Context(), b.watch,
		func(context.Context) (interleave.World, error) { return interleave.World{}, broken })
	if !errors.Is(err, broken) {
		t.Errorf("no fresh beginning: %v", err)
	}
}
