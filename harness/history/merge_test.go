package history_test

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"stampede/harness/history"
)

// started is when a record stands in order.
func started(r history.Record) time.Duration {
	if r.Start == history.Never {
		return r.Intended
	}
	return r.Start
}

// scattered draws records of one history in any order, some at one instant.
func scattered(t *rapid.T, name string) []history.Record {
	records := variety(rapid.IntRange(0, 40).Draw(t, name))
	for i := range records {
		at := time.Duration(rapid.IntRange(0, 20).Draw(t, "at"))
		r := &records[i]
		r.Intended = at
		if r.Start != history.Never {
			r.Start = at + 3
		}
		if r.End != history.Never {
			r.End = at + 9
		}
	}
	return rapid.Permutation(records).Draw(t, name+" as written")
}

// TestSortAndMerge: sorted parts merge into all of their records, once, in order of time, with
// numbers without a gap, however little fits into memory.
func TestSortAndMerge(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		most := rapid.IntRange(1, 50).Draw(rt, "in memory")
		var parts []*history.File
		var want []history.Record
		for i := range rapid.IntRange(0, 4).Draw(rt, "parts") {
			records := scattered(rt, fmt.Sprint("part ", i))
			folder := t.TempDir()
			if err := history.SortIn(open(t, store(t, records)), filepath.Join(folder, "sorted"),
				most); err != nil {
				rt.Fatal(err)
			}
			if left, err := os.ReadDir(folder); err != nil || len(left) != 1 {
				rt.Fatalf("sorting left %v, %v", left, err)
			}
			sorted := open(t, filepath.Join(folder, "sorted"))
			slices.SortFunc(records, func(a, b history.Record) int {
				return cmp.Or(cmp.Compare(started(a), started(b)), cmp.Compare(a.Seq, b.Seq))
			})
			if got := read(t, sorted); !equal(got, records) {
				rt.Fatalf("sorted: %v\nwant %v", got, records)
			}
			parts, want = append(parts, sorted), append(want, records...)
		}
		slices.SortStableFunc(want, func(a, b history.Record) int {
			return cmp.Compare(started(a), started(b))
		})
		for i := range want {
			want[i].Seq = uint64(i)
		}
		w, path := create(t)
		if err := history.Merge(w, parts); err != nil {
			rt.Fatal(err)
		}
		if err := w.Close(); err != nil {
			rt.Fatal(err)
		}
		if got := read(t, open(t, path)); !equal(got, want) {
			rt.Fatalf("merged: %v\nwant %v", got, want)
		}
	})
}

// TestMergeRefuses what is out of order and what is cut short.
func TestMergeRefuses(t *testing.T) {
	records := variety(10)
	slices.Reverse(records)
	w, path := create(t)
	shard := w.Shard()
	for i := range records[:3] {
		shard.Append(&records[i])
	}
	for name, file := range map[string]*history.File{"not in order": open(t, store(t, records)),
		"not complete": open(t, path)} {
		into, _ := create(t)
		err := history.Merge(into, []*history.File{file})
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v, want %q", err, name)
		}
	}
}

// TestWiden: operations become longer at both ends, or shorter down to nothing.
func TestWiden(t *testing.T) {
	r := ok(0)
	r.Intended, r.Start, r.End = 10, 12, 20
	open := history.Record{Op: r.Op, Intended: 30, Start: 30, End: history.Never}
	dropped := history.Record{Op: r.Op, Outcome: history.Dropped, Intended: 40,
		Start: history.Never, End: history.Never}
	f := openHistory(t, r, open, dropped)
	for by, want := range map[time.Duration][3][3]time.Duration{
		0:  {{10, 12, 20}, {30, 30, history.Never}, {40, history.Never, history.Never}},
		5:  {{7, 7, 25}, {25, 25, history.Never}, {40, history.Never, history.Never}},
		50: {{0, 0, 70}, {0, 0, history.Never}, {40, history.Never, history.Never}},
		-3: {{10, 15, 17}, {30, 33, history.Never}, {40, history.Never, history.Never}},
		-7: {{10, 19, 19}, {30, 37, history.Never}, {40, history.Never, history.Never}},
	} {
		for i, is := range read(t, history.Widen(f, by)) {
			if got := [3]time.Duration{is.Intended, is.Start, is.End}; got != want[i] {
				t.Errorf("by %d: record %d is %v, want %v", by, i, got, want[i])
			}
		}
	}
	whole, told := history.Widen(f, 1).(interface{ Complete() bool })
	if !told || !whole.Complete() {
		t.Error("a whole history is not whole when it is widened")
	}
}

func openHistory(t *testing.T, records ...history.Record) *history.File {
	t.Helper()
	for i := range records {
		records[i].Seq = uint64(i)
	}
	return open(t, store(t, records))
}

// BenchmarkMerge merges four parts of a million operations each, and reports the memory that this
// takes beyond what the parts' heads do.
func BenchmarkMerge(b *testing.B) {
	const parts, each = 4, 1_000_000
	var files []*history.File
	for range parts {
		files = append(files, open(b, storeMany(b, each)))
	}
	b.ReportAllocs()
	for b.Loop() {
		w, path := create(b)
		most, stop := watchHeap()
		if err := history.Merge(w, files); err != nil {
			b.Fatal(err)
		}
		if err := w.Close(); err != nil {
			b.Fatal(err)
		}
		stop()
		b.ReportMetric(float64(*most)/(1<<20), "MiB-heap")
		if err := os.Remove(path); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/(parts*each), "ns/record")
}

// watchHeap notes the largest heap in use until it is stopped.
func watchHeap() (most *uint64, stop func()) {
	most = new(uint64)
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for tick := time.NewTicker(20 * time.Millisecond); ; {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			*most = max(*most, m.HeapAlloc)
			select {
			case <-end:
				tick.Stop()
				return
			case <-tick.C:
			}
		}
	}()
	return most, func() { close(end); <-ended }
}
