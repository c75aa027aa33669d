package telemetry

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/harness/sut"
)

// postgresSQL asks for all at once, by the statistics views alone. What the asking
// connection does itself is left out but for its transaction.
const postgresSQL = `
SELECT d.xact_commit::float8, d.xact_rollback::float8, d.deadlocks::float8,
	pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::float8,
	(SELECT coalesce(sum(n_dead_tup), 0)::float8 FROM pg_stat_user_tables),
	s.running::float8, s.lock::float8, s.light::float8, s.disk::float8, s.idle::float8
FROM pg_stat_database d, (
	SELECT count(*) FILTER (WHERE state = 'active' AND wait_event_type IS NULL) AS running,
		count(*) FILTER (WHERE state = 'active' AND wait_event_type = 'Lock') AS lock,
		count(*) FILTER (WHERE state = 'active' AND wait_event_type IN ('LWLock', 'BufferPin'))
			AS light,
		count(*) FILTER (WHERE state = 'active' AND wait_event_type = 'IO') AS disk,
		count(*) FILTER (WHERE state LIKE 'idle in transaction%') AS idle
	FROM pg_stat_activity
	WHERE datname = current_database() AND pid <> pg_backend_pid()
) s
WHERE d.datname = current_database()`

// locksSQL counts locks by mode, but for those that every transaction has on itself. A
// row's lock is its transaction's, for which others wait in the mode Share.
const locksSQL = `
SELECT replace(l.mode, 'Lock', ''), count(*) FILTER (WHERE l.granted)::float8,
	count(*) FILTER (WHERE NOT l.granted)::float8
FROM pg_locks l JOIN pg_stat_activity a USING (pid)
WHERE a.datname = current_database() AND pid <> pg_backend_pid() AND l.locktype <> 'virtualxid'
GROUP BY l.mode
ORDER BY l.mode`

// Postgres is the database of a URL, on the server that is at an address now: it may be
// at another one after a fault. It is asked over one connection of its own.
func Postgres(url string, addr func() string) Source {
	return &postgres{url: url, addr: addr, granted: []string{"RowExclusive"},
		waiting: []string{"Share"}}
}

type postgres struct {
	url  string
	addr func() string
	conn *pgx.Conn // nil while there is none
	// granted and waiting are the modes of locks that are told of: what writing takes
	// and what waits for a row, and the others from when there was one.
	granted, waiting []string
}

func (*postgres) Name() string { return string(sut.Postgres) }

func (p *postgres) Read(ctx context.Context) ([]Value, error) {
	if p.conn == nil {
		if err := p.connect(ctx); err != nil {
			return nil, err
		}
	}
	values := []Value{
		{Quantity: "transactions", Part: "committed", Unit: "/s", Counts: true},
		{Quantity: "transactions", Part: "rolled back", Unit: "/s", Counts: true},
		{Quantity: "deadlocks", Unit: "/s", Counts: true},
		{Quantity: "WAL", Unit: "bytes/s", Counts: true},
		{Quantity: "dead rows", Unit: "rows"},
		{Quantity: "sessions", Part: "running", Unit: "sessions"},
		{Quantity: "sessions", Part: "waiting for a lock", Unit: "sessions"},
		{Quantity: "sessions", Part: "waiting for an internal lock", Unit: "sessions"},
		{Quantity: "sessions", Part: "waiting for the disk", Unit: "sessions"},
		{Quantity: "sessions", Part: "idle in a transaction", Unit: "sessions"},
	}
	into := make([]any, len(values))
	for i := range values {
		into[i] = &values[i].Amount
	}
	if err := p.conn.QueryRow(ctx, postgresSQL).Scan(into...); err != nil {
		p.Close()
		return nil, fmt.Errorf("asking Postgres for its statistics: %w", err)
	}
	locks, err := p.locks(ctx)
	if err != nil {
		p.Close()
		return nil, fmt.Errorf("asking Postgres for its locks: %w", err)
	}
	return append(values, locks...), nil
}

// locks counts the locks that are held and waited for, by mode.
func (p *postgres) locks(ctx context.Context) ([]Value, error) {
	rows, err := p.conn.Query(ctx, locksSQL)
	if err != nil {
		return nil, err
	}
	granted, waiting := map[string]float64{}, map[string]float64{}
	var mode string
	var held, wanted float64
	_, err = pgx.ForEachRow(rows, []any{&mode, &held, &wanted}, func() error {
		granted[mode], waiting[mode] = held, wanted
		if held > 0 && !slices.Contains(p.granted, mode) {
			p.granted = append(p.granted, mode)
		}
		if wanted > 0 && !slices.Contains(p.waiting, mode) {
			p.waiting = append(p.waiting, mode)
		}
		return nil
	})
	var values []Value
	for _, mode := range p.granted {
		values = append(values, Value{Quantity: "locks granted", Part: mode, Unit: "locks",
			Amount: granted[mode]})
	}
	for _, mode := range p.waiting {
		values = append(values, Value{Quantity: "locks waited for", Part: mode, Unit: "locks",
			Amount: waiting[mode]})
	}
	return values, err
}

func (p *postgres) connect(ctx context.Context) error {
	conf, err := pgx.ParseConfig(p.url)
	if err != nil {
		return fmt.Errorf("reading the Postgres URL: %w", err)
	}
	conf.RuntimeParams["application_name"] = "stampede-telemetry"
	conf.RuntimeParams["default_transaction_read_only"] = "on"
	conf.DialFunc = dialer(p.addr)
	if p.conn, err = pgx.ConnectConfig(ctx, conf); err != nil {
		return fmt.Errorf("connecting to Postgres: %w", err)
	}
	return nil
}

// Close implements Source. The next Read connects again.
func (p *postgres) Close() {
	if p.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = p.conn.Close(ctx) // nothing was written
	p.conn = nil
}
