package sketch_test

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"testing"

	"github.com/axiomhq/hyperloglog"
	boom "github.com/tylertreat/BoomFilters"
	"golang.org/x/sys/unix"

	"stampede/harness/keys"
	"stampede/systems/internal/sketch"
)

// Of the benchmarked stream: 10 million events about a million keys.
const (
	benchEvents = 10_000_000
	benchKeys   = 1_000_000
	benchSkew   = 1.1
)

// BenchmarkZipf measures what an event costs in each sketch for an error of 0.1 %, and how many
// times as much in the sketches of BoomFilters, in the same run. The heap after a half of the
// events and after all of them shows that memory is flat.
func BenchmarkZipf(b *testing.B) {
	source, err := keys.Zipf(1, benchKeys, benchSkew)
	if err != nil {
		b.Fatal(err)
	}
	events := make([]uint64, benchEvents)
	names := make([]byte, 8*benchEvents)
	for i := range events {
		events[i] = source.At(uint64(i))
		binary.LittleEndian.PutUint64(names[8*i:], events[i])
	}
	peers := map[string]float64{}
	own := func(name, peer string, s sketch.Sketch) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				ns, grown := measured(func(from, to int) {
					for _, key := range events[from:to] {
						s.Add(key)
					}
				})
				b.ReportMetric(ns, "ns/event")
				b.ReportMetric(float64(s.Bytes()), "bytes")
				b.ReportMetric(grown, "grown-bytes")
				if peers[peer] > 0 {
					b.ReportMetric(peers[peer]/ns, "boom/ours")
				}
			}
		})
	}
	boomed := func(name string, add func([]byte)) {
		b.Run("boom_"+name, func(b *testing.B) {
			for b.Loop() {
				ns, _ := measured(func(from, to int) {
					for i := from; i < to; i++ {
						add(names[8*i : 8*i+8])
					}
				})
				peers[name] = ns
				b.ReportMetric(ns, "ns/event")
			}
		})
	}
	count, top := boom.NewCountMinSketch(0.001, 0.001), boom.NewTopK(0.001, 0.001, 100)
	boomed("countmin", func(name []byte) { count.Add(name) })
	boomed("topk", func(name []byte) { top.Add(name) })
	own("misra_gries", "topk", sketch.NewMisraGries(1000))
	own("space_saving", "topk", sketch.NewSpaceSaving(1000))
	own("count_min", "topk", sketch.NewCountMin(2719, 7, 1000))
	own("heavy_keeper", "topk", sketch.NewHeavyKeeper(4096, 2, 1000))
}

// BenchmarkEvents measures the counters of uniques and of events beside them.
func BenchmarkEvents(b *testing.B) {
	events := make([]uint64, benchEvents)
	for i := range events {
		events[i] = uint64(i) % benchKeys
	}
	uniques := hyperloglog.New()
	b.Run("hyperloglog", func(b *testing.B) {
		for b.Loop() {
			ns, _ := measured(func(from, to int) {
				for _, key := range events[from:to] {
					uniques.InsertHash(sketch.Hash(key))
				}
			})
			b.ReportMetric(ns, "ns/event")
		}
	})
	morris := sketch.NewMorris(1)
	b.Run("morris", func(b *testing.B) {
		for b.Loop() {
			ns, _ := measured(func(from, to int) {
				for range to - from {
					morris.Add()
				}
			})
			b.ReportMetric(ns, "ns/event")
			b.ReportMetric(float64(morris.Estimate())/benchEvents, "estimate/true")
		}
	})
}

// measured is what an event costs in CPU time, and by how much the heap grew with the second half
// of them. Other programs take the CPU from it, and not its CPU time.
func measured(add func(from, to int)) (ns, grown float64) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	began := cpuTime()
	add(0, benchEvents/2)
	took := cpuTime() - began
	before := heap()
	began = cpuTime()
	add(benchEvents/2, benchEvents)
	took += cpuTime() - began
	return float64(took) / benchEvents, float64(heap()) - float64(before)
}

// cpuTime is that of the thread so far, in nanoseconds.
func cpuTime() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		panic(err)
	}
	return t.Nano()
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkMerge measures the merging of two sketches with all that is in them.
func BenchmarkMerge(b *testing.B) {
	source, err := keys.Zipf(1, benchKeys, benchSkew)
	if err != nil {
		b.Fatal(err)
	}
	for _, k := range kinds() {
		b.Run(fmt.Sprint(k.name), func(b *testing.B) {
			s, other := k.make(), k.make()
			for i := range uint64(100_000) {
				s.Add(source.At(2 * i))
				other.Add(source.At(2*i + 1))
			}
			for b.Loop() {
				if err := k.merge(s, other); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
