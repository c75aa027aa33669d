package partitions

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"stampede/harness/stores"
	"stampede/harness/sut"
	"stampede/harness/topics"
)

// Append writes a record to the log and returns when it is there. An error that wraps
// sut.ErrRefused, and overloaded, promises that it is not; after any other one it may be.
func Append(
	ctx context.Context, cfg sut.Config, client *kgo.Client, r *kgo.Record, overloaded error,
) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("not sent: %w: %w", sut.ErrRefused, err)
	}
	waiting, cancel := context.WithTimeout(ctx, stores.Timeout(cfg))
	defer cancel()
	sent := make(chan error, 1)
	// A client that leaves does not take the record back: the driver would fail with it what others
	// have sent beside it.
	client.TryProduce(context.WithoutCancel(ctx), r, func(_ *kgo.Record, err error) { sent <- err })
	var err error
	select {
	case err = <-sent:
	case <-waiting.Done():
		err = waiting.Err()
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, kgo.ErrMaxBuffered):
		return fmt.Errorf("%w: %w", overloaded, err)
	case errors.Is(err, kerr.MessageTooLarge):
		return fmt.Errorf("%w: %w", sut.ErrRefused, err)
	}
	return fmt.Errorf("writing to the log: %w", err)
}

// Behind is how many records of a topic, whose name is the whole one, are after where partitions
// are.
func Behind(
	ctx context.Context, client *kgo.Client, topic string, starts map[int32]int64,
) (left int64, err error) {
	ends, err := topics.Ends(ctx, client, topic)
	for id, end := range ends {
		left += max(0, end-starts[id])
	}
	return left, err
}

// Prepare makes an empty topic, puts its partitions at their first record, in the table that Begin
// fills, and has the broker make what it keeps of groups. Topic and group are names without the
// prefix.
func Prepare(
	ctx context.Context, cfg sut.Config, db *stores.Postgres, client *kgo.Client, topic, group string,
) error {
	if err := topics.Create(ctx, cfg, topics.Topic{Name: topic}); err != nil {
		return err
	}
	if err := Begin(ctx, db, cfg.Kafka.Partitions); err != nil {
		return err
	}
	return topics.Coordinate(ctx, client, cfg, group)
}

// Found says how many records a topic has, such as "3 adds in the log", "" for none. The topic's
// name is without the prefix.
func Found(
	ctx context.Context, cfg sut.Config, client *kgo.Client, topic, records string,
) (string, error) {
	n, err := Behind(ctx, client, topics.Name(cfg, topic), nil)
	if err != nil || n == 0 {
		return "", err
	}
	return fmt.Sprintf("%d %s", n, records), nil
}

// Each shows all records of a topic, one partition after the other, so that the order is always
// the same.
func Each(
	ctx context.Context, cfg sut.Config, client *kgo.Client, topic string, see func(*kgo.Record) error,
) error {
	name := topics.Name(cfg, topic)
	ends, err := topics.Ends(ctx, client, name)
	for _, id := range slices.Sorted(maps.Keys(ends)) {
		if err == nil {
			err = topics.Read(ctx, cfg, name, nil, map[int32]int64{id: ends[id]}, see)
		}
	}
	return err
}
