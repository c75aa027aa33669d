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
	filterBatch = 20_000
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
type filter struct {
	member
	rules   *ruleBook
	windows *windows
	valid   string
	// offByOne turns away what was watched for exactly the least time.
	offByOne bool
	// judged remembers sessions that are watches, by partition.
	judged map[int32]map[string]judgement
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
	f.leaving = func(context.Context, []int32, bool) { clear(f.judged) }
	err = f.join(ctx, g.params, topicWatch, "filter",
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return nil, errors.Join(err, w.close())
	}
	return f, nil
}

func (f *filter) close(context.Context) {
	f.leave()
	_ = f.windows.close() // nothing is left to lose
}

// step decides what one poll brings.
func (f *filter) step(ctx context.Context) error {
	batches, err := f.poll(ctx, filterBatch, pollWait)
	defer f.client.AllowRebalance()
	if err == nil && len(batches) > 0 {
		err = f.decide(ctx, batches)
	}
	if err != nil {
		clear(f.judged)
		f.forget()
	}
	return err
}

// decision is an event with what became of it.
type decision struct {
	at     Position
	event  Event
	reason string // "" for a view
	// open is the index of the candidate that decides it, -1 if none has to.
	open int
}

func (f *filter) decide(ctx context.Context, batches []batch) error {
	// Rules are loaded while nothing depends on it, too.
	if _, err := f.rules.latest(ctx); err != nil {
		return err
	}
	var moves []move
	var list []decision
	for _, b := range batches {
		s, ok := f.standOf(b.partition)
		if !ok {
			continue
		}
		moves = append(moves, move{s, b.records[len(b.records)-1].Offset + 1, s.source})
		for _, r := range b.records {
			err := decodeEvents(r.Value, func(index int, e *Event) {
				list = append(list, decision{at: Position{r.Partition, r.Offset, index},
					event: *e, open: -1})
			})
			if err != nil {
				return fmt.Errorf("at %s/%d/%d: %w", r.Topic, r.Partition, r.Offset, err)
			}
		}
	}
	if len(moves) == 0 {
		return nil
	}
	if err := f.judge(ctx, list); err != nil {
		return err
	}
	if err := f.forward(ctx, list); err != nil {
		return err
	}
	f.cfg.Passed(placeForwarded)
	if err := f.books.filtered(ctx, moves, dropsOf(list)); err != nil {
		return err
	}
	f.cfg.Passed(placeFiltered)
	f.moved(moves)
	if err := f.commit(ctx, moves); err != nil {
		f.cfg.Logger.Warn("views filter: lag will look larger than it is", "error", err)
	}
	return nil
}

// judge fills in the reasons. A session is asked about once; its later events
// follow from that.
func (f *filter) judge(ctx context.Context, list []decision) error {
	var candidates []candidate
	asked := make(map[string]int)
	for i := range list {
		d := &list[i]
		rules, err := f.rules.version(ctx, d.event.Rules)
		if err != nil {
			return err
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
	case j.at != fmt.Sprintf("%d:%d", d.at.Partition, d.at.in()):
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

// forward writes the views to the log and waits until they are there.
func (f *filter) forward(ctx context.Context, list []decision) error {
	var records []*kgo.Record
	for i := range list {
		d := &list[i]
		if d.reason == "" {
			records = append(records, &kgo.Record{Topic: f.valid, Partition: d.at.Partition,
				Key: []byte(d.event.Video), Value: encodeView(d.at.in(), &d.event)})
		}
	}
	if len(records) == 0 {
		return nil
	}
	if err := f.client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return fmt.Errorf("forwarding %d views: %w", len(records), err)
	}
	return nil
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
