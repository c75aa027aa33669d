package main

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
	"github.com/rogpeppe/go-internal/testscript"

	"stampede/harness/env"
	"stampede/harness/env/envtest"
	"stampede/harness/sut"
)

// ownServers are stores that play the user's own servers in a script.
type ownServers struct {
	cluster env.Cluster
	rdb     *redis.Client
	// before is what there was when the script got them.
	before []string
}

// owned maps scripts to their servers.
var owned sync.Map

// ownStores is the command "ownstores": a Postgres and a Redis until the
// script ends. $CREATOR_URL is of a Postgres user that may create databases,
// $TENANT_URL of one that may not; $REDIS_URL is of a Redis user that the
// server keeps from every key that does not begin with "stampede:".
func ownStores(ts *testscript.TestScript, _ bool, _ []string) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	spec := env.Spec{Services: []sut.Service{sut.Postgres, sut.Redis},
		RunID: fmt.Sprintf("own%d", os.Getpid()), Dir: ts.MkAbs("."),
		Postgres: map[string]string{"log_statement": "ddl"}}
	provider, _, err := env.Choose(ctx, envtest.Backend(), spec, providers()...)
	ts.Check(err)
	cluster, err := provider.Start(ctx, spec)
	ts.Check(err)
	ts.Defer(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		ts.Check(cluster.Close(ctx))
	})
	addr := cluster.Component(sut.Redis).Addr()
	s := &ownServers{cluster: cluster, rdb: redis.NewClient(&redis.Options{Addr: addr})}
	ts.Defer(func() { _ = s.rdb.Close() }) // the server ends next
	owned.Store(ts, s)
	s.admit(ctx, ts, "creator", "CREATEDB")
	s.admit(ctx, ts, "tenant", "NOCREATEDB")
	ts.Check(s.rdb.Do(ctx, "ACL", "SETUSER", "guest", "on", ">hush", "~stampede:*", "&*",
		"+@all").Err())
	ts.Setenv("REDIS_URL", "redis://guest:hush@"+addr+"/0")
	s.before = s.inventory(ctx, ts)
}

// admit makes a Postgres user with an empty database of its own.
func (s *ownServers) admit(ctx context.Context, ts *testscript.TestScript, name, may string) {
	conn, err := pgx.Connect(ctx, s.url("stampede", "postgres"))
	ts.Check(err)
	defer conn.Close(ctx)
	for _, statement := range []string{
		"CREATE ROLE " + name + " LOGIN PASSWORD 'hush' " + may,
		"CREATE DATABASE " + name + " OWNER " + name,
	} {
		_, err := conn.Exec(ctx, statement)
		ts.Check(err)
	}
	ts.Setenv(strings.ToUpper(name)+"_URL", s.url(name+":hush", name))
}

func (s *ownServers) url(user, database string) string {
	return fmt.Sprintf("postgres://%s@%s/%s?sslmode=disable", user,
		s.cluster.Component(sut.Postgres).Addr(), database)
}

// inventory lists every database, schema and table of the users and every key.
func (s *ownServers) inventory(ctx context.Context, ts *testscript.TestScript) []string {
	list := column(ctx, ts, s.url("stampede", "postgres"), `SELECT datname FROM pg_database`)
	for _, database := range []string{"creator", "tenant"} {
		list = append(list, column(ctx, ts, s.url("stampede", database),
			`SELECT current_database() || ' schema ' || nspname FROM pg_namespace
			WHERE nspname !~ '^pg_'`)...)
		list = append(list, column(ctx, ts, s.url("stampede", database),
			`SELECT current_database() || ' ' || schemaname || '.' || tablename FROM pg_tables
			WHERE schemaname NOT IN ('pg_catalog', 'information_schema')`)...)
	}
	keys, err := s.rdb.Keys(ctx, "*").Result()
	ts.Check(err)
	list = append(list, keys...)
	slices.Sort(list)
	return list
}

// column is the only column of a query's rows.
func column(ctx context.Context, ts *testscript.TestScript, url, query string) []string {
	conn, err := pgx.Connect(ctx, url)
	ts.Check(err)
	defer conn.Close(ctx)
	rows, err := conn.Query(ctx, query)
	ts.Check(err)
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	ts.Check(err)
	return list
}

// plant is the command "plant": the user's databases get a table, and Redis a
// key, as if a shop had always been there.
func plant(ts *testscript.TestScript, _ bool, _ []string) {
	s, ctx, cancel := ownServersOf(ts)
	defer cancel()
	for _, name := range []string{"creator", "tenant"} {
		conn, err := pgx.Connect(ctx, s.url("stampede", name))
		ts.Check(err)
		_, err = conn.Exec(ctx, "CREATE TABLE orders AS SELECT 1 AS id")
		conn.Close(ctx)
		ts.Check(err)
	}
	ts.Check(s.rdb.Set(ctx, "theirs", "1", 0).Err())
	s.before = s.inventory(ctx, ts)
}

// created finds the name of what a statement in Postgres's log made.
var created = regexp.MustCompile(`statement: CREATE (DATABASE|SCHEMA) "?(\w+)`)

// untouched is the command "untouched KIND": the servers hold what they held
// before, and of all that was created meanwhile, which includes a KIND,
// DATABASE or SCHEMA, each carried our prefix.
func untouched(ts *testscript.TestScript, _ bool, args []string) {
	s, ctx, cancel := ownServersOf(ts)
	defer cancel()
	if now := s.inventory(ctx, ts); !slices.Equal(now, s.before) {
		ts.Fatalf("before there was\n%q\nand now\n%q", s.before, now)
	}
	seen := false
	log := s.cluster.Component(sut.Postgres).LogTail(10000)
	for _, made := range created.FindAllStringSubmatch(log, -1) {
		ours := strings.HasPrefix(made[2], "stampede_")
		if !ours && made[2] != "creator" && made[2] != "tenant" {
			ts.Fatalf("created without our prefix: %s %s", made[1], made[2])
		}
		seen = seen || ours && made[1] == args[0]
	}
	if !seen {
		ts.Fatalf("no %s was created:\n%s", args[0], log)
	}
}

func ownServersOf(ts *testscript.TestScript) (*ownServers, context.Context, context.CancelFunc) {
	v, ok := owned.Load(ts)
	if !ok {
		ts.Fatalf("there are no servers: ownstores starts them")
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	return v.(*ownServers), ctx, cancel
}
