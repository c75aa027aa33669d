package partitions

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"stampede/harness/sut"
	"stampede/harness/topics"
)

// Tail reads partition 0 of a topic from its beginning on, without a group. Its client is its
// own: one that has asked for a topic before there was one believes for a while that there is
// none.
type Tail struct {
	Config sut.Config
	// Topic is its name without the prefix.
	Topic string

	next   int64
	client *kgo.Client
}

// End is how many records there are by now.
func (t *Tail) End(ctx context.Context) (int64, error) {
	name := topics.Name(t.Config, t.Topic)
	if t.client == nil {
		client, err := topics.Open(t.Config, kgo.ConsumePartitions(
			map[string]map[int32]kgo.Offset{name: {0: kgo.NewOffset().At(t.next)}}))
		if err != nil {
			return 0, err
		}
		t.client = client
	}
	ends, err := topics.Ends(ctx, t.client, name)
	if err != nil {
		t.Close()
	}
	return ends[0], err
}

// Take shows records that have not been shown, and waits for them for some time at most. End has
// been asked for before. After an error of see the record is lost.
func (t *Tail) Take(
	ctx context.Context, wait time.Duration, atMost int, see func(*kgo.Record) error,
) error {
	fetches, err := topics.Poll(ctx, wait, t.client.PollRecords, atMost)
	for _, r := range fetches.Records() {
		if r.Offset < t.next {
			continue // a client that had to begin again reads it once more
		}
		if err := see(r); err != nil {
			return err
		}
		t.next = r.Offset + 1
	}
	return err
}

// Close closes the connections.
func (t *Tail) Close() {
	if t.client != nil {
		t.client.Close()
	}
	t.client = nil
}
