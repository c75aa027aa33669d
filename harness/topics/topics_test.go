package topics_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"stampede/harness/sut"
	"stampede/harness/topics"
)

func TestNames(t *testing.T) {
	for prefix, want := range map[string]string{
		"stampede:20261121-1a2b:1:": "stampede-20261121-1a2b-1-", "a_b.c/ü": "a-b.c--", "": "",
	} {
		if got := topics.Prefix(prefix); got != want || topics.Prefix(got) != got {
			t.Errorf("%s became %s, want %s", prefix, got, want)
		}
	}
	cfg := sut.Config{Prefix: "stampede:r:1:"}
	if got := topics.Name(cfg, "events"); got != "stampede-r-1-events" {
		t.Errorf("got %s", got)
	}
}

// TestEverySettingMakesAClient has the driver check what it is told.
func TestEverySettingMakesAClient(t *testing.T) {
	cfg := sut.Config{KafkaBrokers: []string{"127.0.0.1:9"}, Kafka: sut.DefaultKafka(),
		Timeout: time.Millisecond}
	try := func(change func(*sut.KafkaSettings)) error {
		one := cfg
		change(&one.Kafka)
		opts, err := topics.Options(one)
		if err != nil {
			return err
		}
		client, err := kgo.NewClient(opts...)
		if err == nil {
			client.Close()
		}
		return err
	}
	for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		if err := try(func(k *sut.KafkaSettings) { k.Compression = codec }); err != nil {
			t.Errorf("compression %s: %v", codec, err)
		}
	}
	for _, acks := range []string{"all", "leader", "none"} {
		err := try(func(k *sut.KafkaSettings) { k.Acks, k.Idempotence = acks, false })
		if err != nil {
			t.Errorf("acks %s: %v", acks, err)
		}
	}
	for want, change := range map[string]func(*sut.KafkaSettings){
		"expected none, gzip":  func(k *sut.KafkaSettings) { k.Compression = "brotli" },
		"expected all, leader": func(k *sut.KafkaSettings) { k.Acks = "most" },
		"idempotency requires": func(k *sut.KafkaSettings) { k.Acks = "leader" },
	} {
		if err := try(change); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if _, err := topics.Options(sut.Config{}); err == nil {
		t.Error("without brokers there is a client")
	}
}

// TestDial: connections are made by the configured dialer.
func TestDial(t *testing.T) {
	var dialed atomic.Int64
	cfg := sut.Config{KafkaBrokers: []string{"broker:9"}, Kafka: sut.DefaultKafka(),
		Timeout: time.Second,
		Dial: func(context.Context, string, string) (net.Conn, error) {
			dialed.Add(1)
			return nil, errors.New("no network")
		}}
	opts, err := topics.Options(cfg)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kgo.NewClient(opts...)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := client.Ping(ctx); err == nil || dialed.Load() == 0 {
		t.Errorf("got %v after %d dials", err, dialed.Load())
	}
}
