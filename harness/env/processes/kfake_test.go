package processes_test

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"stampede/harness/env"
	"stampede/harness/env/processes"
	"stampede/harness/sut"
	"stampede/harness/topics"
)

// kfakeWord makes this test binary serve kfake.
const kfakeWord = "kfake"

func beKfake(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	port, err := strconv.Atoi(args[1])
	if err == nil {
		err = processes.ServeKfake(ctx, args[0], port, args[2])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func kfakeSpec() env.Spec {
	return env.Spec{Services: []sut.Service{sut.Kafka}, Kafka: sut.DefaultKafka(),
		Kfake: []string{os.Args[0], kfakeWord}}
}

// TestKfakeWhereThereIsNoJava: what is acknowledged survives kill -9, and what
// runs says that it is not Kafka.
func TestKfakeWhereThereIsNoJava(t *testing.T) {
	t.Setenv("JAVA_HOME", t.TempDir())
	ok, reason := processes.New().Available(t.Context(), kfakeSpec())
	if !ok || !strings.HasPrefix(reason, "kfake ") {
		t.Fatalf("available %v: %s", ok, reason)
	}
	cluster := start(t, kfakeSpec())
	b := cluster.Component(sut.Kafka).(env.Breakable)
	info, err := b.Info(t.Context())
	if err != nil || info.Kind != "kfake" || info.Flush <= 0 {
		t.Errorf("%+v, %v", info, err)
	}
	cfg := sut.Config{KafkaBrokers: []string{b.Addr()}, Kafka: sut.DefaultKafka(),
		Prefix: "stampede:k:1:", Timeout: 10 * time.Second}
	opts, err := topics.Options(cfg)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kgo.NewClient(append(opts, kgo.ConsumeTopics(topics.Name(cfg, "events")))...)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := topics.Create(t.Context(), cfg, topics.Topic{Name: "events"}); err != nil {
		t.Fatal(err)
	}
	record := &kgo.Record{Topic: topics.Name(cfg, "events"), Value: []byte("kept")}
	if err := client.ProduceSync(t.Context(), record).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := b.Start(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	fetched := client.PollRecords(ctx, 1)
	got := fetched.Records()
	if fetched.Err() != nil || len(got) != 1 || string(got[0].Value) != "kept" {
		t.Errorf("after the kill there is %v, %v", got, fetched.Err())
	}
}

func TestKfakeIsNoClusterAndTakesNoSettings(t *testing.T) {
	t.Setenv("JAVA_HOME", t.TempDir())
	three, tuned, without := kfakeSpec(), kfakeSpec(), kfakeSpec()
	three.Kafka.Brokers = 3
	tuned.Kafka.Settings = map[string]string{"num.io.threads": "3"}
	without.Kfake = nil
	for want, spec := range map[string]env.Spec{
		"3 brokers need the real kafka": three, "settings are the real kafka's": tuned,
		"no java 17 or later": without,
	} {
		if _, err := processes.New().Start(t.Context(), spec); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
