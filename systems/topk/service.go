package topk

import (
	"context"
	_ "embed" // the schema
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

	"stampede/harness/design"
	"stampede/harness/sut"
	"stampede/harness/topics"
	"stampede/systems/internal/partitions"
)

type (
	opened  = design.Stores[Params]
	role    = design.Role[Params]
	variant = design.Variant[Counter, Params]
)

//go:embed schema.sql
var schema string

// service is what clients call.
type service struct {
	*opened
	ledger
}

// Record appends a batch to the log. Batches of one number go to one partition.
func (s service) Record(ctx context.Context, req RecordRequest) (Recorded, error) {
	record := &kgo.Record{Topic: topics.Name(s.Config, topicEvents), Value: encodeBatch(req),
		Key: binary.BigEndian.AppendUint64(nil, req.ID)}
	err := partitions.Append(ctx, s.Config, s.Kafka, record, ErrOverloaded)
	return Recorded{int64(len(req.Keys))}, err
}

// Top merges what is stored of some windows.
func (s service) Top(ctx context.Context, req TopRequest) (Top, error) {
	items, total, err := s.top(ctx, req.Window-int64(req.Span)+1, req.Window, req.K)
	return Top{Window: req.Window, Total: total, Items: items}, err
}

// plan is what a design does of its own.
type plan struct {
	summary
	ledger   func(*opened, summary) ledger
	windowOf func(p Params, atMS, newest int64) int64
}

// counted completes a design by the log, its workers and the state that all have.
func counted(v variant, d plan) variant {
	if d.ledger == nil {
		d.ledger = func(st *opened, s summary) ledger { return postgres{opened: st, summary: s} }
	}
	if d.windowOf == nil {
		d.windowOf = func(p Params, atMS, _ int64) int64 { return p.windowOf(atMS) }
	}
	v.Needs = append(v.Needs, sut.Kafka)
	v.Open = func(_ context.Context, st *opened) (Counter, error) {
		return service{st, d.ledger(st, d.summary)}, nil
	}
	v.Roles = []role{{Name: "worker",
		Summary: "reads partitions of the log and keeps the panes of their windows",
		Places:  []string{placeCounted, placeStored},
		Do:      func(ctx context.Context, st *opened) error { return work(ctx, st, d) }}}
	v.State.Audit = func(ctx context.Context, st *opened) (any, error) {
		return audit(ctx, st, d.ledger(st, d.summary), d.summary)
	}
	v.State.Pending = func(ctx context.Context, st *opened) (int64, string, error) {
		starts, err := d.ledger(st, d.summary).start(ctx)
		if err != nil {
			return 0, "", err
		}
		left, err := partitions.Behind(ctx, st.Kafka, topics.Name(st.Config, topicEvents), starts)
		return left, fmt.Sprintf("%d batches are not counted", left), err
	}
	return v
}

// state is what all designs keep.
func state() design.State[Params] {
	return design.State[Params]{Schema: schema, Empty: []string{"panes"},
		Found: func(ctx context.Context, st *opened) (string, error) {
			return partitions.Found(ctx, st.Config, st.Kafka, topicEvents, "batches")
		},
		Ready: func(ctx context.Context, st *opened) error {
			return partitions.Prepare(ctx, st.Config, st.DB, st.Kafka, topicEvents, workers)
		},
	}
}

// audit reads the whole log and all windows. Each window of the log is added to one summary, which
// is what merged ones are compared with.
func audit(ctx context.Context, st *opened, l ledger, s summary) (any, error) {
	a := Audit{Contract: s.contract(st.Params), Log: []BatchRow{}, Windows: []PaneRow{},
		Top: []TopRow{}, Estimates: []EstimateRow{}}
	passes := map[int64]*pane{}
	var buffer []uint64
	err := partitions.Each(ctx, st.Config, st.Kafka, topicEvents, func(r *kgo.Record) error {
		batch, err := decodeBatch(r.Value, buffer)
		if err != nil {
			return err
		}
		window := st.Params.windowOf(batch.AtMS)
		if passes[window] == nil {
			passes[window] = newPane(window, -1, s.empty(st.Params))
		}
		row := BatchRow{ID: batch.ID, AtMS: batch.AtMS, Events: int64(len(batch.Keys))}
		for _, key := range batch.Keys {
			passes[window].keys.Add(key)
			row.Sum += key
		}
		buffer, a.Log = batch.Keys, append(a.Log, row)
		return nil
	})
	if err == nil {
		err = a.readWindows(ctx, st, l, passes)
	}
	return a, err
}

// readWindows reads each window and the tops that end with it, and compares it with one pass over
// the log.
func (a *Audit) readWindows(
	ctx context.Context, st *opened, l ledger, passes map[int64]*pane,
) error {
	return l.windows(ctx, func(p *pane, shards int) error {
		a.Windows = append(a.Windows, PaneRow{Window: p.window, Events: p.events,
			Uniques: int64(p.uniques.Estimate()), Approx: int64(p.approx.Estimate()), Shards: shards})
		a.Cost.Events += p.events
		a.Cost.AddNS += p.addNS
		a.Cost.Bytes = max(a.Cost.Bytes, p.bytes)
		judged := map[uint64]bool{}
		for _, span := range slices.Compact([]int{1, st.Params.Span}) {
			items, _, err := l.top(ctx, p.window-int64(span)+1, p.window, st.Params.K)
			if err != nil {
				return err
			}
			for _, it := range items {
				a.Top = append(a.Top, TopRow{p.window, span, it.Key, it.Count})
				if span == 1 {
					judged[it.Key] = true
				}
			}
		}
		for _, key := range st.Params.probes() {
			judged[key] = true
		}
		for _, key := range slices.Sorted(maps.Keys(judged)) {
			row := EstimateRow{Window: p.window, Key: key, Count: int64(p.keys.Estimate(key))}
			if one := passes[p.window]; one != nil {
				row.OnePass = int64(one.keys.Estimate(key))
			}
			a.Estimates = append(a.Estimates, row)
		}
		return nil
	})
}
