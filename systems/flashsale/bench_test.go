package flashsale_test

import (
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/suttest"
	"stampede/systems/flashsale"
)

// BenchmarkJudge judges a stored history of a million operations: a sale of
// 1,000 units to nearly a million buyers, by all invariants. The aim is 5 s. The
// sale exercises all of them but redis-drift, which needs a gauge: a checker that
// gives up early is not fast.
func BenchmarkJudge(b *testing.B) {
	const ops = 1_000_000
	p := flashsale.DefaultParams()
	e := saleOf(b, 1, p, suttest.Trouble{LostRequest: 0.0005, LostReply: 0.0005}, ops)
	path := filepath.Join(b.TempDir(), "history")
	store(b, path, e)
	audit, err := json.Marshal(e.audit)
	if err != nil {
		b.Fatal(err)
	}
	records := len(e.records)
	b.ReportAllocs()
	for b.Loop() {
		h, err := history.Open(path)
		if err != nil {
			b.Fatal(err)
		}
		for _, v := range check.All(b.Context(), flashsale.Invariants(p), h, audit) {
			want := check.Held
			if v.Invariant == "redis-drift" {
				want = check.Undecided
			}
			if v.Status != want {
				b.Fatalf("%s is %s, want %s: %s", v.Invariant, v.Status, want, v.Reason)
			}
		}
		if err := h.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(records)*float64(b.N)/b.Elapsed().Seconds(), "records/s")
	const aim = 5.0
	took := b.Elapsed().Seconds() / float64(b.N)
	b.ReportMetric(aim, "aim-s")
	b.ReportMetric(suttest.Met(took <= aim), "met")
}

// store writes a history as a run would, at the speed of the disk.
func store(b *testing.B, path string, e *evidence) {
	b.Helper()
	w, err := history.Create(path, history.Header{})
	if err != nil {
		b.Fatal(err)
	}
	shard := w.Shard()
	const backlog = 50_000
	for i := range e.records {
		shard.Append(&e.records[i])
		for i%backlog == 0 && w.Written()+backlog < uint64(i) && w.Err() == nil {
			time.Sleep(time.Millisecond)
		}
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
}
