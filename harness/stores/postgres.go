package stores

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"stampede/harness/sut"
)

// Postgres is a pool of connections that bounds every call by a timeout and
// never retries.
type Postgres struct {
	Pool    *pgxpool.Pool
	Timeout time.Duration
}

// openTimeout bounds the making of all connections, of which each is tried for as long as
// an operation would, and then again: nobody waits for it yet.
const openTimeout = 30 * time.Second

// OpenPostgres makes all connections before it returns: the crowd would else
// wait for as many server processes to be forked, which says nothing about a
// design. They are MaxConns, name themselves stampede-NAME, and begin with the
// settings; more of these, such as synchronous_commit, are the caller's, and win.
func OpenPostgres(
	ctx context.Context, cfg sut.Config, name string, more map[string]string,
) (*Postgres, error) {
	db, err := open(ctx, cfg.PostgresURL, cfg, name, more)
	if err != nil {
		return nil, err
	}
	if err := db.warm(ctx, MaxConns(cfg)); err != nil {
		db.Close()
		return nil, fmt.Errorf("connecting to Postgres: %w", err)
	}
	return db, nil
}

// OpenReplica is OpenPostgres of the replica. One that is away is no reason not to begin: its
// connections are made when it is back.
func OpenReplica(
	ctx context.Context, cfg sut.Config, name string, more map[string]string,
) (*Postgres, error) {
	if cfg.ReplicaURL == "" {
		return nil, errors.New("the replica has no URL")
	}
	db, err := open(ctx, cfg.ReplicaURL, cfg, name, more)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, db.Timeout)
	defer cancel()
	_ = db.warm(ctx, MaxConns(cfg))
	return db, nil
}

// open makes a pool that has no connections yet.
func open(
	ctx context.Context, url string, cfg sut.Config, name string, more map[string]string,
) (*Postgres, error) {
	conf, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("reading the Postgres URL: %w", err)
	}
	limit := Timeout(cfg)
	conf.MaxConns = int32(MaxConns(cfg))
	conf.PingTimeout = limit
	conf.ConnConfig.ConnectTimeout = limit
	settings := conf.ConnConfig.RuntimeParams
	settings["application_name"] = "stampede-" + name
	// The server gives up a little before the client does, so that its answer
	// (rolled back, certainly no effect) still arrives.
	settings["statement_timeout"] = strconv.FormatInt(max(1, limit.Milliseconds()*9/10), 10)
	// Plans are made once, while the tables are still small; the indexes are
	// right for what they become.
	settings["plan_cache_mode"] = "force_generic_plan"
	settings["enable_seqscan"] = "off"
	maps.Copy(settings, more)
	pool, err := pgxpool.NewWithConfig(ctx, conf)
	if err != nil {
		return nil, fmt.Errorf("opening a Postgres pool: %w", err)
	}
	return &Postgres{Pool: pool, Timeout: limit}, nil
}

func (db *Postgres) warm(ctx context.Context, n int) error {
	ctx, cancel := context.WithTimeout(ctx, max(db.Timeout, openTimeout))
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	var all sync.WaitGroup
	all.Add(n)
	for range n {
		group.Go(func() error {
			conn, err := db.first(ctx)
			all.Done()
			if err != nil {
				return err
			}
			all.Wait() // so that nobody gets a connection that another has returned
			conn.Release()
			return nil
		})
	}
	return group.Wait()
}

// first makes a connection; where there was no answer in time it tries again.
func (db *Postgres) first(ctx context.Context) (*pgxpool.Conn, error) {
	for {
		conn, err := db.Pool.Acquire(ctx)
		if err == nil || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return conn, err
		}
	}
}

// Close closes the connections, when they are free.
func (db *Postgres) Close() { db.Pool.Close() }

// With runs f on one connection within the timeout. That no connection came
// free, or that none could be made, is told apart from everything later: it
// proves that nothing was sent.
func (db *Postgres) With(ctx context.Context, f func(context.Context, *pgx.Conn) error) error {
	return db.Within(ctx, db.Timeout, f)
}

// Within is With within another time.
func (db *Postgres) Within(
	ctx context.Context, limit time.Duration, f func(context.Context, *pgx.Conn) error,
) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return db.whenever(ctx, f)
}

// whenever is With without a timeout.
func (db *Postgres) whenever(
	ctx context.Context, f func(context.Context, *pgx.Conn) error,
) error {
	conn, err := db.Pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("%w to Postgres: %w", errNoConnection, err)
	}
	defer conn.Release()
	return f(ctx, conn.Conn())
}

// Transaction runs f in one transaction, which is rolled back if f fails.
func (db *Postgres) Transaction(
	ctx context.Context, f func(context.Context, pgx.Tx) error,
) error {
	return db.With(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error { return f(ctx, tx) })
	})
}

// Prepare makes an initial state in one transaction. It takes as long as ctx lets it,
// and is on the disk when it ends, whatever that of the other calls is like.
func (db *Postgres) Prepare(ctx context.Context, f func(context.Context, pgx.Tx) error) error {
	return db.whenever(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `SET LOCAL statement_timeout = 0; SET LOCAL synchronous_commit = on`)
			if err != nil {
				return err
			}
			return f(ctx, tx)
		})
	})
}

// Snapshot reads in one REPEATABLE READ transaction, which takes as long as ctx lets it.
func (db *Postgres) Snapshot(
	ctx context.Context, read func(context.Context, pgx.Tx) error,
) error {
	options := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	return db.whenever(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return pgx.BeginTxFunc(ctx, conn, options, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, `SET LOCAL statement_timeout = 0`); err != nil {
				return err
			}
			return read(ctx, tx)
		})
	})
}

// Preparer returns a pool of one connection, for a library that makes its own tables, on
// the terms of Prepare. The caller closes it.
func (db *Postgres) Preparer(ctx context.Context) (*pgxpool.Pool, error) {
	conf := db.Pool.Config()
	conf.MaxConns, conf.MinConns = 1, 0
	conf.ConnConfig.ConnectTimeout = openTimeout
	conf.ConnConfig.RuntimeParams["statement_timeout"] = "0"
	conf.ConnConfig.RuntimeParams["synchronous_commit"] = "on"
	pool, err := pgxpool.NewWithConfig(ctx, conf)
	if err != nil {
		return nil, fmt.Errorf("opening a Postgres pool: %w", err)
	}
	return pool, nil
}

// Row runs one prepared statement, a transaction of its own, and scans the
// row it returns.
func (db *Postgres) Row(ctx context.Context, sql string, args []any, into ...any) error {
	return db.With(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, sql, args...).Scan(into...)
	})
}

// Exec runs one prepared statement, a transaction of its own, and returns how
// many rows it was about.
func (db *Postgres) Exec(ctx context.Context, sql string, args ...any) (rows int64, err error) {
	err = db.With(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		tag, err := conn.Exec(ctx, sql, args...)
		rows = tag.RowsAffected()
		return err
	})
	return rows, err
}

// Rows runs one prepared statement and calls scan for each row it returns.
func (db *Postgres) Rows(
	ctx context.Context, sql string, args []any, scan func(pgx.CollectableRow) error,
) error {
	return db.With(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return Each(ctx, conn, sql, args, scan)
	})
}

// Collect runs one prepared statement and returns its rows, whose columns go to the fields of a
// structure in their order. Without rows the list is empty, and not nil.
func Collect[T any](
	ctx context.Context, db *Postgres, sql string, args ...any,
) (list []T, err error) {
	err = db.With(ctx, func(ctx context.Context, conn *pgx.Conn) (err error) {
		list, err = CollectOn[T](ctx, conn, sql, args...)
		return err
	})
	return list, err
}

// CollectOn is Collect on a connection or in a transaction.
func CollectOn[T any](ctx context.Context, on Querier, sql string, args ...any) ([]T, error) {
	list := []T{}
	err := Each(ctx, on, sql, args, func(row pgx.CollectableRow) error {
		one, err := pgx.RowToStructByPos[T](row)
		list = append(list, one)
		return err
	})
	return list, err
}

// CollectInto is CollectOn into a list, which is empty and not nil where there is no row.
func CollectInto[T any](ctx context.Context, on Querier, into *[]T, sql string) (err error) {
	*into, err = CollectOn[T](ctx, on, sql)
	return err
}

// Querier is what a connection and a transaction have in common.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Each runs one prepared statement and calls scan for each row it returns.
func Each(
	ctx context.Context, on Querier, sql string, args []any, scan func(pgx.CollectableRow) error,
) error {
	rows, err := on.Query(ctx, sql, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}
