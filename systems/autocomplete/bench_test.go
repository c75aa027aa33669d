package autocomplete_test

import (
	"runtime"
	"slices"
	"testing"
	"time"

	"stampede/systems/autocomplete"
	"stampede/systems/internal/prefix"
)

// BenchmarkSuggest holds the indexes that are in an API's memory against each other, with a million
// phrases: the times of a suggestion for one to eight characters that are right, and for six to
// twelve of which one is wrong; how long a change of a hundred phrases takes until it can be seen;
// and the bytes of an index for each phrase, beside its text. A ratio is to trie_top_k.
func BenchmarkSuggest(b *testing.B) {
	const phrases, changed = 1_000_000, 100
	list := autocomplete.Phrases(phrases)
	changes := slices.Clone(list[:changed])
	for i := range changes {
		changes[i].Score++
	}
	base := map[string]float64{}
	for _, side := range []struct {
		name  string
		asked int
	}{{"trie_top_k", 20_000}, {"fst_segments", 20_000}, {"linear_scan", 50}} {
		b.Run(side.name, func(b *testing.B) {
			for b.Loop() {
				before := heap()
				index := autocomplete.Indexes()[side.name](list)
				figures := map[string]float64{"bytes/phrase": float64(heap()-before) / phrases}
				measure(b, figures, "", index, autocomplete.Prefixes(list, side.asked, 1, 8), 0)
				measure(b, figures, "wrong-", index, autocomplete.Prefixes(list, side.asked, 6, 12), 1)
				began := time.Now()
				index.Change(changes)
				figures["change-ms"] = float64(time.Since(began).Microseconds()) / 1000
				for unit, value := range figures {
					b.ReportMetric(value, unit)
					if side.name == "trie_top_k" {
						base[unit] = value
					}
				}
				b.ReportMetric(figures["p50-us"]/base["p50-us"], "p50-ratio")
				b.ReportMetric(figures["bytes/phrase"]/base["bytes/phrase"], "bytes-ratio")
				b.ReportMetric(0, "ns/op")
			}
		})
	}
}

// measure measures suggestions for what is typed, in microseconds.
func measure(
	b *testing.B, figures map[string]float64, name string, index autocomplete.Index, typed []string,
	edits int,
) {
	automata := prefix.NewAutomata()
	times := make([]time.Duration, len(typed))
	for i, text := range typed {
		began := time.Now()
		q, err := automata.Of(text, edits)
		if err != nil {
			b.Fatal(err)
		}
		index.Find(q)
		times[i] = time.Since(began)
	}
	slices.Sort(times)
	figures[name+"p50-us"] = float64(times[len(times)/2].Nanoseconds()) / 1000
	figures[name+"p99-us"] = float64(times[len(times)*99/100].Nanoseconds()) / 1000
}

// heap is how much memory is in use.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
