package external_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"stampede/harness/env"
	"stampede/harness/env/admin"
	"stampede/harness/env/envtest"
	"stampede/harness/env/external"
	"stampede/harness/sut"
)

// stores play the user's own servers.
var stores = envtest.NewOwn(sut.Postgres, sut.Replica, sut.Redis)

func TestMain(m *testing.M) { os.Exit(stores.Run(m)) }

const password = "hunter2"

// spec points at an empty database of the user's own, with a password in each
// URL that has one. The user may or may not create databases.
func spec(t *testing.T, mayCreate bool) (s env.Spec, own env.Namespace) {
	t.Helper()
	own = stores.Namespace(t)
	u, err := url.Parse(own.PostgresURL)
	if err != nil {
		t.Fatal(err)
	}
	database := strings.TrimPrefix(u.Path, "/")
	role := "user_of_" + database[len(database)-20:]
	option := map[bool]string{true: "CREATEDB", false: "NOCREATEDB"}[mayCreate]
	exec(t, own.PostgresURL, "CREATE ROLE "+role+" LOGIN "+option+" PASSWORD '"+password+"'",
		"GRANT CREATE ON DATABASE "+database+" TO "+role)
	t.Cleanup(func() {
		exec(t, own.PostgresURL, "DROP OWNED BY "+role, "DROP ROLE "+role)
	})
	u.User = url.UserPassword(role, password)
	return env.Spec{RunID: "ext1", Services: []sut.Service{sut.Postgres, sut.Redis},
		PostgresURL: u.String(), RedisURL: own.RedisURL}, own
}

func exec(t *testing.T, url string, statements ...string) {
	t.Helper()
	// Cleanups run after the test's context is over.
	ctx := t.Context()
	if ctx.Err() != nil {
		ctx = context.Background()
	}
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	for _, statement := range statements {
		if _, err := conn.Exec(ctx, statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

func text(t *testing.T, url, query string) string {
	t.Helper()
	var s string
	if err := envtest.Connect(t, url).QueryRow(t.Context(), query).Scan(&s); err != nil {
		t.Fatal(err)
	}
	return s
}

func start(t *testing.T, s env.Spec) env.Cluster {
	t.Helper()
	cluster, err := external.New().Start(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return cluster
}

// TestTouchesOnlyItsOwn runs namespaces with either kind of user and expects
// all that is somebody else's to be there afterwards, and nothing of ours.
func TestTouchesOnlyItsOwn(t *testing.T) {
	for name, mayCreate := range map[string]bool{"database": true, "schema": false} {
		t.Run(name, func(t *testing.T) {
			s, own := spec(t, mayCreate)
			exec(t, own.PostgresURL, "CREATE TABLE theirs AS SELECT 1 AS v")
			theirs := envtest.RedisClient(t, own.RedisURL)
			// A key that only a careless pattern would match.
			for _, key := range []string{"theirs", "stampede:other:1:x", "stampede:extX:1:k"} {
				if err := theirs.Set(t.Context(), key, "theirs", 0).Err(); err != nil {
					t.Fatal(err)
				}
			}
			s.AllowNonEmpty = true
			cluster := start(t, s)
			released, err := cluster.Namespace(t.Context(), "a")
			if err != nil {
				t.Fatal(err)
			}
			kept, err := cluster.Namespace(t.Context(), "b")
			if err != nil {
				t.Fatal(err)
			}
			for _, space := range []env.Namespace{released, kept} {
				exec(t, space.PostgresURL, "CREATE TABLE ours AS SELECT 1 AS v")
				if err := theirs.Set(t.Context(), space.Prefix+"k", 1, 0).Err(); err != nil {
					t.Fatal(err)
				}
			}
			if err := released.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := text(t, kept.PostgresURL, "SELECT v::text FROM ours"); got != "1" {
				t.Errorf("the other namespace has %q", got)
			}
			if err := cluster.Close(t.Context()); err != nil { // drops the other one
				t.Fatal(err)
			}
			if err := cluster.Close(t.Context()); err != nil {
				t.Errorf("a second close: %v", err)
			}
			if got := text(t, own.PostgresURL, "SELECT v::text FROM theirs"); got != "1" {
				t.Errorf("their table has %q", got)
			}
			left := text(t, own.PostgresURL, `SELECT (SELECT count(*) FROM pg_namespace
				WHERE nspname LIKE 'stampede\_ext1%') + (SELECT count(*) FROM pg_database
				WHERE datname LIKE 'stampede\_ext1%') || ''`)
			if left != "0" {
				t.Errorf("%s databases or schemas of ours are left", left)
			}
			if n := theirs.DBSize(t.Context()).Val(); n != 3 {
				t.Errorf("%d keys are there, want their three", n)
			}
		})
	}
}

func TestRefusesWhatIsNotEmpty(t *testing.T) {
	s, own := spec(t, true)
	if err := start(t, s).Close(t.Context()); err != nil {
		t.Fatalf("an empty server: %v", err)
	}
	client := envtest.RedisClient(t, own.RedisURL)
	if err := client.Set(t.Context(), "stampedes", 1, 0).Err(); err != nil {
		t.Fatal(err)
	}
	expectRefusal(t, s, `(it has the key "stampedes")`)
	if err := client.Del(t.Context(), "stampedes").Err(); err != nil {
		t.Fatal(err)
	}
	exec(t, own.PostgresURL, "CREATE SCHEMA app", "CREATE VIEW app.v AS SELECT 1 AS x")
	expectRefusal(t, s, "(1 tables, views or sequences)")
}

func expectRefusal(t *testing.T, s env.Spec, want string) {
	t.Helper()
	_, err := external.New().Start(t.Context(), s)
	if err == nil || !strings.Contains(err.Error(), want) ||
		!strings.Contains(err.Error(), "--allow-nonempty") {
		t.Errorf("got %v", err)
	}
	if err != nil && strings.Contains(err.Error(), password) {
		t.Errorf("the password is shown: %v", err)
	}
}

// TestSweepDropsWhatTheDeadLeft makes a place that nobody drops, with each kind
// of user, and signs it as different owners.
func TestSweepDropsWhatTheDeadLeft(t *testing.T) {
	for name, mayCreate := range map[string]bool{"database": true, "schema": false} {
		t.Run(name, func(t *testing.T) {
			s, own := spec(t, mayCreate)
			s.RunID = "left" + name
			space, err := start(t, s).Namespace(t.Context(), "a")
			if err != nil {
				t.Fatal(err)
			}
			client := envtest.RedisClient(t, own.RedisURL)
			if err := client.Set(t.Context(), space.Prefix+"k", 1, 0).Err(); err != nil {
				t.Fatal(err)
			}
			database := admin.DatabaseName(s.RunID, 1, "a")
			place, keys := name+" "+database, "keys stampede:"+s.RunID+":*"
			sign := func(as string) {
				exec(t, s.PostgresURL, "COMMENT ON "+name+" "+database+" IS '"+as+"'")
				if err := client.Set(t.Context(), "stampede:"+s.RunID, as, 0).Err(); err != nil {
					t.Fatal(err)
				}
			}
			dead, err := env.OwnerOf(s.RunID)
			if err != nil {
				t.Fatal(err)
			}
			expectSweep(t, s, nil, []string{place, keys}, "is alive")
			expectNamedAtStart(t, s, place, keys)
			dead.Started++ // another process had our pid
			elsewhere := dead
			elsewhere.Host += "-other"
			sign(signature(t, elsewhere))
			expectSweep(t, s, nil, []string{place, keys}, "another host or container, "+elsewhere.Host)
			sign("")
			expectSweep(t, s, nil, []string{place, keys}, "does not say")
			sign(signature(t, dead))
			would, _, err := external.Sweep(t.Context(), s, true)
			if want := []string{place, keys}; err != nil || !slices.Equal(would, want) {
				t.Errorf("a dry sweep would remove %q, %v, want %q", would, err, want)
			}
			expectSweep(t, s, []string{place, keys}, nil, "")
			expectSweep(t, s, nil, nil, "")
			if keys := client.Keys(t.Context(), "*").Val(); len(keys) != 0 {
				t.Errorf("%q are left", keys)
			}
		})
	}
}

func signature(t *testing.T, o env.Owner) string {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// expectSweep expects these things of the run to be removed and left alone,
// the latter for a reason.
func expectSweep(t *testing.T, s env.Spec, removed, left []string, reason string) {
	t.Helper()
	gone, stay, err := external.Sweep(t.Context(), s, false)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(gone, removed) {
		t.Errorf("removed %q, want %q", gone, removed)
	}
	stay = slices.DeleteFunc(stay, func(what string) bool { return !strings.Contains(what, s.RunID) })
	if len(stay) != len(left) {
		t.Fatalf("left %q, want %q", stay, left)
	}
	for i, what := range stay {
		if !strings.HasPrefix(what, left[i]) || !strings.Contains(what, reason) {
			t.Errorf("left %q, want %q because %q", what, left[i], reason)
		}
	}
}

// expectNamedAtStart expects what other runs made to be named, and no obstacle.
func expectNamedAtStart(t *testing.T, s env.Spec, what ...string) {
	t.Helper()
	var said strings.Builder
	s.RunID = "next"
	s.Log = func(format string, args ...any) { fmt.Fprintf(&said, format+"\n", args...) }
	if err := start(t, s).Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, name := range what {
		if !strings.Contains(said.String(), name) {
			t.Errorf("%q is not named: %s", name, said.String())
		}
	}
	if strings.Contains(said.String(), password) {
		t.Errorf("the password is shown: %s", said.String())
	}
}

func TestInfoHidesSecrets(t *testing.T) {
	s, _ := spec(t, true)
	cluster := start(t, s)
	for _, service := range s.Services {
		c := cluster.Component(service)
		if _, ok := c.(env.Breakable); ok {
			t.Errorf("%s is the user's own, and breakable", service)
		}
		info, err := c.Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if info.Version == "" || !strings.HasPrefix(info.Source, "external: ") ||
			strings.Contains(info.Source, password) {
			t.Errorf("%s: %+v", service, info)
		}
		if _, err := c.Identity(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

func TestErrorsNameTheNextStep(t *testing.T) {
	services := []sut.Service{sut.Postgres}
	cases := map[string]struct {
		spec env.Spec
		want string
	}{
		"no URL":        {env.Spec{Services: services}, "give --postgres-url"},
		"other service": {env.Spec{Services: []sut.Service{"oracle"}}, "cannot provide oracle"},
		"no host":       {env.Spec{Services: services, PostgresURL: "host=x"}, "must name one host"},
		"two hosts": {env.Spec{Services: services,
			PostgresURL: "postgres://u:hunter2@a:1,b:2/x"}, "must name one host"},
		"nobody there": {env.Spec{Services: services,
			PostgresURL: "postgres://u:hunter2@127.0.0.1:9/x"}, "connect to postgres at 127.0.0.1:9"},
		"settings": {env.Spec{Services: services, PostgresURL: "postgres://127.0.0.1:9/x",
			Postgres: map[string]string{"fsync": "on"}}, "remove stores.postgres"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			ok, reason := external.New().Available(t.Context(), c.spec)
			if ok || !strings.Contains(reason, c.want) || strings.Contains(reason, password) {
				t.Errorf("available: %v, %s", ok, reason)
			}
			_, err := external.New().Start(t.Context(), c.spec)
			if err == nil || !strings.Contains(err.Error(), c.want) ||
				strings.Contains(err.Error(), password) {
				t.Errorf("start: %v", err)
			}
		})
	}
}
