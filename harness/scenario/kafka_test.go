package scenario_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"stampede/harness/scenario"
	"stampede/harness/sut"
)

// logged is a shop with a variant that needs Kafka.
func logged() scenario.Options {
	opts := options()
	system := shop()
	system.Variants = append(system.Variants, sut.Variant{Name: "logged",
		Needs: []sut.Service{sut.Postgres, sut.Kafka}})
	opts.Systems = func(string) (sut.System, bool) { return system, true }
	return opts
}

func decodeKafka(t *testing.T, extra string) scenario.Scenario {
	t.Helper()
	sc, _, err := scenario.Decode([]byte(minimal+extra), "x.yaml", logged())
	if err != nil {
		t.Fatal(err)
	}
	return sc
}

func TestKafkaDefaults(t *testing.T) {
	got := decodeKafka(t, "").Stores.Kafka
	if !reflect.DeepEqual(got, sut.DefaultKafka()) {
		t.Errorf("got %+v", got)
	}
	if got.Replicas() != 1 || got.InSync() != 1 {
		t.Errorf("one broker keeps %d copies, %d in sync", got.Replicas(), got.InSync())
	}
	three := decodeKafka(t, "stores: {kafka: {brokers: 3}}\n").Stores.Kafka
	if three.Replicas() != 3 || three.InSync() != 2 {
		t.Errorf("three brokers keep %d copies, %d in sync", three.Replicas(), three.InSync())
	}
}

func TestKafkaSettings(t *testing.T) {
	sc := decodeKafka(t, `stores:
  kafka:
    brokers: 3
    partitions: 100
    replication: 2
    min_insync: 1
    acks: leader
    idempotence: false
    compression: zstd
    linger: 0s
    fetch_min_bytes: 1024
    fetch_max_wait: 50ms
    fetch_max_bytes: 1048576
    fetch_partition_bytes: 65536
    settings: {num.io.threads: 5}
faults:
  - {name: gone, kind: kill, target: kafka-2, at: 1s, for: 1s}
  - {name: also, kind: pause, target: kafka-3, at: 1s, for: 1s}
`)
	want := sut.KafkaSettings{Brokers: 3, Partitions: 100, Replication: 2, MinInSync: 1,
		Acks: "leader", Compression: "zstd", FetchMinBytes: 1024,
		FetchMaxWait: scenario.Duration(50 * time.Millisecond), FetchMaxBytes: 1 << 20,
		FetchPartitionBytes: 1 << 16, Settings: map[string]string{"num.io.threads": "5"}}
	if !reflect.DeepEqual(sc.Stores.Kafka, want) {
		t.Errorf("got %+v", sc.Stores.Kafka)
	}
	text, err := sc.YAML()
	if err != nil {
		t.Fatal(err)
	}
	again, _, err := scenario.Decode(text, "again.yaml", logged())
	if err != nil || !reflect.DeepEqual(again.Stores, sc.Stores) {
		t.Errorf("written and read again: %+v, %v\n%s", again.Stores, err, text)
	}
}

// TestKafkaIsNotMentionedWithoutNeed keeps scenarios of other stores as short
// as they were.
func TestKafkaIsNotMentionedWithoutNeed(t *testing.T) {
	sc, _, err := scenario.Decode([]byte(minimal), "x.yaml", options())
	if err != nil {
		t.Fatal(err)
	}
	if text, err := sc.YAML(); err != nil || strings.Contains(string(text), "kafka") {
		t.Errorf("%v\n%s", err, text)
	}
}

func TestBadKafkaSettings(t *testing.T) {
	for name, c := range map[string]struct{ extra, want string }{
		"brokers":     {"brokers: 2", "brokers is 2; expected 1 or 3"},
		"replication": {"replication: 2", "replication is 2; expected 0 to 1"},
		"min_insync":  {"brokers: 3, min_insync: 4", "min_insync is 4; expected 0 to 3"},
		"idempotence": {"acks: leader", "idempotence needs acks all"},
		"fetch":       {"fetch_min_bytes: 9, fetch_max_bytes: 8", "9 bytes is more than the most"},
		"unknown":     {"partition: 3", `unknown field "partition"`},
	} {
		t.Run(name, func(t *testing.T) {
			src := minimal + "stores: {kafka: {" + c.extra + "}}\n"
			_, _, err := scenario.Decode([]byte(src), "x.yaml", logged())
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	for extra, want := range map[string]string{
		"faults: [{name: f, kind: kill, target: kafka-2, at: 1s, for: 1s}]\n": "one broker has no number",
		"stores: {kafka: {brokers: 3}}\nfaults:\n" +
			"  - {name: f, kind: kill, target: kafka, at: 1s, for: 1s}\n" +
			"  - {name: g, kind: pause, target: kafka-1, at: 1s, for: 1s}\n": "at the same time",
	} {
		_, _, err := scenario.Decode([]byte(minimal+extra), "x.yaml", logged())
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	three := []byte(minimal + "stores: {kafka: {brokers: 3}}\n")
	_, _, err := scenario.Decode(three, "x.yaml", options())
	if err == nil || !strings.Contains(err.Error(), "no design of shop needs kafka") {
		t.Errorf("without need: %v", err)
	}
}
