package views

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"stampede/harness/stores"
	"stampede/harness/sut"
	"stampede/harness/topics"
)

// The topics. They have equally many partitions: what the filter lets through
// goes to the partition of the same number.
const (
	topicWatch = "watch_events"
	topicValid = "valid_events"
)

// openKafka makes a client and waits until a broker answers.
func openKafka(ctx context.Context, cfg sut.Config, more ...kgo.Opt) (*kgo.Client, error) {
	opts, err := topics.Options(cfg)
	if err != nil {
		return nil, err
	}
	client, err := kgo.NewClient(append(opts, more...)...)
	if err != nil {
		return nil, fmt.Errorf("making a Kafka client: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, stores.Timeout(cfg))
	defer cancel()
	if err := client.Ping(ctx); err != nil {
		client.Close()
		return nil, fmt.Errorf("connecting to Kafka: %w", err)
	}
	return client, nil
}

// createTopics makes both topics.
func createTopics(ctx context.Context, cfg sut.Config, p Params) error {
	keep := map[string]string{
		"retention.ms": strconv.FormatInt(p.Retention.D().Milliseconds(), 10)}
	err := topics.Create(ctx, cfg,
		topics.Topic{Name: topicWatch, Configs: keep}, topics.Topic{Name: topicValid, Configs: keep})
	if err != nil {
		return fmt.Errorf("preparing Kafka: %w", err)
	}
	return nil
}

// ends returns the offset after the last record of each partition of both
// topics, by the topic's short name.
func ends(ctx context.Context, client *kgo.Client, cfg sut.Config) (map[string][]int64, error) {
	watch, valid := topics.Name(cfg, topicWatch), topics.Name(cfg, topicValid)
	listed, err := kadm.NewClient(client).ListEndOffsets(ctx, watch, valid)
	if err != nil {
		return nil, fmt.Errorf("asking for the ends of the topics: %w", err)
	}
	out := make(map[string][]int64)
	for short, name := range map[string]string{topicWatch: watch, topicValid: valid} {
		list := make([]int64, len(listed[name]))
		for p, o := range listed[name] {
			switch {
			case o.Err != nil:
				return nil, fmt.Errorf("asking for the end of %s/%d: %w", name, p, o.Err)
			case int(p) >= len(list):
				return nil, fmt.Errorf("topic %s has no partition %d", name, len(list)-1)
			}
			list[p] = o.Offset
		}
		if len(list) == 0 {
			return nil, fmt.Errorf("there is no topic %s", name)
		}
		out[short] = list
	}
	return out, nil
}

// produced tells records that were certainly not written from those whose fate
// is unknown.
func produced(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, kgo.ErrMaxBuffered):
		return fmt.Errorf("%w: %w", ErrOverloaded, err)
	case errors.Is(err, kerr.MessageTooLarge):
		return fmt.Errorf("%w: %w", sut.ErrRefused, err)
	}
	return fmt.Errorf("writing to the log: %w", err)
}
