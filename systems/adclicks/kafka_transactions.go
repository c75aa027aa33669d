package adclicks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"stampede/harness/stores"
	"stampede/harness/sut"
	"stampede/harness/topics"
)

const (
	// topicDecided has what was decided of each click, in the partition of the same number.
	topicDecided = "decided"
	// transactionTimeout is when the broker aborts the transaction of a process that died.
	transactionTimeout = 5 * time.Second
	// sinkEvery is how often it is looked whether the sink has come to a committed offset.
	sinkEvery = 20 * time.Millisecond
)

// kafkaTransactions decides exactly once by transactions of Kafka.
//
// The idea: an aggregator writes decisions to a second topic, and commits them together with the
// offsets of the clicks in one transaction of Kafka. A sink reads what is committed, adds it up and
// stores it in Postgres with its offset. Whoever takes a partition over waits until the sink has
// all that was committed, and reads what the decider must remember from there.
//
// The guarantee: each click has one decision in the topic, whoever reads it, and is counted once.
//
// It gives up: time, for a decision is seen when its transaction is committed; and a process that
// dies within one stops the readers of its partitions until the broker aborts it.
func kafkaTransactions() variant {
	sink := aggregatorRole(func(a *aggregator) {
		a.topic, a.group, a.take = topicDecided, "sinks", takeDecision
		a.more = []kgo.Opt{kgo.FetchIsolationLevel(kgo.ReadCommitted())}
	})
	sink.Name, sink.Summary = "sink", "adds decisions up and stores them in Postgres"
	v := streaming(variant{
		Name:       "kafka_transactions",
		Idea:       "decisions and offsets in one transaction of Kafka, and a sink into Postgres",
		Guarantees: "each click has exactly one decision in the topic, whoever reads that",
		GivesUp:    "time: decisions wait for their transaction, and for one that nobody ends",
	}, role{Name: "aggregator", Places: []string{placeDecided, placeStored},
		Summary: "decides clicks in the order of the log, in transactions of Kafka",
		Do:      decideInTransactions}, sink)
	v.State.Ready = func(ctx context.Context, st *opened) error {
		if err := ready(topicDecided)(ctx, st); err != nil {
			return err
		}
		return topics.CoordinateTransactions(ctx, st.Kafka, st.Config, "aggregator")
	}
	return v
}

// takeDecision adds a decision up.
func takeDecision(p *partition, r *kgo.Record) error {
	var d decision
	if err := json.Unmarshal(r.Value, &d); err != nil {
		return fmt.Errorf("the record at offset %d is no decision: %w", r.Offset, err)
	}
	p.read = r.Offset + 1
	return p.follow(d)
}

// decideInTransactions works until ctx is cancelled or a transaction is not committed.
func decideInTransactions(ctx context.Context, st *opened) error {
	a := newAggregator(st)
	var lost atomic.Bool // partitions, since the last transaction
	lose := func(_ context.Context, _ *kgo.Client, gone map[string][]int32) {
		lost.Store(true)
		a.lose(gone)
	}
	opts, err := topics.Transactional(st.Config, fmt.Sprint("aggregator-", st.Config.Replica),
		transactionTimeout)
	if err != nil {
		return err
	}
	session, err := kgo.NewGroupTransactSession(append(opts, member(st, topicClicks, a.group,
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.AdjustFetchOffsetsFn(a.committed), kgo.OnPartitionsRevoked(lose),
		kgo.OnPartitionsLost(lose))...)...)
	if err != nil {
		return fmt.Errorf("making a client with transactions: %w", err)
	}
	defer session.CloseAllowingRebalance()
	if err := endOld(ctx, st, session.Client()); err != nil {
		return err
	}
	return a.loop(ctx, session.Client(), func() error { return a.transact(ctx, session, &lost) })
}

// endOld aborts what an earlier life has left open, for which the group's offsets would wait.
func endOld(ctx context.Context, st *opened, client *kgo.Client) error {
	ctx, cancel := context.WithTimeout(ctx, stores.Timeout(st.Config))
	defer cancel()
	if _, _, err := client.ProducerID(ctx); err != nil {
		return fmt.Errorf("ending the last life's transaction: %w", err)
	}
	return nil
}

// committed takes partitions over at the offsets that are committed, once the sink has everything
// before them.
func (a *aggregator) committed(
	ctx context.Context, offsets map[string]map[int32]kgo.Offset,
) (map[string]map[int32]kgo.Offset, error) {
	ctx, cancel := context.WithTimeout(ctx, stores.Timeout(a.Config))
	defer cancel()
	for n, o := range offsets[topics.Name(a.Config, topicClicks)] {
		next := max(0, o.EpochOffset().Offset)
		for {
			list, err := loadAll(ctx, a.opened, []int32{n})
			if err != nil {
				return nil, err
			}
			if list[n].decider.next == next {
				list[n].read = next
				a.mu.Lock()
				a.held[n] = list[n]
				a.mu.Unlock()
				break
			}
			if !sut.Pause(ctx, sinkEvery) {
				return nil, fmt.Errorf("the sink is at offset %d of partition %d, and not at %d: %w",
					list[n].decider.next, n, next, ctx.Err())
			}
		}
	}
	return offsets, nil
}

// transact decides what a poll brings in one transaction. The session aborts the first one after
// partitions were lost, so that an empty one is ended then; what was polled is polled again.
func (a *aggregator) transact(
	ctx context.Context, session *kgo.GroupTransactSession, lost *atomic.Bool,
) error {
	fetches, err := topics.Poll(ctx, a.every, session.PollRecords, atOnce)
	if err != nil || fetches.NumRecords() == 0 {
		return err
	}
	if lost.Swap(false) {
		_, err := a.end(ctx, session, kgo.TryAbort)
		return err
	}
	if err := session.Begin(); err != nil {
		return fmt.Errorf("beginning a transaction: %w", err)
	}
	failed := a.decide(ctx, session, fetches.Records())
	if failed == nil {
		a.Config.Passed(placeDecided)
	}
	done, err := a.end(ctx, session, kgo.TransactionEndTry(failed == nil))
	switch {
	case failed != nil || err != nil:
		return errors.Join(failed, err)
	case !done:
		return errors.New("the transaction was aborted: the partitions are somebody else's")
	}
	a.Config.Passed(placeStored)
	return nil
}

// end ends a transaction within the stores' timeout: it waits for the group's next heartbeat, and a
// group that is failing waits for us.
func (a *aggregator) end(
	ctx context.Context, session *kgo.GroupTransactSession, how kgo.TransactionEndTry,
) (committed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, stores.Timeout(a.Config))
	defer cancel()
	return session.End(ctx, how)
}

// decide decides clicks and writes the decisions.
func (a *aggregator) decide(
	ctx context.Context, session *kgo.GroupTransactSession, records []*kgo.Record,
) error {
	var out []*kgo.Record
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, r := range records {
		p := a.held[r.Partition]
		if p == nil {
			return fmt.Errorf("partition %d is not ours any more", r.Partition)
		}
		var e event
		if err := e.decode(r.Value, r.Offset); err != nil {
			return err
		}
		value, err := json.Marshal(p.decider.decide(e))
		if err != nil {
			return fmt.Errorf("encoding a decision: %w", err)
		}
		out = append(out, &kgo.Record{Topic: topics.Name(a.Config, topicDecided),
			Partition: r.Partition, Value: value})
	}
	if err := session.ProduceSync(ctx, out...).FirstErr(); err != nil {
		return fmt.Errorf("writing decisions: %w", err)
	}
	return nil
}
