package external_test

import (
	"errors"
	"fmt"
	"net/url"
	"testing"
	"time"

	"stampede/harness/env"
	"stampede/harness/env/envtest"
	"stampede/harness/env/external"
	"stampede/harness/sut"
)

// A place in the user's Postgres is in the user's replica too, be it a database or a schema.
func TestReplica(t *testing.T) {
	for _, mayCreate := range []bool{true, false} {
		t.Run(fmt.Sprintf("databases %t", mayCreate), func(t *testing.T) {
			s, own := spec(t, mayCreate)
			s.Services = []sut.Service{sut.Postgres, sut.Replica}
			s.ReplicaURL = withUserOf(t, own.ReplicaURL, s.PostgresURL)
			space, err := start(t, s).Namespace(t.Context(), "replica")
			if err != nil {
				t.Fatal(err)
			}
			conn := envtest.Connect(t, space.PostgresURL)
			if _, err := conn.Exec(t.Context(), "CREATE TABLE numbers AS SELECT 7 AS v"); err != nil {
				t.Fatal(err)
			}
			reader, there := envtest.Connect(t, space.ReplicaURL), false
			for !there {
				row := reader.QueryRow(t.Context(), "SELECT to_regclass('numbers') IS NOT NULL")
				if err := row.Scan(&there); err != nil {
					t.Fatal(err)
				}
				sut.Pause(t.Context(), 10*time.Millisecond)
			}
			if got := text(t, space.ReplicaURL, "SELECT v::text FROM numbers"); got != "7" {
				t.Errorf("the replica has %s", got)
			}
			if err := space.Release(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// A server that is no replica is refused before anything is made.
func TestPrimaryIsNoReplica(t *testing.T) {
	s, _ := spec(t, true)
	s.Services, s.ReplicaURL = []sut.Service{sut.Postgres, sut.Replica}, s.PostgresURL
	s.RunID = "ext2"
	cluster, err := external.New().Start(t.Context(), s)
	if !errors.Is(err, env.ErrNotReplica) {
		t.Errorf("started %v, %v", cluster, err)
	}
}

// withUserOf is a URL with the user of another one.
func withUserOf(t *testing.T, to, from string) string {
	t.Helper()
	u, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	other, err := url.Parse(from)
	if err != nil {
		t.Fatal(err)
	}
	u.User = other.User
	return u.String()
}
