package topics

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// pollBound is how long Poll waits for records.
	pollBound = time.Second
	// askEvery and askBound are how often the coordinator is asked who is a member,
	// and how long it may take to answer.
	askEvery = 250 * time.Millisecond
	askBound = time.Second
)

// leastRebalance is how long members have at least to finish what they are at before a rebalance.
const leastRebalance = 5 * time.Second

// InGroup are the options of a client that reads a topic as a member of a group, both by their
// whole names, from the beginning of what the group has not committed. Who is silent for a session
// loses its partitions.
func InGroup(group, topic string, session time.Duration) []kgo.Opt {
	return []kgo.Opt{kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.SessionTimeout(session),
		kgo.HeartbeatInterval(session / 8), kgo.RebalanceTimeout(max(session, leastRebalance))}
}

// Member is a client as a member of a consumer group. The driver does not say
// whether it is one: the generation that it knows stays when the group has put it
// out, and is there before it has partitions.
type Member struct {
	client *kgo.Client
	group  string
	joined bool
	asked  time.Time
}

// NewMember makes a member of a client that consumes in a group, whose name is the
// whole one.
func NewMember(client *kgo.Client, group string) *Member {
	return &Member{client: client, group: group}
}

// Poll reads up to atMost records, or none if none come within a second, so that
// its caller can say that it is at work. The error is the first of Kafka's, or
// ctx's.
func (m *Member) Poll(ctx context.Context, atMost int) (kgo.Fetches, error) {
	return Poll(ctx, pollBound, m.client.PollRecords, atMost)
}

// Poll reads up to atMost records by PollRecords of a client or of a session, or none if none
// come within a time. The error is the first of Kafka's, or ctx's.
func Poll(
	ctx context.Context, within time.Duration, poll func(context.Context, int) kgo.Fetches,
	atMost int,
) (kgo.Fetches, error) {
	waiting, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	fetches := poll(waiting, atMost)
	for _, f := range fetches.Errors() {
		switch {
		case waiting.Err() != nil && ctx.Err() == nil && errors.Is(f.Err, context.DeadlineExceeded):
		case f.Topic == "":
			return fetches, f.Err
		default:
			return fetches, fmt.Errorf("partition %s/%d: %w", f.Topic, f.Partition, f.Err)
		}
	}
	return fetches, nil
}

// Joined says whether the group's coordinator knows the client as a member of its
// present generation, now or a quarter of a second ago. It asks by a heartbeat of
// its own.
func (m *Member) Joined(ctx context.Context) bool {
	if time.Since(m.asked) < askEvery {
		return m.joined
	}
	m.joined = m.ask(ctx)
	m.asked = time.Now()
	return m.joined
}

func (m *Member) ask(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, askBound)
	defer cancel()
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group = m.group
	req.MemberID, req.Generation = m.client.GroupMetadata()
	if req.Generation < 0 {
		return false
	}
	resp, err := req.RequestWith(ctx, m.client)
	return err == nil && resp.ErrorCode == 0
}
