package sqlbroker_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"stampede/harness/api"
	"stampede/harness/history"
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

// FuzzReceipts: what is taken for a receipt is one that a delivery may have.
func FuzzReceipts(f *testing.F) {
	f.Add("0.1.a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")
	f.Add("15.9223372036854775807.A0EEBC999C0B4EF8BB6D6BB9BD380A11")
	f.Add("0.1.a")
	f.Fuzz(func(t *testing.T, text string) {
		written := sqlbroker.Receipt(text)
		if written != "" && sqlbroker.Receipt(written) != written {
			t.Fatalf("%q is %q, and that is %q", text, written, sqlbroker.Receipt(written))
		}
	})
}
