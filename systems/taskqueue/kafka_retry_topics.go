package taskqueue

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"stampede/harness/stores"
	"stampede/harness/sut"
	"stampede/harness/topics"
)

// kafkaRetryTopics sends the numbers of jobs through Kafka.
//
// The idea: a log can neither cancel a record nor keep a key unique, so that jobs are in a table. A
// relay writes the numbers of ready ones to a topic. A worker that reads some claims what is still
// to be done of them, by their primary keys. What fails goes to a topic for its delay: all its
// records wait equally long, so that a forwarder waits for the first of each topic only. There is a
// topic for the floor of the backoff and for twice as long, and so on; one is drawn, which is the
// jitter. A number is sent again a lease after it was sent and not claimed, so that no loss of an
// offset or of Kafka loses a job.
//
// The guarantee: nothing is lost or done twice; who claims searches no index of what is ready.
//
// It gives up: priorities, turns and limits of tenants, for a topic has one order; and time, for a
// job passes the relay and Kafka before a worker hears of it.
func kafkaRetryTopics() variant {
	const order = "a topic has one order, that of arrival"
	v := inPostgres(variant{
		Name:          "kafka_retry_topics",
		Idea:          "a table has the jobs, a topic their numbers; what fails is in one for its delay",
		Guarantees:    "nothing is lost or done twice",
		GivesUp:       "priorities, fairness and limits of tenants, and some time",
		Needs:         []sut.Service{sut.Kafka},
		NotApplicable: map[string]string{PriorityKept: order, TenantsFair: order, RatesKept: order},
	}, func(st *opened) keeper {
		return &kafkaJobs{table: &table{opened: st, batch: st.Params.Batch}}
	})
	v.State.Schema += `ALTER TABLE jobs ADD COLUMN sent_until timestamptz NOT NULL DEFAULT '-infinity';
		CREATE INDEX jobs_unsent ON jobs (sent_until, id) WHERE state = 'ready';`
	v.State.Ready = func(ctx context.Context, st *opened) error {
		list := []topics.Topic{{Name: readyTopic, Partitions: readyPartitions}}
		for i := range delays(st.Params) {
			list = append(list, topics.Topic{Name: delayTopic(i), Partitions: 1})
		}
		if err := topics.Create(ctx, st.Config, list...); err != nil {
			return err
		}
		return topics.Coordinate(ctx, st.Kafka, st.Config, kafkaWorkers)
	}
	v.Roles = append(v.Roles, role{Name: "forwarder",
		Summary: "waits with what has failed, and sends it to the workers again", Do: forward})
	return v
}

// The topic of ready jobs, in which each member of the group of workers reads some partitions.
const (
	readyTopic      = "ready"
	readyPartitions = 8
	kafkaWorkers    = "workers"
	// kafkaSession is how long a worker may be silent before another one takes its partitions.
	kafkaSession = 2 * time.Second
	// kafkaFetch is how many numbers a process reads at once.
	kafkaFetch = 500
)

// delays are those for which there is a topic.
func delays(p Params) (list []time.Duration) {
	for d := max(p.BackoffFloor.D(), time.Millisecond); d <= p.BackoffCap.D(); d *= 2 {
		list = append(list, d)
	}
	return list
}

func delayTopic(i int) string { return fmt.Sprint("delay-", i) }

// kafkaJobs is the jobs in the table, whose numbers pass Kafka.
type kafkaJobs struct {
	*table
	mu     sync.Mutex
	client *kgo.Client // of the group of workers, made when a worker claims first
	heard  []int64     // numbers of jobs
}

// Close leaves the group.
func (k *kafkaJobs) Close() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.client != nil {
		k.client.Close()
	}
	return nil
}

// hear returns some numbers of jobs, after a pause if there are none.
func (k *kafkaJobs) hear(ctx context.Context) ([]int64, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.client == nil {
		client, err := reader(k.opened, kafkaWorkers, readyTopic)
		if err != nil {
			return nil, err
		}
		k.client = client
	}
	if len(k.heard) == 0 {
		err := poll(ctx, k.client, k.Params.PollEvery.D(), func(r *kgo.Record) {
			if job, err := strconv.ParseInt(string(r.Value), 10, 64); err == nil {
				k.heard = append(k.heard, job)
			}
		})
		if err != nil {
			return nil, err
		}
	}
	n := min(k.batch, len(k.heard))
	jobs := k.heard[:n:n]
	k.heard = k.heard[n:]
	return jobs, nil
}

// reader is a member of a group. Its offsets are committed as it reads: the table knows what is
// still to be done.
func reader(st *opened, group, topic string) (*kgo.Client, error) {
	return topics.Open(st.Config, topics.InGroup(topics.Name(st.Config, group),
		topics.Name(st.Config, topic), kafkaSession)...)
}

// poll reads what there is, or comes within a time.
func poll(
	ctx context.Context, client *kgo.Client, within time.Duration, see func(*kgo.Record),
) error {
	waiting, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	fetches := client.PollRecords(waiting, kafkaFetch)
	fetches.EachRecord(see)
	for _, f := range fetches.Errors() {
		if waiting.Err() == nil || !errors.Is(f.Err, waiting.Err()) {
			return fmt.Errorf("reading numbers of jobs: %w", f.Err)
		}
	}
	return nil
}

// Take claims what is still to be done of the next numbers.
func (k *kafkaJobs) Take(ctx context.Context, _ *turn) ([]claim, error) {
	jobs, err := k.hear(ctx)
	if err != nil || len(jobs) == 0 {
		return nil, err
	}
	return k.claims(ctx, `WITH picked AS MATERIALIZED (SELECT id FROM jobs WHERE id = ANY ($1)
			AND (state = 'ready' OR state = 'waiting' AND due_at <= statement_timestamp())
			ORDER BY id FOR UPDATE)
		UPDATE jobs SET state = 'running', attempts = attempts + 1,
			lease_until = clock_timestamp() + $2::bigint * interval '1 microsecond'
		WHERE id = ANY (ARRAY(SELECT id FROM picked))
		RETURNING payload, attempts, ns(statement_timestamp()), ns(clock_timestamp())`,
		jobs, k.Params.Lease.D().Microseconds())
}

// Fail has a job tried again after one of the delays, or makes it a dead letter.
func (k *kafkaJobs) Fail(ctx context.Context, c claim, permanent bool) (*failure, error) {
	all := delays(k.Params)
	n := 1
	for n < len(all) && all[n] <= k.Params.ceiling(c.attempt) {
		n++
	}
	drawn := int(between(0, int64(n-1)))
	t := *k.table
	t.backoff = fmt.Sprintf("0 * ($4::bigint + $5::bigint) + %d", all[drawn].Microseconds())
	how, err := t.Fail(ctx, c, permanent)
	if err != nil || how == nil || how.nextNS == 0 {
		return how, err
	}
	err = send(ctx, k.opened, delayTopic(drawn), []int64{int64(c.job.ID)}, how.nextNS)
	if err != nil {
		k.Config.Warn("a job waits for the relay, and not for its topic", err)
	}
	return how, nil
}

// send writes numbers of jobs to a topic, with the time until which they wait there.
func send(ctx context.Context, st *opened, topic string, jobs []int64, until int64) error {
	list := make([]*kgo.Record, len(jobs))
	for i, job := range jobs {
		number := strconv.AppendInt(nil, job, 10)
		list[i] = &kgo.Record{Topic: topics.Name(st.Config, topic), Key: number, Value: number,
			Timestamp: time.Unix(0, until)}
	}
	if err := st.Kafka.ProduceSync(ctx, list...).FirstErr(); err != nil {
		return fmt.Errorf("sending numbers of jobs: %w", err)
	}
	return nil
}

// Upkeep makes jobs ready and sends their numbers. What has failed is made so a lease later than
// its topic should have told of it.
func (k *kafkaJobs) Upkeep(ctx context.Context) (int, error) {
	n, err := k.table.upkeep(ctx, k.Params.Lease.D())
	if err != nil {
		return 0, err
	}
	var jobs []int64
	err = k.DB.Rows(ctx, `UPDATE jobs SET sent_until = clock_timestamp() +
			$2::bigint * interval '1 microsecond'
		WHERE id = ANY (ARRAY(SELECT id FROM jobs WHERE state = 'ready'
			AND sent_until <= statement_timestamp() ORDER BY sent_until, id LIMIT $1
			FOR UPDATE SKIP LOCKED)) RETURNING id`,
		[]any{upkeepMost, k.Params.Lease.D().Microseconds()}, func(row pgx.CollectableRow) error {
			var job int64
			err := row.Scan(&job)
			jobs = append(jobs, job)
			return err
		})
	if err != nil || len(jobs) == 0 {
		return n, stores.Failed("relaying jobs", err)
	}
	return max(n, len(jobs)), send(ctx, k.opened, readyTopic, jobs, time.Now().UnixNano())
}

// forward waits in each topic of a delay for the first record, and sends it to the workers.
func forward(ctx context.Context, st *opened) error {
	group, ctx := errgroup.WithContext(ctx)
	for i := range delays(st.Params) {
		group.Go(func() error { return forwardOne(ctx, st, delayTopic(i)) })
	}
	return group.Wait()
}

func forwardOne(ctx context.Context, st *opened, topic string) error {
	client, err := reader(st, "forwarders-"+topic, topic)
	if err != nil {
		return err
	}
	defer client.Close()
	for ctx.Err() == nil {
		var list []*kgo.Record
		err := poll(ctx, client, time.Second, func(r *kgo.Record) { list = append(list, r) })
		for _, r := range list {
			job, wrong := strconv.ParseInt(string(r.Value), 10, 64)
			if wrong != nil || err != nil || !sut.Pause(ctx, time.Until(r.Timestamp)) {
				continue
			}
			err = send(ctx, st, readyTopic, []int64{job}, time.Now().UnixNano())
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
		st.Config.Worked()
	}
	return nil
}
