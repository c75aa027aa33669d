package external_test

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"stampede/harness/env"
	"stampede/harness/env/envtest"
	"stampede/harness/env/external"
	"stampede/harness/sut"
	"stampede/harness/topics"
)

// TestKafkaTouchesOnlyItsOwn lets a broker of ours play the user's.
func TestKafkaTouchesOnlyItsOwn(t *testing.T) {
	theirs := envtest.Start(t, sut.Kafka)
	seeds := []string{theirs.Component(sut.Kafka).Addr()}
	own := sut.Config{KafkaBrokers: seeds, Kafka: sut.DefaultKafka(), Prefix: "stampede:other:1:"}
	client := kafkaClient(t, own)
	if err := topics.Create(t.Context(), own, topics.Topic{Name: "theirs"}); err != nil {
		t.Fatal(err)
	}
	s := env.Spec{RunID: "ext1", Services: []sut.Service{sut.Kafka}, KafkaBrokers: seeds}
	cluster := start(t, s)
	info, err := cluster.Component(sut.Kafka).Info(t.Context())
	if err != nil || info.Kind != "kafka" || info.Source != "external: kafka://"+seeds[0] {
		t.Errorf("%+v, %v", info, err)
	}
	if _, breakable := cluster.Component(sut.Kafka).(env.Breakable); breakable {
		t.Error("the user's broker may be broken")
	}
	space, err := cluster.Namespace(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	ours := sut.Config{KafkaBrokers: space.KafkaBrokers, Kafka: own.Kafka, Prefix: space.Prefix}
	if err := topics.Create(t.Context(), ours, topics.Topic{Name: "ours"}); err != nil {
		t.Fatal(err)
	}
	if _, err := start(t, s).Namespace(t.Context(), "a"); err == nil ||
		!strings.Contains(err.Error(), "topics or groups that begin with stampede-ext1-1-") {
		t.Errorf("a prefix that is taken: %v", err)
	}
	if err := cluster.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	names, _, err := topics.List(t.Context(), client, "stampede:")
	if err != nil || strings.Join(names, " ") != "stampede-other-1-theirs stampede-ready" {
		t.Errorf("left are %v, %v", names, err)
	}
}

// TestKafkaIsSwept makes a topic that nobody drops, with each kind of signature.
func TestKafkaIsSwept(t *testing.T) {
	theirs := envtest.Start(t, sut.Kafka)
	seeds := []string{theirs.Component(sut.Kafka).Addr()}
	s := env.Spec{RunID: "left", Services: []sut.Service{sut.Kafka}, KafkaBrokers: seeds}
	space, err := start(t, s).Namespace(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	cfg := sut.Config{KafkaBrokers: seeds, Kafka: sut.DefaultKafka(), Prefix: space.Prefix}
	client := kafkaClient(t, cfg)
	if err := topics.Create(t.Context(), cfg, topics.Topic{Name: "events"}); err != nil {
		t.Fatal(err)
	}
	left := []string{"topics stampede-left-*"}
	expectSweep(t, s, nil, left, "is alive")
	expectNamedAtStart(t, s, left...)
	sign := func(as string) {
		record := &kgo.Record{Topic: "stampede-left", Value: []byte(as)}
		if err := client.ProduceSync(t.Context(), record).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	sign("")
	expectSweep(t, s, nil, left, "does not say")
	dead, err := env.OwnerOf(s.RunID)
	if err != nil {
		t.Fatal(err)
	}
	dead.Started++ // another process had our pid
	sign(signature(t, dead))
	expectSweep(t, s, left, nil, "")
	expectSweep(t, s, nil, nil, "")
	names, _, err := topics.List(t.Context(), client, "stampede-left")
	if err != nil || len(names) > 0 {
		t.Errorf("left are %v, %v", names, err)
	}
}

func kafkaClient(t *testing.T, cfg sut.Config) *kgo.Client {
	t.Helper()
	opts, err := topics.Options(cfg)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kgo.NewClient(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func TestKafkaErrorsAreClear(t *testing.T) {
	settings := sut.DefaultKafka()
	settings.Settings = map[string]string{"num.io.threads": "3"}
	for want, s := range map[string]env.Spec{
		"give --kafka-brokers": {},
		"expected host:port":   {KafkaBrokers: []string{"somewhere"}},
		"does not change":      {KafkaBrokers: []string{"h:1"}, Kafka: settings},
		"ask kafka":            {KafkaBrokers: []string{"127.0.0.1:9"}},
	} {
		s.Services = []sut.Service{sut.Kafka}
		if ok, reason := external.New().Available(t.Context(), s); ok || !strings.Contains(reason, want) {
			t.Errorf("got %v, %s, want %s", ok, reason, want)
		}
	}
}
