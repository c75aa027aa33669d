package topics_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"stampede/harness/topics"
)

// TestMember: a member is joined when the coordinator says so, not when its driver
// believes so; and a poll that brings nothing is no error.
func TestMember(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	// A cooperative driver asks half a second after it has joined, whatever its interval.
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...),
		kgo.ConsumerGroup("readers"), kgo.ConsumeTopics("log"), kgo.DisableAutoCommit(),
		kgo.Balancers(kgo.RangeBalancer()), kgo.HeartbeatInterval(40*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	member := topics.NewMember(client, "readers")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for !member.Joined(ctx) {
		fetches, err := member.Poll(ctx, 10)
		if err != nil || fetches.NumRecords() != 0 {
			t.Fatalf("polled %d records, %v", fetches.NumRecords(), err)
		}
	}
	// The coordinator has forgotten it, and its driver has not asked yet.
	cluster.ControlKey(int16(kmsg.Heartbeat), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		resp := req.ResponseKind().(*kmsg.HeartbeatResponse)
		resp.ErrorCode = 25 // UNKNOWN_MEMBER_ID
		return resp, nil, true
	})
	for member.Joined(ctx) && ctx.Err() == nil {
		if _, err := member.Poll(ctx, 10); err != nil {
			t.Fatal(err)
		}
	}
	if _, generation := client.GroupMetadata(); generation < 0 || ctx.Err() != nil {
		t.Errorf("the driver's generation is %d, %v", generation, ctx.Err())
	}
	cancel()
	if _, err := member.Poll(ctx, 10); !errors.Is(err, context.Canceled) {
		t.Errorf("a poll after the end gave %v", err)
	}
}
