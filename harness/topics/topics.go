// Package topics makes and removes the topics of a run, and says how its
// clients speak to Kafka. Systems and the environment share it.
package topics

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"stampede/harness/sut"
)

// Topic is a topic to be made.
type Topic struct {
	// Name is without the prefix.
	Name string
	// Partitions is its number of partitions; 0 means that of the settings.
	Partitions int
	// Configs are settings of the topic, such as retention.ms.
	Configs map[string]string
}

// maxName is how long the name of a topic may be, in bytes.
const maxName = 249

// Prefix is a prefix of sut.Config as the names of topics and groups begin
// with it: Kafka takes letters, digits, dots, underscores and hyphens only.
func Prefix(prefix string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '-':
			return r
		default: // an underscore too: with dots it makes names that clash in metrics
			return '-'
		}
	}, prefix)
}

// Name is the whole name of a topic or group of a run.
func Name(cfg sut.Config, name string) string { return Prefix(cfg.Prefix) + name }

// pollEvery is how often the cluster is asked whether something has come true.
const pollEvery = 20 * time.Millisecond

// Create makes topics whose names start with the run's prefix and returns
// when each partition has a leader that answers. A topic that exists is an error: a run
// starts empty. The client is one of its own, for the driver remembers for five
// seconds that a topic was not to be found.
func Create(ctx context.Context, cfg sut.Config, list ...Topic) error {
	client, err := Open(cfg, kgo.MetadataMinAge(pollEvery))
	if err != nil {
		return err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	var names []string
	for _, topic := range list {
		name := Name(cfg, topic.Name)
		if len(name) > maxName {
			return fmt.Errorf("make topic %s: its name is longer than %d bytes", name, maxName)
		}
		if err := create(ctx, admin, cfg.Kafka, name, topic); err != nil {
			return fmt.Errorf("make topic %s: %w", name, err)
		}
		names = append(names, name)
	}
	return poll(ctx, func() error { return led(ctx, admin, names) })
}

func create(
	ctx context.Context, admin *kadm.Client, settings sut.KafkaSettings, name string, topic Topic,
) error {
	partitions := topic.Partitions
	if partitions == 0 {
		partitions = settings.Partitions
	}
	configs := map[string]*string{"min.insync.replicas": new(strconv.Itoa(settings.InSync()))}
	for setting, value := range maps.All(topic.Configs) {
		configs[setting] = new(value)
	}
	_, err := admin.CreateTopic(ctx, int32(partitions), int16(settings.Replicas()), configs, name)
	return err
}

// led returns nil when each partition of each topic has a leader that knows of it:
// the broker that lists a leader may be ahead of the leader.
func led(ctx context.Context, admin *kadm.Client, names []string) error {
	details, err := admin.ListTopics(ctx, names...)
	if err != nil {
		return fmt.Errorf("ask for the leaders of topics: %w", err)
	}
	for _, name := range names {
		topic, ok := details[name]
		if !ok || topic.Err != nil || len(topic.Partitions) == 0 {
			return fmt.Errorf("topic %s is not there yet (%w)", name, topic.Err)
		}
		for _, p := range topic.Partitions {
			if p.Err != nil || p.Leader < 0 {
				return fmt.Errorf("partition %d of topic %s has no leader yet", p.Partition, name)
			}
		}
	}
	ends, err := admin.ListEndOffsets(ctx, names...)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return fmt.Errorf("ask the leaders of topics: %w", err)
	}
	return nil
}

// coordinatorBound is how long a broker may take to make what it keeps of groups.
const coordinatorBound = 30 * time.Second

// Coordinate has the broker make what it keeps of groups, which the first member of the first one
// would else wait for.
func Coordinate(ctx context.Context, client *kgo.Client, cfg sut.Config, group string) error {
	return coordinate(ctx, Name(cfg, group), kadm.NewClient(client).FindGroupCoordinators)
}

// CoordinateTransactions has the broker make what it keeps of transactions, which the first one
// would else wait for. The id is that of a producer.
func CoordinateTransactions(
	ctx context.Context, client *kgo.Client, cfg sut.Config, id string,
) error {
	return coordinate(ctx, Name(cfg, id), kadm.NewClient(client).FindTxnCoordinators)
}

func coordinate(
	ctx context.Context, name string,
	find func(context.Context, ...string) kadm.FindCoordinatorResponses,
) error {
	ctx, cancel := context.WithTimeout(ctx, coordinatorBound)
	defer cancel()
	return poll(ctx, func() error { return find(ctx, name).Error() })
}

// List returns the names of the topics and of the consumer groups that start
// with a prefix, which is written as Kafka has it.
func List(ctx context.Context, client *kgo.Client, prefix string) (
	names, groups []string, err error) {
	admin := kadm.NewClient(client)
	details, err := admin.ListTopics(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("list topics: %w", err)
	}
	listed, err := admin.ListGroups(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("list consumer groups: %w", err)
	}
	return starting(details.Names(), prefix), starting(listed.Groups(), prefix), nil
}

func starting(names []string, prefix string) []string {
	prefix = Prefix(prefix)
	return slices.DeleteFunc(names, func(name string) bool {
		return !strings.HasPrefix(name, prefix)
	})
}

// DeletePrefix removes the topics and the consumer groups whose names start
// with a prefix, and returns when none is listed any more. A group that has
// members is waited for until ctx is over: those of a consumer that was killed
// leave when its session ends.
func DeletePrefix(ctx context.Context, client *kgo.Client, prefix string) error {
	if Prefix(prefix) == "" {
		return errors.New("refusing to delete every topic: the prefix is empty")
	}
	return poll(ctx, func() error {
		names, groups, err := List(ctx, client, prefix)
		if err != nil || len(names)+len(groups) == 0 {
			return err
		}
		admin := kadm.NewClient(client)
		err = errors.Join(deleteTopics(ctx, admin, names), deleteGroups(ctx, admin, groups))
		if err != nil {
			return err
		}
		return fmt.Errorf("topics %v and consumer groups %v are still there", names, groups)
	})
}

// Delete removes a topic and returns when it is listed no more; that it is not
// there is no error. name is whole.
func Delete(ctx context.Context, client *kgo.Client, name string) error {
	return poll(ctx, func() error {
		names, _, err := List(ctx, client, name)
		if err != nil || !slices.Contains(names, name) {
			return err
		}
		if err := deleteTopics(ctx, kadm.NewClient(client), []string{name}); err != nil {
			return err
		}
		return fmt.Errorf("topic %s is still there", name)
	})
}

func deleteTopics(ctx context.Context, admin *kadm.Client, names []string) error {
	if len(names) == 0 {
		return nil
	}
	gone, err := admin.DeleteTopics(ctx, names...)
	if err != nil {
		return fmt.Errorf("delete topics: %w", err)
	}
	for _, topic := range gone.Sorted() {
		if topic.Err != nil && !errors.Is(topic.Err, kerr.UnknownTopicOrPartition) {
			return fmt.Errorf("delete topic %s: %w", topic.Topic, topic.Err)
		}
	}
	return nil
}

func deleteGroups(ctx context.Context, admin *kadm.Client, groups []string) error {
	if len(groups) == 0 {
		return nil
	}
	gone, err := admin.DeleteGroups(ctx, groups...)
	if err != nil {
		return fmt.Errorf("delete consumer groups: %w", err)
	}
	for _, group := range gone.Sorted() {
		if group.Err != nil && !errors.Is(group.Err, kerr.GroupIDNotFound) {
			return fmt.Errorf("delete consumer group %s: %w", group.Group, group.Err)
		}
	}
	return nil
}

// poll tries until it succeeds or ctx is over, and then returns the last
// failure.
func poll(ctx context.Context, try func() error) error {
	for {
		if err := try(); err == nil || !sut.Pause(ctx, pollEvery) {
			return err
		}
	}
}

// Starts returns the offsets of the first records of a topic, by partition. The name is the
// whole one.
func Starts(ctx context.Context, client *kgo.Client, name string) (map[int32]int64, error) {
	return offsets(ctx, name, kadm.NewClient(client).ListStartOffsets)
}

// Ends returns the offsets after the last records of a topic, by partition.
func Ends(ctx context.Context, client *kgo.Client, name string) (map[int32]int64, error) {
	return offsets(ctx, name, kadm.NewClient(client).ListEndOffsets)
}

func offsets(
	ctx context.Context, name string,
	list func(context.Context, ...string) (kadm.ListedOffsets, error),
) (map[int32]int64, error) {
	listed, err := list(ctx, name)
	if err == nil {
		err = listed.Error()
	}
	if err == nil && len(listed[name]) == 0 {
		err = errors.New("it is not there")
	}
	if err != nil {
		return nil, fmt.Errorf("listing the offsets of topic %s: %w", name, err)
	}
	all := map[int32]int64{}
	for partition, o := range listed[name] {
		all[partition] = o.Offset
	}
	return all, nil
}

// Read shows the records of a topic, each partition in order from its offset in from, 0 if it
// has none, to before that in to.
func Read(
	ctx context.Context, cfg sut.Config, name string, from, to map[int32]int64,
	see func(*kgo.Record) error,
) error {
	begin, left := map[int32]kgo.Offset{}, int64(0)
	for partition, end := range to {
		if n := end - from[partition]; n > 0 {
			begin[partition], left = kgo.NewOffset().At(from[partition]), left+n
		}
	}
	if left == 0 {
		return nil
	}
	client, err := Open(cfg, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{name: begin}))
	if err != nil {
		return err
	}
	defer client.Close()
	for left > 0 {
		fetches := client.PollFetches(ctx)
		err := errors.Join(ctx.Err(), fetches.Err())
		for _, r := range fetches.Records() {
			if r.Offset < to[r.Partition] { // others came after the question for the end
				left--
				err = errors.Join(err, see(r))
			}
		}
		if err != nil {
			return fmt.Errorf("reading topic %s: %w", name, err)
		}
	}
	return nil
}
