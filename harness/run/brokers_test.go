package run

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/rundir"
	"stampede/harness/sut"
	"stampede/harness/topics"
)

// onBrokers asks whether what three brokers acknowledge outlives one of them,
// and clients whose records and replies are lost.
const onBrokers = `
name: log-test
question: Does the log keep what it acknowledged?
system: log
load:
  arrival: {process: constant, rate: 40, over: 10s}
  timeout: 5s
  drain: 60s
stores:
  kafka: {brokers: 3, partitions: 6}
faults:
  - {name: gone, kind: kill, target: kafka-2, at: 1s, for: 1s}
  - {name: silent, kind: lost-request, target: kafka-1, at: 5s, for: 2s}
`

// logged is a variant whose numbers are records of a topic.
type logged struct {
	cfg    sut.Config
	client *kgo.Client
	sent   atomic.Int64
}

func openLogged(_ context.Context, cfg sut.Config) (sut.Instance, error) {
	opts, err := topics.Options(cfg)
	if err != nil {
		return nil, err
	}
	opts = append(opts, kgo.DefaultProduceTopic(topics.Name(cfg, "numbers")))
	client, err := kgo.NewClient(opts...)
	return &logged{cfg: cfg, client: client}, err
}

func (l *logged) Prepare(ctx context.Context) error {
	return topics.Create(ctx, l.cfg, topics.Topic{Name: "numbers"})
}

func (l *logged) Do(ctx context.Context, op history.Op) (history.Reply, error) {
	id := binary.BigEndian.AppendUint64(nil, op.ID)
	err := l.client.ProduceSync(ctx, &kgo.Record{Key: []byte(op.Key), Value: id}).FirstErr()
	if err == nil {
		l.sent.Add(1)
	}
	return history.Reply{Value: 1}, err
}

// Audit reads the topic up to a last record of its own in each partition.
func (l *logged) Audit(ctx context.Context) (json.RawMessage, error) {
	topic := topics.Name(l.cfg, "numbers")
	opts, err := topics.Options(l.cfg)
	if err != nil {
		return nil, err
	}
	reader, err := kgo.NewClient(append(opts, kgo.ConsumeTopics(topic),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	for partition := range int32(l.cfg.Kafka.Partitions) {
		end := &kgo.Record{Topic: topic, Partition: partition}
		if err := reader.ProduceSync(ctx, end).FirstErr(); err != nil {
			return nil, err
		}
	}
	ids, ended := []uint64{}, 0
	for ended < l.cfg.Kafka.Partitions {
		fetched := reader.PollFetches(ctx)
		if err := fetched.Err(); err != nil {
			return nil, fmt.Errorf("after %d ends: %w", ended, err)
		}
		for _, record := range fetched.Records() {
			if len(record.Value) == 0 {
				ended++
				continue
			}
			ids = append(ids, binary.BigEndian.Uint64(record.Value))
		}
	}
	return json.Marshal(ids)
}

func (l *logged) Close() error {
	l.client.Close()
	return nil
}

func logSystem() sut.System {
	return sut.System{
		Name: "log", Summary: "keeps numbers in a log",
		Params:     func() any { return &ledgerParams{Keys: 1000} },
		Workload:   func(seed uint64, _ any) (sut.Workload, error) { return adds{seed, 1000}, nil },
		Invariants: func(any) []check.Invariant { return []check.Invariant{kept{}, asked{}} },
		Variants: []sut.Variant{{Name: "log", Idea: "a topic",
			Needs: []sut.Service{sut.Kafka}, Open: openLogged}},
	}
}

// TestARunOnThreeBrokers takes a whole run through the real Kafka, its proxies
// and its faults.
func TestARunOnThreeBrokers(t *testing.T) {
	e := onRealStores(t, onBrokers, logSystem(), []sut.Service{sut.Kafka})
	e.is(t, "log", rundir.Pass)
	kafka := e.summary.Environment.Components["kafka"]
	if kafka.Kind != "kafka" || kafka.Settings["brokers"] != "3" || !e.summary.Environment.Proxied {
		t.Errorf("it ran on %+v", kafka)
	}
}

// cutOff asks whether a role can lose Kafka while everybody else has it.
const cutOff = `
name: log-test
question: Does a reader that loses the log for a while find it again?
system: log
replicas: {reader: 2}
load:
  arrival: {process: constant, rate: 50, over: 4s}
  timeout: 5s
  drain: 60s
stores:
  kafka: {partitions: 6, fetch_max_wait: 100ms}
faults:
  - {name: alone, kind: partition, target: reader-2, from: kafka, at: 1s, for: 1s}
`

// TestARoleThatLosesKafka: clients of a broker follow the address that it tells
// them, and yet one replica alone is cut off. It reads on afterwards.
func TestARoleThatLosesKafka(t *testing.T) {
	system := logSystem()
	read := [3]atomic.Int64{}
	system.Variants[0].Roles = []sut.Role{{Name: "reader",
		Run: func(ctx context.Context, cfg sut.Config) error {
			opts, err := topics.Options(cfg)
			if err != nil {
				return err
			}
			client, err := kgo.NewClient(append(opts, kgo.ConsumeTopics(topics.Name(cfg, "numbers")))...)
			if err != nil {
				return err
			}
			defer client.Close()
			for ctx.Err() == nil {
				waiting, cancel := context.WithTimeout(ctx, time.Second)
				read[cfg.Replica].Add(int64(client.PollFetches(waiting).NumRecords()))
				cancel()
				cfg.Worked()
			}
			return nil
		}}}
	var inst *logged
	system.Variants[0].Open = func(ctx context.Context, cfg sut.Config) (sut.Instance, error) {
		opened, err := openLogged(ctx, cfg)
		if err == nil {
			inst = opened.(*logged)
		}
		return quiet{opened, func() string {
			if all := inst.sent.Load(); read[1].Load() < all || read[2].Load() < all {
				return fmt.Sprintf("of %d records %d and %d are read", all, read[1].Load(), read[2].Load())
			}
			return ""
		}}, err
	}
	e := onRealStores(t, cutOff, system, []sut.Service{sut.Kafka})
	e.is(t, "log", rundir.Pass)
	r := e.variant(t, "log").Repeats[0]
	if w := r.Faults[0]; len(w.Evidence) == 0 || w.Recovered < w.End {
		t.Errorf("the window is %+v", w)
	}
	if r.Load.OK < r.Load.Scheduled {
		t.Errorf("others were cut off as well: %+v", r.Load)
	}
}

// quiet is an instance that says when its readers are done.
type quiet struct {
	sut.Instance

	pending func() string
}

func (q quiet) Quiesced(context.Context) (string, error) { return q.pending(), nil }
