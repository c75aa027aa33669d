package measure_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"stampede/harness/history"
	"stampede/harness/measure"
	"stampede/harness/rundir"
)

// repeatOf measures a history of n operations, of which the first are
// dropped, as the repeat of a run.
func repeatOf(t *testing.T, seed uint64, n, dropped int) (rundir.Repeat, []history.Record) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	records := make([]history.Record, n)
	for i := range records {
		due := time.Duration(i) * time.Millisecond
		records[i] = history.Record{Seq: uint64(i), Outcome: history.OK, Intended: due,
			Op:    history.Op{ID: uint64(i + 1), Kind: []string{"buy", "stock"}[i%2]},
			Start: due + time.Duration(rng.IntN(1000))*time.Microsecond}
		records[i].End = records[i].Start + time.Duration(rng.IntN(5_000_000))
		if i < dropped {
			records[i].Outcome = history.Dropped
			records[i].Start, records[i].End = history.Never, history.Never
		}
	}
	res, err := measure.Summarise(history.Slice(records), measure.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return rundir.Repeat{Load: res.Load, Latency: res.Latency, Operations: res.Operations,
		ThroughputPerS: res.ThroughputPerS}, records
}

func TestMergeEqualsMeasuringTogether(t *testing.T) {
	a, recordsA := repeatOf(t, 1, 400, 3)
	b, recordsB := repeatOf(t, 2, 300, 0)
	got, err := measure.Merge([]rundir.Repeat{a, b})
	if err != nil {
		t.Fatal(err)
	}
	both := append([]history.Record{}, recordsA...)
	for _, r := range recordsB {
		r.Seq += uint64(len(recordsA))
		both = append(both, r)
	}
	want, err := measure.Summarise(history.Slice(both), measure.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got.Load != want.Load || got.Latency != want.Latency {
		t.Errorf("merged %+v %+v\nwant %+v %+v", got.Load, got.Latency, want.Load, want.Latency)
	}
	for i, op := range got.Operations {
		if op.Latency != want.Operations[i].Latency || op.Load != want.Operations[i].Load {
			t.Errorf("%s: %+v\nwant %+v", op.Kind, op.Latency, want.Operations[i].Latency)
		}
	}
	lower, upper := min(a.ThroughputPerS, b.ThroughputPerS), max(a.ThroughputPerS, b.ThroughputPerS)
	if got.ThroughputPerS < lower || got.ThroughputPerS > upper {
		t.Errorf("throughput %v is not between %v and %v", got.ThroughputPerS, lower, upper)
	}
}

func TestMergeOfNoneAndOne(t *testing.T) {
	if m, err := measure.Merge(nil); err != nil || m.Load.Scheduled != 0 {
		t.Errorf("%+v, %v", m, err)
	}
	a, _ := repeatOf(t, 1, 10, 0)
	if m, err := measure.Merge([]rundir.Repeat{a}); err != nil || m.Latency != a.Latency {
		t.Errorf("%+v, %v", m, err)
	}
}

func TestDecodeRefusesNonsense(t *testing.T) {
	if _, err := measure.Decode("not a histogram", rundir.Percentiles{}); err == nil {
		t.Error("accepted")
	}
	a, _ := repeatOf(t, 1, 10, 0)
	if _, err := measure.Decode(a.Operations[0].HDR, rundir.Percentiles{Count: 1}); err == nil {
		t.Error("accepted more values than operations")
	}
}
