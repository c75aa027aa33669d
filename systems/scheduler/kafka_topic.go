package scheduler

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"stampede/harness/sut"
	"stampede/harness/topics"
)

// kafkaTopic hands picked tasks over through a topic in Kafka.
//
// Idea: a picker writes what is due to a topic, over all of its partitions.
// Executors are a consumer group: each reads as many records as it has free slots,
// starts the tasks in Postgres, and then commits their offsets.
//
// Guarantee: as skip_locked. A record is a hint: a task starts under its row's lock,
// while the token of the record is the row's. What is read again after a crash or a
// rebalance is void; what was read and not started is handed over again.
//
// Gives up: that any free slot will do. A record waits for the executor that has its
// partition, and for a new one where that has died, unless HandAgain is over first;
// and a long backlog is in the topic twice.
func kafkaTopic() scheme {
	return scheme{variant{
		Name: "kafka_topic",
		Idea: "skip_locked whose pickers pass due tasks through a Kafka topic to a consumer group of " +
			"executors",
		Guarantees: "as skip_locked; a repeated or late record starts nothing, an unstarted task is " +
			"sent again",
		GivesUp: "use of any free executor: a record waits for the one that owns its partition",
		Needs:   []sut.Service{sut.Kafka},
	}, overrides{lock: skipLocked, marks: carried, carry: openTopic}}
}

const (
	// pickedTopic and executorGroup are without the run's prefix.
	pickedTopic   = "picked"
	executorGroup = "executors"
	// executorSession is how long an executor may be silent before others have its
	// partitions.
	executorSession = 2 * time.Second
)

// topic is the carrier in Kafka. An executor joins the group at its first receive.
type topic struct {
	cfg      sut.Config
	producer *kgo.Client
	consumer *kgo.Client
	member   *topics.Member
	last     []*kgo.Record
}

func openTopic(st *opened) (carrier, error) {
	producer, err := topics.Open(st.Config, kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	return &topic{cfg: st.Config, producer: producer}, err
}

// prepare makes the topic, and has the broker make what it keeps of groups.
func (t *topic) prepare(ctx context.Context) error {
	if err := topics.Create(ctx, t.cfg, topics.Topic{Name: pickedTopic}); err != nil {
		return err
	}
	return topics.Coordinate(ctx, t.producer, t.cfg, executorGroup)
}

// send writes a record for each task.
func (t *topic) send(ctx context.Context, list []handed) error {
	records := make([]*kgo.Record, len(list))
	for i, h := range list {
		records[i] = &kgo.Record{Topic: topics.Name(t.cfg, pickedTopic), Value: h.encoded()}
	}
	return t.producer.ProduceSync(ctx, records...).FirstErr()
}

// join makes the executor a member of the group.
func (t *topic) join() (err error) {
	if t.consumer != nil {
		return nil
	}
	group := topics.Name(t.cfg, executorGroup)
	t.consumer, err = topics.Open(t.cfg, append(
		topics.InGroup(group, topics.Name(t.cfg, pickedTopic), executorSession),
		kgo.AutoCommitMarks(), kgo.AutoCommitInterval(executorSession/8))...)
	if err == nil {
		t.member = topics.NewMember(t.consumer, group)
	}
	return err
}

// receive reads what is new. It does not return with nothing before the executor is
// a member of the group: until then it is not at work.
func (t *topic) receive(ctx context.Context, _ string, n int) (list []handed, err error) {
	if err := t.join(); err != nil {
		return nil, err
	}
	for {
		fetches, err := t.member.Poll(ctx, n)
		if err != nil {
			return nil, err
		}
		t.last = fetches.Records()
		if len(t.last) > 0 || t.member.Joined(ctx) || ctx.Err() != nil {
			break
		}
	}
	for _, r := range t.last {
		list = append(list, handedIn(r.Value))
	}
	return list, nil
}

// settle has the offsets of what was received last committed soon.
func (t *topic) settle(context.Context) error {
	t.consumer.MarkCommitRecords(t.last...)
	return nil
}

// close leaves the group.
func (t *topic) close() {
	if t.consumer != nil {
		t.consumer.Close()
	}
	t.producer.Close()
}
