package admin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"stampede/harness/sut"
	"stampede/harness/topics"
)

// Put makes a topic of one partition, if it is not there, and appends a value.
func (k Kafka) Put(ctx context.Context, topic, value string) error {
	return k.with(ctx, func(ctx context.Context, client *kgo.Client) error {
		cfg := sut.Config{KafkaBrokers: k.Brokers(), Kafka: sut.DefaultKafka()}
		cfg.Kafka.Replication, cfg.Kafka.MinInSync = -1, 1
		one := topics.Topic{Name: topic, Partitions: 1}
		err := topics.Create(ctx, cfg, one)
		if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
			return err
		}
		record := &kgo.Record{Topic: topic, Value: []byte(value)}
		if err := client.ProduceSync(ctx, record).FirstErr(); err != nil {
			return fmt.Errorf("append to topic %s: %w", topic, err)
		}
		return nil
	})
}

// Get returns the last value in a topic's first partition, empty if there is
// no such topic or nothing in it.
func (k Kafka) Get(ctx context.Context, topic string) (value string, err error) {
	err = k.with(ctx, func(ctx context.Context, client *kgo.Client) error {
		ends, err := kadm.NewClient(client).ListEndOffsets(ctx, topic)
		end, found := ends.Lookup(topic, 0)
		if err == nil {
			err = end.Err
		}
		if errors.Is(err, kerr.UnknownTopicOrPartition) || err == nil && (!found || end.Offset == 0) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("ask for the end of topic %s: %w", topic, err)
		}
		value, err = k.at(ctx, topic, end.Offset-1)
		return err
	})
	return value, err
}

// at reads the record at an offset.
func (k Kafka) at(ctx context.Context, topic string, offset int64) (string, error) {
	reader, err := k.client(ctx, k.Brokers(), kgo.FetchMaxWait(100*time.Millisecond),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{
			topic: {0: kgo.NewOffset().At(offset)},
		}))
	if err != nil {
		return "", err
	}
	defer reader.Close()
	fetched := reader.PollRecords(ctx, 1)
	if err := fetched.Err(); err != nil {
		return "", fmt.Errorf("read topic %s: %w", topic, err)
	}
	return string(fetched.Records()[0].Value), nil
}

// Untaken refuses a prefix that topics or consumer groups have already.
func (k Kafka) Untaken(ctx context.Context, prefix string) error {
	names, groups, err := k.Topics(ctx, prefix)
	if names = append(names, groups...); err == nil && len(names) > 0 {
		err = fmt.Errorf("kafka has topics or groups that begin with %s but do not belong to this "+
			"run: %s", topics.Prefix(prefix), strings.Join(names, ", "))
	}
	return err
}

// Delete removes a topic; that it is not there is no error.
func (k Kafka) Delete(ctx context.Context, topic string) error {
	return k.with(ctx, func(ctx context.Context, client *kgo.Client) error {
		return topics.Delete(ctx, client, topic)
	})
}
