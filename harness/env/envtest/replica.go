package envtest

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/harness/env"
	"stampede/harness/env/admin"
	"stampede/harness/sut"
)

// replica: a replica has what its primary commits, but while its replay is held, and finds its
// primary again whichever of them dies.
func (s suite) replica(t *testing.T) {
	ctx := t.Context()
	cluster := s.start(t, env.Spec{Services: []sut.Service{sut.Postgres, sut.Replica}})
	space, err := cluster.Namespace(ctx, "replica")
	if err != nil {
		t.Fatal(err)
	}
	p := pair{cluster, space}
	postgres := cluster.Component(sut.Postgres).(env.Breakable)
	replica := cluster.Component(sut.Replica).(env.Breakable)
	if info, err := replica.Info(ctx); err != nil || info.Kind != "postgres replica" {
		t.Errorf("it is %+v, %v", info, err)
	}
	p.write(t, `CREATE TABLE numbers AS SELECT 1 AS v`)
	p.arrives(t, 1)
	reader := p.at(t, sut.Replica, space.ReplicaURL)
	if _, err := reader.Exec(ctx, `INSERT INTO numbers VALUES (9)`); err == nil {
		t.Error("the replica takes writes")
	}
	p.held(t, replica.(env.Replicating))
	for i, one := range []struct {
		dies env.Breakable
		wipe bool
	}{{postgres, false}, {replica, false}, {replica, true}} {
		if _, err := one.dies.Kill(ctx); err != nil {
			t.Fatal(err)
		}
		if err := one.dies.Start(ctx, one.wipe); err != nil {
			t.Fatal(err)
		}
		p.write(t, `INSERT INTO numbers VALUES ($1)`, 3+i)
		p.arrives(t, 3+i)
	}
	for _, store := range []env.Breakable{postgres, replica} {
		if _, err := store.Kill(ctx); err != nil {
			t.Fatal(err)
		}
	}
	for _, store := range []env.Breakable{replica, postgres} {
		if err := store.Start(ctx, false); err != nil {
			t.Fatal(err)
		}
	}
	p.write(t, `INSERT INTO numbers VALUES (9)`)
	p.arrives(t, 9)
	if _, err := postgres.(env.Replicating).GoOn(ctx); err == nil {
		t.Error("a primary has a replay")
	}
	if err := space.Release(ctx); err != nil {
		t.Error(err)
	}
}

// pair is a primary with its replica, in which numbers grow.
type pair struct {
	cluster env.Cluster
	space   env.Namespace
}

// at connects to a place of the pair, at the address that it has now.
func (p pair) at(t *testing.T, service sut.Service, url string) *pgx.Conn {
	t.Helper()
	conf, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	now, err := pgx.ParseConfig(admin.PostgresURL(p.cluster.Component(service).Addr()))
	if err != nil {
		t.Fatal(err)
	}
	conf.Host, conf.Port, conf.Fallbacks = now.Host, now.Port, nil
	conn, err := pgx.ConnectConfig(t.Context(), conf)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func (p pair) write(t *testing.T, sql string, args ...any) {
	t.Helper()
	conn := p.at(t, sut.Postgres, p.space.PostgresURL)
	if _, err := conn.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

// newest is the largest number that the replica has, 0 if it has no table yet.
func (p pair) newest(t *testing.T) (v int) {
	t.Helper()
	conn := p.at(t, sut.Replica, p.space.ReplicaURL)
	err := conn.QueryRow(t.Context(), `SELECT max(v) FROM numbers`).Scan(&v)
	if err != nil && admin.State(err) != "42P01" {
		t.Fatal(err)
	}
	return v
}

// arrives waits until the replica has a number.
func (p pair) arrives(t *testing.T, v int) {
	t.Helper()
	for p.newest(t) != v {
		if !sut.Pause(t.Context(), 10*time.Millisecond) {
			t.Fatal(t.Context().Err())
		}
	}
}

// held checks that a replica that is held has not what is written then, and says how much that is.
func (p pair) held(t *testing.T, replica env.Replicating) {
	t.Helper()
	if err := replica.Hold(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.write(t, `INSERT INTO numbers VALUES (2)`)
	if v := p.newest(t); v != 1 {
		t.Errorf("a replica that is held shows %d", v)
	}
	for behind := int64(0); behind == 0 && p.newest(t) != 2; { // the log takes a moment to arrive
		var err error
		if behind, err = replica.GoOn(t.Context()); err == nil && behind == 0 {
			err = replica.Hold(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := replica.GoOn(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.arrives(t, 2)
}
