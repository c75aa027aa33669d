package views

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"stampede/harness/stores"
	"stampede/harness/sut"
	"stampede/harness/topics"
)

const (
	// roleTimeout bounds one operation of a role on a store.
	roleTimeout = 5 * time.Second
	// pollWait is how long a consumer waits for records.
	pollWait = 200 * time.Millisecond
)

// consumer is what a role that reads a topic does.
type consumer interface {
	// step does what there is to do, and waits a little if there is nothing.
	step(ctx context.Context) error
	// close stores what can be stored and closes the connections.
	close(ctx context.Context)
	// joined says whether it is where its work comes to it: in its group.
	joined(ctx context.Context) bool
}

// consume lets a consumer work until ctx is cancelled. It survives errors: it keeps its
// partitions, and takes anew what it has not stored.
func consume(
	ctx context.Context, cfg sut.Config, role string, open func(context.Context) (consumer, error),
) error {
	c, err := open(ctx)
	if err != nil {
		return err
	}
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), cfg.Timeout)
		defer cancel()
		c.close(end)
	}()
	for retry := (sut.Retry{}); ctx.Err() == nil; {
		err := c.step(ctx)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			cfg.Warn("views "+role+" goes on after an error", err)
			retry.Rest(ctx)
		case c.joined(ctx):
			cfg.Worked()
		}
	}
	return nil
}

// member is one consumer of a group, or, without a group, of every partition. Where it goes on is
// in the books: when a partition comes to it, it takes the stand there, which ends the right of
// whoever had it before. Kafka's own commits are for those who look at lag.
type member struct {
	seat   *topics.Member // of a member of a group
	client *kgo.Client
	cfg    sut.Config
	topic  string
	group  string // its whole name
	who    station
	books  books
	// byCommits goes on where Kafka's commits say, and takes no stand.
	byCommits bool
	// leaving is called before partitions go to somebody else, orderly, or when
	// they are lost to somebody else already.
	leaving func(ctx context.Context, gone []int32, orderly bool)

	topicID [16]byte // once a commit has asked for it
	// committing is a model's commit.
	committing func(ctx context.Context, moves []move) error

	// work is held while somebody works on what was polled, and while partitions
	// are given up. The driver calls back in the midst of a step if its poll
	// brought nothing, and in the midst of close.
	work turn

	mu   sync.Mutex
	held map[int32]*hold
}

// turn is a lock; unlike those of sync it can be waited for in virtual time.
type turn chan struct{}

func (t turn) begin() { t <- struct{}{} }
func (t turn) end()   { <-t }

// hold is a partition in hand. What is stale has to be taken again.
type hold struct {
	stand
	read  int64 // the offset of the next record, -1 if any will do
	sent  int64 // up to where the filter's views are in the log
	stale bool
}

func newHold(s stand) *hold { return &hold{stand: s, read: s.next, sent: s.next} }

// batch is what a poll brought of one partition.
type batch struct {
	partition int32
	records   []*kgo.Record
}

// join opens a consumer. An empty group means all partitions.
func (m *member) join(ctx context.Context, p Params, topic, group string, more ...kgo.Opt) error {
	m.topic, m.held = topics.Name(m.cfg, topic), make(map[int32]*hold)
	m.work = make(turn, 1)
	opts := slices.Concat(more, []kgo.Opt{kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())})
	if group == "" {
		offsets, err := m.takeAll(ctx)
		if err != nil {
			return err
		}
		opts = append(opts, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{m.topic: offsets}))
	} else {
		m.group = topics.Name(m.cfg, group)
		opts = append(opts, m.membership(p)...)
	}
	client, err := topics.Open(m.cfg, opts...)
	if err != nil {
		return err
	}
	m.client, m.seat = client, topics.NewMember(client, m.group)
	ctx, cancel := context.WithTimeout(ctx, stores.Timeout(m.cfg))
	defer cancel()
	if err := client.Ping(ctx); err != nil {
		client.Close()
		return fmt.Errorf("connecting to Kafka: %w", err)
	}
	return nil
}

// joined says whether it is a member of its group, if it has one.
func (m *member) joined(ctx context.Context) bool { return m.group == "" || m.seat.Joined(ctx) }

// membership are the options of a member of a group. Rebalances wait while a
// poll is being worked on, so that nothing is taken away in the middle.
func (m *member) membership(p Params) []kgo.Opt {
	balancer := kgo.CooperativeStickyBalancer()
	if p.Balancing == Eager {
		balancer = kgo.StickyBalancer()
	}
	opts := append(topics.InGroup(m.group, m.topic, p.SessionTimeout.D()),
		kgo.Balancers(balancer), kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsRevoked(func(ctx context.Context, _ *kgo.Client, gone map[string][]int32) {
			m.revoked(ctx, gone[m.topic], true)
		}),
		kgo.OnPartitionsLost(func(ctx context.Context, _ *kgo.Client, gone map[string][]int32) {
			m.revoked(ctx, gone[m.topic], false)
		}))
	if m.byCommits {
		return append(opts, kgo.OnPartitionsAssigned(
			func(_ context.Context, _ *kgo.Client, come map[string][]int32) {
				m.assigned(come[m.topic])
			}))
	}
	return append(opts, kgo.AdjustFetchOffsetsFn(m.adjust))
}

// adjust takes the partitions that have come and goes on where the books say.
func (m *member) adjust(
	ctx context.Context, offsets map[string]map[int32]kgo.Offset,
) (map[string]map[int32]kgo.Offset, error) {
	come := slices.Collect(maps.Keys(offsets[m.topic]))
	if len(come) == 0 {
		return offsets, nil
	}
	stands, err := m.books.take(ctx, m.who, come)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range stands {
		m.held[s.partition] = newHold(s)
		offsets[m.topic][s.partition] = kgo.NewOffset().At(s.next)
	}
	return offsets, nil
}

// assigned notes partitions that have come to a member without stands.
func (m *member) assigned(come []int32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range come {
		m.held[p] = &hold{stand: stand{partition: p, next: -1, source: -1}, read: -1}
	}
}

// takeAll takes every partition of the station.
func (m *member) takeAll(ctx context.Context) (map[int32]kgo.Offset, error) {
	all := make(map[int32]kgo.Offset)
	for p := range m.cfg.Kafka.Partitions {
		all[int32(p)] = kgo.NewOffset()
	}
	_, err := m.adjust(ctx, map[string]map[int32]kgo.Offset{m.topic: all})
	return all, err
}

// revoked gives partitions up.
func (m *member) revoked(ctx context.Context, gone []int32, orderly bool) {
	if len(gone) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stores.Timeout(m.cfg))
	defer cancel()
	m.work.begin()
	defer m.work.end()
	m.leaving(ctx, gone, orderly)
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range gone {
		delete(m.held, p)
	}
}

// poll waits for records, at most so long and so many, and returns them by partition. After it,
// also after an error, rebalances wait until AllowRebalance of the client.
func (m *member) poll(ctx context.Context, atMost int, wait time.Duration) ([]batch, error) {
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	fetches := m.client.PollRecords(waiting, atMost)
	if err := m.resume(ctx); err != nil {
		return nil, err
	}
	var failed error
	for _, f := range fetches.Errors() {
		if !errors.Is(f.Err, context.DeadlineExceeded) && !errors.Is(f.Err, context.Canceled) {
			failed = fmt.Errorf("reading %s/%d: %w", f.Topic, f.Partition, f.Err)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []batch
	fetches.EachPartition(func(p kgo.FetchTopicPartition) {
		h := m.held[p.Partition]
		if h == nil {
			return
		}
		records := p.Records
		for len(records) > 0 && h.read >= 0 && records[0].Offset != h.read {
			// From before the partition was set back, and so is what follows.
			records = records[1:]
		}
		if len(records) == 0 {
			return
		}
		h.read = records[len(records)-1].Offset + 1
		list = append(list, batch{p.Partition, records})
	})
	slices.SortFunc(list, func(a, b batch) int { return int(a.partition - b.partition) })
	return list, failed
}

// forget makes all partitions stale: what was read of them and not stored will be read again.
func (m *member) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, h := range m.held {
		h.stale = true
	}
}

// resume takes what is stale again and sets the client back to it. Who is no
// longer the owner will learn so at the next poll; until then the two take the
// partition from each other, and neither can store what the other has.
func (m *member) resume(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var stale []int32
	for p, h := range m.held {
		if h.stale && !m.byCommits {
			stale = append(stale, p)
		}
	}
	if len(stale) == 0 {
		return nil
	}
	stands, err := m.books.take(ctx, m.who, stale)
	if err != nil {
		return err
	}
	back := make(map[int32]kgo.EpochOffset)
	for _, s := range stands {
		m.held[s.partition] = newHold(s)
		back[s.partition] = kgo.EpochOffset{Epoch: -1, Offset: s.next}
	}
	m.client.SetOffsets(map[string]map[int32]kgo.EpochOffset{m.topic: back})
	return nil
}

// standOf returns the stand of a partition in hand.
func (m *member) standOf(partition int32) (s stand, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	h := m.held[partition]
	if h == nil || h.stale {
		return stand{partition: partition}, false
	}
	return h.stand, true
}

// sent notes up to where the filter's views are in the log.
func (m *member) sent(to map[int32]int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for p, offset := range to {
		if h := m.held[p]; h != nil {
			h.sent = max(h.sent, min(offset, h.decided))
		}
	}
}

// unsettled are the stands whose views are in the log further than the books
// know, each with the offset up to where they are.
func (m *member) unsettled() map[int32]move {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := make(map[int32]move)
	for p, h := range m.held {
		if !h.stale && h.sent > h.next {
			list[p] = h.settle()
		}
	}
	return list
}

// settle is the move to where the views are in the log.
func (h *hold) settle() move {
	first, _ := slices.BinarySearch(h.views, Position{Offset: h.sent}.in())
	return move{stand: h.stand, to: h.sent, toSource: h.source, toDecided: h.decided,
		toViews: h.views[first:]}
}

// moved notes that the books have stored moves.
func (m *member) moved(moves []move) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, to := range moves {
		if h := m.held[to.partition]; h != nil {
			h.next, h.source, h.decided, h.views = to.to, to.toSource, to.toDecided, to.toViews
		}
	}
}

// reached are the stands of all partitions in hand, as far as the books are.
func (m *member) reached() (list []move) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, h := range m.held {
		if !h.stale {
			list = append(list, move{stand: h.stand, to: h.next})
		}
	}
	return list
}

// commit tells Kafka how far the books are. It asks the broker itself: the driver's own commit
// waits while the group is being joined, and what it waits with cannot be waited for in virtual
// time. A broker takes no commit of a member that is not one any more.
func (m *member) commit(ctx context.Context, moves []move) error {
	if m.committing != nil {
		return m.committing(ctx, moves)
	}
	ctx, cancel := context.WithTimeout(ctx, stores.Timeout(m.cfg))
	defer cancel()
	if m.topicID == [16]byte{} {
		found, err := kadm.NewClient(m.client).ListTopics(ctx, m.topic)
		if err != nil {
			return fmt.Errorf("asking for the topic's id: %w", err)
		}
		m.topicID = found[m.topic].ID
	}
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group = m.group
	req.MemberID, req.Generation = m.client.GroupMetadata()
	topic := kmsg.NewOffsetCommitRequestTopic()
	topic.Topic, topic.TopicID = m.topic, m.topicID
	for _, to := range moves {
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset = to.partition, to.to
		topic.Partitions = append(topic.Partitions, p)
	}
	req.Topics = append(req.Topics, topic)
	resp, err := req.RequestWith(ctx, m.client)
	if err != nil {
		return fmt.Errorf("committing offsets: %w", err)
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return fmt.Errorf("committing the offset of %s/%d: %w", m.topic, p.Partition, err)
			}
		}
	}
	return nil
}

// leave ends the membership.
func (m *member) leave() {
	if m.client != nil {
		m.client.CloseAllowingRebalance()
	}
}
