package sqlbroker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"stampede/harness/api/apitest"
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
	f.Add([]byte(`{"queues":[],"messages":[{"op_id":256,"index":9,"state":"acked"}],"dead":[` +
		`{"op_id":256,"reason":"retention","age_ns":-1}],"effects":[{"op_id":256,` +
		`"received_at_ns":1,"visible_at_ns":9223372036854775807}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		a, err := sqlbroker.DecodeAudit(raw)
		if err != nil {
			return
		}
		again, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		if b, err := sqlbroker.DecodeAudit(again); err != nil || !reflect.DeepEqual(a, b) {
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

// FuzzRequests: no request makes the server fail, and only good ones reach the broker.
func FuzzRequests(f *testing.F) {
	routes := []struct{ method, path string }{
		{"PUT", "/v1/message/q"}, {"PUT", "/v1/messages/q"}, {"POST", "/v1/messages/q/ack"},
		{"POST", "/v1/messages/q/extend"}, {"POST", "/v1/messages/q/release"}, {"PUT", "/v1/queues/q"},
		{"POST", "/v1/reset"},
	}
	for i, body := range []string{oneMessage, someMessages, someReceipts, extension, someReceipts,
		settings, beginning} {
		f.Add(uint(i), []byte(body))
	}
	var asked history.Op
	handler, err := sqlbroker.NewHandler(&apitest.Scripted{
		OnDo: func(_ context.Context, op history.Op) (history.Reply, error) {
			asked = op
			return answers(op), nil
		}}, sut.Config{Params: sqlbroker.DefaultParams()})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, route uint, body []byte) {
		r := routes[route%uint(len(routes))]
		asked = history.Op{}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(r.method, r.path, bytes.NewReader(body)))
		switch w.Code {
		case 200, 204:
			if asked.Kind == "" && r.path != "/v1/reset" || asked.Kind != "" && !reads(asked) {
				t.Errorf("%s %s %q became %+v", r.method, r.path, body, asked)
			}
		case 400, 409, 413:
			if asked.Kind != "" {
				t.Errorf("%s %s %q was refused and became %+v", r.method, r.path, body, asked)
			}
		default:
			t.Errorf("%s %s %q: %d %s", r.method, r.path, body, w.Code, w.Body)
		}
	})
}

// reads says that a broker understands an operation.
func reads(op history.Op) bool {
	var p sqlbroker.Publication
	var s sqlbroker.Settlement
	var q sqlbroker.QueueSettings
	switch op.Kind {
	case sqlbroker.KindPublish:
		return json.Unmarshal(op.Body, &p) == nil && op.ID > 0 && len(p.Messages) > 0
	case sqlbroker.KindCreate:
		return json.Unmarshal(op.Body, &q) == nil && q.VisibilityMS > 0
	}
	return json.Unmarshal(op.Body, &s) == nil && len(s.Receipts) > 0
}
