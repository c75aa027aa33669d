package load_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"stampede/harness/arrival"
	"stampede/harness/history"
	"stampede/harness/load"
	"stampede/harness/measure"
	"stampede/harness/rundir"
	"stampede/harness/sut"
)

// shop refuses every third operation, fails every seventh and follows each
// success with a payment.
type shop struct{ plain }

func (shop) Kinds() []string { return []string{"get", "pay"} }

func (shop) Follow(op history.Op, outcome history.Outcome, _ history.Reply) []sut.FollowUp {
	if op.Kind != "get" || outcome != history.OK {
		return nil
	}
	return []sut.FollowUp{{After: 5 * time.Millisecond,
		Op: history.Op{ID: op.ID + 1e6, Kind: "pay", Key: op.Key}}}
}

func buy(_ context.Context, op history.Op) (history.Reply, error) {
	switch {
	case op.ID%3 == 0:
		return history.Reply{}, sut.ErrRefused
	case op.ID%7 == 0:
		return history.Reply{}, errors.New("connection reset")
	}
	return history.Reply{Value: int64(op.ID)}, nil
}

// What the generator counted, what the stored history holds and what is
// measured from it are the same.
func TestStoredHistoryAgreesWithTheGenerator(t *testing.T) {
	defer goleak.VerifyNone(t)
	path := filepath.Join(t.TempDir(), "history")
	base := time.Now()
	w, err := history.Create(path, history.Header{RunID: "r", System: "shop", Base: base.UTC()})
	if err != nil {
		t.Fatal(err)
	}
	process, err := arrival.Burst(4000, 0, 400*time.Millisecond, arrival.SteepestPeak)
	if err != nil {
		t.Fatal(err)
	}
	result, err := load.Run(t.Context(), load.Plan{
		Base: base, Arrivals: process.Start(1), Workload: shop{}, MaxInFlight: 8, Queue: 1,
		Timeout: time.Minute, Drain: time.Minute,
	}, buy, func() load.Recorder { return w.Shard() }, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	checkStored(t, path, result)
}

func checkStored(t *testing.T, path string, result load.Result) {
	t.Helper()
	h, err := history.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	if _, err := history.Validate(h); err != nil {
		t.Error(err)
	}
	measured, err := measure.Summarise(h, measure.Options{Kinds: shop{}.Kinds()})
	if err != nil {
		t.Fatal(err)
	}
	if measured.Recorded != result.Load || measured.Load != result.Load {
		t.Errorf("the history holds %+v, the generator counted %+v", measured.Recorded, result.Load)
	}
	var follow rundir.Load
	for _, op := range measured.Operations {
		if op.Kind == "pay" {
			follow = op.Load
		}
	}
	if follow.Scheduled != result.FollowUps || follow.Scheduled == 0 {
		t.Errorf("%d payments, %d follow-ups", follow.Scheduled, result.FollowUps)
	}
}
