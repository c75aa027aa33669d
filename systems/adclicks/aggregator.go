package adclicks

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"stampede/harness/stores"
	"stampede/harness/sut"
	"stampede/harness/topics"
)

// The topic of clicks, keyed by campaign.
const topicClicks = "clicks"

// The places of an aggregator, in the order of its work.
const (
	placeDecided = "decided" // clicks are decided, and nothing is stored
	placeStored  = "stored"  // the results are
)

// atOnce bounds the clicks of one poll.
const atOnce = 2000

// aggregator reads partitions of a topic as a member of a group. Where it goes on is where the
// results are, and not what Kafka knows of its offsets. Whatever fails, it begins anew with what is
// stored.
type aggregator struct {
	*opened
	topic, group string
	every        time.Duration
	more         []kgo.Opt
	// load takes partitions over, take works on a record, and store stores what has come of it.
	load  loader
	take  func(p *partition, r *kgo.Record) error
	store func(ctx context.Context, st *opened, list []*partition) error

	mu   sync.Mutex
	held map[int32]*partition
}

// newAggregator decides clicks and stores the results in Postgres.
func newAggregator(st *opened) *aggregator {
	return &aggregator{opened: st, topic: topicClicks, group: "aggregators",
		every: st.Params.FlushEvery.D(), load: loadAll, store: storeAll, take: takeClick,
		held: map[int32]*partition{}}
}

// takeClick decides a click.
func takeClick(p *partition, r *kgo.Record) error {
	var e event
	if err := e.decode(r.Value, r.Offset); err != nil {
		return err
	}
	p.read = r.Offset + 1
	return p.take(e)
}

// aggregatorRole is the role of an aggregator, with what a design has differently.
func aggregatorRole(change func(*aggregator)) role {
	return role{Name: "aggregator", Places: []string{placeDecided, placeStored},
		Summary: "decides clicks in the order of the log, and stores what they add up to",
		Do: func(ctx context.Context, st *opened) error {
			a := newAggregator(st)
			if change != nil {
				change(a)
			}
			return a.run(ctx)
		}}
}

// member are the options of a member of a group, which gives partitions up between two polls only.
func member(st *opened, topic, group string, more ...kgo.Opt) []kgo.Opt {
	return slices.Concat(more, topics.InGroup(topics.Name(st.Config, group),
		topics.Name(st.Config, topic), st.Params.SessionTimeout.D()), []kgo.Opt{
		kgo.BlockRebalanceOnPoll(), kgo.Balancers(kgo.CooperativeStickyBalancer())})
}

// run works until ctx is cancelled or something fails.
func (a *aggregator) run(ctx context.Context) error {
	lost := func(_ context.Context, _ *kgo.Client, gone map[string][]int32) { a.lose(gone) }
	client, err := topics.Open(a.Config, member(a.opened, a.topic, a.group, append(a.more,
		kgo.DisableAutoCommit(), kgo.AdjustFetchOffsetsFn(a.assigned),
		kgo.OnPartitionsRevoked(lost), kgo.OnPartitionsLost(lost))...)...)
	if err != nil {
		return err
	}
	defer client.CloseAllowingRebalance()
	flushed := time.Now()
	return a.loop(ctx, client, func() error {
		n, err := a.poll(ctx, client)
		if err == nil && (n >= atOnce || time.Since(flushed) >= a.every) {
			err, flushed = a.flush(ctx), time.Now()
		}
		return err
	})
}

// loop takes steps, between which partitions may be given up.
func (a *aggregator) loop(ctx context.Context, client *kgo.Client, step func() error) error {
	seat := topics.NewMember(client, topics.Name(a.Config, a.group))
	for ctx.Err() == nil {
		err := step()
		client.AllowRebalance()
		if err != nil && ctx.Err() == nil {
			return err
		}
		if seat.Joined(ctx) {
			a.Config.Worked()
		}
	}
	return nil
}

// poll reads and decides what there is, or what comes within a while.
func (a *aggregator) poll(ctx context.Context, client *kgo.Client) (int, error) {
	fetches, err := topics.Poll(ctx, a.every, client.PollRecords, atOnce)
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, r := range fetches.Records() {
		p := a.held[r.Partition]
		if p == nil || r.Offset < p.read {
			continue
		}
		if err := a.take(p, r); err != nil {
			return 0, err
		}
	}
	return fetches.NumRecords(), err
}

// flush stores everything.
func (a *aggregator) flush(ctx context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	list := inOrder(a.held)
	if len(list) == 0 {
		return nil
	}
	a.Config.Passed(placeDecided)
	if err := a.store(ctx, a.opened, list); err != nil {
		return err
	}
	a.Config.Passed(placeStored)
	for _, p := range list {
		p.stored()
	}
	return nil
}

// assigned takes partitions over and says where to go on with them.
func (a *aggregator) assigned(
	ctx context.Context, offsets map[string]map[int32]kgo.Offset,
) (map[string]map[int32]kgo.Offset, error) {
	ctx, cancel := context.WithTimeout(ctx, stores.Timeout(a.Config))
	defer cancel()
	topic := topics.Name(a.Config, a.topic)
	come, err := a.load(ctx, a.opened, slices.Sorted(maps.Keys(offsets[topic])))
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for n, p := range come {
		a.held[n] = p
		offsets[topic][n] = kgo.NewOffset().At(p.read)
	}
	return offsets, nil
}

// lose forgets partitions that are somebody else's now, with what was not stored of them.
func (a *aggregator) lose(gone map[string][]int32) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, n := range gone[topics.Name(a.Config, a.topic)] {
		delete(a.held, n)
	}
}

// clicksUntil reads the clicks of a partition from offset 0 on to before another one.
func clicksUntil(
	ctx context.Context, cfg sut.Config, part int32, end int64,
) (list []event, err error) {
	err = topics.Read(ctx, cfg, topics.Name(cfg, topicClicks), nil, map[int32]int64{part: end},
		each(&list))
	return list, err
}

// each appends the clicks of records to a list.
func each(list *[]event) func(*kgo.Record) error {
	return func(r *kgo.Record) error {
		var e event
		err := e.decode(r.Value, r.Offset)
		*list = append(*list, e)
		return err
	}
}
