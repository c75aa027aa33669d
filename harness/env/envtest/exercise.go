package envtest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
	"github.com/twmb/franz-go/pkg/kgo"

	"stampede/harness/env"
	"stampede/harness/env/admin"
	"stampede/harness/sut"
	"stampede/harness/topics"
)

// services are what every local backend provides, with the number of processes that a kill of
// each ends at least.
var services = map[sut.Service]int{sut.Postgres: 4, sut.Redis: 1, sut.Kafka: 1}

// Exercise is what every local backend must do: with one store of each kind, and with three
// brokers of Kafka of which any may be lost. It takes two minutes.
func Exercise(t *testing.T, p env.Provider) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs real stores; -short was given")
	}
	admin.Quiet()
	s := suite{p}
	t.Run("OneOfEach", s.oneOfEach)
	t.Run("ThreeBrokers", s.threeBrokers)
	t.Run("Replica", s.replica)
	t.Run("BadSettingIsOneClearError", s.badSetting)
}

type suite struct{ provider env.Provider }

func (s suite) start(t *testing.T, spec env.Spec) env.Cluster {
	t.Helper()
	spec.RunID, spec.Dir, spec.Log = runID(), t.TempDir(), t.Logf
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

func kafkaSettings(brokers int) sut.KafkaSettings {
	settings := sut.DefaultKafka()
	settings.Brokers, settings.Partitions = brokers, 3
	return settings
}

// oneOfEach breaks the stores in every way, in an order in which each way finds them whole
// again.
func (s suite) oneOfEach(t *testing.T) {
	spec := env.Spec{Postgres: map[string]string{"work_mem": "5MB"},
		Redis: map[string]string{"save": "900 7", "hz": "17"}, Kafka: kafkaSettings(1)}
	for service := range services {
		spec.Services = append(spec.Services, service)
	}
	spec.Kafka.Settings = map[string]string{"num.io.threads": "5"}
	cluster := s.start(t, spec)
	t.Run("Info", func(t *testing.T) { info(t, cluster) })
	t.Run("NamespacesAreSeparate", func(t *testing.T) { namespaces(t, cluster) })
	for service, least := range services {
		b := breakable(t, cluster, service)
		t.Run(string(service), func(t *testing.T) {
			t.Run("KillLosesNothingAcknowledged", func(t *testing.T) {
				space := namespace(t, cluster)
				put(t, space, "kept")
				killAndStart(t, b, false, least)
				if got := get(t, cluster, space); got != [3]string{"kept", "kept", "kept"} {
					t.Errorf("after the kill: %q", got)
				}
			})
			t.Run("PauseAndResume", func(t *testing.T) { pause(t, b) })
			t.Run("Restart", func(t *testing.T) {
				before := identity(t, b)
				if err := b.Restart(t.Context()); err != nil {
					t.Fatal(err)
				}
				if identity(t, b) == before {
					t.Error("the same identity after a restart")
				}
			})
		})
	}
	t.Run("Wipe", func(t *testing.T) {
		space := namespace(t, cluster)
		put(t, space, "kept")
		for service, least := range services {
			killAndStart(t, breakable(t, cluster, service), true, least)
		}
		if got := get(t, cluster, space); got != [3]string{} {
			t.Errorf("after the wipe: %q", got)
		}
	})
	t.Run("CloseIsIdempotent", func(t *testing.T) {
		before := make(map[sut.Service]string)
		for service := range services {
			before[service] = identity(t, cluster.Component(service))
		}
		closeCluster(t, cluster)
		closeCluster(t, cluster)
		for service, id := range before { // at its address there may be another run's store by now
			if got, err := cluster.Component(service).Identity(t.Context()); err == nil && got == id {
				t.Errorf("%s, %s, answers after it was closed", service, id)
			}
		}
	})
}

func info(t *testing.T, cluster env.Cluster) {
	for service, settings := range map[sut.Service]map[string]string{
		sut.Postgres: {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on",
			"shared_buffers": "256MB", "max_connections": "1000", "work_mem": "5MB"},
		sut.Redis: {"appendonly": "yes", "appendfsync": "everysec", "save": "900 7", "hz": "17"},
		sut.Kafka: {"min.insync.replicas": "1", "num.io.threads": "5",
			"flush_policy": "page cache: acknowledged before it is on disk; other brokers keep it"},
	} {
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
	if cluster.Component("oracle") != nil {
		t.Error("there is a store that nobody started")
	}
}

func namespaces(t *testing.T, cluster env.Cluster) {
	first, second := namespace(t, cluster), namespace(t, cluster)
	put(t, first, "first")
	put(t, second, "second")
	for range 2 { // a second release does nothing
		if err := second.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got := get(t, cluster, first); got != [3]string{"first", "first", "first"} {
		t.Errorf("releasing the second left the first with %q", got)
	}
	if got := get(t, cluster, second); got != [3]string{} {
		t.Errorf("a released namespace still has %q", got)
	}
	if err := first.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := get(t, cluster, first); got != [3]string{} {
		t.Errorf("the last namespace, released, still has %q", got)
	}
	if n := RedisClient(t, first.RedisURL).DBSize(t.Context()).Val(); n != 0 {
		t.Errorf("%d keys are left", n)
	}
}

func pause(t *testing.T, b env.Breakable) {
	before := identity(t, b)
	pids, err := b.Pause(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(pids) == 0 {
		t.Error("nothing was paused")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if b.Ready(ctx) == nil {
		t.Error("it answers while it is paused")
	}
	for range 2 { // what runs is resumed without an error
		if err := b.Resume(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	awaitReady(t, b)
	if identity(t, b) != before {
		t.Error("another one after a pause")
	}
}

// killAndStart kills a store, at least so many processes of it, and starts it again.
func killAndStart(t *testing.T, b env.Breakable, wipe bool, least int) {
	t.Helper()
	before := identity(t, b)
	pids, err := b.Kill(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(pids) < least {
		t.Errorf("processes %v were killed, want %d or more", pids, least)
	}
	if b.Ready(t.Context()) == nil {
		t.Errorf("it answers after the kill of %v", pids)
	}
	if _, err := b.Kill(t.Context()); err == nil {
		t.Error("it was killed twice")
	}
	begin := time.Now()
	if err := b.Start(t.Context(), wipe); err != nil {
		t.Fatal(err)
	}
	t.Logf("ready %v after the start", time.Since(begin))
	if err := b.Start(t.Context(), wipe); !errors.Is(err, env.ErrRunning) {
		t.Errorf("a second start: %v", err)
	}
	if identity(t, b) == before {
		t.Error("the same identity after a kill")
	}
}

// awaitReady waits until a component answers.
func awaitReady(t *testing.T, c env.Component) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	for err := c.Ready(ctx); err != nil; err = c.Ready(ctx) {
		if !sut.Pause(ctx, 50*time.Millisecond) {
			t.Fatal(err)
		}
	}
}

// threeBrokers loses brokers: what was acknowledged stays, with one away
// records are taken, and with two away none are.
func (s suite) threeBrokers(t *testing.T) {
	settings := kafkaSettings(3)
	cluster := s.start(t, env.Spec{Services: []sut.Service{sut.Kafka}, Kafka: settings})
	space := namespace(t, cluster)
	produce(t, space, settings, "with three")
	second := breakable(t, cluster, sut.KafkaBroker(2))
	third := breakable(t, cluster, sut.KafkaBroker(3))
	for _, b := range []env.Breakable{second, third} {
		if _, err := b.Kill(t.Context()); err != nil {
			t.Fatal(err)
		}
		if b == second {
			appendRecord(t, space, settings, "with two", true)
		}
	}
	appendRecord(t, space, settings, "with one", false)
	all := breakable(t, cluster, sut.Kafka)
	if all.Ready(t.Context()) == nil {
		t.Error("the cluster says that it is whole")
	}
	if err := all.Start(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	awaitReady(t, all)
	space.KafkaBrokers = []string{second.Addr()}
	if got := consume(t, space, settings); !strings.HasPrefix(got, "with three,with two") {
		t.Errorf("after the loss of brokers there is %q", got)
	}
	if members := all.(env.Clustered).Members(); len(members) != 3 {
		t.Errorf("%d members", len(members))
	}
	if err := all.Start(t.Context(), false); !errors.Is(err, env.ErrRunning) {
		t.Errorf("a second start: %v", err)
	}
	info, err := all.Info(t.Context())
	if err != nil || info.Settings["brokers"] != "3" || info.Settings["min.insync.replicas"] != "2" {
		t.Errorf("%+v, %v", info, err)
	}
}

func (s suite) badSetting(t *testing.T) {
	kafka := kafkaSettings(1)
	kafka.Settings = map[string]string{"num.io.treads": "5"}
	for name, c := range map[string]struct {
		service sut.Service
		spec    env.Spec
		want    string
	}{
		"unknown postgres setting": {sut.Postgres,
			env.Spec{Postgres: map[string]string{"shared_bufers": "1MB"}}, "shared_bufers"},
		"unknown redis setting": {sut.Redis,
			env.Spec{Redis: map[string]string{"appendfsink": "always"}}, "appendfsink"},
		"unknown kafka setting": {sut.Kafka, env.Spec{Kafka: kafka}, "no setting num.io.treads"},
		"two lines": {sut.Redis,
			env.Spec{Redis: map[string]string{"save": "\nport 1"}}, "one line"},
		"unknown service": {"oracle", env.Spec{}, "oracle"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), bound)
			defer cancel()
			c.spec.RunID, c.spec.Services = runID(), []sut.Service{c.service}
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

// put stores one acknowledged value in each store.
func put(t *testing.T, space env.Namespace, value string) {
	t.Helper()
	_, err := Connect(t, space.PostgresURL).Exec(t.Context(),
		"CREATE TABLE t AS SELECT '"+value+"'::text AS v")
	if err != nil {
		t.Fatal(err)
	}
	client := RedisClient(t, space.RedisURL)
	if err := client.Set(t.Context(), space.Prefix+"k", value, 0).Err(); err != nil {
		t.Fatal(err)
	}
	produce(t, space, kafkaSettings(1), value)
}

// get reads the values at the addresses that the stores have now, for which a run has proxies;
// a value is empty where there is none.
func get(t *testing.T, cluster env.Cluster, space env.Namespace) (values [3]string) {
	t.Helper()
	_, rest, _ := strings.Cut(strings.TrimPrefix(space.PostgresURL, "postgres://"), "/")
	url := "postgres://stampede@" + cluster.Component(sut.Postgres).Addr() + "/" + rest
	conn, err := pgx.Connect(t.Context(), url)
	if err == nil { // else there is no such database
		defer conn.Close(t.Context())
		if err := conn.QueryRow(t.Context(), "SELECT v FROM t").Scan(&values[0]); err != nil {
			t.Fatal(err)
		}
	}
	space.RedisURL = "redis://" + cluster.Component(sut.Redis).Addr() + "/0"
	values[1], err = RedisClient(t, space.RedisURL).Get(t.Context(), space.Prefix+"k").Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		t.Fatal(err)
	}
	space.KafkaBrokers = []string{cluster.Component(sut.Kafka).Addr()}
	settings := kafkaSettings(1)
	names, _, err := topics.List(t.Context(), kafkaClient(t, space, settings), space.Prefix)
	if err != nil {
		t.Fatal(err)
	}
	if slices.Contains(names, topics.Name(config(space, settings), "events")) {
		values[2] = consume(t, space, settings)
	} else if len(names) > 0 {
		t.Errorf("topics are left: %v", names)
	}
	return values
}

// config is what a variant would be given.
func config(space env.Namespace, settings sut.KafkaSettings) sut.Config {
	return sut.Config{KafkaBrokers: space.KafkaBrokers, Kafka: settings, Prefix: space.Prefix,
		Timeout: 30 * time.Second}
}

func kafkaClient(
	t *testing.T, space env.Namespace, settings sut.KafkaSettings, opts ...kgo.Opt,
) *kgo.Client {
	t.Helper()
	base, err := topics.Options(config(space, settings))
	if err != nil {
		t.Fatal(err)
	}
	client, err := kgo.NewClient(append(base, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// produce makes the namespace's topic and puts one acknowledged record in it.
func produce(t *testing.T, space env.Namespace, settings sut.KafkaSettings, value string) {
	t.Helper()
	one := topics.Topic{Name: "events", Partitions: 1}
	if err := topics.Create(t.Context(), config(space, settings), one); err != nil {
		t.Fatal(err)
	}
	appendRecord(t, space, settings, value, true)
}

// appendRecord puts a record in the topic, which is to be acknowledged or not.
func appendRecord(
	t *testing.T, space env.Namespace, settings sut.KafkaSettings, value string, want bool,
) {
	t.Helper()
	limit := 30 * time.Second
	if !want {
		limit = 5 * time.Second
	}
	client := kafkaClient(t, space, settings, kgo.RecordDeliveryTimeout(limit))
	record := &kgo.Record{Topic: topics.Name(config(space, settings), "events"), Value: []byte(value)}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	err := client.ProduceSync(ctx, record).FirstErr()
	if (err == nil) != want {
		t.Errorf("%s: got %v, acknowledged should be %v", value, err, want)
	}
}

// consume reads the namespace's topic and joins its values with commas.
func consume(t *testing.T, space env.Namespace, settings sut.KafkaSettings) string {
	t.Helper()
	topic := topics.Name(config(space, settings), "events")
	client := kafkaClient(t, space, settings, kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	fetched := client.PollFetches(ctx)
	if err := fetched.Err(); err != nil {
		t.Fatal(err)
	}
	var values []string
	for _, record := range fetched.Records() {
		values = append(values, string(record.Value))
	}
	return strings.Join(values, ",")
}
