package flashsale_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"os"
	"reflect"
	"strings"
	"testing"

	"stampede/harness/api"
	"stampede/harness/api/apitest"
	"stampede/harness/history"
	"stampede/harness/sut"
	"stampede/systems/flashsale"
)

// TestAPI: the API is what its table says, at both ends of the wire.
func TestAPI(t *testing.T) {
	sale, err := os.ReadFile("testdata/sale.json")
	if err != nil {
		t.Fatal(err)
	}
	apitest.Conform(t, flashsale.API(), saleParams(), json.RawMessage(sale))
}

// TestFailedPaymentsOverHTTP: whether a payment succeeded is the sign of the argument, on both
// sides of the wire.
func TestFailedPaymentsOverHTTP(t *testing.T) {
	var got history.Op
	cfg := sut.Config{Params: saleParams()}
	handler, err := flashsale.API().Handler(&apitest.Scripted{
		OnDo: func(_ context.Context, op history.Op) (history.Reply, error) {
			got = op
			return history.Reply{Key: string(flashsale.PaymentReleased)}, nil
		}}, cfg)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(handler)
	t.Cleanup(srv.Close)
	target, err := flashsale.API().Target(srv.URL, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = target.Close() })
	op := history.Op{ID: 1, Kind: flashsale.KindPayment, Key: strings.Repeat("17", 200),
		Client: "pay-1", Arg: -500}
	if _, err := target.Do(t.Context(), op); !errors.Is(err, api.ErrBadRequest) {
		t.Errorf("our own server takes names of 256 bytes, it said %v", err)
	}
	op.Key = "17"
	if _, err := target.Do(t.Context(), op); err != nil || !reflect.DeepEqual(got, op) {
		t.Errorf("%+v was asked as %+v, %v", op, got, err)
	}
}

// silent is an instance that does not say what is pending.
type silent struct{ scripted *apitest.Scripted }

func (s silent) Prepare(ctx context.Context) error { return s.scripted.Prepare(ctx) }
func (s silent) Close() error                      { return nil }
func (s silent) Audit(ctx context.Context) (json.RawMessage, error) {
	return s.scripted.Audit(ctx)
}

func (s silent) Do(ctx context.Context, op history.Op) (history.Reply, error) {
	return s.scripted.Do(ctx, op)
}

// TestAtRest: of a server that does not say what is left to do, the units in carts are
// counted, and the orders in carts of one that does not know its stock either.
func TestAtRest(t *testing.T) {
	var stock error
	held := int64(2)
	inst := &apitest.Scripted{OnDo: func(_ context.Context, op history.Op) (history.Reply, error) {
		body, err := json.Marshal(flashsale.Stock{Item: op.Key, Held: held})
		if err != nil {
			t.Error(err)
		}
		return history.Reply{Body: body}, stock
	}}
	table := flashsale.API()
	cfg := sut.Config{Params: saleParams()}
	handler, err := table.Handler(silent{inst}, cfg)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(handler)
	t.Cleanup(srv.Close)
	asked := func(want string) {
		t.Helper()
		target, err := table.Target(srv.URL, cfg) // another one, which remembers nothing
		if err != nil {
			t.Fatal(err)
		}
		defer target.Close()
		pending, err := target.(sut.Quiescer).Quiesced(t.Context())
		if err != nil || pending != want {
			t.Errorf("got %q, %v, want %q", pending, err, want)
		}
	}
	asked("units in carts: 2")
	held = 0
	asked("")
	stock = flashsale.ErrNoStock
	inst.AuditBody = []byte(`{"orders": [{"order": "1", "state": "held"}, {"state": "paid"}]}`)
	asked("orders in carts: 1")
	inst.AuditBody = []byte(`{"orders": [{"order": "1", "state": "expired"}]}`)
	asked("")
}

// TestAuditChecks: what is closed has an end, and the log is in order.
func TestAuditChecks(t *testing.T) {
	raw, err := os.ReadFile("testdata/sale.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ old, new, want string }{
		{`, "closed_at_ns": 51050000000`, "", "orders[1].closed_at_ns: expected a number above 0, got 0"},
		{`"seq": 3`, `"seq": 2`, "log[2].seq: expected a number above the entry's before (2), got 2"},
	} {
		text := strings.Replace(string(raw), c.old, c.new, 1)
		_, err := api.DecodeAudit[flashsale.Audit](json.RawMessage(text))
		if text == string(raw) || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v does not contain %q", err, c.want)
		}
	}
}

// FuzzDecodeAudit: whatever decodes encodes to the same audit again, and no judge panics on it.
func FuzzDecodeAudit(f *testing.F) {
	raw, err := os.ReadFile("testdata/sale.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Add([]byte(`{}`))
	f.Add([]byte(`{"orders":[{"order":"a","op_id":1,"item":"i","buyer":"b","state":"held",` +
		`"held_at_ns":1}],"log":[{"order":"a","item":"i","from":"held","to":"sold","cause":"paid",` +
		`"at_ns":9223372036854775807}],"reclaim_slack_ns":9223372036854775807}`))
	sale := goodSale()
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := api.DecodeAudit[flashsale.Audit](data)
		if err != nil {
			return
		}
		again, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		b, err := api.DecodeAudit[flashsale.Audit](again)
		if err != nil {
			t.Fatalf("what was decoded is refused: %v", err)
		}
		if len(a.Units) > 0 && len(a.Redis) > 0 && !reflect.DeepEqual(a, b) {
			t.Fatalf("%+v became %+v", a, b)
		}
		for _, v := range sale.judgeRaw(data) {
			if strings.Contains(v.Reason, "panicked") {
				t.Fatal(v.Invariant, v.Reason)
			}
		}
	})
}

func FuzzRequests(f *testing.F) { apitest.FuzzRequests(f, flashsale.API(), saleParams()) }
