package views

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"stampede/harness/sut"
	"stampede/harness/topics"
)

const (
	// filterBatch bounds the records that are decided together.
	filterBatch = 50_000
	// settleWait is how long a batch that is on its way to the log waits for another one, before
	// it is noted by itself.
	settleWait = 20 * time.Millisecond
)

// The places of the filter, in the order of its work.
const (
	placeDecided   = "decided"   // the decisions are stored, the views are not in the log
	placeForwarded = "forwarded" // the views are in the log, which nobody has noted
)

// filter decides which events are views.
//
// It keeps nothing that cannot be lost. What a session, a user or an address
// has had is in Redis, or wherever its design keeps it. What was decided is in Postgres, before
// any of it leaves the filter: what was turned away, and of the views their positions, until
// they are in valid_events. Whoever takes a partition forwards first what was
// decided before, as it was decided, whatever Redis has forgotten since; the
// counter knows by its position what comes again.
//
// While a batch is stored, the next one is read, and while its views are written, that one is
// judged. It is not stored before the one ahead is in the log: in valid_events no view of
// a partition comes before one that precedes it in watch_events, whoever writes.
type filter struct {
	member
	rules *ruleBook
	mind  mind
	valid string
	// alone is what an event is by itself; it is that of the rules but in tests.
	alone func(rules *ruleSet, e *Event, creator string) (reason string)
	// list has the events of a poll, spare those of the one before, which may still be stored.
	list, spare []decision
	// ahead is the batch before, on its way to the books and to the log.
	ahead *passage
	// committed is when Kafka was told last how far the books are; untold says that they went on.
	committed time.Time
	untold    bool
}

// mind is what a filter decides candidates by: what it has seen of sessions, users and
// addresses, wherever that is.
type mind interface {
	// recall prepares for events of partitions that stand as is told. It drops what was met and
	// not stored.
	recall(ctx context.Context, stands []stand) error
	// meet is told an event, the i-th of its batch, that no rule turns away by itself, in the order
	// in which they are to be decided. It returns what is known already. judge decides the rest, as
	// far as it is not for store to decide.
	meet(i int, d *decision, rules *ruleSet) (reason string)
	judge(ctx context.Context, list []decision) error
	// store stores what was decided, and the progress, all or nothing. It calls settle for both
	// once everything is decided, and returns the progress.
	store(ctx context.Context, list []decision, settle func() ([]move, []DropAudit)) ([]move, error)
	// forget is told that a batch was given up, leave that partitions go.
	forget()
	leave(gone []int32)
}

// passage is a batch that was judged, on its way to the books, and to the log then.
type passage struct {
	*decided
	ahead *passage // the batch before it, whose views come first
	// stored is closed once its decisions are stored, or kept says why not; done once its views are
	// in the log, or err says why not.
	stored, done chan struct{}
	kept, err    error
	// ctx is that of all that are on their way, which stop cancels.
	ctx  context.Context
	stop context.CancelFunc
}

// filterRole is the role of the filter, which needs some stores. The changes are what a design
// does differently.
func filterRole(needs []sut.Service, changes func(*filter, *opened)) role {
	return role{
		Name:    "filter",
		Summary: "decides by the rules which heartbeats are views and forwards these",
		Places:  []string{placeDecided, placeForwarded},
		Needs:   needs,
		Timeout: roleTimeout,
		Do: func(ctx context.Context, st *opened) error {
			return consume(ctx, st.Config, "filter", func(ctx context.Context) (consumer, error) {
				return openFilter(ctx, st, database{st.DB}, changes)
			})
		},
	}
}

func openFilter(
	ctx context.Context, st *opened, b books, changes func(*filter, *opened),
) (*filter, error) {
	f := newFilter(st, b)
	if changes != nil {
		changes(f, st)
	}
	return f, f.join(ctx, st.Params, topicWatch, "filter",
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
}

func newFilter(st *opened, b books) *filter {
	f := &filter{
		member: member{cfg: st.Config, who: station{stageFilter, 0}, books: b},
		rules:  newRuleBook(b, st.Params, st.Config.Logger),
		mind:   newWindows(st, b), valid: topics.Name(st.Config, topicValid), alone: (*ruleSet).alone,
	}
	f.leaving = f.hand
	return f
}

// hand lets what was decided arrive before partitions go to somebody else. If
// it takes too long, it is stopped, and the next owner forwards it again.
func (f *filter) hand(ctx context.Context, gone []int32, orderly bool) {
	if f.ahead != nil {
		kept := context.AfterFunc(ctx, f.ahead.stop)
		defer kept()
		<-f.ahead.stored // which uses what is remembered
	}
	defer f.mind.leave(gone)
	if !orderly {
		return // it is the next owner's already
	}
	if f.ahead != nil {
		select {
		case <-f.ahead.done:
		case <-ctx.Done():
		}
	}
	if ctx.Err() == nil {
		f.settle(ctx)
	}
}

// settle waits for what is on its way and notes it in the books.
func (f *filter) settle(ctx context.Context) {
	err := f.arrived()
	if err == nil {
		err = f.record(ctx, nil)
	}
	if err != nil {
		f.forget()
		f.cfg.Logger.Warn("views filter: what was decided is forwarded again", "error", err)
		return
	}
	f.tell(ctx, 0)
}

func (f *filter) close(ctx context.Context) {
	f.work.begin()
	f.settle(ctx)
	f.work.end()
	f.leave()
}

// arrived waits until nothing is on its way and returns what became of it.
func (f *filter) arrived() error {
	if f.ahead == nil {
		return nil
	}
	<-f.ahead.done
	f.ahead.stop()
	p := f.ahead
	f.ahead = nil
	if p.err == nil {
		f.sent(p.to)
	}
	return p.err
}

// step decides what one poll brings, and sends it on its way to the books and to the log.
func (f *filter) step(ctx context.Context) error {
	wait := pollWait
	if f.ahead != nil {
		wait = settleWait // it is noted soon, if nothing follows
	}
	batches, err := f.poll(ctx, filterBatch, wait)
	defer f.client.AllowRebalance()
	f.work.begin()
	defer f.work.end()
	var next *decided
	if err == nil && len(batches) > 0 {
		next, err = f.collect(ctx, batches)
	}
	switch {
	case err == nil && next != nil:
		err = f.decide(ctx, next)
	case err == nil:
		if err = f.arrived(); err == nil {
			err = f.record(ctx, nil)
		}
		if err == nil {
			f.tell(ctx, commitEvery)
		}
	}
	if err != nil {
		err = errors.Join(err, f.arrived())
		f.mind.forget()
		f.forget()
		return err
	}
	if next != nil {
		f.send(ctx, next)
	}
	return nil
}

// send sends a batch on its way, which it has in common with those ahead.
func (f *filter) send(ctx context.Context, next *decided) {
	p := &passage{decided: next, ahead: f.ahead, stored: make(chan struct{}),
		done: make(chan struct{})}
	if f.ahead != nil {
		p.ctx, p.stop = f.ahead.ctx, f.ahead.stop
	} else {
		p.ctx, p.stop = context.WithCancel(ctx)
	}
	f.ahead = p
	go f.pass(p)
}

// pass stores a batch once the one ahead is in the log, and forwards its views.
func (f *filter) pass(p *passage) {
	defer close(p.done)
	var views []*kgo.Record
	if ahead := p.ahead; ahead != nil {
		<-ahead.done
		if p.kept = ahead.err; p.kept == nil {
			f.sent(ahead.to)
		}
		p.ahead = nil
	}
	if p.kept == nil {
		p.kept = f.record(p.ctx, p.decided)
	}
	if p.kept == nil {
		views = f.viewsOf(p.list)
	}
	p.err = p.kept
	close(p.stored)
	if p.kept == nil {
		p.err = f.forward(p.ctx, views)
		f.tell(p.ctx, commitEvery)
	}
}

// record stores what was decided, and what of the decisions before is in the
// log by now. Nothing is on its way.
func (f *filter) record(ctx context.Context, next *decided) error {
	moves := f.unsettled()
	if next == nil {
		if len(moves) == 0 {
			return nil
		}
		next = &decided{}
	}
	list, err := f.mind.store(ctx, next.list, func() ([]move, []DropAudit) {
		f.plan(moves, next)
		return slices.Collect(maps.Values(moves)), dropsOf(next.list)
	})
	if err != nil {
		return err
	}
	f.moved(list)
	if len(next.to) > 0 {
		f.cfg.Passed(placeDecided)
	}
	f.untold = f.untold || len(list) > 0
	return nil
}

// plan adds what was decided to the moves of its partitions.
func (f *filter) plan(moves map[int32]move, next *decided) {
	for p, to := range next.to {
		m, ok := moves[p]
		if !ok {
			s, _ := f.standOf(p)
			m = move{stand: s, to: s.next, toSource: s.source, toDecided: s.decided,
				toViews: slices.Clone(s.views)}
		}
		m.toDecided = max(m.toDecided, to)
		moves[p] = m
	}
	for i := range next.list {
		if d := &next.list[i]; d.reason == "" && !d.before {
			m := moves[d.at.Partition]
			m.toViews = append(m.toViews, d.at.in())
			moves[d.at.Partition] = m
		}
	}
}

// commitEvery is how often Kafka is told how far the books are: only those who
// look at lag from outside ask it. The last offsets are told so long after they were stored.
const commitEvery = time.Second

// tell tells Kafka how far the books are, unless it was told so short a time ago.
func (f *filter) tell(ctx context.Context, every time.Duration) {
	if !f.untold || time.Since(f.committed) < every {
		return
	}
	f.committed, f.untold = time.Now(), false
	if err := f.commit(ctx, f.reached()); err != nil {
		f.untold = true
		f.cfg.Logger.Warn("views filter: lag will look larger than it is", "error", err)
	}
}

// forward writes views to the log and waits until they are there.
func (f *filter) forward(ctx context.Context, views []*kgo.Record) error {
	if err := f.client.ProduceSync(ctx, views...).FirstErr(); err != nil {
		return fmt.Errorf("forwarding %d views: %w", len(views), err)
	}
	f.cfg.Passed(placeForwarded)
	return nil
}

// decision is an event with what became of it.
type decision struct {
	at     Position
	event  Event
	reason string // "" for a view
	// before says that it was decided before, by whoever had the partition.
	before bool
}

// decided are the events of a batch, and the offsets that follow it.
type decided struct {
	list []decision
	to   map[int32]int64
}

// collect reads the events of a poll, nil if there are none to decide.
func (f *filter) collect(ctx context.Context, batches []batch) (*decided, error) {
	// Rules are loaded while nothing depends on it, too.
	if _, err := f.rules.latest(ctx); err != nil {
		return nil, err
	}
	to := make(map[int32]int64)
	f.list, f.spare = f.spare[:0], f.list
	for _, b := range batches {
		s, ok := f.standOf(b.partition)
		if !ok {
			continue
		}
		to[b.partition] = b.records[len(b.records)-1].Offset + 1
		if err := f.read(s, b.records); err != nil {
			return nil, err
		}
	}
	if len(to) == 0 {
		return nil, nil
	}
	return &decided{f.list, to}, nil
}

// decide judges a batch once the one ahead is stored. Of what was decided before, the views are
// views.
func (f *filter) decide(ctx context.Context, next *decided) error {
	if f.ahead != nil {
		<-f.ahead.stored
		if err := f.ahead.kept; err != nil {
			return err
		}
	}
	var stands []stand
	for p := range next.to {
		s, _ := f.standOf(p)
		stands = append(stands, s)
	}
	if err := f.mind.recall(ctx, stands); err != nil {
		return err
	}
	return f.judge(ctx, next.list)
}

// read adds the events of records to the batch, and of those that were decided before the views.
// Their texts are parts of one copy of all records.
func (f *filter) read(s stand, records []*kgo.Record) error {
	var values strings.Builder
	size := 0
	for _, r := range records {
		size += len(r.Value)
	}
	values.Grow(size)
	var skipped Event
	for _, r := range records {
		begin := values.Len()
		values.Write(r.Value)
		before := r.Offset < s.decided
		err := decodeEvents(values.String()[begin:], func(index int) *Event {
			at := Position{r.Partition, r.Offset, index}
			if before && !s.saw(at.in()) {
				return &skipped
			}
			f.list = append(f.list, decision{at: at, before: before})
			return &f.list[len(f.list)-1].event
		})
		if err != nil {
			return fmt.Errorf("at %s/%d/%d: %w", r.Topic, r.Partition, r.Offset, err)
		}
	}
	return nil
}

// judge fills in the reasons.
func (f *filter) judge(ctx context.Context, list []decision) error {
	var rules *ruleSet
	for i := range list {
		d := &list[i]
		if d.before {
			continue
		}
		if rules == nil || rules.Version != d.event.Rules {
			var err error
			if rules, err = f.rules.version(ctx, d.event.Rules); err != nil {
				return err
			}
		}
		creator, _ := f.rules.creator(d.event.Video)
		d.reason = f.alone(rules, &d.event, creator)
		if d.reason == "" {
			d.reason = f.mind.meet(i, d, rules)
		}
	}
	return f.mind.judge(ctx, list)
}

// viewsOf makes the records of the views, which share their memory.
func (f *filter) viewsOf(list []decision) []*kgo.Record {
	n := 0
	for i := range list {
		if list[i].reason == "" {
			n++
		}
	}
	records, views := make([]kgo.Record, 0, n), make([]*kgo.Record, 0, n)
	text := make([]byte, 0, 112*n)
	for i := range list {
		d := &list[i]
		if d.reason != "" {
			continue
		}
		begin := len(text)
		text = append(text, d.event.Video...)
		middle := len(text)
		text = appendView(text, d.at.in(), &d.event)
		records = append(records, kgo.Record{Topic: f.valid, Partition: d.at.Partition,
			Key: text[begin:middle:middle], Value: text[middle:len(text):len(text)]})
		views = append(views, &records[len(records)-1])
	}
	return views
}

// dropsOf counts what was turned away.
func dropsOf(list []decision) []DropAudit {
	n := make(map[DropAudit]int64) // events is zero in the key
	for i := range list {
		if d := &list[i]; d.reason != "" {
			n[DropAudit{Partition: d.at.Partition, Video: d.event.Video, Reason: d.reason}]++
		}
	}
	out := make([]DropAudit, 0, len(n))
	for d, events := range n {
		d.Events = events
		out = append(out, d)
	}
	slices.SortFunc(out, func(a, b DropAudit) int {
		return cmp.Or(cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Video, b.Video),
			cmp.Compare(a.Reason, b.Reason))
	})
	return out
}
