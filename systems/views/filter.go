package views

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"stampede/harness/sut"
	"stampede/harness/topics"
)

const (
	// filterBatch bounds the records that are decided together.
	filterBatch = 50_000
	// rememberedSessions bounds what a filter keeps in mind of a partition.
	rememberedSessions = 1 << 17
)

// The places of the filter, in the order of its work.
const (
	placeDecided   = "decided"   // the decisions are stored, the views are not in the log
	placeForwarded = "forwarded" // the views are in the log, which nobody has noted
)

// filter decides which events are views.
//
// It keeps nothing that cannot be lost. What a session, a user or an address
// has had is in Redis. What was decided is in Postgres, before any of it leaves
// the filter: what was turned away, and of the views their positions, until
// they are in valid_events. Whoever takes a partition forwards first what was
// decided before, as it was decided, whatever Redis has forgotten since; the
// counter knows by its position what comes again.
//
// While the views of a batch are written, the next one is read and judged. It
// is not stored before the one ahead is in the log: in valid_events no view of
// a partition comes before one that precedes it in watch_events, whoever writes.
type filter struct {
	member
	rules   *ruleBook
	windows *windows
	valid   string
	// alone is what an event is by itself; it is that of the rules but in tests.
	alone func(rules *ruleSet, e *Event, creator string) (reason string)
	// judged remembers sessions that are watches, by partition.
	judged map[int32]map[string]judgement
	// list has the events of a poll; its memory serves the next poll too.
	list []decision
	// ahead is the batch before, on its way to the log.
	ahead *passage
	// committed is when Kafka was told last how far the books are.
	committed time.Time
}

// passage is a batch whose decisions are stored, on its way to the log.
type passage struct {
	to   map[int32]int64 // the offset that follows it
	done chan struct{}
	err  error // once done
}

// filterRole is the role of the filter.
func filterRole() role {
	return role{
		Name:    "filter",
		Summary: "decides by the rules which heartbeats are views and forwards these",
		Places:  []string{placeDecided, placeForwarded},
		Needs:   []sut.Service{sut.Redis},
		Timeout: roleTimeout,
		Do: func(ctx context.Context, st *opened) error {
			return consume(ctx, st.Config, "filter", func(ctx context.Context) (consumer, error) {
				return openFilter(ctx, st, database{st.DB})
			})
		},
	}
}

func openFilter(ctx context.Context, st *opened, b books) (*filter, error) {
	f := &filter{
		member:  member{cfg: st.Config, who: station{stageFilter, 0}, books: b},
		rules:   newRuleBook(b, st.Params, st.Config.Logger),
		windows: newWindows(st), valid: topics.Name(st.Config, topicValid), alone: (*ruleSet).alone,
		judged: make(map[int32]map[string]judgement),
	}
	f.leaving = f.hand
	return f, f.join(ctx, st.Params, topicWatch, "filter",
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
}

// hand lets what was decided arrive before partitions go to somebody else. If
// it takes too long, the next owner forwards it again.
func (f *filter) hand(ctx context.Context, gone []int32, orderly bool) {
	for _, p := range gone {
		delete(f.judged, p)
	}
	if !orderly {
		return // it is the next owner's already
	}
	if f.ahead != nil {
		select {
		case <-f.ahead.done:
		case <-ctx.Done():
			return
		}
	}
	f.settle(ctx)
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
	}
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
	p := f.ahead
	f.ahead = nil
	if p.err == nil {
		f.sent(p.to)
	}
	return p.err
}

// step decides what one poll brings, stores it and sends it on its way.
func (f *filter) step(ctx context.Context) error {
	batches, err := f.poll(ctx, filterBatch, pollWait)
	defer f.client.AllowRebalance()
	f.work.begin()
	defer f.work.end()
	var next *decided
	if err == nil && len(batches) > 0 {
		next, err = f.decide(ctx, batches)
	}
	if err = errors.Join(err, f.arrived()); err == nil {
		err = f.record(ctx, next)
	}
	if err != nil {
		clear(f.judged)
		f.forget()
		return err
	}
	if next != nil {
		f.ahead = &passage{to: next.to, done: make(chan struct{})}
		go func(p *passage) {
			defer close(p.done)
			p.err = f.forward(ctx, next.views)
		}(f.ahead)
	}
	return nil
}

// record stores what was decided, and what of the decisions before is in the
// log by now. Nothing is on its way.
func (f *filter) record(ctx context.Context, next *decided) error {
	moves := f.unsettled()
	var drops []DropAudit
	if next != nil {
		drops = next.drops
		f.plan(moves, next)
	}
	if len(moves) == 0 {
		return nil
	}
	list := slices.Collect(maps.Values(moves))
	if err := f.books.filtered(ctx, list, drops); err != nil {
		return err
	}
	f.moved(list)
	if next != nil {
		f.cfg.Passed(placeDecided)
	}
	f.tell(ctx, list, next == nil)
	return nil
}

// plan adds what was decided to the moves of its partitions.
func (f *filter) plan(moves map[int32]move, next *decided) {
	for p, to := range next.to {
		m, ok := moves[p]
		if !ok {
			s, _ := f.standOf(p)
			m = move{stand: s, to: s.next, toSource: s.source, toDecided: s.decided, toViews: s.views}
		}
		m.toDecided = max(m.toDecided, to)
		m.toViews = slices.Concat(m.toViews, next.places[p])
		moves[p] = m
	}
}

// commitEvery is how often Kafka is told how far the books are: only those who
// look at lag from outside ask it.
const commitEvery = time.Second

// tell tells Kafka, at rest at once and else once in a while.
func (f *filter) tell(ctx context.Context, moves []move, rest bool) {
	if !rest && time.Since(f.committed) < commitEvery {
		return
	}
	f.committed = time.Now()
	if err := f.commit(ctx, moves); err != nil {
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
	// open is the index of the candidate that decides it, -1 if none has to.
	open int
	// before says that it was decided before, by whoever had the partition.
	before bool
}

// decided is what is to be stored and written of a batch.
type decided struct {
	to     map[int32]int64   // the offset that follows it
	places map[int32][]int64 // the positions of the views that were not decided before
	views  []*kgo.Record
	drops  []DropAudit
}

// decide decides a batch. Of what was decided before, the views are views.
func (f *filter) decide(ctx context.Context, batches []batch) (*decided, error) {
	// Rules are loaded while nothing depends on it, too.
	if _, err := f.rules.latest(ctx); err != nil {
		return nil, err
	}
	next := &decided{to: make(map[int32]int64), places: make(map[int32][]int64)}
	f.list = f.list[:0]
	for _, b := range batches {
		s, ok := f.standOf(b.partition)
		if !ok {
			continue
		}
		next.to[b.partition] = b.records[len(b.records)-1].Offset + 1
		for _, r := range b.records {
			before := r.Offset < s.decided
			err := decodeEvents(r.Value, func(index int, e *Event) {
				at := Position{r.Partition, r.Offset, index}
				if !before || s.saw(at.in()) {
					f.list = append(f.list, decision{at: at, event: *e, open: -1, before: before})
				}
			})
			if err != nil {
				return nil, fmt.Errorf("at %s/%d/%d: %w", r.Topic, r.Partition, r.Offset, err)
			}
		}
	}
	if len(next.to) == 0 {
		return nil, nil
	}
	if err := f.windows.recall(ctx); err != nil {
		return nil, err
	}
	if err := f.judge(ctx, f.list); err != nil {
		return nil, err
	}
	f.viewsOf(f.list, next)
	next.drops = dropsOf(f.list)
	return next, nil
}

// judge fills in the reasons. A session is asked about once; its later events
// follow from that.
func (f *filter) judge(ctx context.Context, list []decision) error {
	var candidates []candidate
	asked := make(map[string]int)
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
		if d.reason != "" {
			continue
		}
		if known, ok := f.judged[d.at.Partition][d.event.Session]; ok {
			d.reason = known.reasonFor(d)
			continue
		}
		n, ok := asked[d.event.Session]
		if !ok {
			n = len(candidates)
			asked[d.event.Session] = n
			candidates = append(candidates, candidate{d.at, &d.event, rules})
		}
		d.open = n
	}
	judged, err := f.windows.judge(ctx, candidates)
	if err != nil {
		return err
	}
	for i := range list {
		if d := &list[i]; d.open >= 0 {
			d.reason = judged[d.open].reasonFor(d)
			f.remember(d.at.Partition, d.event.Session, judged[d.open])
		}
	}
	return nil
}

// reasonFor is what a session's judgement means for one of its events.
func (j judgement) reasonFor(d *decision) string {
	switch {
	case j.partition != d.at.Partition || j.in != d.at.in():
		if j.id == d.event.ID {
			return Duplicate
		}
		return Continued
	case j.word == wordView:
		return ""
	}
	return j.word
}

func (f *filter) remember(partition int32, session string, j judgement) {
	m := f.judged[partition]
	if m == nil || len(m) >= rememberedSessions {
		m = make(map[string]judgement)
		f.judged[partition] = m
	}
	m[session] = j
}

// viewsOf makes the records of the views and notes the positions of the new ones.
func (f *filter) viewsOf(list []decision, next *decided) {
	for i := range list {
		d := &list[i]
		if d.reason != "" {
			continue
		}
		in, p := d.at.in(), d.at.Partition
		next.views = append(next.views, &kgo.Record{Topic: f.valid, Partition: p,
			Key: []byte(d.event.Video), Value: encodeView(in, &d.event)})
		if !d.before {
			next.places[p] = append(next.places[p], in)
		}
	}
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
