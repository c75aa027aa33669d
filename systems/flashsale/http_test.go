package flashsale_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"stampede/harness/history"
	"stampede/harness/sut"
	"stampede/systems/flashsale"
)

// scripted is an instance that does as it is told.
type scripted struct {
	do       func(context.Context, history.Op) (history.Reply, error)
	prepare  func() error
	audit    string
	auditErr error
}

func (s *scripted) Prepare(context.Context) error {
	if s.prepare == nil {
		return nil
	}
	return s.prepare()
}

func (s *scripted) Do(ctx context.Context, op history.Op) (history.Reply, error) {
	return s.do(ctx, op)
}

func (s *scripted) Audit(context.Context) (json.RawMessage, error) {
	return json.RawMessage(s.audit), s.auditErr
}
func (s *scripted) Close() error { return nil }

// quiet is an instance that knows what is pending.
type quiet struct {
	*scripted
	pending string
	err     error
}

func (q *quiet) Quiesced(context.Context) (string, error) { return q.pending, q.err }

// TestPending: a server that knows what is left to do is asked.
func TestPending(t *testing.T) {
	inst := &quiet{scripted: &scripted{}, pending: "2 carts"}
	target, _ := overHTTP(t, inst)
	pending, err := target.(sut.Quiescer).Quiesced(t.Context())
	if err != nil || pending != "2 carts" {
		t.Errorf("got %q, %v", pending, err)
	}
	inst.err = errors.New("postgres is gone")
	_, err = target.(sut.Quiescer).Quiesced(t.Context())
	if err == nil || !strings.Contains(err.Error(), "postgres is gone") {
		t.Errorf("got %v", err)
	}
}

func saleConfig() sut.Config {
	p := saleParams()
	return sut.Config{Params: &p, MaxConns: 4, Timeout: 2 * time.Second}
}

// overHTTP serves an instance on a real listener and returns it as a target.
func overHTTP(t testing.TB, inst sut.Instance) (target sut.Instance, url string) {
	t.Helper()
	handler, err := flashsale.NewHandler(inst, saleConfig())
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(handler)
	t.Cleanup(srv.Close)
	return newTarget(t, srv.URL, saleConfig()), srv.URL
}

func newTarget(t testing.TB, url string, cfg sut.Config) sut.Instance {
	t.Helper()
	target, err := flashsale.NewTarget(url, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = target.Close() })
	return target
}

func someOps() []history.Op {
	return []history.Op{
		{ID: 256, Kind: flashsale.KindBuy, Key: "item-1", Client: "buyer-1"},
		{ID: 320, Kind: flashsale.KindPayment, Key: "17", Client: "pay-100", Arg: 500},
		{ID: 321, Kind: flashsale.KindPayment, Key: "17", Client: "pay-100", Arg: -500},
		{ID: 0, Kind: flashsale.KindStock, Key: "item/1 ä?"},
	}
}

// TestRoundTrip: over HTTP an instance is told the same and says the same.
func TestRoundTrip(t *testing.T) {
	var told history.Op
	inst := &scripted{}
	inst.do = func(_ context.Context, op history.Op) (history.Reply, error) {
		told = op
		return replyTo(op), nil
	}
	target, _ := overHTTP(t, inst)
	for _, op := range someOps() {
		reply, err := target.Do(t.Context(), op)
		if err != nil {
			t.Fatalf("%+v: %v", op, err)
		}
		if !reflect.DeepEqual(told, op) {
			t.Errorf("the instance was told %+v, not %+v", told, op)
		}
		if !reflect.DeepEqual(reply, replyTo(op)) {
			t.Errorf("%+v: reply %+v, want %+v", op, reply, replyTo(op))
		}
	}
	for _, state := range []string{"sold", "released", "refunded"} {
		inst.do = func(context.Context, history.Op) (history.Reply, error) {
			return history.Reply{Key: state}, nil
		}
		reply, err := target.Do(t.Context(), someOps()[1])
		if err != nil || reply.Key != state {
			t.Errorf("payment answered %q: got %q, %v", state, reply.Key, err)
		}
	}
}

// TestParametersAreNeeded on both ends.
func TestParametersAreNeeded(t *testing.T) {
	if _, err := flashsale.NewTarget("http://h", sut.Config{}); err == nil {
		t.Error("a target without parameters was made")
	}
	if _, err := flashsale.NewHandler(&scripted{}, sut.Config{}); err == nil {
		t.Error("a handler without parameters was made")
	}
}

// TestAnotherServerMayShedLoad: that is a refusal, though none of ours says it.
func TestAnotherServerMayShedLoad(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = io.WriteString(w, `{"code":"overloaded","error":"slow down"}`)
	}))
	t.Cleanup(srv.Close)
	_, err := newTarget(t, srv.URL, saleConfig()).Do(t.Context(), someOps()[0])
	if !errors.Is(err, sut.ErrRefused) {
		t.Errorf("got %v, want a refusal", err)
	}
}

// TestAnOrderHasAName: a success that names no order is not believed.
func TestAnOrderHasAName(t *testing.T) {
	target, _ := overHTTP(t, &scripted{
		do: func(context.Context, history.Op) (history.Reply, error) {
			return history.Reply{Value: 1}, nil
		}})
	if _, err := target.Do(t.Context(), someOps()[0]); err == nil || errors.Is(err, sut.ErrRefused) {
		t.Errorf("got %v", err)
	}
}

func replyTo(op history.Op) history.Reply {
	switch op.Kind {
	case flashsale.KindBuy:
		return history.Reply{Key: "17", Value: 3}
	case flashsale.KindPayment:
		return history.Reply{Key: "sold"}
	default:
		body, _ := json.Marshal(flashsale.Stock{
			Item: op.Key, Units: 5, Available: 1, Held: 2, Sold: 2})
		return history.Reply{Body: body}
	}
}

// TestErrorsRoundTrip: every documented error is the same error on both sides,
// and everything else is unknown on both.
func TestErrorsRoundTrip(t *testing.T) {
	inst := &scripted{}
	target, _ := overHTTP(t, inst)
	for _, want := range []error{
		flashsale.ErrSoldOut, flashsale.ErrAlreadyBought, flashsale.ErrConflict,
		flashsale.ErrUnknownItem, flashsale.ErrUnknownOrder, flashsale.ErrNotReady,
		flashsale.ErrNoStock, sut.ErrRefused, errors.New("connection reset"),
		fmt.Errorf("claiming a unit: %w", flashsale.ErrSoldOut),
	} {
		inst.do = func(context.Context, history.Op) (history.Reply, error) {
			return history.Reply{}, want
		}
		for _, op := range someOps() {
			_, err := target.Do(t.Context(), op)
			refused := errors.Is(want, sut.ErrRefused)
			if err == nil || refused && !strings.Contains(err.Error(), want.Error()) {
				t.Errorf("%s, %v: got %v", op.Kind, want, err)
			}
			if errors.Is(err, sut.ErrRefused) != refused {
				t.Errorf("%s, %v: refused is %v after the wire", op.Kind, want, !refused)
			}
			for _, named := range []error{flashsale.ErrSoldOut, flashsale.ErrAlreadyBought,
				flashsale.ErrConflict, flashsale.ErrNotReady, flashsale.ErrUnknownOrder} {
				if errors.Is(err, named) != errors.Is(want, named) {
					t.Errorf("%s, %v: got %v", op.Kind, want, err)
				}
			}
		}
	}
}

func TestAuditOverHTTP(t *testing.T) {
	inst := &scripted{audit: `{"orders":[],"cart_ttl_ns":1}`}
	target, _ := overHTTP(t, inst)
	got, err := target.Audit(t.Context())
	if err != nil || strings.TrimSpace(string(got)) != inst.audit {
		t.Errorf("got %s, %v", got, err)
	}
	inst.audit, inst.auditErr = "null", errors.New("postgres is gone")
	if _, err = target.Audit(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "postgres is gone") {
		t.Errorf("a failed audit gave %v", err)
	}
}

func TestReset(t *testing.T) {
	prepared := 0
	inst := &scripted{prepare: func() error { prepared++; return nil }}
	target, url := overHTTP(t, inst)
	if err := target.Prepare(t.Context()); err != nil || prepared != 1 {
		t.Fatalf("prepared %d times, %v", prepared, err)
	}
	cfg := saleConfig()
	p := saleParams()
	p.Units = 3
	cfg.Params = &p
	err := newTarget(t, url, cfg).Prepare(t.Context())
	if err == nil || !strings.Contains(err.Error(), "opened for") || prepared != 1 {
		t.Errorf("a reset to another sale gave %v and prepared %d times", err, prepared)
	}
	inst.prepare = func() error { return errors.New("tables exist") }
	err = target.Prepare(t.Context())
	if err == nil || !strings.Contains(err.Error(), "tables exist") {
		t.Errorf("a failed reset gave %v", err)
	}
}

// resettable can begin anew.
type resettable struct {
	scripted
	resets int
}

func (r *resettable) Reset(context.Context) error { r.resets++; return nil }

func TestResetPrefersResetter(t *testing.T) {
	inst := &resettable{scripted: scripted{prepare: func() error { return errors.New("no") }}}
	target, _ := overHTTP(t, inst)
	for range 2 {
		if err := target.Prepare(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if inst.resets != 2 {
		t.Errorf("%d resets, want 2", inst.resets)
	}
}

// TestQuiesced: of a server that does not know, the carts are counted.
func TestQuiesced(t *testing.T) {
	held := int64(2)
	inst := &scripted{do: func(_ context.Context, op history.Op) (history.Reply, error) {
		body, err := json.Marshal(flashsale.Stock{Item: op.Key, Held: held})
		return history.Reply{Body: body}, err
	}}
	target, _ := overHTTP(t, inst)
	waiting := target.(sut.Quiescer)
	pending, err := waiting.Quiesced(t.Context())
	if err != nil || pending != "item-1: 2 units are in carts" {
		t.Errorf("got %q, %v", pending, err)
	}
	held = 0
	if pending, err = waiting.Quiesced(t.Context()); err != nil || pending != "" {
		t.Errorf("got %q, %v", pending, err)
	}
}

// TestQuiescedByAudit: of a server that knows neither what is pending nor its
// stock, which both are optional, the orders in carts are counted.
func TestQuiescedByAudit(t *testing.T) {
	inst := &scripted{
		do: func(context.Context, history.Op) (history.Reply, error) {
			return history.Reply{}, flashsale.ErrNoStock
		},
		audit: `{"orders": [{"id": "1", "state": "held"}, {"id": "2", "state": "paid"}]}`,
	}
	target, _ := overHTTP(t, inst)
	waiting := target.(sut.Quiescer)
	pending, err := waiting.Quiesced(t.Context())
	if err != nil || pending != "orders in carts: 1" {
		t.Errorf("got %q, %v", pending, err)
	}
	inst.audit = `{"orders": [{"id": "1", "state": "expired"}]}`
	if pending, err = waiting.Quiesced(t.Context()); err != nil || pending != "" {
		t.Errorf("got %q, %v", pending, err)
	}
}

// TestBadRequests: one clear error for each, and nothing reaches the shop.
func TestBadRequests(t *testing.T) {
	inst := &scripted{do: func(_ context.Context, op history.Op) (history.Reply, error) {
		t.Errorf("the shop was asked for %+v", op)
		return history.Reply{}, nil
	}}
	_, url := overHTTP(t, inst)
	long := strings.Repeat("x", 300)
	for _, c := range []struct {
		method, path, body string
		status             int
		text               string
	}{
		{"POST", "/v1/buy", ``, 400, "EOF"},
		{"POST", "/v1/buy", `{`, 400, "unexpected EOF"},
		{"POST", "/v1/buy", `[]`, 400, "cannot unmarshal array"},
		{"POST", "/v1/buy", `{"op_id":1,"item":"i","buyer":"b"} {}`, 400, "more than one JSON value"},
		{"POST", "/v1/buy", `{"op_id":1,"item":"i","byer":"b"}`, 400, `unknown field \"byer\"`},
		{"POST", "/v1/buy", `{"op_id":-1,"item":"i","buyer":"b"}`, 400, "op_id"},
		{"POST", "/v1/buy", `{"item":"i","buyer":"b"}`, 400, "op_id: expected a number above 0"},
		{"POST", "/v1/buy", `{"op_id":1,"buyer":"b"}`, 400, "item: expected 1 to 256 bytes, got 0"},
		{"POST", "/v1/buy", `{"op_id":1,"item":"i","buyer":"` + long + `"}`, 400,
			"buyer: expected 1 to 256"},
		{"POST", "/v1/buy", `"` + strings.Repeat(long, 60) + `"`, 413, "the limit is 16384 bytes"},
		{"POST", "/v1/payments", `{"op_id":1,"payment_id":"p","order":"o","amount_cents":5}`, 400,
			"succeeded: expected true or false, got none"},
		{"POST", "/v1/payments", `{"op_id":1,"payment_id":"p","order":"o","succeeded":true}`, 400,
			"amount_cents: expected 1 or more, got 0"},
		{"POST", "/v1/payments", `{"op_id":1,"order":"o","succeeded":true,"amount_cents":5}`, 400,
			"payment_id: expected"},
		{"POST", "/v1/reset", `{"items":1,"units":2,"price_cents":500,"cart_ttl_ms":1000}`, 400,
			"reclaim_every_ms: expected 1 or more, got 0"},
		{"GET", "/v1/items/" + long + "/stock", ``, 400, "item: expected 1 to 256 bytes, got 300"},
		{"GET", "/v1/buy", ``, 405, "wants POST, got GET"},
		{"POST", "/v1/audit", ``, 405, "wants GET, got POST"},
		{"GET", "/v2/buy", ``, 404, "there is no /v2/buy"},
	} {
		req, err := http.NewRequestWithContext(
			t.Context(), c.method, url+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		status, body := roundTrip(t, req)
		var failure struct{ Code, Error string }
		err = json.Unmarshal(body, &failure)
		if err != nil || failure.Code == "" || failure.Error == "" {
			t.Errorf("%s %s %.60s: body %s is no failure: %v", c.method, c.path, c.body, body, err)
		}
		if status != c.status || !bytes.Contains(body, []byte(c.text)) {
			t.Errorf("%s %s %.60s: got %d %s, want %d with %q",
				c.method, c.path, c.body, status, body, c.status, c.text)
		}
	}
}

func roundTrip(t testing.TB, req *http.Request) (int, []byte) {
	t.Helper()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, body
}

func TestMetrics(t *testing.T) {
	inst := &scripted{}
	target, url := overHTTP(t, inst)
	for _, err := range []error{nil, nil, flashsale.ErrSoldOut, errors.New("gone")} {
		inst.do = func(_ context.Context, op history.Op) (history.Reply, error) {
			return replyTo(op), err
		}
		_, _ = target.Do(t.Context(), someOps()[0])
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	status, body := roundTrip(t, req)
	for _, line := range []string{
		`flashsale_operations_total{kind="buy",result="ok"} 2`,
		`flashsale_operations_total{kind="buy",result="sold_out"} 1`,
		`flashsale_operations_total{kind="buy",result="unknown_effect"} 1`,
		`flashsale_operation_seconds_bucket{kind="buy",le="+Inf"} 4`,
		`flashsale_operation_seconds_bucket{kind="buy",le="1.0"} 4`,
		`flashsale_operation_seconds_count{kind="buy"} 4`,
		`flashsale_in_flight 0`,
	} {
		if !strings.Contains(string(body), line+"\n") {
			t.Errorf("no line %s in\n%s", line, body)
		}
	}
	if status != 200 || !strings.HasSuffix(string(body), "# EOF\n") {
		t.Errorf("status %d, no end mark", status)
	}
}

// FuzzRequests: no body makes the server fail, and only good ones reach the
// shop.
func FuzzRequests(f *testing.F) {
	f.Add(0, []byte(`{"op_id":1,"item":"item-1","buyer":"ann"}`))
	f.Add(1, []byte(`{"op_id":1,"payment_id":"p","order":"o","succeeded":true,"amount_cents":5}`))
	f.Add(2, []byte(goodRequests()["post /v1/reset"].Body))
	var asked history.Op
	inst := &scripted{do: func(_ context.Context, op history.Op) (history.Reply, error) {
		asked = op
		return replyTo(op), nil
	}}
	handler, err := flashsale.NewHandler(inst, saleConfig())
	if err != nil {
		f.Fatal(err)
	}
	paths := []string{"/v1/buy", "/v1/payments", "/v1/reset"}
	f.Fuzz(func(t *testing.T, route int, body []byte) {
		path := paths[uint(route)%3]
		asked = history.Op{}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, bytes.NewReader(body)))
		switch w.Code {
		case 200, 201:
			if asked.ID == 0 || asked.Key == "" || asked.Client == "" ||
				asked.Kind == flashsale.KindPayment && asked.Arg == 0 {
				t.Errorf("%s %q became %+v", path, body, asked)
			}
		case 204, 400, 409, 413:
			if asked.Kind != "" {
				t.Errorf("%s %q was refused and became %+v", path, body, asked)
			}
		default:
			t.Errorf("%s %q: %d %s", path, body, w.Code, w.Body)
		}
	})
}
