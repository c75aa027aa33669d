package admin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"stampede/harness/env"
	"stampede/harness/sut"
)

// Postgres administers one Postgres server.
type Postgres struct {
	// URL names a database where the user may administer; it is asked for
	// at each call, because a restarted container may change its port.
	URL func() string
}

var _ Store = Postgres{}

// connect opens a connection to the database of the URL, at another address
// than its own when addr is set.
func (p Postgres) connect(ctx context.Context, addr string) (*pgx.Conn, error) {
	cfg, err := pgx.ParseConfig(p.URL())
	if err != nil {
		return nil, fmt.Errorf("read the URL of postgres: %w", err)
	}
	if addr != "" {
		host, port, err := splitAddr(addr)
		if err != nil {
			return nil, err
		}
		cfg.Host, cfg.Port, cfg.Fallbacks = host, port, nil
	}
	// One round trip a statement, and nothing prepared behind our back.
	cfg.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("connect to postgres at %s:%d: %w", cfg.Host, cfg.Port, err)
	}
	return conn, nil
}

func splitAddr(addr string) (string, uint16, error) {
	host, text, err := net.SplitHostPort(addr)
	if err != nil {
		return "", 0, fmt.Errorf("address %q: %w", addr, err)
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return "", 0, fmt.Errorf("address %q: %w", addr, err)
	}
	return host, uint16(port), nil
}

// Ready implements Store.
func (p Postgres) Ready(ctx context.Context) error { return p.ReadyAt(ctx, "") }

// ReadyAt implements Store: a query is answered.
func (p Postgres) ReadyAt(ctx context.Context, addr string) error {
	return p.with(ctx, readyTimeout, addr, func(ctx context.Context, conn *pgx.Conn) error {
		if _, err := conn.Exec(ctx, "SELECT 1"); err != nil {
			return fmt.Errorf("ask postgres: %w", err)
		}
		return nil
	})
}

// with runs f on a connection that is closed afterwards. Saying goodbye has a bound of its
// own: the caller's context may be over, and the server may be paused.
func (p Postgres) with(
	ctx context.Context, bound time.Duration, addr string,
	f func(context.Context, *pgx.Conn) error,
) error {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	conn, err := p.connect(ctx, addr)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), giveUp)
		defer cancel()
		_ = conn.Close(ctx) // the connection is gone either way
	}()
	return f(ctx, conn)
}

// Identity implements Store by the postmaster's start time.
func (p Postgres) Identity(ctx context.Context) (string, error) {
	return p.text(ctx, "SELECT extract(epoch FROM pg_postmaster_start_time())::text")
}

// text returns the one column of the one row of a query.
func (p Postgres) text(ctx context.Context, query string, args ...any) (text string, err error) {
	err = p.with(ctx, adminTimeout, "", func(ctx context.Context, conn *pgx.Conn) error {
		if err := conn.QueryRow(ctx, query, args...).Scan(&text); err != nil {
			return fmt.Errorf("ask postgres: %w", err)
		}
		return nil
	})
	return text, err
}

// postgresSettings decide what Postgres's numbers mean.
var postgresSettings = []string{
	"fsync", "synchronous_commit", "full_page_writes", "wal_level", "wal_sync_method",
	"shared_buffers", "max_connections", "max_wal_size", "data_checksums",
}

// Info implements Store. An unknown setting is an error.
func (p Postgres) Info(ctx context.Context, also []string) (env.Info, error) {
	info := env.Info{Kind: "postgres", Settings: map[string]string{}}
	err := p.with(ctx, adminTimeout, "", func(ctx context.Context, conn *pgx.Conn) error {
		row := conn.QueryRow(ctx, "SELECT split_part(current_setting('server_version'), ' ', 1)")
		if err := row.Scan(&info.Version); err != nil {
			return fmt.Errorf("ask postgres for its version: %w", err)
		}
		for _, name := range slices.Concat(postgresSettings, also) {
			var value string
			row := conn.QueryRow(ctx, "SELECT current_setting($1)", name)
			if err := row.Scan(&value); err != nil {
				return fmt.Errorf("ask postgres for setting %s: %w", name, err)
			}
			info.Settings[name] = value
		}
		return nil
	})
	return info, err
}

// exec runs statements one by one on a connection of its own.
func (p Postgres) exec(ctx context.Context, statements ...string) error {
	return p.with(ctx, adminTimeout, "", func(ctx context.Context, conn *pgx.Conn) error {
		for _, statement := range statements {
			if _, err := conn.Exec(ctx, statement); err != nil {
				return fmt.Errorf("postgres: %s: %w", statement, err)
			}
		}
		return nil
	})
}

// CreateDatabase makes an empty database with a comment, which may be empty,
// and returns its URL.
func (p Postgres) CreateDatabase(ctx context.Context, name, comment string) (string, error) {
	quoted := pgx.Identifier{name}.Sanitize()
	// template0 is never connected to, so a copy of it cannot be refused
	// because somebody is.
	if err := p.exec(ctx, "CREATE DATABASE "+quoted+" TEMPLATE template0"); err != nil {
		return "", err
	}
	if comment == "" {
		return p.DatabaseURL(name)
	}
	if err := p.exec(ctx, "COMMENT ON DATABASE "+quoted+" IS "+literal(comment)); err != nil {
		return "", errors.Join(err, p.DropDatabase(context.WithoutCancel(ctx), name))
	}
	return p.DatabaseURL(name)
}

// literal is a text as a constant of SQL.
func literal(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

// DatabaseURL is the URL of another database on the same server.
func (p Postgres) DatabaseURL(name string) (string, error) {
	u, err := url.Parse(p.URL())
	if err != nil {
		return "", fmt.Errorf("read the URL of postgres: %s", Redact(p.URL()))
	}
	u.Path = "/" + name
	return u.String(), nil
}

// DropDatabase drops a database and throws out whoever is connected to it.
// Dropping one that is not there is not an error.
func (p Postgres) DropDatabase(ctx context.Context, name string) error {
	drop := "DROP DATABASE IF EXISTS " + pgx.Identifier{name}.Sanitize()
	// FORCE throws out nobody who reads from a replication slot.
	err := p.unused(ctx, "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE "+
		"active AND database = "+literal(name), drop+" WITH (FORCE)")
	if State(err) != insufficientPrivilege {
		return err
	}
	// A user without privileges may not throw out autovacuum, which FORCE wants to before it drops
	// anything. A DROP without it makes autovacuum leave by itself.
	return p.unused(ctx, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = "+
		literal(name)+" AND usename = current_user AND pid <> pg_backend_pid()", drop)
}

// unused is exec of what waits until something is not in use any more, such as a replication slot
// whose reader was killed just now, or a database that autovacuum leaves.
func (p Postgres) unused(ctx context.Context, statements ...string) error {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	for {
		err := p.exec(ctx, statements...)
		if State(err) != objectInUse || !sut.Pause(ctx, dropPause) {
			return err
		}
	}
}

// dropPause is the pause between two attempts to drop a database that is in use.
const dropPause = 100 * time.Millisecond

// What Postgres answers.
const (
	insufficientPrivilege = "42501"
	objectInUse           = "55006"
)

// State is the SQLSTATE of an error, "" if Postgres did not answer with one.
func State(err error) string {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pg.Code
	}
	return ""
}

// CreateSchema makes an empty schema with a comment in the URL's database and
// returns a URL whose connections live in it.
func (p Postgres) CreateSchema(ctx context.Context, name, comment string) (string, error) {
	quoted := pgx.Identifier{name}.Sanitize()
	// Statements that are sent together are one transaction.
	if err := p.exec(ctx, "CREATE SCHEMA "+quoted+"; COMMENT ON SCHEMA "+quoted+" IS "+
		literal(comment)); err != nil {
		return "", err
	}
	u, err := url.Parse(p.URL())
	if err != nil {
		return "", fmt.Errorf("read the URL of postgres: %s", Redact(p.URL()))
	}
	query := u.Query()
	options := strings.TrimSpace(query.Get("options") + " -c search_path=" + name)
	query.Set("options", options)
	// In a connection URL a plus is a plus, not a blank.
	u.RawQuery = strings.ReplaceAll(query.Encode(), "+", "%20")
	return u.String(), nil
}

// DropSchema drops a schema and all that is in it, if it is there, and a replication slot and a
// publication of its name, which are in none. A database takes its own along.
func (p Postgres) DropSchema(ctx context.Context, name string) error {
	quoted := pgx.Identifier{name}.Sanitize()
	ours := " FROM pg_replication_slots WHERE slot_name = " + literal(name)
	return p.unused(ctx, "SELECT pg_terminate_backend(active_pid)"+ours+" AND active",
		"SELECT pg_drop_replication_slot(slot_name)"+ours, "DROP PUBLICATION IF EXISTS "+quoted,
		"DROP SCHEMA IF EXISTS "+quoted+" CASCADE")
}

// Named is a database, or a schema of the URL's database.
type Named struct {
	Name string
	// Schema says that it is not a database.
	Schema bool
	// Comment is what was said when it was made, empty if nothing was.
	Comment string
}

// Find lists the server's databases, and the schemas of the URL's database,
// whose names start with a prefix, in the order of their names.
func (p Postgres) Find(ctx context.Context, prefix string) (found []Named, err error) {
	err = p.with(ctx, adminTimeout, "", func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, `
			SELECT datname::text, false, coalesce(shobj_description(oid, 'pg_database'), '')
			FROM pg_database WHERE starts_with(datname, $1)
			UNION ALL SELECT nspname::text, true, coalesce(obj_description(oid, 'pg_namespace'), '')
			FROM pg_namespace WHERE starts_with(nspname, $1) ORDER BY 1, 2`, prefix)
		if err == nil {
			found, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Named])
		}
		if err != nil {
			return fmt.Errorf("list postgres's databases and schemas: %w", err)
		}
		return nil
	})
	return found, err
}

// CanCreateDatabases says whether the URL's user may make databases.
func (p Postgres) CanCreateDatabases(ctx context.Context) (bool, error) {
	text, err := p.text(ctx, `SELECT (rolcreatedb OR rolsuper)::text
		FROM pg_roles WHERE rolname = current_user`)
	return text == "true", err
}

// CountTables counts the tables, views and sequences of the URL's database
// that are neither the server's own, nor an extension's, nor in a schema with
// the given prefix.
func (p Postgres) CountTables(ctx context.Context, ownPrefix string) (int, error) {
	text, err := p.text(ctx, `SELECT count(*)::text FROM pg_class c
		JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE c.relkind IN ('r', 'p', 'v', 'm', 'S', 'f')
		AND n.nspname NOT IN ('pg_catalog', 'information_schema')
		AND n.nspname NOT LIKE 'pg\_%' AND NOT starts_with(n.nspname, $1)
		AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = c.oid AND d.deptype = 'e')`, ownPrefix)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(text)
}

// PostgresConf is a configuration file with settings appended; the last line
// of a name wins.
func PostgresConf(base []byte, settings map[string]string) ([]byte, error) {
	if err := checkSettings("postgres", settings); err != nil {
		return nil, err
	}
	out := bytes.NewBuffer(slices.Clone(base))
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(out, "\n%s = '%s'", name, strings.ReplaceAll(settings[name], "'", "''"))
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}
