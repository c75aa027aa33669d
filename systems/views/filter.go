package views

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"stampede/harness/sut"
	"stampede/harness/topics"
)

const (
	// filterBatch bounds the records that are decided together.
	filterBatch = 50_000
	// pollWait is how long a consumer waits for records.
	pollWait = 200 * time.Millisecond
	// rememberedSessions bounds what a filter keeps in mind of a partition.
	rememberedSessions = 1 << 17
)

// The places of the filter, in the order of its work.
const (
	placeForwarded = "forwarded" // the views are in valid_events, the progress is not stored
	placeFiltered  = "filtered"  // the progress is stored
)

// filter decides which events are views.
//
// It keeps nothing that cannot be lost. What a session, a user or an address
// has had is in Redis; what it has forwarded is in valid_events; how far it has
// come, and what it has turned away, is in Postgres, and moves on only after
// the views are in the log. If it dies in between, its successor reads the same
// events again, decides them as they were decided, and forwards them again: the
// counter knows them by their position.
//
// While the views of a batch are written and its progress is stored, the next
// batch is read and decided. It is not written before the one ahead of it is
// stored: in valid_events no view of a partition comes before one that precedes
// it in watch_events, whoever writes.
type filter struct {
	member
	rules   *ruleBook
	windows *windows
	valid   string
	// offByOne turns away what was watched for exactly the least time.
	offByOne bool
	// judged remembers sessions that are watches, by partition.
	judged map[int32]map[string]judgement
	// list has the events of a poll; its memory serves the next poll too.
	list []decision
	// ahead is the batch before, on its way to the log and into the books.
	ahead *passage
}

// passage is a batch that was decided, on its way.
type passage struct {
	done chan struct{}
	err  error // once done
}

// filterer is the role of the filter.
func (d design) filterer() sut.Role {
	return sut.Role{
		Name:    "filter",
		Summary: "decides by the rules which heartbeats are views and forwards these",
		Places:  []string{placeForwarded, placeFiltered},
		Run: func(ctx context.Context, cfg sut.Config) error {
			return d.work(ctx, cfg, "filter", d.newFilter)
		},
	}
}

func (d design) newFilter(ctx context.Context, g *gear) (worker, error) {
	w, err := openWindows(ctx, g.cfg, g.params)
	if err != nil {
		return nil, err
	}
	w.careless = d.careless
	f := &filter{
		member:  member{cfg: g.cfg, who: station{stageFilter, 0}, books: g.books},
		rules:   newRuleBook(g.books, g.params, g.cfg.Logger),
		windows: w, valid: topics.Name(g.cfg, topicValid), offByOne: d.offByOne,
		judged: make(map[int32]map[string]judgement),
	}
	f.leaving = f.hand
	err = f.join(ctx, g.params, topicWatch, "filter",
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return nil, errors.Join(err, w.close())
	}
	return f, nil
}

// hand lets what was decided arrive before partitions go to somebody else. If
// it takes too long, the next owner decides it again.
func (f *filter) hand(ctx context.Context, _ []int32, _ bool) {
	clear(f.judged)
	if f.ahead == nil {
		return
	}
	select {
	case <-f.ahead.done:
	case <-ctx.Done():
	}
}

func (f *filter) close(context.Context) {
	if err := f.arrived(); err != nil {
		f.cfg.Logger.Warn("views filter: the next owner decides again", "error", err)
	}
	f.leave()
	_ = f.windows.close() // nothing is left to lose
}

// arrived waits until nothing is on its way and returns what became of it.
func (f *filter) arrived() error {
	if f.ahead == nil {
		return nil
	}
	<-f.ahead.done
	err := f.ahead.err
	f.ahead = nil
	return err
}

// step decides what one poll brings and sends it on its way.
func (f *filter) step(ctx context.Context) error {
	batches, err := f.poll(ctx, filterBatch, pollWait)
	defer f.client.AllowRebalance()
	var next *decided
	if err == nil && len(batches) > 0 {
		next, err = f.decide(ctx, batches)
	}
	if err = errors.Join(err, f.arrived()); err != nil {
		clear(f.judged)
		f.forget()
		return err
	}
	if next != nil {
		f.moved(next.moves) // if it does not arrive, all is read again
		f.ahead = &passage{done: make(chan struct{})}
		go func(p *passage) {
			defer close(p.done)
			p.err = f.pass(ctx, next)
		}(f.ahead)
	}
	return nil
}

// decision is an event with what became of it.
type decision struct {
	at     Position
	event  Event
	reason string // "" for a view
	// open is the index of the candidate that decides it, -1 if none has to.
	open int
}

// decided is what is to be written and stored of a batch.
type decided struct {
	moves []move
	views []*kgo.Record
	drops []drop
}

func (f *filter) decide(ctx context.Context, batches []batch) (*decided, error) {
	// Rules are loaded while nothing depends on it, too.
	if _, err := f.rules.latest(ctx); err != nil {
		return nil, err
	}
	next := new(decided)
	f.list = f.list[:0]
	for _, b := range batches {
		s, ok := f.standOf(b.partition)
		if !ok {
			continue
		}
		next.moves = append(next.moves, move{s, b.records[len(b.records)-1].Offset + 1, s.source})
		for _, r := range b.records {
			err := decodeEvents(r.Value, func(index int, e *Event) {
				f.list = append(f.list, decision{at: Position{r.Partition, r.Offset, index},
					event: *e, open: -1})
			})
			if err != nil {
				return nil, fmt.Errorf("at %s/%d/%d: %w", r.Topic, r.Partition, r.Offset, err)
			}
		}
	}
	if len(next.moves) == 0 {
		return nil, nil
	}
	if err := f.judge(ctx, f.list); err != nil {
		return nil, err
	}
	next.views, next.drops = f.viewsOf(f.list), dropsOf(f.list)
	return next, nil
}

// pass writes the views to the log, waits until they are there, and stores the
// progress.
func (f *filter) pass(ctx context.Context, d *decided) error {
	if err := f.client.ProduceSync(ctx, d.views...).FirstErr(); err != nil {
		return fmt.Errorf("forwarding %d views: %w", len(d.views), err)
	}
	f.cfg.Passed(placeForwarded)
	if err := f.books.filtered(ctx, d.moves, d.drops); err != nil {
		return err
	}
	f.cfg.Passed(placeFiltered)
	if err := f.commit(ctx, d.moves); err != nil {
		f.cfg.Logger.Warn("views filter: lag will look larger than it is", "error", err)
	}
	return nil
}

// judge fills in the reasons. A session is asked about once; its later events
// follow from that.
func (f *filter) judge(ctx context.Context, list []decision) error {
	var candidates []candidate
	asked := make(map[string]int)
	var rules *ruleSet
	for i := range list {
		d := &list[i]
		if rules == nil || rules.Version != d.event.Rules {
			var err error
			if rules, err = f.rules.version(ctx, d.event.Rules); err != nil {
				return err
			}
		}
		creator, _ := f.rules.creator(d.event.Video)
		d.reason = rules.alone(&d.event, creator)
		if f.offByOne && d.reason == "" && d.event.WatchedMS == rules.MinWatchMS {
			d.reason = Short
		}
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

// viewsOf are the views as they are written to the log.
func (f *filter) viewsOf(list []decision) []*kgo.Record {
	var views []*kgo.Record
	for i := range list {
		d := &list[i]
		if d.reason == "" {
			views = append(views, &kgo.Record{Topic: f.valid, Partition: d.at.Partition,
				Key: []byte(d.event.Video), Value: encodeView(d.at.in(), &d.event)})
		}
	}
	return views
}

// dropsOf counts what was turned away.
func dropsOf(list []decision) []drop {
	type key struct {
		partition     int32
		video, reason string
	}
	n := make(map[key]int64)
	for i := range list {
		if d := &list[i]; d.reason != "" {
			n[key{d.at.Partition, d.event.Video, d.reason}]++
		}
	}
	out := make([]drop, 0, len(n))
	for k, events := range n {
		out = append(out, drop{k.partition, k.video, k.reason, events})
	}
	slices.SortFunc(out, func(a, b drop) int {
		return cmp.Or(cmp.Compare(a.partition, b.partition), cmp.Compare(a.video, b.video),
			cmp.Compare(a.reason, b.reason))
	})
	return out
}
