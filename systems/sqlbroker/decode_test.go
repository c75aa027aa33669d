package sqlbroker_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"stampede/harness/api"
	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/sut"
	"stampede/systems/sqlbroker"
)

// FuzzDecodeAudit: whatever decodes encodes to the same audit again, and no judge panics
// on it.
func FuzzDecodeAudit(f *testing.F) {
	good, err := json.Marshal(goodBroker().audit)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{"queues":[],"messages":[],"dead":[],"effects":[]}`))
	f.Add([]byte(`{"queues":[],"messages":[{"op_id":0,"index":9,"queue":"q","state":"acked",` +
		`"receives":1}],"dead":[{"op_id":256,"index":-1,"queue":"q","receives":-1,` +
		`"reason":"retention","age_ns":-1}],"effects":[{"op_id":256,"index":0,"queue":"q",` +
		`"receives":0,"received_at_ns":1,"visible_at_ns":9223372036854775807,"stored_at_ns":1}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		a, err := api.DecodeAudit[sqlbroker.Audit](raw)
		if err != nil {
			return
		}
		again, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		if b, err := api.DecodeAudit[sqlbroker.Audit](again); err != nil || !reflect.DeepEqual(a, b) {
			t.Fatalf("%+v became %+v: %v", a, b, err)
		}
		for _, v := range goodBroker().judgeRaw(raw) {
			if strings.Contains(v.Reason, "panicked") {
				t.Fatal(v.Invariant, v.Reason)
			}
		}
	})
}

// FuzzSamples: no sample of a gauge makes a judge panic, and one that cannot be read is
// a gap.
func FuzzSamples(f *testing.F) {
	f.Add([]byte(`{"pending":1,"dead_rows":5}`))
	f.Add([]byte(`{"dead_rows":"many"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		e := goodBroker()
		e.samples = []history.Sample{{From: ms, To: 2 * ms, Body: []byte(`{"dead_rows":1}`)},
			{From: 3 * ms, To: 4 * ms, Body: body}}
		v := e.judge(t)[sqlbroker.VisibilityKept]
		var look sqlbroker.Look
		gaps := 0
		if len(body) == 0 || json.Unmarshal(body, &look) != nil {
			gaps = 1
		}
		if v.Watched == nil || v.Watched.Gaps != gaps || v.Watched.Judged != 2-gaps {
			t.Fatalf("%q was seen as %+v", body, v.Watched)
		}
	})
}

// TestWatched: what the gauge sees is shown beside the invariants.
func TestWatched(t *testing.T) {
	e := goodBroker()
	e.params.ReportFor = sut.Duration(14 * ms)
	for n := range int64(9) { // four times a second
		look := sqlbroker.Look{Published: 1 + n, Pending: 2, Stuck: 3, Dead: 4, DeletionNS: 5e6,
			DeadRows: 6 * n, SnapshotNS: 7e6, Consumed: 25 * n, Claims: 2 * n, ClaimingUS: 1000 * n}
		at := time.Duration(n) * 250 * ms
		e.samples = append(e.samples, history.Sample{From: at, To: at + ms, Body: text(look)})
	}
	verdicts := e.judge(t)
	for name, want := range map[string]struct {
		quantity        string
		points          int
		lowest, highest int64
	}{
		sqlbroker.NoPhantom: {"age of the oldest snapshot", 9, 7, 7},
		sqlbroker.NoLoss:    {"messages published in the last minute", 9, 1, 9},
		sqlbroker.WorkedOff: {"messages pending", 9, 2, 2},
		sqlbroker.VisibilityKept: {"messages with consumers for more than half of the visibility " +
			"timeout", 9, 3, 3},
		sqlbroker.DeadLetters:  {"dead letters", 9, 4, 4},
		sqlbroker.AckFinal:     {"mean time from publication to acknowledgement", 9, 5, 5},
		sqlbroker.OncePlaced:   {"dead versions of rows", 9, 0, 48},
		sqlbroker.EffectsOnce:  {"messages processed by consumers", 2, 100, 100},
		sqlbroker.ReceiveCount: {"mean time of a consumer's claim", 2, 500, 500},
	} {
		w := verdicts[name].Watched
		if w == nil || w.Quantity != want.quantity || len(w.Points) != want.points ||
			w.Lowest != want.lowest || w.Highest != want.highest {
			t.Errorf("%s shows %+v, want %+v", name, w, want)
		}
	}
	if v := verdicts[sqlbroker.OncePlaced]; v.Status != check.Held {
		t.Errorf("with an old snapshot %s is %s: %s", sqlbroker.OncePlaced, v.Status, v.Reason)
	}
	e.params.ReportFor += 2
	v := e.judge(t)[sqlbroker.OncePlaced]
	want := "no old snapshot was held"
	if v.Status != check.Undecided || !strings.Contains(v.Reason, want) {
		t.Errorf("without one it is %s: %s, want %s: %s", v.Status, v.Reason, check.Undecided, want)
	}
}

// TestIdleReceivesDoNotRace: consumers who wait at an empty queue take nothing from each
// other, however many they are.
func TestIdleReceivesDoNotRace(t *testing.T) {
	races := sqlbroker.System().Races
	for name, test := range map[string]struct {
		messages int // for each of ten who wait at the same time
		raced    int64
	}{"an empty queue": {0, 0}, "a message for each": {1, 10}} {
		e := &evidence{}
		for n := range uint64(10) {
			got := make([]sqlbroker.Delivery, test.messages)
			e.do(n+1, sqlbroker.KindReceive, "queue-2", time.Duration(n)*time.Microsecond,
				sqlbroker.Demand{Most: 1}, int64(len(got)), got)
		}
		o, err := check.Overlap(history.Slice(e.records), races.Kinds, races.Idle)
		if err != nil || o.Raced != test.raced || o.Successful != test.raced {
			t.Errorf("%s: %+v, %v; %d raced", name, o, err, test.raced)
		}
	}
}
