package topk_test

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"stampede/harness/api"
	"stampede/harness/history"
	"stampede/harness/suttest"
	"stampede/systems/topk"
)

const ms = time.Millisecond

// log is the smallest correct counter: a list of batches, which is counted when somebody asks.
type log struct {
	p       *topk.Params
	api     *api.Table[topk.Counter]
	batches []topk.RecordRequest
}

func newLog(_ *suttest.World, p *topk.Params) *log { return &log{p: p, api: topk.API()} }

// Do performs an operation.
func (l *log) Do(op history.Op, answer func(history.Reply, error)) {
	answer(l.api.Do(context.Background(), l, op))
}

// Record keeps a batch.
func (l *log) Record(_ context.Context, req topk.RecordRequest) (topk.Recorded, error) {
	l.batches = append(l.batches, req)
	return topk.Recorded{Events: int64(len(req.Keys))}, nil
}

// Top counts some windows.
func (l *log) Top(_ context.Context, req topk.TopRequest) (topk.Top, error) {
	counts, total := l.counts(req.Window, req.Span)
	items := sorted(counts)
	return topk.Top{Window: req.Window, Total: total, Items: items[:min(req.K, len(items))]}, nil
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// counts are those of some windows.
func (l *log) counts(last int64, span int) (counts map[uint64]int64, total int64) {
	counts = map[uint64]int64{}
	for _, b := range l.batches {
		window := l.window(b)
		if window > last || window <= last-int64(span) {
			continue
		}
		for _, key := range b.Keys {
			counts[key]++
			total++
		}
	}
	return counts, total
}

func (l *log) window(b topk.RecordRequest) int64 {
	return b.AtMS / l.p.Window.D().Milliseconds()
}

func sorted(counts map[uint64]int64) []topk.TopItem {
	list := []topk.TopItem{}
	for key, count := range counts {
		list = append(list, topk.TopItem{Key: key, Count: count})
	}
	slices.SortFunc(list, func(a, b topk.TopItem) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Key, b.Key))
	})
	return list
}

// Audit counts every window.
func (l *log) Audit() topk.Audit {
	a := topk.Audit{Log: []topk.BatchRow{}, Windows: []topk.PaneRow{}, Top: []topk.TopRow{},
		Estimates: []topk.EstimateRow{}}
	windows := map[int64]bool{}
	for _, b := range l.batches {
		row := topk.BatchRow{ID: b.ID, AtMS: b.AtMS, Events: int64(len(b.Keys))}
		for _, key := range b.Keys {
			row.Sum += key
		}
		windows[l.window(b)] = true
		a.Log = append(a.Log, row)
	}
	for _, window := range slices.Sorted(maps.Keys(windows)) {
		counts, total := l.counts(window, 1)
		a.Windows = append(a.Windows, topk.PaneRow{Window: window, Events: total,
			Uniques: int64(len(counts)), Approx: total, Shards: 2})
		judged := map[uint64]bool{}
		for _, key := range must(topk.API().Begin(*l.p)).(topk.ResetRequest).Probes {
			judged[key] = true
		}
		for _, span := range slices.Compact([]int{1, l.p.Span}) {
			sums, _ := l.counts(window, span)
			list := sorted(sums)
			for _, it := range list[:min(l.p.K, len(list))] {
				a.Top = append(a.Top, topk.TopRow{Window: window, Span: span, Key: it.Key, Count: it.Count})
				judged[it.Key] = judged[it.Key] || span == 1
			}
		}
		for _, key := range slices.Sorted(maps.Keys(judged)) {
			if judged[key] {
				a.Estimates = append(a.Estimates, topk.EstimateRow{Window: window, Key: key,
					Count: counts[key], OnePass: counts[key]})
			}
		}
	}
	return a
}

// evidence is a history and an audit, which tests change.
type evidence struct {
	suttest.Evidence[topk.Params, topk.Audit]
}

// stream is of ordinary size.
func stream() *topk.Params {
	p := crowd()
	p.Batches, p.Batch, p.Items, p.Reads = 30, 20, 100, 0.3
	return p
}

// anyStream is a small one of any kind.
func anyStream(d suttest.Draw) *topk.Params {
	p := stream()
	p.Items, p.Batch = d.Int("items", 1, 200), d.Int("batch", 1, 30)
	p.Batches, p.MoveEvery = d.Int("batches", 1, 50), d.Int("move", 0, 3)
	p.Span, p.K, p.Probes = d.Int("span", 1, 4), d.Int("k", 1, 20), d.Int("probes", 1, 20)
	p.Skew, p.Late = 2*d.Share("skew"), d.Share("late")
	p.Reads, p.Resend = d.Share("reads"), d.Share("resend")
	return p
}
