package admin_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"stampede/docker"
	"stampede/harness/env/admin"
	"stampede/harness/env/envtest"
	"stampede/harness/sut"
)

var stores = envtest.NewOwn(sut.Postgres, sut.Redis)

func TestMain(m *testing.M) { os.Exit(stores.Run(m)) }

func TestConfigurationsAppend(t *testing.T) {
	postgres, err := admin.PostgresConf([]byte("a = 1"), map[string]string{"b": "it's", "a": "2"})
	if want := "a = 1\na = '2'\nb = 'it''s'\n"; err != nil || string(postgres) != want {
		t.Errorf("got %q, %v", postgres, err)
	}
	redis, err := admin.RedisConf([]byte("a 1"), map[string]string{"save": "9 1", "b": ""})
	if want := "a 1\nb \"\"\nsave \"\"\nsave 9 1\n"; err != nil || string(redis) != want {
		t.Errorf("got %q, %v", redis, err)
	}
}

// brokerConf is the configuration of a broker without the lines that every
// broker has.
func brokerConf(base []byte, settings map[string]string) ([]byte, error) {
	broker := admin.KafkaBroker{Node: 1, Voters: []string{"127.0.0.1:1"}, Direct: "127.0.0.1:2"}
	bare, err := admin.KafkaConf(nil, sut.KafkaSettings{}, broker)
	if err != nil {
		return nil, err
	}
	whole, err := admin.KafkaConf(nil, sut.KafkaSettings{Settings: settings}, broker)
	return append(base, bytes.TrimPrefix(whole, bytes.TrimSuffix(bare, []byte("\n")))...), err
}

func TestBrokersAreToldWhoTheyAre(t *testing.T) {
	settings := sut.DefaultKafka()
	settings.Brokers = 3
	settings.Settings = map[string]string{"min.insync.replicas": "3", "a": ` \`}
	conf, err := admin.KafkaConf([]byte("base=1"), settings, admin.KafkaBroker{Node: 2, Data: "/d",
		Voters: []string{"h:1", "h:2", "h:3"}, Direct: "h:4", Front: "h:5", Told: "proxy:6"})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"base=1", "node.id=2", "log.dirs=/d",
		"controller.quorum.voters=1@h:1,2@h:2,3@h:3",
		"listeners=DIRECT://h:4,FRONT://h:5,CONTROLLER://h:2",
		"advertised.listeners=DIRECT://h:4,FRONT://proxy:6", "default.replication.factor=3",
		"min.insync.replicas=2", "offsets.topic.replication.factor=3", `a=\ \\`} {
		if !strings.Contains("\n"+string(conf), "\n"+want+"\n") {
			t.Errorf("%q is missing in\n%s", want, conf)
		}
	}
	if last := "\nmin.insync.replicas=3\n"; !strings.HasSuffix(string(conf), last) {
		t.Errorf("the scenario does not have the last word in\n%s", conf)
	}
}

// TestSilentBrokerIsBounded asks an address that takes connections and never
// answers: the answer must come with the end of the context, as what it is.
func TestSilentBrokerIsBounded(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	one := admin.KafkaBroker{Voters: make([]string, 1)}
	broker := one.At(func() string { return silent.Addr().String() })
	if err := broker.Ready(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v is not recognisable as a silence", err)
	}
	err = broker.ReadyAt(t.Context(), "127.0.0.1:9")
	if err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("where nobody listens: %v", err)
	}
}

// TestNoSettingEscapesItsLine draws settings and expects a refusal, or one
// line more for each, two for save.
func TestNoSettingEscapesItsLine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.OneOf(rapid.StringMatching(`[a-z_.-]{1,8}`), rapid.String()).Draw(t, "name")
		value := rapid.String().Draw(t, "value")
		for _, render := range []func([]byte, map[string]string) ([]byte, error){
			admin.PostgresConf, admin.RedisConf, brokerConf} {
			out, err := render([]byte("first"), map[string]string{name: value})
			if err != nil {
				continue
			}
			lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
			if name != "save" && len(lines) != 2 || !strings.HasPrefix(lines[len(lines)-1], name) {
				t.Fatalf("%q = %q became %q", name, value, out)
			}
		}
	})
}

// TestCommittedConfigurationIsDurable keeps anybody from making the numbers
// better by making them worthless.
func TestCommittedConfigurationIsDurable(t *testing.T) {
	for _, want := range []string{"fsync = on", "synchronous_commit = on", "full_page_writes = on"} {
		if !regexp.MustCompile(`(?m)^` + want + `$`).Match(docker.PostgresConf) {
			t.Errorf("postgresql.conf lacks %q", want)
		}
	}
	for _, want := range []string{"appendonly yes", "appendfsync everysec"} {
		if !regexp.MustCompile(`(?m)^` + want + `$`).Match(docker.RedisConf) {
			t.Errorf("redis.conf lacks %q", want)
		}
	}
}

func TestDatabaseName(t *testing.T) {
	if got := admin.DatabaseName("1A-b", 3, "Redis Lua/x"); got != "stampede_1a_b_3_redis_lua_x" {
		t.Errorf("got %s", got)
	}
	rapid.Check(t, func(t *rapid.T) {
		runID, name := rapid.String().Draw(t, "run"), rapid.String().Draw(t, "name")
		first, second := admin.DatabaseName(runID, 1, name), admin.DatabaseName(runID, 2, name)
		if !regexp.MustCompile(`^stampede_[a-z0-9_]*$`).MatchString(first) || len(first) > 63 {
			t.Fatalf("%q is no name for a database", first)
		}
		if first == second {
			t.Fatalf("two numbers give one name, %q", first)
		}
	})
}

func TestRedact(t *testing.T) {
	for _, url := range []string{"postgres://u:hunter2@h/d", "redis://:hunter2@h:1/0",
		"postgres://h/d?password=hunter2&x=1", "postgres://h/d?sslpassword=hunter2", "%%hunter2",
		"postgres://u:hunter2@h:port/d", "host=h password=hunter2"} {
		if got := admin.Redact(url); strings.Contains(got, "hunter2") || got == "" {
			t.Errorf("%s became %s", url, got)
		}
	}
	for _, url := range []string{"redis://h:1/0", "", "not-a-url"} {
		if got := admin.Redact(url); got != url {
			t.Errorf("%q, without secrets, became %s", url, got)
		}
	}
}

// administrators are both stores' at the namespace's URLs.
func administrators(t *testing.T) map[sut.Service]admin.Store {
	t.Helper()
	space := stores.Namespace(t)
	return map[sut.Service]admin.Store{
		sut.Postgres: admin.Postgres{URL: func() string { return space.PostgresURL }},
		sut.Redis:    admin.Redis{URL: func() string { return space.RedisURL }},
	}
}

// TestSilenceIsBounded asks an address that takes connections and never
// answers, as a frozen store does.
func TestSilenceIsBounded(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for service, store := range administrators(t) {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		err := store.ReadyAt(ctx, silent.Addr().String())
		cancel()
		var timeout net.Error
		if !errors.Is(err, context.DeadlineExceeded) && !(errors.As(err, &timeout) && timeout.Timeout()) {
			t.Errorf("%s: %v is not recognisable as a silence", service, err)
		}
		if err := store.Ready(t.Context()); err != nil {
			t.Errorf("%s: %v", service, err)
		}
		if store.ReadyAt(t.Context(), "127.0.0.1:9") == nil || store.ReadyAt(t.Context(), "x") == nil {
			t.Errorf("%s answers where nobody listens", service)
		}
	}
}

// TestDropWithoutPrivileges: a user who may create databases drops one that a superuser's process,
// such as autovacuum's, is connected to, as soon as that has left, and throws its own sessions out.
func TestDropWithoutPrivileges(t *testing.T) {
	ctx := t.Context()
	super := administrators(t)[sut.Postgres].(admin.Postgres)
	root := dial(t, super.URL())
	if _, err := root.Exec(ctx, `CREATE ROLE dropper LOGIN CREATEDB PASSWORD 'x'`); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if _, err := root.Exec(context.WithoutCancel(ctx), `DROP ROLE dropper`); err != nil {
			t.Error(err)
		}
	}()
	as, err := url.Parse(super.URL())
	if err != nil {
		t.Fatal(err)
	}
	as.User = url.UserPassword("dropper", "x")
	user := admin.Postgres{URL: as.String}
	dropped, err := user.CreateDatabase(ctx, "dropper_1", "")
	if err != nil {
		t.Fatal(err)
	}
	own := dial(t, dropped)
	there, err := super.DatabaseURL("dropper_1")
	if err != nil {
		t.Fatal(err)
	}
	vacuum := dial(t, there)
	done := make(chan error, 1)
	go func() { done <- user.DropDatabase(ctx, "dropper_1") }()
	if _, err := own.Exec(ctx, `SELECT pg_sleep(60)`); err == nil {
		t.Error("a session of the user's own was not thrown out")
	}
	if err := vacuum.Ping(ctx); err != nil {
		t.Errorf("a superuser's session was thrown out: %v", err)
	}
	if err := vacuum.Close(ctx); err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Errorf("%v", err)
	}
	if err := user.DropDatabase(ctx, "postgres"); err == nil {
		t.Error("dropped a database of somebody else")
	}
}

func dial(t *testing.T, address string) *pgx.Conn {
	conn, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func TestUnknownSettingIsAnError(t *testing.T) {
	for service, store := range administrators(t) {
		_, err := store.Info(t.Context(), []string{"no_such_setting"})
		if err == nil || !strings.Contains(err.Error(), "no_such_setting") {
			t.Errorf("%s: %v", service, err)
		}
	}
}

func TestDeletePrefixIsLiteral(t *testing.T) {
	space := stores.Namespace(t)
	store := admin.Redis{URL: func() string { return space.RedisURL }}
	if _, err := store.DeletePrefix(t.Context(), ""); err == nil {
		t.Error("an empty prefix would delete everything, and was taken")
	}
	client := envtest.RedisClient(t, space.RedisURL)
	for _, key := range []string{"a*:1", "a*:2", "ab:1", `a[b]?\:1`} {
		if err := client.Set(t.Context(), key, 1, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for prefix, want := range map[string]int64{"a*:": 2, `a[b]?\:`: 1, "nothing": 0} {
		if got, err := store.DeletePrefix(t.Context(), prefix); err != nil || got != want {
			t.Errorf("%s: deleted %d, %v, want %d", prefix, got, err, want)
		}
	}
	var left []string
	err := store.EachKey(t.Context(), "", func(key string) bool {
		left = append(left, key)
		return true
	})
	if err != nil || !slices.Equal(left, []string{"ab:1"}) {
		t.Errorf("%q are left, %v", left, err)
	}
}
