package sqlbroker

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"stampede/harness/sut"
)

// What a Config means where it says nothing.
const (
	defaultMaxConns = 16
	defaultTimeout  = 5 * time.Second
)

func maxConns(cfg sut.Config) int {
	if cfg.MaxConns > 0 {
		return cfg.MaxConns
	}
	return defaultMaxConns
}

func timeout(cfg sut.Config) time.Duration {
	if cfg.Timeout > 0 {
		return cfg.Timeout
	}
	return defaultTimeout
}

// database is a pool of connections that bounds every call by a timeout and
// never retries.
type database struct {
	pool    *pgxpool.Pool
	timeout time.Duration
}

// openDatabase makes all connections. The tracer is nil but in tests.
func openDatabase(
	ctx context.Context, cfg sut.Config, conns int, tracer pgx.QueryTracer,
) (*database, error) {
	conf, err := pgxpool.ParseConfig(cfg.PostgresURL)
	if err != nil {
		return nil, fmt.Errorf("reading the Postgres URL: %w", err)
	}
	limit := timeout(cfg)
	conf.MaxConns = int32(conns)
	conf.PingTimeout = limit
	conf.ConnConfig.Tracer = tracer
	conf.ConnConfig.ConnectTimeout = limit
	settings := conf.ConnConfig.RuntimeParams
	settings["application_name"] = "stampede-sqlbroker"
	// The server gives up a little before the client does, so that its answer
	// (rolled back, certainly no effect) still arrives.
	settings["statement_timeout"] = strconv.FormatInt(max(1, limit.Milliseconds()*9/10), 10)
	// Plans are made once, while the tables are still small; the indexes are
	// right for what they become.
	settings["plan_cache_mode"] = "force_generic_plan"
	settings["enable_seqscan"] = "off"
	pool, err := pgxpool.NewWithConfig(ctx, conf)
	if err != nil {
		return nil, fmt.Errorf("opening a Postgres pool: %w", err)
	}
	db := &database{pool: pool, timeout: limit}
	if err := db.warm(ctx, conns); err != nil {
		pool.Close()
		return nil, fmt.Errorf("connecting to Postgres: %w", err)
	}
	return db, nil
}

// warm makes all connections before the first message comes: a crowd would else
// wait for as many server processes to be forked, which says nothing about a
// design.
func (db *database) warm(ctx context.Context, n int) error {
	ctx, cancel := context.WithTimeout(ctx, db.timeout)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	var all sync.WaitGroup
	all.Add(n)
	for range n {
		group.Go(func() error {
			conn, err := db.pool.Acquire(ctx)
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

// with runs f on one connection within the timeout. That no connection came
// free, or that none could be made, is told apart from everything later: it
// proves that nothing was sent.
func (db *database) with(ctx context.Context, f func(context.Context, *pgx.Conn) error) error {
	return db.within(ctx, db.timeout, f)
}

func (db *database) within(
	ctx context.Context, limit time.Duration, f func(context.Context, *pgx.Conn) error,
) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	conn, err := db.pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("%w to Postgres: %w", errNoConnection, err)
	}
	defer conn.Release()
	return f(ctx, conn.Conn())
}

// row runs one prepared statement, a transaction of its own, and scans the
// row it returns.
func (db *database) row(ctx context.Context, sql string, args []any, into ...any) error {
	return db.with(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, sql, args...).Scan(into...)
	})
}

// querier is what a connection and a transaction have in common.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// exec runs one prepared statement, a transaction of its own, and returns how many
// rows it touched.
func (db *database) exec(ctx context.Context, sql string, args ...any) (rows int64, err error) {
	err = db.with(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		tag, err := conn.Exec(ctx, sql, args...)
		rows = tag.RowsAffected()
		return err
	})
	return rows, err
}

// rows runs one prepared statement, a transaction of its own, and calls scan for each
// row that it returns.
func (db *database) rows(
	ctx context.Context, sql string, args []any, scan func(pgx.CollectableRow) error,
) error {
	return db.with(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return each(ctx, conn, sql, args, scan)
	})
}

// begin runs f in a transaction. Its error is that of f, or of the commit.
func (db *database) begin(ctx context.Context, f func(context.Context, pgx.Tx) error) error {
	return db.with(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error { return f(ctx, tx) })
	})
}

// each calls scan for each row that a statement returns.
func each(
	ctx context.Context, on querier, sql string, args []any, scan func(pgx.CollectableRow) error,
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
