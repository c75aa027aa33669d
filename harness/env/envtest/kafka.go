package envtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"stampede/harness/env"
	"stampede/harness/sut"
	"stampede/harness/topics"
)

// ExerciseKafka is what every local backend must do with the real Kafka: with
// one broker, and with three of which any may be lost. It takes two minutes.
func ExerciseKafka(t *testing.T, p env.Provider) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a real broker; -short was given")
	}
	s := suite{p}
	t.Run("OneBroker", s.oneBroker)
	t.Run("ThreeBrokers", s.threeBrokers)
	t.Run("UnknownSettingIsOneClearError", s.badBroker)
}

// startKafka starts brokers.
func (s suite) startKafka(t *testing.T, settings sut.KafkaSettings) env.Cluster {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	spec := env.Spec{Services: []sut.Service{sut.Kafka}, RunID: runID(), Dir: t.TempDir(),
		Log: t.Logf, Kafka: settings}
	begin := time.Now()
	cluster, err := s.provider.Start(ctx, spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d brokers were ready after %v", settings.Brokers, time.Since(begin))
	t.Cleanup(func() { closeCluster(t, cluster) })
	return cluster
}

func kafkaSettings(brokers int) sut.KafkaSettings {
	settings := sut.DefaultKafka()
	settings.Brokers, settings.Partitions = brokers, 3
	return settings
}

// oneBroker breaks one broker in every way, in an order in which each way
// finds it whole again.
func (s suite) oneBroker(t *testing.T) {
	settings := kafkaSettings(1)
	settings.Settings = map[string]string{"num.io.threads": "5"}
	cluster := s.startKafka(t, settings)
	b := breakable(t, cluster, sut.Kafka)
	t.Run("Info", func(t *testing.T) { kafkaInfo(t, b, settings) })
	t.Run("NamespacesAreSeparate", func(t *testing.T) { kafkaNamespaces(t, cluster) })
	t.Run("KillLosesNothingAcknowledged", func(t *testing.T) {
		space := namespace(t, cluster)
		produce(t, space, settings, "kept")
		killAndStart(t, b, false)
		space.KafkaBrokers = []string{b.Addr()}
		if got := consume(t, space, settings); got != "kept" {
			t.Errorf("after the kill there is %q", got)
		}
	})
	t.Run("PauseAndResume", func(t *testing.T) { kafkaPause(t, b) })
	t.Run("Restart", func(t *testing.T) {
		before := identity(t, b)
		if err := b.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		if identity(t, b) == before {
			t.Error("the same identity after a restart")
		}
	})
	t.Run("Wipe", func(t *testing.T) {
		space := namespace(t, cluster)
		produce(t, space, settings, "kept")
		killAndStart(t, b, true)
		space.KafkaBrokers = []string{b.Addr()}
		if names := topicsOf(t, space, settings); len(names) != 0 {
			t.Errorf("after the wipe there are %v", names)
		}
	})
	t.Run("CloseIsIdempotent", func(t *testing.T) {
		closeCluster(t, cluster)
		closeCluster(t, cluster)
		if b.Ready(t.Context()) == nil {
			t.Error("it answers after it was closed")
		}
	})
}

func kafkaInfo(t *testing.T, b env.Breakable, settings sut.KafkaSettings) {
	info, err := b.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", info)
	if info.Kind != "kafka" || info.Version == "" || info.Flush <= 0 || info.Source == "" {
		t.Errorf("incomplete: %+v", info)
	}
	for name, want := range map[string]string{
		"min.insync.replicas": fmt.Sprint(settings.InSync()), "num.io.threads": "5",
		"flush_policy": "page cache: acknowledged before it is on disk; other brokers keep it",
	} {
		if info.Settings[name] != want {
			t.Errorf("%s is %q, want %q", name, info.Settings[name], want)
		}
	}
	if tail := b.LogTail(3); tail == "" || strings.Count(tail, "\n") > 2 {
		t.Errorf("the last three lines of the log are %q", tail)
	}
}

func kafkaNamespaces(t *testing.T, cluster env.Cluster) {
	settings := kafkaSettings(1)
	first, second := namespace(t, cluster), namespace(t, cluster)
	produce(t, first, settings, "first")
	produce(t, second, settings, "second")
	if err := second.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := consume(t, first, settings); got != "first" {
		t.Errorf("releasing the second left the first with %q", got)
	}
	if err := second.Release(t.Context()); err != nil {
		t.Errorf("a second release: %v", err)
	}
	if err := first.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := append(topicsOf(t, first, settings), topicsOf(t, second, settings)...); len(left) > 0 {
		t.Errorf("topics are left: %v", left)
	}
}

func kafkaPause(t *testing.T, b env.Breakable) {
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
	if err := b.Ready(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while paused it answers %v", err)
	}
	if err := b.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	awaitReady(t, b)
	if identity(t, b) != before {
		t.Error("another one after a pause")
	}
	if err := b.Resume(t.Context()); err != nil {
		t.Errorf("resume of what runs: %v", err)
	}
}

// killAndStart kills a broker and starts it again.
func killAndStart(t *testing.T, b env.Breakable, wipe bool) {
	t.Helper()
	before := identity(t, b)
	pids, err := b.Kill(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(pids) == 0 || b.Ready(t.Context()) == nil {
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
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := c.Ready(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatal(err)
		case <-tick.C:
		}
	}
}

// threeBrokers loses brokers: what was acknowledged stays, with one away
// records are taken, and with two away none are.
func (s suite) threeBrokers(t *testing.T) {
	settings := kafkaSettings(3)
	cluster := s.startKafka(t, settings)
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

func (s suite) badBroker(t *testing.T) {
	settings := kafkaSettings(1)
	settings.Settings = map[string]string{"num.io.treads": "5"}
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	spec := env.Spec{Services: []sut.Service{sut.Kafka}, RunID: runID(), Dir: t.TempDir(),
		Kafka: settings}
	cluster, err := s.provider.Start(ctx, spec)
	if err == nil {
		closeCluster(t, cluster)
	}
	if err == nil || !strings.Contains(err.Error(), "no setting num.io.treads") {
		t.Errorf("got %v", err)
	}
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

func topicsOf(t *testing.T, space env.Namespace, settings sut.KafkaSettings) []string {
	t.Helper()
	names, _, err := topics.List(t.Context(), kafkaClient(t, space, settings), space.Prefix)
	if err != nil {
		t.Fatal(err)
	}
	return names
}
