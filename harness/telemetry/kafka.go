package telemetry

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"stampede/harness/sut"
)

// Kafka is the topics and groups whose names begin with a prefix, on some brokers.
func Kafka(brokers []string, prefix string) (Source, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ClientID("stampede-telemetry"),
		kgo.RequestRetries(0), kgo.DialTimeout(answerBound))
	if err != nil {
		return nil, fmt.Errorf("making a Kafka client: %w", err)
	}
	return kafka{kadm.NewClient(client), prefix}, nil
}

type kafka struct {
	admin  *kadm.Client
	prefix string
}

func (kafka) Name() string { return string(sut.Kafka) }

// Read implements Source: what was written to each topic, what each group has not
// committed of each partition, how many groups share partitions out anew, and how many
// partitions are not where they should be.
func (k kafka) Read(ctx context.Context) ([]Value, error) {
	topics, err := k.topics(ctx)
	if err != nil || len(topics) == 0 {
		return nil, err
	}
	values, err := k.written(ctx, topics)
	if err != nil {
		return nil, err
	}
	lags, err := k.lags(ctx)
	if err != nil {
		return nil, err
	}
	return append(append(values, k.incomplete(topics)), lags...), nil
}

func (k kafka) topics(ctx context.Context) (kadm.TopicDetails, error) {
	all, err := k.admin.ListTopics(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing the topics of Kafka: %w", err)
	}
	for name := range all {
		if !strings.HasPrefix(name, k.prefix) {
			delete(all, name)
		}
	}
	return all, nil
}

// written counts the records of each topic.
func (k kafka) written(ctx context.Context, topics kadm.TopicDetails) ([]Value, error) {
	ends, err := k.admin.ListEndOffsets(ctx, topics.Names()...)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("listing the ends of Kafka's topics: %w", err)
	}
	var values []Value
	for topic, partitions := range ends {
		records := int64(0)
		for _, p := range partitions {
			records += p.Offset
		}
		values = append(values, Value{Quantity: "records", Part: k.own(topic), Unit: "/s",
			Amount: float64(records), Counts: true})
	}
	return sorted(values), nil
}

// incomplete counts the partitions with fewer replicas in sync than they have.
func (kafka) incomplete(topics kadm.TopicDetails) Value {
	v := Value{Quantity: "partitions short of replicas", Unit: "partitions"}
	for _, t := range topics {
		for _, p := range t.Partitions {
			if len(p.ISR) < len(p.Replicas) {
				v.Amount++
			}
		}
	}
	return v
}

// lags are the records that a group has not committed, by partition.
func (k kafka) lags(ctx context.Context) ([]Value, error) {
	listed, err := k.admin.ListGroups(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing the groups of Kafka: %w", err)
	}
	var groups []string
	for _, name := range listed.Groups() {
		if strings.HasPrefix(name, k.prefix) {
			groups = append(groups, name)
		}
	}
	if len(groups) == 0 {
		return nil, nil
	}
	found, err := k.admin.Lag(ctx, groups...)
	if err == nil {
		err = found.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("reading the lag of Kafka's groups: %w", err)
	}
	var values []Value
	moving := Value{Quantity: "groups in a rebalance", Unit: "groups"}
	for _, group := range found.Sorted() {
		if slices.Contains(rebalancing, group.State) {
			moving.Amount++
		}
		quantity := k.own(group.Group) + " lag"
		for _, l := range group.Lag.Sorted() {
			part := strconv.Itoa(int(l.Partition))
			if len(group.Lag) > 1 {
				part = k.own(l.Topic) + "/" + part
			}
			values = append(values, Value{Quantity: quantity, Part: part, Unit: "records",
				Amount: float64(max(l.Lag, 0))})
		}
	}
	return append(values, moving), nil
}

// rebalancing are the states of a group whose partitions are being shared out, by the
// classic protocol and by that of KIP-848.
var rebalancing = []string{"PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"}

// own is a name without the prefix that all have.
func (k kafka) own(name string) string { return strings.TrimPrefix(name, k.prefix) }

func (k kafka) Close() { k.admin.Close() }
