package envtest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"stampede/harness/env"
	"stampede/harness/env/admin"
	"stampede/harness/sut"
)

// both are the services that every local backend provides.
var both = []sut.Service{sut.Postgres, sut.Redis}

// Exercise is what every local backend must do. It starts stores several
// times and takes about a minute.
func Exercise(t *testing.T, p env.Provider) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs real stores; -short was given")
	}
	s := suite{p}
	t.Run("Info", s.info)
	t.Run("KillLosesNothingAcknowledged", s.kill)
	t.Run("Wipe", s.wipe)
	t.Run("PauseAndResume", s.pause)
	t.Run("Restart", s.restart)
	t.Run("NamespacesAreSeparate", s.namespaces)
	t.Run("BadSettingIsOneClearError", s.badSetting)
	t.Run("CloseIsIdempotent", s.closing)
}

type suite struct{ provider env.Provider }

func (s suite) start(t *testing.T, spec env.Spec) env.Cluster {
	t.Helper()
	admin.Quiet()
	spec.Services, spec.RunID, spec.Dir, spec.Log = both, runID(), t.TempDir(), t.Logf
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	cluster, err := s.provider.Start(ctx, spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeCluster(t, cluster) })
	return cluster
}

func closeCluster(t *testing.T, cluster env.Cluster) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	if err := cluster.Close(ctx); err != nil {
		t.Error(err)
	}
}

func breakable(t *testing.T, cluster env.Cluster, service sut.Service) env.Breakable {
	t.Helper()
	b, ok := cluster.Component(service).(env.Breakable)
	if !ok {
		t.Fatalf("%s is not breakable", service)
	}
	return b
}

func identity(t *testing.T, c env.Component) string {
	t.Helper()
	id, err := c.Identity(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func namespace(t *testing.T, cluster env.Cluster) env.Namespace {
	t.Helper()
	space, err := cluster.Namespace(t.Context(), "exercise")
	if err != nil {
		t.Fatal(err)
	}
	return space
}

func (s suite) info(t *testing.T) {
	cluster := s.start(t, env.Spec{
		Postgres: map[string]string{"work_mem": "5MB"},
		Redis:    map[string]string{"save": "900 7", "hz": "17"},
	})
	want := map[sut.Service]map[string]string{
		sut.Postgres: {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on",
			"shared_buffers": "256MB", "max_connections": "300", "work_mem": "5MB"},
		sut.Redis: {"appendonly": "yes", "appendfsync": "everysec", "save": "900 7", "hz": "17"},
	}
	for service, settings := range want {
		component := cluster.Component(service)
		info, err := component.Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %+v", service, info)
		if info.Kind == "" || info.Version == "" || info.Flush <= 0 || info.Source == "" {
			t.Errorf("%s: incomplete: %+v", service, info)
		}
		for name, value := range settings {
			if info.Settings[name] != value {
				t.Errorf("%s: %s is %q, want %q", service, name, info.Settings[name], value)
			}
		}
		if tail := component.LogTail(3); tail == "" || strings.Count(tail, "\n") > 2 {
			t.Errorf("%s: the last three lines of the log are %q", service, tail)
		}
	}
	if cluster.Component(sut.Kafka) != nil {
		t.Error("there is a kafka that nobody started")
	}
}

func (s suite) kill(t *testing.T) {
	cluster := s.start(t, env.Spec{})
	space := namespace(t, cluster)
	put(t, space)
	for _, service := range both {
		b := breakable(t, cluster, service)
		before := identity(t, b)
		pids, err := b.Kill(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if least := map[sut.Service]int{sut.Postgres: 4, sut.Redis: 1}[service]; len(pids) < least {
			t.Errorf("%s: killed only %v", service, pids)
		}
		if b.Ready(t.Context()) == nil {
			t.Errorf("%s answers after the kill", service)
		}
		if _, err := b.Kill(t.Context()); err == nil {
			t.Errorf("%s was killed twice", service)
		}
		if err := b.Start(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		if err := b.Start(t.Context(), false); err == nil {
			t.Errorf("%s was started twice", service)
		}
		if identity(t, b) == before {
			t.Errorf("%s has the same identity after a kill", service)
		}
	}
	space = relocate(t, cluster, space)
	if row, key := get(t, space); row != "kept" || key != "kept" {
		t.Errorf("after the kill: postgres has %q, redis %q", row, key)
	}
}

// relocate gives a namespace the addresses that its stores have now. A run has
// proxies for that.
func relocate(t *testing.T, cluster env.Cluster, space env.Namespace) env.Namespace {
	t.Helper()
	_, rest, _ := strings.Cut(strings.TrimPrefix(space.PostgresURL, "postgres://"), "/")
	space.PostgresURL = "postgres://stampede@" + cluster.Component(sut.Postgres).Addr() + "/" + rest
	space.RedisURL = "redis://" + cluster.Component(sut.Redis).Addr() + "/0"
	return space
}

func (s suite) wipe(t *testing.T) {
	cluster := s.start(t, env.Spec{})
	space := namespace(t, cluster)
	put(t, space)
	for _, service := range both {
		b := breakable(t, cluster, service)
		if _, err := b.Kill(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := b.Start(t.Context(), true); err != nil {
			t.Fatal(err)
		}
	}
	if row, key := get(t, relocate(t, cluster, space)); row != "" || key != "" {
		t.Errorf("after the wipe: postgres has %q, redis %q", row, key)
	}
}

func (s suite) pause(t *testing.T) {
	cluster := s.start(t, env.Spec{})
	for _, service := range both {
		b := breakable(t, cluster, service)
		before := identity(t, b)
		pids, err := b.Pause(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(pids) == 0 {
			t.Errorf("%s: nothing was paused", service)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		if b.Ready(ctx) == nil {
			t.Errorf("%s answers while paused", service)
		}
		cancel()
		if err := b.Resume(t.Context()); err != nil {
			t.Fatal(err)
		}
		if identity(t, b) != before {
			t.Errorf("%s is another one after a pause", service)
		}
		if err := b.Resume(t.Context()); err != nil {
			t.Errorf("%s: resume of what runs: %v", service, err)
		}
	}
}

func (s suite) restart(t *testing.T) {
	cluster := s.start(t, env.Spec{})
	for _, service := range both {
		b := breakable(t, cluster, service)
		before := identity(t, b)
		if err := b.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		if identity(t, b) == before {
			t.Errorf("%s has the same identity after a restart", service)
		}
	}
}

func (s suite) namespaces(t *testing.T) {
	cluster := s.start(t, env.Spec{})
	first := namespace(t, cluster)
	put(t, first)
	second := namespace(t, cluster)
	put(t, second)
	if err := second.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if row, key := get(t, first); row != "kept" || key != "kept" {
		t.Errorf("releasing the second took the first's: %q, %q", row, key)
	}
	if row, key := get(t, second); row != "" || key != "" {
		t.Errorf("a released namespace still has %q, %q", row, key)
	}
	if err := second.Release(t.Context()); err != nil {
		t.Errorf("a second release: %v", err)
	}
	if err := first.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := redisClient(t, first.RedisURL).DBSize(t.Context()).Val(); n != 0 {
		t.Errorf("%d keys are left", n)
	}
}

// put stores one acknowledged value in each store.
func put(t *testing.T, space env.Namespace) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), space.PostgresURL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	_, err = conn.Exec(t.Context(), "CREATE TABLE t AS SELECT 'kept'::text AS v")
	if err != nil {
		t.Fatal(err)
	}
	client := redisClient(t, space.RedisURL)
	if err := client.Set(t.Context(), space.Prefix+"k", "kept", 0).Err(); err != nil {
		t.Fatal(err)
	}
}

// get reads both values, empty where there is none.
func get(t *testing.T, space env.Namespace) (row, key string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), space.PostgresURL)
	if err == nil { // else there is no such database
		defer conn.Close(t.Context())
		if err := conn.QueryRow(t.Context(), "SELECT v FROM t").Scan(&row); err != nil {
			t.Fatal(err)
		}
	}
	key, err = redisClient(t, space.RedisURL).Get(t.Context(), space.Prefix+"k").Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		t.Fatal(err)
	}
	return row, key
}

func redisClient(t *testing.T, url string) *redis.Client {
	t.Helper()
	opts, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	opts.MaxRetries = -1
	client := redis.NewClient(opts)
	t.Cleanup(func() { client.Close() })
	return client
}

func (s suite) badSetting(t *testing.T) {
	cases := map[string]struct {
		spec env.Spec
		want string
	}{
		"unknown postgres setting": {
			env.Spec{Services: both, Postgres: map[string]string{"shared_bufers": "1MB"}},
			"shared_bufers"},
		"unknown redis setting": {
			env.Spec{Services: both, Redis: map[string]string{"appendfsink": "always"}}, "appendfsink"},
		"two lines": {
			env.Spec{Services: both, Redis: map[string]string{"save": "\nport 1"}}, "one line"},
		"unknown service": {env.Spec{Services: []sut.Service{"oracle"}}, "oracle"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), bound)
			defer cancel()
			c.spec.RunID = runID()
			cluster, err := s.provider.Start(ctx, c.spec)
			if err == nil {
				closeCluster(t, cluster)
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}

func (s suite) closing(t *testing.T) {
	cluster := s.start(t, env.Spec{})
	closeCluster(t, cluster)
	closeCluster(t, cluster)
	for _, service := range both {
		if cluster.Component(service).Ready(t.Context()) == nil {
			t.Errorf("%s answers after it was closed", service)
		}
	}
}
