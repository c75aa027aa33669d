package topk_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"stampede/harness/keys"
	"stampede/systems/topk"
)

// BenchmarkPanes measures what an event costs in a pane of each design: the summary, the uniques
// and the Morris counter, with ten million events of a million keys, and how large the summary is.
func BenchmarkPanes(b *testing.B) {
	const events, batch = 10_000_000, 500
	p := topk.DefaultParams()
	p.Error = 0.001
	r := keys.Recipe{Draws: batch, Keys: 1_000_000, Skew: 1100}
	list := make([]uint64, 0, events)
	for r.Seed = 0; len(list) < events; r.Seed += batch {
		list = append(list, r.Make(nil)...)
	}
	panes := topk.Panes(p)
	for _, name := range slices.Sorted(maps.Keys(panes)) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				add, size := panes[name]()
				began := time.Now()
				for of := range slices.Chunk(list, batch) {
					add(of)
				}
				b.ReportMetric(float64(time.Since(began).Nanoseconds())/events, "ns/event")
				b.ReportMetric(float64(size()), "bytes")
			}
		})
	}
}
