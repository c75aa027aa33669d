package check_test

import (
	"encoding/json"
	"iter"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"stampede/harness/check"
	"stampede/harness/history"
)

// The sizes of a sale such as flash-sale-100k, ten times over: one buyer in a
// thousand gets a unit, and every tenth operation reads the stock.
const (
	manyOps    = 1_000_000
	unitsSold  = 1000
	readEvery  = 10
	loseEvery  = 997
	saleSeed   = 20
	latencyMax = 5_000_000
)

// bigAudit is the final state of a big sale.
type bigAudit struct {
	Orders []check.Fact `json:"orders"`
}

// bigSale stores a correct sale of n operations: the first buys are granted,
// the others refused, some replies are lost, and the count of orders is read.
func bigSale(tb testing.TB, n int) (*history.File, json.RawMessage) {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "history.bin")
	w, err := history.Create(path, history.Header{System: "sale"})
	if err != nil {
		tb.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(saleSeed, 0))
	shard, audit := w.Shard(), bigAudit{}
	for i := range n {
		r := bigRecord(rng, i, &audit)
		shard.Append(&r)
		for uint64(i)-w.Written() > 200_000 && i%10_000 == 0 && i > 0 {
			time.Sleep(time.Millisecond) // the disk must keep up
		}
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	raw, err := json.Marshal(audit)
	if err != nil {
		tb.Fatal(err)
	}
	f, err := history.Open(path)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { f.Close() })
	return f, raw
}

func bigRecord(rng *rand.Rand, i int, audit *bigAudit) history.Record {
	at := time.Duration(i) * 10 * time.Microsecond
	r := history.Record{
		Seq: uint64(i), Intended: at, Start: at, End: at + 100 + time.Duration(rng.IntN(latencyMax)),
		Op: history.Op{ID: uint64(i + 1), Kind: "buy", Key: "item-1",
			Client: "buyer-" + strconv.Itoa(i)},
	}
	switch {
	case i%readEvery == readEvery-1:
		// Executed as it is sent: all earlier buys but those in flight are
		// refused, granted or lost before.
		r.Op.Kind, r.Op.Client, r.Outcome = "stock", "", history.OK
		r.Reply.Value = int64(len(audit.Orders))
	case len(audit.Orders) < unitsSold:
		name := "order-" + strconv.Itoa(i)
		audit.Orders = append(audit.Orders,
			check.Fact{Op: r.Op.ID, Name: name, Key: r.Op.Key, Owner: r.Op.Client})
		r.Outcome, r.Reply.Key, r.Reply.Value = history.OK, name, int64(len(audit.Orders))
	default:
		r.Outcome, r.Err = history.Refused, "refused: sold out"
	}
	if r.Op.Kind == "buy" && i%loseEvery == 0 {
		r.Outcome, r.Reply, r.Err, r.End = history.Unknown, history.Reply{}, "timeout", history.Never
	}
	return r
}

// bigInvariants judge a big sale with every kind of clause that reads the whole history.
func bigInvariants() []check.Invariant {
	sale := &check.Subject{Read: check.Audited(func(raw json.RawMessage) (a bigAudit, err error) {
		return a, json.Unmarshal(raw, &a)
	}, func(a *bigAudit) check.Facts {
		return check.Facts{Tables: []*check.Table{check.TableOf("order", a.Orders)}}
	})}
	return []check.Invariant{
		sale.State("acked-durable", "", check.AckedDurable(sales)),
		sale.State("no-phantom", "", check.NoPhantom(sales)),
		sale.State("at-most-once", "", check.AtMostOnce("order", check.ByOp)),
		sale.State("one-per-buyer", "", check.AtMostOnce("order", check.ByOwner)),
		sale.State("stock-reads", "", judgeStockReads),
		sale.State("no-oversell", "", check.Capacity{Table: "order", Kind: sales.Kind,
			By: check.ByKey, Most: unitsSold, Live: []string{""}}.Held()),
	}
}

func judgeStockReads(r *check.Run) func() {
	var n check.Counter
	r.See(func(rec *history.Record) {
		if rec.Op.Kind == "stock" {
			n.Read(0, rec.Reply.Value, rec)
		} else {
			n.Add(0, 1, check.Attempt(rec))
		}
	})
	return func() { n.Check(r.Collector, "orders") }
}

func requireHeld(tb testing.TB, verdicts []check.Verdict) {
	tb.Helper()
	for _, v := range verdicts {
		if v.Status != check.Held {
			tb.Fatalf("%s is %v: %s", v.Invariant, v.Status, v.Reason)
		}
	}
}

// TestJudgingIsFlat: judging takes memory for what is in dispute, not for the
// history. The ceiling holds for a history four times as long as well.
func TestJudgingIsFlat(t *testing.T) {
	if testing.Short() {
		t.Skip("stores 250,000 records")
	}
	for _, n := range []int{50_000, 200_000} {
		f, audit := bigSale(t, n)
		peak := watchHeap(t, func(h history.History) {
			requireHeld(t, check.All(t.Context(), bigInvariants(), h, audit))
		}, f)
		// Reads of the stock are kept, 32 bytes each with the slack of a
		// growing slice; all else is bounded by the units (measured: 0.4 and 0.9 MB).
		if most := uint64(1<<20 + n/readEvery*32*2); peak > most {
			t.Errorf("%d operations: %d bytes in use at the peak, want at most %d", n, peak, most)
		}
	}
}

// watched is a history that measures the heap while it is read.
type watched struct {
	*history.File
	look func()
}

// All yields every record and looks at the heap now and then.
func (w watched) All() iter.Seq2[history.Record, error] {
	return func(yield func(history.Record, error) bool) {
		n := 0
		for r, err := range w.File.All() {
			if n++; n%25_000 == 0 {
				w.look()
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

// watchHeap returns by how much the live heap grew at most while work read
// the history.
func watchHeap(t *testing.T, work func(history.History), f *history.File) (peak uint64) {
	t.Helper()
	live := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	start := live()
	work(watched{f, func() {
		if now := live(); now > start {
			peak = max(peak, now-start)
		}
	}})
	return peak
}

// BenchmarkJudgeMillion judges six invariants on a stored history of a million
// operations, reading it again for each.
func BenchmarkJudgeMillion(b *testing.B) {
	f, audit := bigSale(b, manyOps)
	b.ReportAllocs()
	for b.Loop() {
		requireHeld(b, check.All(b.Context(), bigInvariants(), f, audit))
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/manyOps, "ns/record")
}
