package likes

import (
	"context"
	"encoding/json"
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

// The names in Kafka, without the prefix.
const (
	topicEvents = "likes-events"
	groupLedger = "likes-ledger"
)

// eventLog is the log of interactions, at its writing end.
type eventLog struct {
	client *kgo.Client
	topic  string
	group  string
	cfg    sut.Config
}

func newLog(st *opened) *eventLog {
	return &eventLog{client: st.Kafka, topic: topics.Name(st.Config, topicEvents),
		group: topics.Name(st.Config, groupLedger), cfg: st.Config}
}

// ping makes sure that a broker answers.
func (l *eventLog) ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stores.Timeout(l.cfg))
	defer cancel()
	if err := l.client.Ping(ctx); err != nil {
		return fmt.Errorf("connecting to Kafka: %w", err)
	}
	return nil
}

// prepare makes the topic, and brings the brokers to where they have the group and
// the producer: on new ones that takes seconds, which the first users would wait.
func (l *eventLog) prepare(ctx context.Context) error {
	if err := topics.Create(ctx, l.cfg, topics.Topic{Name: topicEvents}); err != nil {
		return err
	}
	_, err := l.fetchCommitted(ctx)
	for kerr.IsRetriable(err) && sut.Pause(ctx, sut.AfterError) {
		_, err = l.fetchCommitted(ctx)
	}
	if err != nil {
		return fmt.Errorf("making the group known: %w", err)
	}
	if !l.cfg.Kafka.Idempotence {
		return nil
	}
	if _, _, err := l.client.ProducerID(ctx); err != nil {
		return fmt.Errorf("making the producer known: %w", err)
	}
	return nil
}

// record is an event as the log has it: JSON, keyed by user and video so that
// what one user does to one video is in one partition.
func (l *eventLog) record(e Event) (*kgo.Record, error) {
	value, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("encoding an event: %w", err)
	}
	key := strconv.FormatUint(e.Video, 10) + ":" + strconv.FormatUint(e.User, 10)
	return &kgo.Record{Topic: l.topic, Key: []byte(key), Value: value}, nil
}

// parseEvent reads the value of a record.
func parseEvent(value []byte) (Event, error) {
	var e Event
	if err := json.Unmarshal(value, &e); err != nil {
		return Event{}, fmt.Errorf("decoding an event: %w", err)
	}
	return e, e.check()
}

// append logs events and returns when the brokers have all of them, or ctx or the
// client's own time for a delivery is over. Who leaves does not take an event back:
// the driver would fail with it what others have written beside it.
func (l *eventLog) append(ctx context.Context, events ...Event) error {
	done := make(chan error, len(events))
	for _, e := range events {
		r, err := l.record(e)
		if err != nil {
			return err
		}
		l.client.TryProduce(context.Background(), r, func(_ *kgo.Record, err error) { done <- err })
	}
	for range events {
		select {
		case err := <-done:
			if err != nil {
				return stores.Unknown("logging an interaction", err)
			}
		case <-ctx.Done():
			return stores.Unknown("waiting until an interaction is logged", ctx.Err())
		}
	}
	return nil
}

// ends returns the offsets after the last records, by partition.
func (l *eventLog) ends(ctx context.Context) (map[int32]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, stores.Timeout(l.cfg))
	defer cancel()
	return topics.Ends(ctx, l.client, l.topic)
}

// committed returns the offsets from which the ledger's worker would go on.
func (l *eventLog) committed(ctx context.Context) (map[int32]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, stores.Timeout(l.cfg))
	defer cancel()
	fetched, err := l.fetchCommitted(ctx)
	for kerr.IsRetriable(err) && sut.Pause(ctx, sut.AfterError) { // a coordinator is being found
		fetched, err = l.fetchCommitted(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the committed offsets: %w", err)
	}
	offsets := map[int32]int64{}
	fetched.Each(func(o kadm.OffsetResponse) {
		if o.Topic == l.topic {
			offsets[o.Partition] = max(o.At, 0) // -1: nothing is committed
		}
	})
	return offsets, nil
}

func (l *eventLog) fetchCommitted(ctx context.Context) (kadm.OffsetResponses, error) {
	fetched, err := kadm.NewClient(l.client).FetchOffsetsForTopics(ctx, l.group, l.topic)
	if err == nil {
		err = fetched.Error()
	}
	if errors.Is(err, kerr.GroupIDNotFound) { // as kfake says of a group without commits
		return nil, nil
	}
	return fetched, err
}

// contents reads the log from its beginning to its end of this moment.
func (l *eventLog) contents(ctx context.Context) ([]PartitionAudit, error) {
	starts, err := topics.Starts(ctx, l.client, l.topic)
	if err != nil {
		return nil, err
	}
	ends, err := l.ends(ctx)
	if err != nil {
		return nil, err
	}
	committed, err := l.committed(ctx)
	if err != nil {
		return nil, err
	}
	list := make([]PartitionAudit, len(ends))
	for p := range list {
		n := int32(p)
		list[p] = PartitionAudit{Partition: n, Committed: committed[n], First: starts[n],
			Records: PackedEvents{}}
	}
	return list, topics.Read(ctx, l.cfg, l.topic, starts, ends, func(r *kgo.Record) error {
		part := &list[r.Partition]
		if want := part.First + int64(len(part.Records)); r.Offset != want {
			return fmt.Errorf("partition %d has offset %d after %d", r.Partition, r.Offset, want-1)
		}
		e, err := parseEvent(r.Value)
		if err != nil {
			return fmt.Errorf("partition %d, offset %d: %w", r.Partition, r.Offset, err)
		}
		part.Records = append(part.Records, e)
		return nil
	})
}
